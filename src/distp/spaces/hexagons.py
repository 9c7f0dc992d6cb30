"""H3 cells of a box, as outlines."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from distp.checks import FloatArray, IntArray, count, frozen
from distp.errors import CoordinateError, ParameterError
from distp.spaces.geojson import Outlines
from distp.spaces.ground import geometries
from distp.spaces.projection import MAX_LATITUDE, Box, to_degrees, to_km
from distp.spaces.shapes import MAX_SHAPES

MISSING = "H3 cells need the package h3: pip install 'distp[hex]'"
BEND_KM = 5e-6  # edges are drawn in pieces where the map bends them by more
_SAME_KM = 1e-6  # corners of neighbouring cells, computed from either cell, are one corner


def load_h3() -> Any:
    """Return the package, or say how to get it."""
    try:
        import h3
    except ImportError:
        raise ParameterError(MISSING) from None
    return h3


def spacing(resolution: int) -> float:
    """Return the distance between the centres of two neighbouring cells, on average over the Earth (km)."""
    h3 = load_h3()
    if not 0 <= count(resolution, "resolution") <= 15:
        raise ParameterError(f"resolution must lie in 0..15, got {resolution}")
    return float(math.sqrt(3) * h3.average_hexagon_edge_length(resolution, unit="km"))


def cells_in(box: Box, resolution: int) -> tuple[list[str], FloatArray]:
    """Return the cells whose centre lies in the box, and their centres in km, in the order of their ids.

    They are found from the middle outwards, neighbour by neighbour: no polygon has to be drawn in degrees, so the
    antimeridian is a place like any other.
    """
    h3, step = load_h3(), spacing(resolution)
    area = h3.average_hexagon_area(resolution, unit="km^2")
    if box.width * box.height > MAX_SHAPES * area:
        raise ParameterError(
            f"the box holds more than {MAX_SHAPES:,} cells of resolution {resolution}: choose a lower resolution"
        )
    low = np.array([box.west, box.south])
    high = low + [box.width, box.height]
    start = h3.latlng_to_cell(*_degrees(box, (low + high) / 2), resolution)
    rim, seen = [start], {start}
    kept: list[str] = []
    places: list[FloatArray] = []
    while rim:
        centre = np.array([h3.cell_to_latlng(cell) for cell in rim])
        if (np.abs(centre[:, 0]) > MAX_LATITUDE).any():
            raise CoordinateError(f"the box reaches beyond {MAX_LATITUDE:g} degrees of latitude: no map there")
        place = np.column_stack(to_km(box.lat, box.lon, centre[:, 0], centre[:, 1]))
        inside = _within(place, low, high)
        # Two cells beyond the box, the search cannot miss a corner of it.
        close = _within(place, low - 2 * step, high + 2 * step)
        kept += [cell for cell, here in zip(rim, inside, strict=True) if here]
        places.append(place[inside])
        found = {other for cell, go_on in zip(rim, close, strict=True) if go_on for other in h3.grid_disk(cell, 1)}
        rim = sorted(found - seen)
        seen |= found
    if not kept:
        raise ParameterError(f"no cell of resolution {resolution} has its centre in the box: raise the resolution")
    order = sorted(range(len(kept)), key=kept.__getitem__)
    return [kept[i] for i in order], np.concatenate(places)[order]


def _within(place: FloatArray, low: FloatArray, high: FloatArray) -> list[bool]:
    inside: NDArray[np.bool_] = (place >= low) & (place < high)
    return list(inside[:, 0] & inside[:, 1])


def outlines_of(cells: list[str]) -> Outlines:
    """Return the cells as outlines named by their ids; neighbours share the very same corners."""
    h3 = load_h3()
    rings = [np.array(h3.cell_to_boundary(cell))[:, ::-1] for cell in cells]
    sizes = np.array([ring.shape[0] for ring in rings])
    corners = np.concatenate(rings)
    corners = corners[_representatives(_sphere(corners))]
    corners[corners[:, 0] == -180, 0] = 180.0
    first = np.cumsum(sizes) - sizes
    closed = np.insert(corners, first + sizes, corners[first], axis=0)
    starts = np.concatenate([[0], np.cumsum(sizes + 1)])
    one_each = np.arange(sizes.size + 1)
    outlines = Outlines(tuple(cells), frozen(closed), frozen(starts), frozen(one_each), frozen(one_each.copy()))
    outlines.check()
    return outlines


def on_the_map(cells: list[str], box: Box) -> NDArray[np.object_]:
    """Return the cells as shapely multipolygons in km around the box's anchor."""
    return geometries(outlines_of(cells), box.lat, box.lon, great_circle, BEND_KM)


def great_circle(p: FloatArray, q: FloatArray, share: FloatArray) -> FloatArray:
    """Return the place on the way from p to q (longitude, latitude) as H3 draws its edges."""
    a, b = _sphere(p), _sphere(q)
    x, y, z = (a + (b - a) * share[:, None]).T
    lon = np.degrees(np.arctan2(y, x))
    return np.column_stack([np.where(lon == -180, 180.0, lon), np.degrees(np.arctan2(z, np.hypot(x, y)))])


def _sphere(places: FloatArray) -> FloatArray:
    lon, lat = np.radians(places).T
    return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])


def _representatives(points: FloatArray) -> IntArray:
    """Return for each point the first of those that are the same place but for rounding."""
    pairs = KDTree(points).query_pairs(_SAME_KM / 6371, output_type="ndarray")
    first = np.arange(points.shape[0])
    np.minimum.at(first, pairs[:, 1], pairs[:, 0])
    return first


def _degrees(box: Box, place: FloatArray) -> tuple[float, float]:
    lat, lon = to_degrees(box.lat, box.lon, place[:1], place[1:])
    return float(lat[0]), float(lon[0])
