"""Checks of what transport problems are given: distances of two finite sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, numbers
from distp.errors import DistributionError, SpaceError
from distp.spaces import Space

LONGEST = 1e150  # its square is still a number


class Distances(NamedTuple):
    """A space, or a matrix of shape ``shape``."""

    space: Space | None
    matrix: FloatArray | None
    shape: tuple[int, int]

    def array(self) -> FloatArray:
        """Return the matrix, shape ``self.shape``."""
        if self.matrix is not None:
            return self.matrix
        assert self.space is not None
        return self.space.distances()


def checked(distances: Space | ArrayLike, p: ArrayLike, q: ArrayLike) -> Distances:
    """Return the distances after looking at them.

    Raises
    ------
    SpaceError
        Points further apart than 1e150. Empty, not a matrix of finite numbers >= 0; for a square matrix also: not
        symmetric, or not 0 from a point to itself. A matrix that is not square stands for two different sets.
    """
    if isinstance(distances, Space):
        if distances.points is not None and np.ptp(distances.points, axis=0).max() > LONGEST:
            raise SpaceError(f"points lie further than {LONGEST:g} apart: use a larger unit")
        return Distances(distances, None, (len(distances), len(distances)))
    matrix = costs(distances, "distances")
    left, right = numbers(p, "p", DistributionError), numbers(q, "q", DistributionError)
    if left.ndim == right.ndim == 1 and (left.size, right.size) != matrix.shape:
        raise SpaceError(
            f"distances have shape {matrix.shape}, but p and q have {left.size} and {right.size} entries"
        )
    if matrix.shape[0] == matrix.shape[1]:
        if np.diagonal(matrix).any():
            i = int(np.flatnonzero(np.diagonal(matrix))[0])
            raise SpaceError(f"distances[{i}, {i}] is {matrix[i, i]}: a point is at distance 0 from itself")
        if not np.array_equal(matrix, matrix.T):
            i, j = np.argwhere(matrix != matrix.T)[0]
            raise SpaceError(
                f"distances must be symmetric: [{i}, {j}] is {matrix[i, j]}, [{j}, {i}] is {matrix[j, i]} "
                "(for two different sets of points put both into one Space)"
            )
    return Distances(None, matrix, (int(matrix.shape[0]), int(matrix.shape[1])))


def costs(values: ArrayLike, name: str) -> FloatArray:
    """Return a matrix of finite numbers >= 0, or raise by name."""
    matrix = numbers(values, name, SpaceError)
    if matrix.ndim != 2 or matrix.size == 0:
        raise SpaceError(
            f"{name} must be a matrix with a row per entry of p and a column per entry of q, got shape {matrix.shape}"
        )
    bad = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))
    if bad.size:
        i, j = bad[0]
        raise SpaceError(f"{name}[{i}, {j}] is {matrix[i, j]}: they are finite and >= 0")
    return matrix
