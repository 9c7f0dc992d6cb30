"""The infinity-Wasserstein distance: the least r such that no mass has to move further than r."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, IntArray
from distp.spaces import Space
from distp.transport import line
from distp.transport.coupling import Plan, Transport
from distp.transport.ground import checked
from distp.transport.masses import Masses, whole
from distp.transport.network import Flow, Ground


def wasserstein_inf(p: ArrayLike, q: ArrayLike, distances: Space | ArrayLike, slack: float = 0.0) -> Transport:
    """Return W_inf, the least possible largest move in turning ``p`` into ``q``, with a coupling that has it.

    Parameters
    ----------
    p, q : array_like, shapes (n,) and (m,)
        Counts, taken exactly, or probabilities, taken to a stated error of about 1e-15 of the mass: that much
        may stay behind.
    distances : Space or array_like, shape (n, m)
        A space of points (then n = m) is searched without its matrix; on a line the quantile rule applies.
    slack : float
        In [0, 1]: mass that may move any distance, for W^slack (theory 3.2).

    Returns
    -------
    Transport
        ``value`` is one of the distances, exactly; ``pair`` moves by it; the coupling's marginals are exact.

    Raises
    ------
    DistributionError, SpaceError, ParameterError
        By name: shapes, negative, NaN, sums that are not 1, asymmetric distances.

    Notes
    -----
    A minimum over couplings of a maximum over moves (theory, Definition 6). Feasible flows give an upper end that
    is a distance; a cut at an infeasible r gives a lower end that is one: the least distance between inputs with
    mass left over and outputs out of their reach. The search ends where both meet.

    Examples
    --------
    >>> found = wasserstein_inf([2, 3, 5], [3, 5, 2], Space([0.0, 1.0, 2.0]))
    >>> found.value, found.pair
    (1.0, (1, 0))
    """
    ground = checked(distances, p, q)
    masses = whole(p, q, ground.shape)
    allowed = masses.allowed(slack)
    rows, columns = np.flatnonzero(masses.p), np.flatnonzero(masses.q)
    supply, demand = masses.p[rows], masses.q[columns]
    if ground.space is not None and ground.space.points is not None and ground.space.points.shape[1] == 1:
        coordinates = ground.space.points[:, 0]
        value, (i, j, units) = line.bottleneck(coordinates[rows], coordinates[columns], supply, demand, allowed)
        between = np.abs(coordinates[rows][i] - coordinates[columns][j])
        return _result(value, (i, j, units, between), masses, rows, columns, ground.shape)
    if ground.space is not None:
        part = Ground.of(ground.space.subset(rows), ground.space.subset(columns))
    else:
        assert ground.matrix is not None
        part = Ground.of_matrix(ground.matrix[np.ix_(rows, columns)])
    value, flow = _least(part, supply, demand, allowed)
    i, j, units = flow.complete()
    arcs = part.rows[i], part.columns[j], units, part.lengths(i, j)
    return _result(value, arcs, masses, rows, columns, ground.shape)


def _least(ground: Ground, supply: IntArray, demand: IntArray, allowed: int) -> tuple[float, Flow]:
    """Return the least threshold that leaves at most ``allowed`` units, and a flow within it."""
    below, above = Flow(ground, supply, demand), None  # the last at an infeasible threshold; one that suffices
    lower = max(_left_over(ground, below.supply, allowed), _projected(ground, below, allowed))
    upper, r = math.inf, lower
    # Listing from a matrix takes as long for twice the radius, and may spare doing it again.
    ahead = 1.0 if ground.matrix is None else 2.0
    built = ahead * r
    reach = ground.reach(built)
    step = 0.0
    while lower < upper:
        start = below if above is None else max(above.within(r), below, key=lambda flow: -flow.missing)
        flow = start.copy()
        if r > reach.radius:
            built = ahead * r
            reach = ground.reach(built)
        near = reach if r == reach.radius else reach.within(r)
        cut = flow.fill(r, allowed, near)
        if cut is None:
            above = flow
            upper = float(ground.lengths(flow.source, flow.target).max(initial=0.0))
            lower = min(lower, upper)
            reach = near  # all that follows is shorter
            if math.isinf(reach.radius) and upper < 0.8 * built:
                reach, built = ground.reach(upper), upper  # perhaps few enough to list by now
        else:
            below = flow
            lower, _ = ground.nearest(*cut, math.inf if above is None else upper)
        # Growing until it suffices, then halving; either end is a distance, so the two meet.
        if above is None:
            step = max(2 * step, 0.15 * lower)
            r = lower + step
        else:
            r = line.middle(lower, upper)
    assert above is not None
    return upper, above


def _projected(ground: Ground, flow: Flow, allowed: int) -> float:
    """Return the largest W_inf of both distributions' shadows on an axis: no shadow moves further than its point."""
    if not ground.inputs.points.size:
        return 0.0
    x, y = ground.inputs.points, ground.outputs.points
    axes = range(x.shape[1])
    return max(line.bottleneck(x[:, a], y[:, a], flow.supply, flow.demand, allowed)[0] for a in axes) * (1 - 1e-12)


def _left_over(ground: Ground, supply: IntArray, allowed: int) -> float:
    """Return the least distance that all but ``allowed`` units must move to reach any output at all."""
    _, near = ground.nearest(np.ones(ground.rows.size, dtype=bool), np.ones(ground.columns.size, dtype=bool))
    order = np.argsort(-near)
    kept = np.flatnonzero(np.cumsum(supply[order]) > allowed)
    return float(near[order[kept[0]]]) if kept.size else 0.0


def _result(
    value: float,
    arcs: tuple[IntArray, IntArray, IntArray, FloatArray],
    masses: Masses,
    rows: IntArray,
    columns: IntArray,
    shape: tuple[int, int],
) -> Transport:
    i, j, units, between = arcs
    i, j = rows[i], columns[j]
    at = np.flatnonzero((between == value) & (units > 0))
    left = sum(units[between > value].tolist())
    return Transport(
        value,
        value,
        Plan.of(i, j, units, masses.total, shape),
        (int(i[at[0]]), int(j[at[0]])) if at.size else None,
        Fraction(left, masses.total),
        masses.error,
    )
