"""Wasserstein barycentres: the common target that several distributions reach at the least mean distance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, sparse

from distp.checks import FloatArray, distribution
from distp.errors import DistributionError, ParameterError, PrecisionError
from distp.spaces import Space
from distp.transport.earth import transport_cost
from distp.transport.ground import costs

MAX_VARIABLES = 5_000_000


class Barycenter(NamedTuple):
    """The target, shape (m,), and the weighted mean of the W_1 distances to it."""

    target: FloatArray
    value: float


def barycenter(
    distributions: Sequence[ArrayLike], distances: Space | ArrayLike, weights: ArrayLike | None = None
) -> Barycenter:
    """Return the distribution with the least weighted mean of W_1 distances from the given ones.

    Parameters
    ----------
    distributions : sequence of array_like, each of shape (n,)
    distances : Space or array_like, shape (n, m)
        From inputs to the points that may carry the target.
    weights : array_like, shape (len(distributions),), optional
        Default: all alike.

    Notes
    -----
    On one metric space, a distribution with half the weight or more is itself optimal, by the triangle inequality
    (theory 7.3). Elsewhere it is a linear programme (HiGHS) over one coupling for each distribution, which is solved
    to about 1e-7 of the mass and of the largest distance.

    Examples
    --------
    >>> found = barycenter([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], Space([0.0, 1.0, 2.0]))
    >>> found.target.round(9).tolist(), round(found.value, 9)
    ([0.0, 1.0, 0.0], 0.666666667)
    """
    matrix = distances.distances() if isinstance(distances, Space) else costs(distances, "distances")
    n, m = matrix.shape
    if len(distributions) < 2:
        raise DistributionError(f"a barycentre needs at least two distributions, got {len(distributions)}")
    laws = [distribution(law, n, f"distribution {i}") for i, law in enumerate(distributions)]
    share = np.full(len(laws), 1 / len(laws)) if weights is None else distribution(weights, len(laws), "weights")
    heaviest = int(np.argmax(share))
    # Given distances may break the triangle inequality; those of points never do.
    if isinstance(distances, Space) and distances.points is not None and share[heaviest] >= 0.5:
        return Barycenter(laws[heaviest].copy(), _mean(laws, share, laws[heaviest], matrix))
    supports = [np.flatnonzero(law) for law in laws]
    variables = sum(rows.size for rows in supports) * m + m
    if variables > MAX_VARIABLES:
        raise ParameterError(
            f"this barycentre has {variables} variables, more than {MAX_VARIABLES}: use fewer points"
        )
    largest = float(matrix.max())
    unit = largest if largest > 0 else 1.0  # the solver's tolerances are absolute
    blocks, limits, objective = [], [], []
    for law, rows, weight in zip(laws, supports, share, strict=True):
        leaving = sparse.kron(sparse.eye_array(rows.size), np.ones((1, m)))
        arriving = sparse.kron(np.ones((1, rows.size)), sparse.eye_array(m))
        blocks.append((leaving, arriving))
        limits.append(law[rows])
        objective.append(weight * (matrix[rows] / unit).ravel())
    width = len(laws)
    grid = [[None] * (width + 1) for _ in range(2 * width)]
    for t, (leaving, arriving) in enumerate(blocks):
        grid[2 * t][t] = leaving
        grid[2 * t + 1][t] = arriving
        grid[2 * t + 1][width] = -sparse.eye_array(m)
    found = optimize.linprog(
        np.concatenate([*objective, np.zeros(m)]),
        A_eq=sparse.block_array(grid, format="csr"),
        b_eq=np.concatenate([part for law in limits for part in (law / law.sum(), np.zeros(m))]),
        method="highs",
    )
    if found.x is None:
        raise PrecisionError(f"the linear programme of the barycentre was not solved: {found.message}", None)
    target = np.maximum(found.x[-m:], 0.0)
    target /= target.sum()
    return Barycenter(target, _mean(laws, share, target, matrix))


def _mean(laws: Sequence[FloatArray], share: FloatArray, target: FloatArray, matrix: FloatArray) -> float:
    """Return the weighted mean of the costs of reaching the target, as they are."""
    return math.fsum(float(w) * transport_cost(law, target, matrix).value for w, law in zip(share, laws, strict=True))
