"""Square cells of a box: all of them, the crowded ones quartered, or those that overlap an outline."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from distp.checks import FloatArray, IntArray, count, nonnegative
from distp.errors import CoordinateError, ParameterError
from distp.spaces.boxes import BoxLike, as_box, box_around, median_box
from distp.spaces.cells import grid_shape, inside_grid
from distp.spaces.geojson import Outlines
from distp.spaces.ground import Mask
from distp.spaces.projection import Box, coordinates, to_km

PAPER_COLUMNS, PAPER_ROWS, PAPER_REGIONS = 12, 11, 276
MAX_REGIONS = 100_000  # that a cap may ask for
# Given west, south and side in base cells, and what remains of the outline in the cell around it (None: at first),
# say what remains of the outline here; None if nothing does.
Clip = Callable[[float, float, float, Any], Any]


def quartered(
    lat: ArrayLike,
    lon: ArrayLike,
    box: BoxLike | None,
    cell_km: float,
    regions: int | None,
    ring_km: float | None,
    weights: ArrayLike | None,
    max_depth: int,
    cap: float | None,
    mask: Outlines | None,
) -> tuple[Box, FloatArray, int]:
    """Return box, cells (west, south, side in km) and number of inputs of `Regions.quadtree`."""
    lats, lons = coordinates(lat, lon)
    if not lats.size:
        raise CoordinateError("no points: a map cannot be quartered without any")
    mass = np.ones(lats.size) if weights is None else np.asarray(weights, dtype=np.float64)
    if mass.shape != lats.shape or not np.isfinite(mass).all() or (mass < 0).any():
        raise ParameterError(f"weights must be {lats.size} finite numbers >= 0")
    if box is None and mask is None:
        box = median_box(lats, lons, PAPER_COLUMNS * cell_km, PAPER_ROWS * cell_km, mass)
    area, ring = _area(box, cell_km, ring_km, mask)
    count(max_depth, "max_depth")
    columns, rows = grid_shape(area, cell_km)
    most = _most(regions, cap, columns * rows, cell_km)
    x, y = to_km(area.lat, area.lon, lats, lons)
    inside = inside_grid(area, columns, rows, cell_km, x, y)
    refuse_swapped(area, columns, rows, cell_km, lats, lons, inside)
    cells = quarter(
        (x[inside] - area.west) / cell_km,
        (y[inside] - area.south) / cell_km,
        mass[inside],
        columns,
        rows,
        most,
        0.0 if cap is None else nonnegative(cap, "cap"),
        max_depth,
        None if mask is None else _clip(mask, area, cell_km),
    )
    return area, *_numbered(area, cell_km, ring, cells)


def plain(
    box: BoxLike | None, cell_km: float, ring_km: float | None, mask: Outlines | None
) -> tuple[Box, FloatArray, int]:
    """Return box, cells (west, south, side in km) and number of inputs of `Regions.grid`."""
    area, ring = _area(box, cell_km, ring_km, mask)
    columns, rows = grid_shape(area, cell_km)
    v, u = np.divmod(np.arange(columns * rows), columns)
    cells = np.column_stack([u, v, np.ones(u.size)]).astype(np.float64)
    if mask is not None:
        clip = _clip(mask, area, cell_km)
        cells = cells[[clip(west, south, 1.0, None) is not None for west, south, _ in cells.tolist()]]
    return area, *_numbered(area, cell_km, ring, cells)


def _area(box: BoxLike | None, cell_km: float, ring_km: float | None, mask: Outlines | None) -> tuple[Box, float]:
    ring = cell_km if ring_km is None else nonnegative(ring_km, "ring_km")
    if box is not None:
        return as_box(box), ring
    if mask is None:
        raise ParameterError("box is missing: give one, or a mask to lay it around")
    return box_around(mask, (ring + cell_km / 2) * (1 + 1e-6), cell_km), ring


def _most(regions: int | None, cap: float | None, cells: int, cell_km: float) -> int | None:
    """Return the limit on the number of regions, None if ``cap`` rules."""
    if cap is not None:
        if regions is not None:
            raise ParameterError("give regions (a number of regions) or cap (a number of points in each), not both")
        return None
    most = PAPER_REGIONS if regions is None else count(regions, "regions", minimum=1)
    if most < cells:
        raise ParameterError(
            f"regions={most} is fewer than the {cells} cells of {cell_km:g} km in the box: raise regions or cell_km"
        )
    return most


def _clip(mask: Outlines, box: Box, cell_km: float) -> Clip:
    outline = Mask(mask, box)

    def clip(west: float, south: float, side: float, left: Any) -> Any:
        return outline.clip(box.west + west * cell_km, box.south + south * cell_km, side * cell_km, left)

    return clip


def _numbered(box: Box, cell_km: float, ring: float, cells: FloatArray) -> tuple[FloatArray, int]:
    """Return the cells in km, inputs first and from south to north, and the number of inputs."""
    if not cells.size:
        raise ParameterError("no cell of the box overlaps the mask")
    columns, rows = grid_shape(box, cell_km)
    cells = cells * cell_km + np.array([box.west, box.south, 0.0])
    centre = cells[:, :2] + cells[:, 2:] / 2 - np.array([box.west, box.south])
    extent = np.array([columns, rows]) * cell_km
    depth_inside = np.minimum(centre, extent - centre).min(axis=1)
    # A centre exactly on the ring's edge belongs to the ring; rounding must not decide it.
    is_input = depth_inside > ring * (1 + 1e-9)
    if not is_input.any():
        raise ParameterError(f"ring_km={ring:g} leaves no inner region: make the box larger")
    order = np.lexsort((cells[:, 0], cells[:, 1], ~is_input))
    return cells[order], int(is_input.sum())


def refuse_swapped(
    box: Box,
    columns: int,
    rows: int,
    cell_km: float,
    lat: FloatArray,
    lon: FloatArray,
    inside: NDArray[np.bool_],
) -> None:
    """Raise if more points lie in the box with latitude and longitude exchanged, or none does."""
    if inside.mean() < 0.5 and (np.abs(lon) <= 90).all():
        swapped = inside_grid(box, columns, rows, cell_km, *to_km(box.lat, box.lon, lon, lat))
        if swapped.sum() > inside.sum():
            row = int(np.flatnonzero(swapped)[0])
            raise CoordinateError(
                f"latitude and longitude look swapped: exchanged, {int(swapped.sum())} of {lat.size} points lie "
                f"in the box (first: row {row}), as given {int(inside.sum())}"
            )
    if not inside.any():
        raise CoordinateError(f"none of the {lat.size} points lies in the box")


def quarter(
    u: FloatArray,
    v: FloatArray,
    mass: FloatArray,
    columns: int,
    rows: int,
    regions: int | None,
    cap: float,
    max_depth: int,
    clip: Clip | None = None,
) -> FloatArray:
    """Quarter the heaviest cell while it holds more than ``cap`` and the limit allows.

    Parameters
    ----------
    u, v : ndarray, shape (n,)
        Places in units of a base cell, from the grid's south-west corner.
    mass : ndarray, shape (n,)
    columns, rows : int
    regions : int or None
        Upper limit on the number of cells. None: as many as ``cap`` needs, up to a maximum that is an error to pass.
    cap : float
    max_depth : int
    clip : callable, optional
        Drops the cells that overlap no outline. Without it every cell is kept.

    Returns
    -------
    ndarray, shape (cells, 3)
        West, south, side in units of a base cell.
    """
    base = np.floor(v).astype(np.int64) * columns + np.floor(u).astype(np.int64)
    order = np.argsort(base, kind="stable")
    starts = np.searchsorted(base[order], np.arange(columns * rows + 1))
    heap: list[tuple[float, int, float, float, int, IntArray, Any]] = []
    for cell in range(columns * rows):
        row, column = divmod(cell, columns)
        left = True if clip is None else clip(float(column), float(row), 1.0, None)
        if left is not None:
            members = order[starts[cell] : starts[cell + 1]]
            # The running number breaks ties, so that the result depends on nothing but the counts.
            heap.append((-float(mass[members].sum()), cell, float(column), float(row), 0, members, left))
    heapq.heapify(heap)
    done: list[tuple[float, float, float]] = []
    serial, most = columns * rows, MAX_REGIONS if regions is None else regions
    while heap and -heap[0][0] > cap:
        if len(heap) + len(done) + 3 > most:
            if regions is None:
                raise ParameterError(f"cap={cap:g} asks for more than {most:,} regions: raise cap or lower max_depth")
            break
        _, _, west, south, depth, members, left = heapq.heappop(heap)
        if depth >= max_depth:
            done.append((west, south, 0.5**depth))
            continue
        side = 0.5 ** (depth + 1)
        east_half, north_half = u[members] >= west + side, v[members] >= south + side
        for north in (False, True):
            for east in (False, True):
                x, y = west + east * side, south + north * side
                rest = True if clip is None else clip(x, y, side, left)
                if rest is not None:
                    part = members[(east_half == east) & (north_half == north)]
                    heapq.heappush(heap, (-float(mass[part].sum()), serial, x, y, depth + 1, part, rest))
                serial += 1
    done.extend((west, south, 0.5**depth) for _, _, west, south, depth, _, _ in heap)
    return np.array(done).reshape(-1, 3)
