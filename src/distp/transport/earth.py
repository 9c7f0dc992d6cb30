"""Transport at least mean cost: W_1 (the earth mover's distance) and any other cost."""

from __future__ import annotations

import math
import warnings

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, IntArray
from distp.errors import PrecisionError
from distp.spaces import Space
from distp.transport import line
from distp.transport.coupling import Plan, Transport
from distp.transport.ground import checked, costs
from distp.transport.masses import Masses, whole

UNITS = 1 << 52  # whole numbers of this size are exact doubles, which the solver works in
ITERATIONS = 100_000_000


def wasserstein(p: ArrayLike, q: ArrayLike, distances: Space | ArrayLike) -> Transport:
    """Return W_1, the least mean distance of turning ``p`` into ``q``, with a coupling that has it.

    Parameters
    ----------
    p, q : array_like, shapes (n,) and (m,)
        Counts or probabilities, as for `wasserstein_inf`.
    distances : Space or array_like, shape (n, m)

    Returns
    -------
    Transport
        ``lower`` is proven by a dual solution; it is below ``value`` by rounding, relative to the largest distance.

    Notes
    -----
    On a line the monotone coupling is optimal; elsewhere the network simplex of POT solves the transport problem
    (theory 5.6, 7.2).

    Examples
    --------
    >>> wasserstein([2, 3, 5], [3, 5, 2], Space([0.0, 1.0, 2.0])).value
    0.4
    """
    ground = checked(distances, p, q)
    masses = whole(p, q, ground.shape, UNITS)
    rows, columns = np.flatnonzero(masses.p), np.flatnonzero(masses.q)
    if ground.space is not None and ground.space.points is not None and ground.space.points.shape[1] == 1:
        at = ground.space.points[:, 0]
        i, j, units = line.monotone(at[rows], at[columns], masses.p[rows], masses.q[columns])
        moved = np.abs(at[rows][i] - at[columns][j])
        value = math.fsum(moved * units) / masses.total
        plan = Plan.of(rows[i], columns[j], units, masses.total, ground.shape)
        return Transport(value, value * (1 - 1e-14), plan, error=masses.error)
    if ground.space is not None:
        cost = ground.space.subset(rows).distances(ground.space.subset(columns))
    else:
        cost = ground.array()[np.ix_(rows, columns)]
    return _solve(masses, rows, columns, cost, ground.shape)


def transport_cost(p: ArrayLike, q: ArrayLike, cost: ArrayLike) -> Transport:
    """Return the least mean cost of turning ``p`` into ``q`` for any matrix of costs >= 0, shape (n, m).

    Examples
    --------
    >>> transport_cost([1, 1], [1, 1], [[3.0, 1.0], [1.0, 3.0]]).value
    1.0
    """
    matrix = costs(cost, "costs")
    shape = (int(matrix.shape[0]), int(matrix.shape[1]))
    masses = whole(p, q, shape, UNITS)
    rows, columns = np.flatnonzero(masses.p), np.flatnonzero(masses.q)
    return _solve(masses, rows, columns, matrix[np.ix_(rows, columns)], shape)


def _solve(masses: Masses, rows: IntArray, columns: IntArray, cost: FloatArray, shape: tuple[int, int]) -> Transport:
    import ot  # a second to load, and only needed here

    supply, demand = masses.p[rows], masses.q[columns]
    largest = float(cost.max())
    unit = largest if largest > 0 else 1.0  # the solver's tolerances are absolute
    cost = cost / unit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the solver warns of is checked below, and raised
        found, log = ot.lp.emd(
            supply.astype(np.float64),
            demand.astype(np.float64),
            np.ascontiguousarray(cost),
            numItermax=ITERATIONS,
            log=True,
            check_marginals=False,
        )
    i, j = np.nonzero(found > 0)
    units = np.rint(found[i, j]).astype(np.int64)
    plan = Plan.of(rows[i], columns[j], units, masses.total, shape)
    value = math.fsum(cost[i, j] * units) / masses.total
    # Any potentials with u + v <= cost prove a lower end: these are the solver's, made feasible.
    u = np.asarray(log["u"], dtype=np.float64)
    v = (cost - u[:, None]).min(axis=0)
    u = (cost - v[None, :]).min(axis=1)
    scale = float(max(np.abs(u).max(), np.abs(v).max(), 1.0))
    lower = (math.fsum(u * supply) + math.fsum(v * demand)) / masses.total - 8 * 2.0**-53 * scale
    left, right = plan.marginals()
    exact = np.array_equal(left, masses.p) and np.array_equal(right, masses.q)
    if not exact or value - lower > 1e-9 * max(value, scale):
        raise PrecisionError(f"the transport problem's value lies in [{lower * unit}, {value * unit}]", None)
    # Scaling back rounds once more.
    lower = max(0.0, min(lower, value)) * (1 - 2.0**-51)
    return Transport(value * unit, lower * unit, plan, error=masses.error)
