"""Regions of a map: square cells, the crowded ones quartered."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import KDTree

from distp.checks import FloatArray, IntArray, count, frozen, nonnegative, positive
from distp.errors import CoordinateError, ParameterError, SpaceError
from distp.spaces.projection import Box, coordinates, to_degrees, to_km
from distp.spaces.space import Space

PAPER_COLUMNS, PAPER_ROWS = 12, 11
MAX_DEPTH = 6


@dataclass(frozen=True, eq=False)
class _Grid:
    """Base cells, each with a small raster of its own: point -> cell in two array look-ups."""

    columns: int
    rows: int
    depth: IntArray  # (base cells,) how often the base cell is halved at its finest place
    offset: IntArray  # (base cells,) where its raster starts
    raster: IntArray  # region index of each finest place, row by row


class Regions(Space):
    """The cells of a map as a space: every region a possible report, the inner ones possible inputs.

    Regions are numbered so that the inputs come first: region ``i < len(regions.inputs)`` is input ``i`` and
    output ``i``. Distances are Euclidean between centres, in km. Cells are half-open: the west and south
    edges belong to a cell, the east and north ones do not.

    Make one with `Regions.quadtree`; the constructor takes cells that are known already (from a policy file),
    and refuses any that do not tile the box exactly once.

    Attributes
    ----------
    box : Box
    cell_km : float
        Side of an unquartered cell.
    cells : ndarray, shape (n, 3)
        West and south edge (km from the box's anchor) and side (km) of each region.
    lat, lon : ndarray, shape (n,)
        Centres in degrees.
    inputs : Space
        The regions that a person's own location may fall in.
    """

    def __init__(self, box: Box, cell_km: float, cells: ArrayLike, inputs: int) -> None:
        array = np.array(cells, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != 3 or not array.size:
            raise SpaceError(f"cells must have shape (n, 3), got {array.shape}")
        self.box = box
        self.cell_km = positive(cell_km, "cell_km")
        self.cells: FloatArray = frozen(array)
        super().__init__(array[:, :2] + array[:, 2:] / 2)
        self._grid = _index_cells(box, self.cell_km, self.cells)
        assert self.points is not None  # Regions always have points; tells the type checker
        lat, lon = to_degrees(box.lat, box.lon, self.points[:, 0], self.points[:, 1])
        self.lat, self.lon = frozen(lat), frozen(lon)
        inputs = count(inputs, "inputs", minimum=1)
        if inputs > len(self):
            raise SpaceError(f"{inputs} inputs, but only {len(self)} regions")
        self.inputs = self.subset(np.arange(inputs))

    @classmethod
    def quadtree(
        cls,
        lat: ArrayLike,
        lon: ArrayLike,
        box: Box | tuple[float, float, float, float] | None = None,
        cell_km: float = 1.0,
        regions: int = 276,
        ring_km: float | None = None,
        weights: ArrayLike | None = None,
        max_depth: int = MAX_DEPTH,
    ) -> Regions:
        """Cut a box into square cells and quarter the most crowded one until ``regions`` is reached.

        Parameters
        ----------
        lat, lon : array_like, shape (n,)
            The points that make a cell crowded, in degrees.
        box : Box or (south, west, north, east), optional
            The area of all regions. Default: 12 x 11 cells around the median point.
        cell_km : float
            Side of a cell before quartering.
        regions : int
            Upper limit on the number of regions. Quartering adds three, so it may end one or two below.
        ring_km : float, optional
            A region is an input if its centre lies more than this inside the box; the rest, the ring,
            can only be reported. Default: one cell.
        weights : array_like, shape (n,), optional
            How many people or visits each point stands for. Default: one.
        max_depth : int
            How often a cell may be quartered (6: down to 1/64 of its side).

        Raises
        ------
        CoordinateError
            A row out of range, points that look swapped, or no point in the box.
        ParameterError
            Fewer regions asked for than there are cells.

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
        lats, lons = coordinates(lat, lon)
        if not lats.size:
            raise CoordinateError("no points: a map cannot be quartered without any")
        mass = np.ones(lats.size) if weights is None else np.asarray(weights, dtype=np.float64)
        if mass.shape != lats.shape or not np.isfinite(mass).all() or (mass < 0).any():
            raise ParameterError(f"weights must be {lats.size} finite numbers >= 0")
        cell_km = positive(cell_km, "cell_km")
        if box is None:
            box = median_box(lats, lons, PAPER_COLUMNS * cell_km, PAPER_ROWS * cell_km, mass)
        elif not isinstance(box, Box):
            box = Box.from_degrees(*box)
        ring = cell_km if ring_km is None else nonnegative(ring_km, "ring_km")
        count(max_depth, "max_depth")
        columns, rows = _shape(box, cell_km)
        if count(regions, "regions", minimum=1) < columns * rows:
            raise ParameterError(
                f"regions={regions} is fewer than the {columns * rows} cells of {cell_km:g} km in the box: "
                "raise regions or cell_km"
            )
        x, y = to_km(box.lat, box.lon, lats, lons)
        inside = _inside(box, columns, rows, cell_km, x, y)
        _check_not_swapped(box, columns, rows, cell_km, lats, lons, inside)
        cells = _quarter(
            (x[inside] - box.west) / cell_km,
            (y[inside] - box.south) / cell_km,
            mass[inside],
            columns,
            rows,
            regions,
            max_depth,
        )
        cells = cells * cell_km + np.array([box.west, box.south, 0.0])
        centre = cells[:, :2] + cells[:, 2:] / 2 - np.array([box.west, box.south])
        extent = np.array([columns, rows]) * cell_km
        depth_inside = np.minimum(centre, extent - centre).min(axis=1)
        # A centre exactly on the ring's edge belongs to the ring; rounding must not decide it.
        is_input = depth_inside > ring * (1 + 1e-9)
        if not is_input.any():
            raise ParameterError(f"ring_km={ring:g} leaves no inner region: make the box larger")
        order = np.lexsort((cells[:, 0], cells[:, 1], ~is_input))
        return cls(box, cell_km, cells[order], int(is_input.sum()))

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
        lats, lons = coordinates(lat, lon)
        grid, side = self._grid, self.cell_km
        x, y = to_km(self.box.lat, self.box.lon, lats, lons)
        found = np.full(lats.size, -1, dtype=np.int64)
        rows = np.flatnonzero(_inside(self.box, grid.columns, grid.rows, side, x, y))
        u, v = (x[rows] - self.box.west) / side, (y[rows] - self.box.south) / side
        column, row = np.floor(u), np.floor(v)
        base = (row * grid.columns + column).astype(np.int64)
        scale = np.left_shift(1, grid.depth[base])
        place = np.floor((v - row) * scale) * scale + np.floor((u - column) * scale)
        found[rows] = grid.raster[grid.offset[base] + place.astype(np.int64)]
        return found

    def locate_inputs(self, lat: ArrayLike, lon: ArrayLike, nearest: bool = False) -> IntArray:
        """Return the *input* region of each point: -1 outside them, or the nearest one if ``nearest``.

        Parameters
        ----------
        lat, lon : array_like, shape (n,) or scalar
        nearest : bool
            Move a point outside every input region to the one with the nearest centre.
        """
        found = self.locate(lat, lon)
        found[found >= len(self.inputs)] = -1
        if nearest and (found < 0).any():
            out = np.flatnonzero(found < 0)
            lats, lons = coordinates(lat, lon)
            x, y = to_km(self.box.lat, self.box.lon, lats[out], lons[out])
            _, found[out] = KDTree(self.inputs.points).query(np.column_stack([x, y]))
        return found

    def outline(self, region: int) -> list[tuple[float, float]]:
        """Return the four corners of a region as (lat, lon), counter-clockwise from the south-west."""
        west, south, side = self.cells[region]
        x = np.array([west, west + side, west + side, west])
        y = np.array([south, south, south + side, south + side])
        lat, lon = to_degrees(self.box.lat, self.box.lon, x, y)
        return list(zip(lat.tolist(), lon.tolist(), strict=True))

    def __repr__(self) -> str:
        where = f"around {self.box.lat:.4f}, {self.box.lon:.4f}"
        return f"Regions({len(self)} regions, {len(self.inputs)} of them inputs, {where})"


def _shape(box: Box, cell_km: float) -> tuple[int, int]:
    """Columns and rows of whole cells that cover the box (its last ones may reach beyond it)."""
    columns, rows = (max(1, math.ceil(length / cell_km - 1e-9)) for length in (box.width, box.height))
    if columns * rows > 1_000_000:
        raise ParameterError(f"the box holds {columns} x {rows} cells of {cell_km:g} km: make the cells larger")
    return columns, rows


def _inside(
    box: Box, columns: int, rows: int, cell_km: float, x: FloatArray, y: FloatArray
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    u, v = (x - box.west) / cell_km, (y - box.south) / cell_km
    return (u >= 0) & (u < columns) & (v >= 0) & (v < rows)


def _check_not_swapped(
    box: Box,
    columns: int,
    rows: int,
    cell_km: float,
    lat: FloatArray,
    lon: FloatArray,
    inside: np.ndarray[tuple[int], np.dtype[np.bool_]],
) -> None:
    if inside.mean() < 0.5 and (np.abs(lon) <= 90).all():
        swapped = _inside(box, columns, rows, cell_km, *to_km(box.lat, box.lon, lon, lat))
        if swapped.sum() > inside.sum():
            row = int(np.flatnonzero(swapped)[0])
            raise CoordinateError(
                f"latitude and longitude look swapped: exchanged, {int(swapped.sum())} of {lat.size} points lie "
                f"in the box (first: row {row}), as given {int(inside.sum())}"
            )
    if not inside.any():
        raise CoordinateError(f"none of the {lat.size} points lies in the box")


def median_box(lat: ArrayLike, lon: ArrayLike, width: float, height: float, weights: ArrayLike | None = None) -> Box:
    """Return the box of ``width`` by ``height`` km around the median point.

    Raises
    ------
    CoordinateError
        A bad row, or a median where hardly anybody lives because latitude and longitude are swapped.
    """
    lats, lons = coordinates(lat, lon)
    mass = np.ones(lats.size) if weights is None else np.asarray(weights, dtype=np.float64)
    # Longitudes are taken relative to their circular mean, so that a city on the antimeridian stays whole.
    angle = np.deg2rad(lons)
    middle = math.degrees(math.atan2(float(mass @ np.sin(angle)), float(mass @ np.cos(angle))))
    lon0 = middle + _median((lons - middle + 180) % 360 - 180, mass)
    lat0 = _median(lats, mass)
    if abs(lat0) > 70 and abs(lon0) <= 70:
        raise CoordinateError(
            f"the median latitude is {lat0:.0f}, where hardly anybody lives: are latitude and longitude swapped? "
            "If not, give the box"
        )
    return Box.around(lat0, (lon0 + 180) % 360 - 180, width, height)


def _median(values: FloatArray, mass: FloatArray) -> float:
    order = np.argsort(values, kind="stable")
    running = np.cumsum(mass[order])
    if running[-1] <= 0:
        raise ParameterError("weights are all 0")
    return float(values[order][np.searchsorted(running, running[-1] / 2)])


def _quarter(
    u: FloatArray, v: FloatArray, mass: FloatArray, columns: int, rows: int, regions: int, max_depth: int
) -> FloatArray:
    """Quarter the heaviest cell while the limit allows; return west, south, side in units of a base cell."""
    base = np.floor(v).astype(np.int64) * columns + np.floor(u).astype(np.int64)
    order = np.argsort(base, kind="stable")
    starts = np.searchsorted(base[order], np.arange(columns * rows + 1))
    heap: list[tuple[float, int, float, float, int, IntArray]] = []
    for cell in range(columns * rows):
        members = order[starts[cell] : starts[cell + 1]]
        row, column = divmod(cell, columns)
        # The running number breaks ties, so that the result depends on nothing but the counts.
        heap.append((-float(mass[members].sum()), cell, float(column), float(row), 0, members))
    heapq.heapify(heap)
    done: list[tuple[float, float, float]] = []
    serial = len(heap)
    while heap and len(heap) + len(done) + 3 <= regions and heap[0][0] < 0:
        _, _, west, south, depth, members = heapq.heappop(heap)
        if depth >= max_depth:
            done.append((west, south, 0.5**depth))
            continue
        side = 0.5 ** (depth + 1)
        east_half, north_half = u[members] >= west + side, v[members] >= south + side
        for north in (False, True):
            for east in (False, True):
                part = members[(east_half == east) & (north_half == north)]
                heapq.heappush(
                    heap,
                    (
                        -float(mass[part].sum()),
                        serial,
                        west + east * side,
                        south + north * side,
                        depth + 1,
                        part,
                    ),
                )
                serial += 1
    done.extend((west, south, 0.5**depth) for _, _, west, south, depth, _ in heap)
    return np.array(done)


def _index_cells(box: Box, cell_km: float, cells: FloatArray) -> _Grid:
    """Build the two-level raster, and with it the proof that the cells tile the box exactly once."""
    columns, rows = _shape(box, cell_km)
    west = (cells[:, 0] - box.west) / cell_km
    south = (cells[:, 1] - box.south) / cell_km
    level = -np.log2(cells[:, 2] / cell_km)
    depth = np.rint(level).astype(np.int64)
    if (np.abs(level - depth) > 1e-6).any() or depth.min() < 0 or depth.max() > 16:
        raise SpaceError(f"the side of every cell must be {cell_km:g} km halved 0 to 16 times")
    # Edges are whole multiples of the cell's own side; rounding them makes the look-up exact.
    i, j = np.rint(west * 2.0**depth).astype(np.int64), np.rint(south * 2.0**depth).astype(np.int64)
    if (np.abs(west * 2.0**depth - i) > 1e-6).any() or (np.abs(south * 2.0**depth - j) > 1e-6).any():
        raise SpaceError("every cell must start at a multiple of its side")
    column, row = i >> depth, j >> depth
    if (i < 0).any() or (j < 0).any() or (column >= columns).any() or (row >= rows).any():
        raise SpaceError("a cell lies outside the box")
    base = row * columns + column
    finest = np.zeros(columns * rows, dtype=np.int64)
    np.maximum.at(finest, base, depth)
    offset = np.concatenate([[0], np.cumsum(4**finest)])
    if offset[-1] > 50_000_000:
        raise SpaceError("the cells are too fine for the box: quarter them less often")
    raster = np.full(offset[-1], -1, dtype=np.int64)
    for cell in range(cells.shape[0]):
        d, scale = int(depth[cell]), 1 << int(finest[base[cell]])
        step = scale >> d
        block = raster[offset[base[cell]] : offset[base[cell] + 1]].reshape(scale, scale)
        y = (int(j[cell]) - (int(row[cell]) << d)) * step
        x = (int(i[cell]) - (int(column[cell]) << d)) * step
        if (block[y : y + step, x : x + step] >= 0).any():
            raise SpaceError(f"cell {cell} overlaps another one")
        block[y : y + step, x : x + step] = cell
    if (raster < 0).any():
        raise SpaceError("the cells leave a hole in the box")
    return _Grid(columns, rows, frozen(finest), frozen(offset[:-1]), frozen(raster))
