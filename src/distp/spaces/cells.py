"""Square cells: finding the cell of a place by two array look-ups."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from distp.checks import FloatArray, IntArray, frozen
from distp.errors import ParameterError, SpaceError
from distp.spaces.projection import Box
from distp.spaces.window import NEAR_KM

MAX_CELLS = 1_000_000  # of the grid before quartering


def grid_shape(box: Box, cell_km: float) -> tuple[int, int]:
    """Return columns and rows of whole cells that cover the box (its last ones may reach beyond it)."""
    columns, rows = (max(1, math.ceil(length / cell_km - 1e-9)) for length in (box.width, box.height))
    if columns * rows > MAX_CELLS:
        raise ParameterError(f"the box holds {columns} x {rows} cells of {cell_km:g} km: make the cells larger")
    return columns, rows


def inside_grid(box: Box, columns: int, rows: int, cell_km: float, x: FloatArray, y: FloatArray) -> NDArray[np.bool_]:
    """Say which places lie on the grid."""
    u, v = (x - box.west) / cell_km, (y - box.south) / cell_km
    return (u >= 0) & (u < columns) & (v >= 0) & (v < rows)


class Cells:
    """Base cells, each with a small raster of its own: place -> cell in two array look-ups.

    Building it is the proof that the cells do not overlap and, unless ``holes`` are allowed, fill the box.
    """

    def __init__(self, box: Box, cell_km: float, cells: ArrayLike, *, holes: bool = False) -> None:
        array = np.array(cells, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != 3 or not array.size:
            raise SpaceError(f"cells must have shape (n, 3), got {array.shape}")
        self.box, self.side, self.holes = box, cell_km, holes
        self.cells: FloatArray = frozen(array)
        self.columns, self.rows = grid_shape(box, cell_km)
        self._place()

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """West, south, east, north of the whole grid (km)."""
        west, south = self.box.west, self.box.south
        return west, south, west + self.columns * self.side, south + self.rows * self.side

    def find(self, x: FloatArray, y: FloatArray) -> IntArray:
        """Return the cell of each place, -1 outside all of them."""
        found = np.full(x.size, -1, dtype=np.int64)
        rows = np.flatnonzero(inside_grid(self.box, self.columns, self.rows, self.side, x, y))
        u, v = (x[rows] - self.box.west) / self.side, (y[rows] - self.box.south) / self.side
        column, row = np.floor(u), np.floor(v)
        base = (row * self.columns + column).astype(np.int64)
        scale = np.left_shift(1, self._depth[base])
        place = np.floor((v - row) * scale) * scale + np.floor((u - column) * scale)
        found[rows] = self._raster[self._offset[base] + place.astype(np.int64)]
        return found

    def table(self) -> Any:
        """Return what the compiled loop reads."""
        from distp.spaces.kernels import CellTable  # compiled code is loaded for many points only

        frame = np.array([self.box.west, self.box.south, 1 / self.side, NEAR_KM / self.side])
        shape = np.array([self.columns, self.rows])
        # Read-only, also after pickling: another kind of array would be compiled for anew.
        return CellTable(*(frozen(array) for array in (frame, shape, self._depth, self._offset, self._raster)))

    def kernel(self) -> Any:
        """Return the compiled loop."""
        from distp.spaces.kernels import locate_cells

        return locate_cells

    def _place(self) -> None:
        """Put every cell into the raster of its base cell."""
        cells, columns, rows = self.cells, self.columns, self.rows
        west, south = (cells[:, 0] - self.box.west) / self.side, (cells[:, 1] - self.box.south) / self.side
        if not (cells[:, 2] > 0).all():
            raise SpaceError("the side of every cell must be > 0")
        level = -np.log2(cells[:, 2] / self.side)
        if not np.isfinite(cells).all() or np.abs(level).max() > 17:
            raise SpaceError(f"the side of every cell must be {self.side:g} km halved 0 to 16 times")
        depth = np.rint(level).astype(np.int64)
        if (np.abs(level - depth) > 1e-6).any() or depth.min() < 0 or depth.max() > 16:
            raise SpaceError(f"the side of every cell must be {self.side:g} km halved 0 to 16 times")
        if max(np.abs(west).max(), np.abs(south).max()) > 2e6:
            raise SpaceError("a cell lies outside the box")
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
        raster = np.full(offset[-1], -1, dtype=np.int32)
        for cell in range(cells.shape[0]):
            d, scale = int(depth[cell]), 1 << int(finest[base[cell]])
            step = scale >> d
            block = raster[offset[base[cell]] : offset[base[cell] + 1]].reshape(scale, scale)
            y = (int(j[cell]) - (int(row[cell]) << d)) * step
            x = (int(i[cell]) - (int(column[cell]) << d)) * step
            if (block[y : y + step, x : x + step] >= 0).any():
                raise SpaceError(f"cell {cell} overlaps another one")
            block[y : y + step, x : x + step] = cell
        if not self.holes and (raster < 0).any():
            raise SpaceError("the cells leave a hole in the box")
        self._depth, self._offset, self._raster = frozen(finest), frozen(offset[:-1]), frozen(raster)
