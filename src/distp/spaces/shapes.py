"""Polygons: finding the one that holds a place, at a cost that does not grow with their vertices.

A place is in a polygon if a ray to the east crosses its edges an odd number of times. An edge counts if it starts at
or below the place and ends above it, and lies strictly east of it. So west and south edges belong to a polygon, and
of all polygons that share an edge (its two ends being the same numbers) exactly one holds a place on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distp.checks import FloatArray, IntArray, frozen
from distp.errors import SpaceError
from distp.spaces.geojson import MAX_VERTICES
from distp.spaces.ground import checked, from_ragged, refuse_overlaps
from distp.spaces.window import NEAR_KM

MAX_SHAPES = 200_000
MAX_REACH_KM = 20_100  # no place on Earth is further from any other
_SLACK = 1e-6  # km: a pixel or a bucket knows the edges so close to it, too; ten times what counts as near
_MOST_PIXELS = 1 << 22
_MOST_ENTRIES = 20_000_000


class Shapes:
    """Polygons on the local map, one region each (perhaps of several parts, perhaps with holes).

    Parameters
    ----------
    vertices : ndarray, shape (v, 2)
        In km, ring by ring; a ring's last vertex is its first.
    rings, parts, areas : ndarray of int
        As in `Outlines`.
    names : sequence of str
        What errors call them.

    Raises
    ------
    SpaceError
        Too many, not finite, crossing themselves, empty, or overlapping each other.
    """

    def __init__(
        self, vertices: FloatArray, rings: IntArray, parts: IntArray, areas: IntArray, names: Sequence[str]
    ) -> None:
        if areas.size - 1 > MAX_SHAPES or vertices.shape[0] > MAX_VERTICES:
            raise SpaceError(
                f"{areas.size - 1:,} areas of {vertices.shape[0]:,} vertices are more than {MAX_SHAPES:,} "
                f"of {MAX_VERTICES:,}"
            )
        if not (np.abs(vertices) < MAX_REACH_KM).all():
            raise SpaceError(f"a vertex lies more than {MAX_REACH_KM:,} km away, or nowhere")
        if (vertices[rings[:-1]] != vertices[rings[1:] - 1]).any():
            raise SpaceError("a ring is not closed: its last vertex must be its first")
        self.vertices, self.rings = frozen(vertices), frozen(rings)
        self.parts, self.areas = frozen(parts), frozen(areas)
        shapes = checked(from_ragged(vertices, rings, parts, areas), names)
        refuse_overlaps(shapes, names)
        self._measure(shapes)
        self._sort_edges()

    @classmethod
    def of(cls, shapes: NDArray[np.object_], names: Sequence[str]) -> Shapes:
        """Make them from shapely multipolygons in km."""
        import shapely

        _, vertices, (rings, parts, areas) = shapely.to_ragged_array(shapes)
        rings, parts, areas = (np.asarray(values, dtype=np.int64) for values in (rings, parts, areas))
        return cls(np.array(vertices, dtype=np.float64), rings, parts, areas, names)

    def __len__(self) -> int:
        return int(self.areas.size - 1)

    def pieces(self, region: int) -> list[list[FloatArray]]:
        """Return a region's parts, each an outer ring and its holes, shape (k, 2) in km, without the last vertex."""
        return [
            [
                self.vertices[self.rings[ring] : self.rings[ring + 1] - 1]
                for ring in range(self.parts[part], self.parts[part + 1])
            ]
            for part in range(self.areas[region], self.areas[region + 1])
        ]

    def _measure(self, shapes: NDArray[np.object_]) -> None:
        import shapely

        self.area: FloatArray = frozen(np.asarray(shapely.area(shapes)))
        self.centres: FloatArray = frozen(np.asarray(shapely.get_coordinates(shapely.centroid(shapes))))
        self.bounds: FloatArray = frozen(np.asarray(shapely.bounds(shapes)))

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """West, south, east, north of all of them (km)."""
        west, south = self.bounds[:, :2].min(axis=0)
        east, north = self.bounds[:, 2:].max(axis=0)
        return float(west), float(south), float(east), float(north)

    def _sort_edges(self) -> None:
        """Put each polygon's edges into buckets of y: about two edges to look at, however many there are."""
        a, b = self.vertices[:-1], self.vertices[1:]
        owner_of_ring = np.repeat(np.arange(len(self)), np.diff(self.parts[self.areas]))
        owner = np.repeat(owner_of_ring, np.diff(self.rings))[:-1]
        keep = (a != b).any(axis=1)
        keep[self.rings[1:-1] - 1] = False
        a, b, owner = a[keep], b[keep], owner[keep]
        # From south to north (west to east): both neighbours of an edge compute with the same numbers.
        swap = (a[:, 1] > b[:, 1]) | ((a[:, 1] == b[:, 1]) & (a[:, 0] > b[:, 0]))
        lower, upper = np.where(swap[:, None], b, a), np.where(swap[:, None], a, b)
        self._sides: FloatArray = frozen(np.column_stack([lower, upper]))
        per_shape = np.bincount(owner, minlength=len(self))
        self._first_side: IntArray = frozen(np.concatenate([[0], np.cumsum(per_shape)]))
        low, high = self.bounds[:, 1], self.bounds[:, 3]
        # A bucket is never as thin as its slack.
        buckets = np.clip(per_shape // 2, 1, np.maximum((high - low) / (100 * _SLACK), 1)).astype(np.int64)
        while True:
            step = buckets / (high - low)
            one = np.floor((lower[:, 1] - _SLACK - low[owner]) * step[owner]).astype(np.int64)
            two = np.floor((upper[:, 1] + _SLACK - low[owner]) * step[owner]).astype(np.int64)
            one, two = (np.clip(bucket, 0, buckets[owner] - 1) for bucket in (one, two))
            size = two - one + 1
            if size.sum() <= _MOST_ENTRIES or buckets.max() == 1:
                break
            buckets = np.maximum(buckets // 2, 1)
        self._first: IntArray = frozen(np.concatenate([[0], np.cumsum(buckets)]))
        self._low, self._step = frozen(low.copy()), frozen(step)
        edge = np.repeat(np.arange(size.size), size)
        within = np.arange(edge.size) - np.repeat(np.cumsum(size) - size, size)
        bucket = self._first[owner[edge]] + one[edge] + within
        order = np.argsort(bucket, kind="stable")
        begin = np.cumsum(np.bincount(bucket, minlength=int(self._first[-1])))
        self._begin: IntArray = frozen(np.concatenate([[0], begin]))
        self._edges: FloatArray = frozen(self._sides[edge[order]])

    @cached_property
    def _tree(self) -> Any:
        import shapely

        return shapely.STRtree(shapely.box(*self.bounds.T))

    def find(self, x: FloatArray, y: FloatArray) -> IntArray:
        """Return the polygon of each place, -1 outside all of them; in a sliver of two, the first of them."""
        import shapely

        found = np.full(x.size, -1, dtype=np.int64)
        there = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        place, polygon = self._tree.query(shapely.points(x[there], y[there]))
        place = there[place]
        held = self._holds(x[place], y[place], polygon)
        place, polygon = place[held], polygon[held]
        first = np.full(x.size, len(self), dtype=np.int64)
        np.minimum.at(first, place, polygon)
        found[place] = first[place]
        return found

    def _holds(self, x: FloatArray, y: FloatArray, polygon: IntArray) -> NDArray[np.bool_]:
        """Say for each place and polygon whether the ray crosses an odd number of edges."""
        buckets = self._first[polygon + 1] - self._first[polygon]
        bucket = np.floor((y - self._low[polygon]) * self._step[polygon]).astype(np.int64)
        bucket = self._first[polygon] + np.clip(bucket, 0, buckets - 1)
        size = self._begin[bucket + 1] - self._begin[bucket]
        pair = np.repeat(np.arange(polygon.size), size)
        edge = self._begin[bucket][pair] + np.arange(pair.size) - np.repeat(np.cumsum(size) - size, size)
        x1, y1, x2, y2 = self._edges[edge].T
        west_of = (x2 - x1) * (y[pair] - y1) - (x[pair] - x1) * (y2 - y1) > 0
        crossed = west_of & (y1 <= y[pair]) & (y[pair] < y2)
        odd: NDArray[np.bool_] = np.bincount(pair[crossed], minlength=polygon.size) % 2 == 1
        return odd

    def _pixel_km(self) -> float:
        """Return a pixel's side: small enough that few pixels hold an edge, large enough that they fit in memory."""
        west, south, east, north = self.extent
        length = float(np.hypot(*(self._sides[:, 2:] - self._sides[:, :2]).T).sum()) / 2
        wanted = 0.12 * float(self.area.sum()) / length
        room = (east - west + 1e-3) * (north - south + 1e-3)
        return max(wanted, float(np.sqrt(room / _MOST_PIXELS)), 100 * _SLACK)

    @cached_property
    def _raster(self) -> tuple[FloatArray, NDArray[np.int32], IntArray, NDArray[np.int32]]:
        from distp.spaces.raster import paint  # compiled code is loaded for many points only

        west, south, east, north = self.extent
        pixel = self._pixel_km()
        rim = 10 * _SLACK
        columns, rows = (int(np.ceil((high - low + 2 * rim) / pixel)) for low, high in ((west, east), (south, north)))
        frame = frozen(np.array([west - rim, south - rim, 1 / pixel, NEAR_KM]))
        sides, first = frozen(self._sides), frozen(self._first_side)
        pixels, starts, candidates = paint(frame, columns, rows, _SLACK, sides, first)
        return frame, frozen(pixels.reshape(rows, columns)), frozen(starts), frozen(candidates)

    def table(self) -> Any:
        """Return what the compiled loop reads."""
        from distp.spaces.kernels import ShapeTable

        # Read-only, also after pickling: another kind of array would be compiled for anew.
        arrays = (*self._raster, self._first, self._low, self._step, self._begin, self._edges)
        return ShapeTable(*(frozen(array) for array in arrays))

    def kernel(self) -> Any:
        """Return the compiled loop."""
        from distp.spaces.kernels import locate_shapes

        return locate_shapes

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for made_anew in ("_tree", "_raster"):
            state.pop(made_anew, None)
        return state
