"""Projection onto the simplex, compiled: thousands of rows at every step of a search."""

from __future__ import annotations

import numpy as np

from distp.checks import FloatArray
from distp.compiled import compiled


@compiled
def onto_simplex(V: FloatArray, nu: FloatArray) -> FloatArray:
    """Return the nearest law to each row, where distances in coordinate y count ``1/nu[y]``: Michelot's method."""
    rows, size = V.shape
    result = np.zeros((rows, size))
    active = np.empty(size, dtype=np.int64)
    for x in range(rows):
        left = size
        for y in range(size):
            active[y] = y
        while True:
            mass, weight = -1.0, 0.0
            for i in range(left):
                mass += V[x, active[i]]
                weight += nu[active[i]]
            threshold = mass / weight
            kept = 0
            for i in range(left):
                y = active[i]
                if V[x, y] > threshold * nu[y]:
                    active[kept] = y
                    kept += 1
            if kept in (0, left):
                break
            left = kept
        for i in range(left):
            y = active[i]
            result[x, y] = V[x, y] - threshold * nu[y]
    return result
