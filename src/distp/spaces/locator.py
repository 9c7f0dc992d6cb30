"""From degrees to region numbers: few points by the projection itself, many by the polynomial, with one result."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import KDTree

from distp.checks import FloatArray, IntArray
from distp.spaces.projection import refuse_bad_rows, to_km, vectors
from distp.spaces.window import NEAR_KM, Window, fit_window

FEW = 10_000  # below this nothing is compiled or fitted
CHUNK = 1 << 18
_THREADS = 8


class Index(Protocol):
    """What finds the region of a place on the local map."""

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """West, south, east, north (km): no region reaches beyond."""

    def find(self, x: FloatArray, y: FloatArray) -> IntArray:
        """Return the region of each place, -1 outside all of them."""

    def table(self) -> Any:
        """Return what the compiled loop reads."""

    def kernel(self) -> Any:
        """Return the compiled loop."""


class Locator:
    """Finds the regions of points in degrees, on the local map around (lat0, lon0).

    The polynomial of `window` decides where a point is further from every edge than its error; the projection
    decides the rest. The result is the projection's for every point.
    """

    def __init__(self, lat0: float, lon0: float, index: Index) -> None:
        self.lat0, self.lon0, self.index = lat0, lon0, index

    @cached_property
    def window(self) -> Window | None:
        """The polynomial, None where there is none."""
        return fit_window(self.lat0, self.lon0, self.index.extent)

    def locate(self, lat: ArrayLike, lon: ArrayLike) -> IntArray:
        """Return the region of each point, shape (n,), -1 outside all of them."""
        lats, lons = vectors(lat, lon)
        if lats.size < FEW or self.window is None:
            refuse_bad_rows(lats, lons)
            return self.exactly(lats, lons)
        found = np.empty(lats.size, dtype=np.int64)
        near = self._quickly(self.window, lats, lons, found)
        if near < 0:
            refuse_bad_rows(lats, lons)
        if near:
            rows = np.flatnonzero(found < -1)
            found[rows] = self.exactly(lats[rows], lons[rows])
        return found

    def nearest(self, points: FloatArray, lat: FloatArray, lon: FloatArray) -> IntArray:
        """Return which of ``points`` (km) is closest to each place on Earth; the projection decides near ties."""
        tree = KDTree(points)
        if lat.size < FEW or self.window is None or len(points) == 1:
            return self._closest(tree, lat, lon)
        x, y = self.window.project(lat, lon)
        inside = np.isfinite(x)
        away, found = tree.query(np.column_stack([x, y])[inside], k=2)
        closest = np.full(lat.size, -1, dtype=np.int64)
        closest[inside] = np.where(away[:, 1] - away[:, 0] > NEAR_KM, found[:, 0], -1)
        left = closest < 0
        closest[left] = self._closest(tree, lat[left], lon[left])
        return closest

    def _closest(self, tree: KDTree, lat: FloatArray, lon: FloatArray) -> IntArray:
        return np.asarray(tree.query(np.column_stack(to_km(self.lat0, self.lon0, lat, lon)))[1], dtype=np.int64)

    def exactly(self, lats: FloatArray, lons: FloatArray) -> IntArray:
        """Return the same by the projection alone, a part at a time: temporary arrays stay small."""
        found = np.empty(lats.size, dtype=np.int64)
        for start in range(0, lats.size, CHUNK):
            part = slice(start, start + CHUNK)
            found[part] = self.index.find(*to_km(self.lat0, self.lon0, lats[part], lons[part]))
        return found

    def _quickly(self, window: Window, lats: FloatArray, lons: FloatArray, found: IntArray) -> int:
        table, kernel = self.index.table(), self.index.kernel()
        # One kind of array, whatever comes in: each kind would be compiled anew.
        lats, lons = (np.ascontiguousarray(values)[:] for values in (lats, lons))
        lats.flags.writeable = lons.flags.writeable = False
        workers = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2, _THREADS)
        cuts = np.linspace(0, lats.size, workers + 1).astype(int)
        parts = [slice(a, b) for a, b in pairwise(cuts.tolist())]
        with ThreadPoolExecutor(workers) as pool:
            near = list(pool.map(lambda part: int(kernel(window, table, lats[part], lons[part], found[part])), parts))
        return -1 if min(near) < 0 else sum(near)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("window", None)
        return state
