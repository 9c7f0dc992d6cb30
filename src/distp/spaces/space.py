"""Finite sets of points with a metric."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from distp.checks import FloatArray, IntArray, count, frozen
from distp.errors import SpaceError

METRICS = ("euclidean", "cityblock", "chebyshev")


class Space:
    """A finite set of points with a metric: the values a person may have, or may report.

    Parameters
    ----------
    points : array_like, shape (n, d) or (n,)
        Coordinates, in the unit that distances shall have (km on maps). A vector is points on a line.
    metric : {"euclidean", "cityblock", "chebyshev"}
        How the distance between two points is measured.

    Raises
    ------
    SpaceError
        No points, a coordinate that is not finite, or an unknown metric.

    Examples
    --------
    >>> line = Space([0.0, 1.0, 3.0])
    >>> line.distances()[0].tolist()
    [0.0, 1.0, 3.0]
    """

    def __init__(self, points: ArrayLike, metric: str = "euclidean") -> None:
        try:
            array = np.array(points, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise SpaceError(f"points are not an array of numbers: {error}") from None
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2 or array.size == 0:
            raise SpaceError(f"points must have shape (n, d) with n, d >= 1, got {np.shape(points)}")
        bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
        if bad.size:
            raise SpaceError(f"point {bad[0]} has a coordinate that is not finite")
        if metric not in METRICS:
            raise SpaceError(f"metric {metric!r} is unknown: use one of {', '.join(METRICS)}")
        self._set(frozen(array), None, metric)

    def _set(self, points: FloatArray | None, matrix: FloatArray | None, metric: str) -> None:
        self.points = points
        self.metric = metric
        self._matrix = matrix
        self._root: Space = self
        size = points.shape[0] if points is not None else matrix.shape[0]  # type: ignore[union-attr]
        self._index: IntArray = frozen(np.arange(size))

    @classmethod
    def from_distances(cls, distances: ArrayLike) -> Space:
        """Make a space from a matrix of distances, shape (n, n): symmetric, >= 0, zero on the diagonal."""
        matrix = np.array(distances, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
            raise SpaceError(f"distances must be a square matrix, got shape {matrix.shape}")
        if not np.isfinite(matrix).all() or (matrix < 0).any():
            raise SpaceError("distances must be finite and >= 0")
        if np.diagonal(matrix).any():
            raise SpaceError("distances must be 0 on the diagonal")
        if not np.array_equal(matrix, matrix.T):
            i, j = np.argwhere(matrix != matrix.T)[0]
            raise SpaceError(f"distances must be symmetric: [{i}, {j}] and [{j}, {i}] differ")
        space = Space.__new__(Space)
        space._set(None, frozen(matrix), "given")
        return space

    @classmethod
    def discrete(cls, size: int) -> Space:
        """Make ``size`` values without geometry: any two different ones are at distance 1."""
        size = count(size, "size", minimum=1)
        return cls.from_distances(1.0 - np.eye(size))

    def __len__(self) -> int:
        return int(self._index.size)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} points, metric={self.metric!r})"

    def subset(self, indices: ArrayLike) -> Space:
        """Return the space of the points at ``indices`` (shape (m,)), which remembers where it came from."""
        chosen = np.asarray(indices)
        if chosen.ndim != 1 or chosen.size == 0 or not np.issubdtype(chosen.dtype, np.integer):
            raise SpaceError("indices must be a non-empty vector of whole numbers")
        if chosen.min() < 0 or chosen.max() >= len(self):
            raise SpaceError(f"indices must lie in 0..{len(self) - 1}")
        part = Space.__new__(Space)
        part.points = None if self.points is None else frozen(self.points[chosen])
        part.metric = self.metric
        part._matrix = None
        part._root = self._root
        part._index = frozen(self._index[chosen])
        return part

    def distances(self, other: Space | None = None) -> FloatArray:
        """Return the distances from each point here to each point of ``other`` (default: this space).

        Returns
        -------
        ndarray, shape (len(self), len(other))
        """
        other = self if other is None else other
        if self.points is not None and other.points is not None:
            if self.metric != other.metric or self.points.shape[1] != other.points.shape[1]:
                raise SpaceError(
                    f"no distance between {self!r} in {self.points.shape[1]} dimensions "
                    f"and {other!r} in {other.points.shape[1]}"
                )
            return np.asarray(cdist(self.points, other.points, self.metric), dtype=np.float64)
        if self._root is not other._root or self._root._matrix is None:
            raise SpaceError("no distance between these spaces: neither is a subset of the other's distances")
        return self._root._matrix[np.ix_(self._index, other._index)]

    def positions_in(self, other: Space) -> IntArray:
        """Return where each point of this space stands in ``other``, shape (len(self),).

        Raises
        ------
        SpaceError
            A point is not in ``other``.
        """
        if self._root is other._root:
            place = np.full(len(self._root), -1, dtype=np.int64)
            place[other._index] = np.arange(len(other))
            found = place[self._index]
        elif self.points is not None and other.points is not None:
            known = {tuple(point): i for i, point in enumerate(other.points.tolist())}
            found = np.array([known.get(tuple(point), -1) for point in self.points.tolist()], dtype=np.int64)
        else:
            raise SpaceError("these spaces share no points: make one a subset of the other")
        if (found < 0).any():
            raise SpaceError(f"input {int(np.flatnonzero(found < 0)[0])} is not among the outputs")
        return found


def as_space(value: Space | int | ArrayLike, name: str) -> Space:
    """Return ``value`` as a space: itself, ``n`` values without geometry, or points with the Euclidean metric."""
    if isinstance(value, Space):
        return value
    if isinstance(value, (int, np.integer)):
        return Space.discrete(int(value))
    try:
        return Space(value)
    except SpaceError as error:
        raise SpaceError(f"{name}: {error}") from None
