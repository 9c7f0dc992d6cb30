"""Regions of a map: square cells, the crowded ones quartered; polygons; hexagons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, IntArray, count, frozen, nonnegative, positive
from distp.errors import ParameterError, SpaceError
from distp.spaces import hexagons, squares
from distp.spaces.boxes import BoxLike, as_box, box_around
from distp.spaces.cells import Cells
from distp.spaces.geojson import Outlines, as_outlines, read_outlines
from distp.spaces.ground import Mask, geometries
from distp.spaces.locator import Locator
from distp.spaces.projection import Box, to_degrees, vectors
from distp.spaces.shapes import Shapes
from distp.spaces.space import Space

MAX_DEPTH = 6
OutlinesLike = Outlines | str | Path | Mapping[str, Any]


class Regions(Space):
    """The regions of a map as a space: every one a possible report, some of them (or all) possible inputs.

    Regions are numbered so that the inputs come first: region ``i < len(regions.inputs)`` is input ``i`` and
    output ``i``. Distances are Euclidean between centres, in km on the local map (azimuthal equidistant around
    ``box``'s anchor). Regions are half-open: west and south edges belong to a region, east and north ones do not, so
    that a place on a common edge lies in exactly one.

    Make them with `quadtree`, `grid`, `polygons` or `h3`. The constructor takes square cells that are known already,
    and refuses any that overlap or, unless ``holes`` are allowed, do not tile the box exactly once.

    Attributes
    ----------
    box : Box
        The area; of polygons, the rectangle around them.
    lat, lon : ndarray, shape (n,)
        Centres in degrees; of polygons, centroids.
    inputs : Space
        The regions that a person's own location may fall in.
    area_km2 : ndarray, shape (n,)
    names : tuple of str or None
        Names of polygons, ids of H3 cells; None for square cells.
    """

    def __init__(self, box: Box, cell_km: float, cells: ArrayLike, inputs: int, *, holes: bool = False) -> None:
        layout = Cells(box, positive(cell_km, "cell_km"), cells, holes=holes)
        half = layout.cells[:, 2:] / 2
        self._fill(box, layout, layout.cells[:, :2] + half, layout.cells[:, 2] ** 2, inputs, None)

    def _fill(
        self,
        box: Box,
        layout: Cells | Shapes,
        centres: FloatArray,
        area: FloatArray,
        inputs: int,
        names: tuple[str, ...] | None,
    ) -> None:
        super().__init__(centres)
        self.box, self._layout, self.names = box, layout, names
        self.area_km2 = frozen(area)
        lat, lon = to_degrees(box.lat, box.lon, centres[:, 0], centres[:, 1])
        self.lat, self.lon = frozen(lat), frozen(lon)
        self._locator = Locator(box.lat, box.lon, layout)
        inputs = count(inputs, "inputs", minimum=1)
        if inputs > len(self):
            raise SpaceError(f"{inputs} inputs, but only {len(self)} regions")
        self.inputs = self.subset(np.arange(inputs))

    @classmethod
    def quadtree(
        cls,
        lat: ArrayLike,
        lon: ArrayLike,
        box: BoxLike | None = None,
        cell_km: float = 1.0,
        regions: int | None = None,
        ring_km: float | None = None,
        weights: ArrayLike | None = None,
        max_depth: int = MAX_DEPTH,
        cap: float | None = None,
        mask: OutlinesLike | None = None,
    ) -> Regions:
        """Cut a box into square cells and quarter the most crowded one until ``regions`` or ``cap`` is reached.

        Parameters
        ----------
        lat, lon : array_like, shape (n,)
            The points that make a cell crowded, in degrees.
        box : Box or (south, west, north, east), optional
            The area of all regions. Default: 12 x 11 cells around the median point; with a mask, the mask and the
            ring around it.
        cell_km : float
            Side of a cell before quartering.
        regions : int, optional
            Upper limit on the number of regions. Quartering adds three, so it may end one or two below.
            Default: 276, unless there is a cap.
        ring_km : float, optional
            A region is an input if its centre lies more than this inside the box; the rest, the ring,
            can only be reported. Default: one cell. No guarantee needs a ring; 0 makes every region an input.
        weights : array_like, shape (n,), optional
            How many people or visits each point stands for. Default: one.
        max_depth : int
            How often a cell may be quartered (6: down to 1/64 of its side).
        cap : float, optional
            Instead of ``regions``: quarter every cell that holds more than this (points, or their weight) until
            none does, or the depth is reached; at most 100,000 regions.
        mask : Outlines, GeoJSON dict or path, optional
            Keep only cells that share an area with the outline; points elsewhere are in no region (-1) and make no
            cell crowded. The ring is about the box as without a mask: a kept cell near the box's rim is no input.

        Raises
        ------
        CoordinateError
            A row out of range, points that look swapped, or no point in the box.
        ParameterError
            Fewer regions asked for than there are cells, both regions and cap, or no cell left.

        Notes
        -----
        Source: the paper's section 6 (theory 6.1, 6.3): 12 x 11 cells of 1 km with 48 quarterings are its
        276 regions, and a ring of one cell leaves 228 inputs.

        Examples
        --------
        >>> rng = np.random.default_rng(7)
        >>> lat, lon = 40.75 + 0.02 * rng.standard_normal(500), -73.97 + 0.02 * rng.standard_normal(500)
        >>> regions = Regions.quadtree(lat, lon, box=Box.around(40.75, -73.97, 12, 11))
        >>> len(regions)
        276
        >>> int(regions.locate(40.75, -73.97)[0]) < len(regions.inputs)
        True
        """
        cell_km, outline = positive(cell_km, "cell_km"), None if mask is None else as_outlines(mask)
        area, cells, inputs = squares.quartered(
            lat, lon, box, cell_km, regions, ring_km, weights, max_depth, cap, outline
        )
        return cls(area, cell_km, cells, inputs, holes=mask is not None)

    @classmethod
    def grid(
        cls,
        box: BoxLike | None = None,
        cell_km: float = 1.0,
        ring_km: float | None = None,
        mask: OutlinesLike | None = None,
    ) -> Regions:
        """Cut a box into square cells.

        Parameters
        ----------
        box, cell_km, ring_km, mask
            As in `quadtree`; ``box`` may be missing where there is a mask.

        Examples
        --------
        >>> regions = Regions.grid(Box.around(40.75, -73.97, 5, 4))
        >>> len(regions), len(regions.inputs)
        (20, 6)
        """
        cell_km, outline = positive(cell_km, "cell_km"), None if mask is None else as_outlines(mask)
        area, cells, inputs = squares.plain(box, cell_km, ring_km, outline)
        return cls(area, cell_km, cells, inputs, holes=mask is not None)

    @classmethod
    def polygons(cls, outlines: OutlinesLike, inputs: ArrayLike | None = None, name: str | None = None) -> Regions:
        """Make one region of each area: districts, tracts, buildings.

        Parameters
        ----------
        outlines : Outlines, GeoJSON dict or path
            See `read_outlines`. Edges run straight in degrees, to 10 cm. Where areas meet, they should share
            vertices; in a gap between them a point is outside, in an overlap of less than a metre it belongs to the
            area that comes first.
        inputs : array_like of bool, shape (n,), optional
            Which areas a person's own location may fall in; they are numbered first, otherwise the order is kept.
            Default: all.
        name : str, optional
            The property of a feature that names it. Default: ``name``, else the feature's id, else its number.

        Raises
        ------
        DataError, SpaceError, CoordinateError
            What `read_outlines` refuses; an area that crosses itself or is empty; two that overlap; each by name.

        Examples
        --------
        >>> def square(west):
        ...     corners = [[west, 0], [west + 1, 0], [west + 1, 1], [west, 1], [west, 0]]
        ...     return {"type": "Feature", "id": west, "geometry": {"type": "Polygon", "coordinates": [corners]}}
        >>> regions = Regions.polygons({"type": "FeatureCollection", "features": [square(0), square(1)]})
        >>> regions.names, regions.locate([0.5, 0.5, 0.5], [0.5, 1.5, 2.5]).tolist()
        (('0', '1'), [0, 1, -1])
        """
        read = outlines if isinstance(outlines, Outlines) else read_outlines(outlines, name)
        wanted = np.ones(len(read), dtype=bool) if inputs is None else np.asarray(inputs)
        if wanted.dtype != bool or wanted.shape != (len(read),):
            raise ParameterError(f"inputs must say true or false for each of {len(read)} areas")
        lat, lon = read.middle()
        return cls._of(geometries(read, lat, lon), (lat, lon), wanted, read.names)

    @classmethod
    def h3(
        cls,
        box: BoxLike | None,
        resolution: int,
        ring_km: float | None = None,
        mask: OutlinesLike | None = None,
    ) -> Regions:
        """Make one region of each H3 cell whose centre lies in a box. Needs ``pip install 'distp[hex]'``.

        Parameters
        ----------
        box : Box or (south, west, north, east) or None
            None: the mask and the ring around it.
        resolution : int
            0 to 15; 8 is about 0.7 km2, each step a seventh.
        ring_km : float, optional
            A region is an input if its centre lies more than this inside the box. Default: the mean distance
            between neighbouring centres.
        mask : Outlines, GeoJSON dict or path, optional
            Keep only cells that share an area with the outline.

        Raises
        ------
        ParameterError
            The package h3 is not installed, more than 200,000 cells, or none.
        CoordinateError
            The box reaches beyond 85 degrees of latitude.

        Notes
        -----
        ``names`` are the cells' ids, in whose order they are numbered (inputs first). A point is located on the
        local map, not by H3, and its cell is the one that ``h3.latlng_to_cell`` gives unless it lies within a
        centimetre of an edge (measured at resolutions 3 to 13, on boxes of up to 1500 km).

        Examples
        --------
        >>> regions = Regions.h3(Box.around(40.75, -73.97, 6, 6), 8)
        >>> len(regions), len(regions.inputs), regions.names[0]
        (49, 23, '882a100d01fffff')
        """
        step = hexagons.spacing(resolution)
        ring = step if ring_km is None else nonnegative(ring_km, "ring_km")
        outline = None if mask is None else as_outlines(mask)
        if box is None:
            if outline is None:
                raise ParameterError("box is missing: give one, or a mask to lay it around")
            box = box_around(outline, ring + 2 * step, step)
        area = as_box(box)
        cells, centres = hexagons.cells_in(area, resolution)
        shapes = hexagons.on_the_map(cells, area)
        corner, size = np.array([area.west, area.south]), np.array([area.width, area.height])
        is_input = np.minimum(centres - corner, corner + size - centres).min(axis=1) > ring
        if outline is not None:
            kept = Mask(outline, area).overlaps(shapes)
            shapes, is_input = shapes[kept], is_input[kept]
            cells = [cell for cell, keep in zip(cells, kept, strict=True) if keep]
        if not is_input.any():
            raise ParameterError(f"ring_km={ring:g} leaves no inner region: make the box larger")
        return cls._of(shapes, (area.lat, area.lon), is_input, cells)

    @classmethod
    def _of(cls, shapes: Any, anchor: tuple[float, float], inputs: Any, names: Sequence[str]) -> Regions:
        """Make regions of shapely multipolygons in km, the inputs first."""
        order = np.argsort(~inputs, kind="stable")
        if not inputs.any():
            raise ParameterError("inputs names no area: a person must be somewhere")
        named = tuple(names[i] for i in order.tolist())
        return cls.from_shapes(Shapes.of(shapes[order], named), anchor, int(inputs.sum()), named)

    @classmethod
    def from_shapes(cls, shapes: Shapes, anchor: tuple[float, float], inputs: int, names: Sequence[str]) -> Regions:
        """Make regions of polygons that are on the local map already (from a policy file), inputs first."""
        west, south, east, north = shapes.extent
        box = Box(*anchor, west, south, east - west, north - south)
        regions = cls.__new__(cls)
        regions._fill(box, shapes, shapes.centres, shapes.area, inputs, tuple(names))
        return regions

    @property
    def square(self) -> bool:
        """Whether the regions are square cells; if not, they are polygons."""
        return isinstance(self._layout, Cells)

    @property
    def cells(self) -> FloatArray:
        """West and south edge (km from the box's anchor) and side (km) of each square cell, shape (n, 3)."""
        return self._squares.cells

    @property
    def cell_km(self) -> float:
        """Side of an unquartered square cell."""
        return self._squares.side

    @property
    def holes(self) -> bool:
        """Whether square cells may leave parts of the box to nobody (a mask does)."""
        return self._squares.holes

    @property
    def shapes(self) -> Shapes:
        """The polygons, where the regions are that."""
        if isinstance(self._layout, Cells):
            raise SpaceError("these regions are square cells: use cells, or pieces_km(i)")
        return self._layout

    @property
    def _squares(self) -> Cells:
        if isinstance(self._layout, Shapes):
            raise SpaceError("these regions are polygons, not square cells: use pieces_km(i) and area_km2")
        return self._layout

    def pieces_km(self, region: int) -> list[list[FloatArray]]:
        """Return a region's parts, each an outer ring and its holes: arrays of shape (k, 2), km from the anchor.

        Rings do not repeat their first vertex.
        """
        if isinstance(self._layout, Shapes):
            return self._layout.pieces(range(len(self))[region])
        west, south, side = self.cells[region].tolist()
        corners = [[west, south], [west + side, south], [west + side, south + side], [west, south + side]]
        return [[np.array(corners)]]

    def rings_km(self, region: int) -> list[FloatArray]:
        """Return all rings of a region, outer ones and holes: what an even-odd filling draws."""
        return [ring for piece in self.pieces_km(region) for ring in piece]

    def pieces(self, region: int) -> list[list[list[tuple[float, float]]]]:
        """Return the same as `pieces_km` as (latitude, longitude)."""
        return [[self._to_degrees(ring) for ring in piece] for piece in self.pieces_km(region)]

    def outline(self, region: int) -> list[tuple[float, float]]:
        """Return a region's outer ring as (lat, lon); of several parts, the one with the most vertices.

        A square cell's corners go counter-clockwise from the south-west.
        """
        return self._to_degrees(max((piece[0] for piece in self.pieces_km(region)), key=len))

    def _to_degrees(self, ring: FloatArray) -> list[tuple[float, float]]:
        lat, lon = to_degrees(self.box.lat, self.box.lon, ring[:, 0], ring[:, 1])
        return list(zip(lat.tolist(), lon.tolist(), strict=True))

    def locate(self, lat: ArrayLike, lon: ArrayLike) -> IntArray:
        """Return the region of each point, -1 outside all of them.

        Parameters
        ----------
        lat, lon : array_like, shape (n,) or scalar
            Degrees.

        Returns
        -------
        ndarray of int, shape (n,)

        Raises
        ------
        CoordinateError
            A row that is no place on Earth.
        """
        return self._locator.locate(lat, lon)

    def locate_inputs(self, lat: ArrayLike, lon: ArrayLike, nearest: bool = False) -> IntArray:
        """Return the *input* region of each point: -1 outside them, or the nearest one if ``nearest``.

        Parameters
        ----------
        lat, lon : array_like, shape (n,) or scalar
        nearest : bool
            Move a point outside every input region to the one with the nearest centre.
        """
        found = self.locate(lat, lon)
        if len(self.inputs) < len(self):
            found[found >= len(self.inputs)] = -1
        if nearest and (found < 0).any():
            out = np.flatnonzero(found < 0)
            lats, lons = vectors(lat, lon)  # all of them places on Earth, or `locate` had refused them
            centres = self.inputs.points
            assert centres is not None  # the inputs of a map are points on it
            found[out] = self._locator.nearest(centres, lats[out], lons[out])
        return found

    def __repr__(self) -> str:
        where = f"around {self.box.lat:.4f}, {self.box.lon:.4f}"
        return f"Regions({len(self)} regions, {len(self.inputs)} of them inputs, {where})"
