"""Transport between points on a line, in order: O(n log n)."""

from __future__ import annotations

import numpy as np

from distp.checks import FloatArray, IntArray
from distp.transport.network import corner

Arcs = tuple[IntArray, IntArray, IntArray]


def monotone(x: FloatArray, y: FloatArray, supply: IntArray, demand: IntArray) -> Arcs:
    """Return the coupling that keeps the order, as arcs (i, j, units): optimal for W_inf and for W_1 on a line."""
    mine, theirs = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    i, j, units = corner(supply[mine], demand[theirs])
    return mine[i], theirs[j], units


def bottleneck(x: FloatArray, y: FloatArray, supply: IntArray, demand: IntArray, allowed: int) -> tuple[float, Arcs]:
    """Return the least threshold on a line that leaves at most ``allowed`` units, and arcs (i, j, units).

    If nothing may be left the quantile rule serves (theory, Definition 6). Otherwise matching from the left,
    which is optimal for intervals of one length, is tried at thresholds between two distances until they meet.
    """
    if allowed == 0:
        i, j, units = monotone(x, y, supply, demand)
        return float(np.abs(x[i] - y[j]).max()), (i, j, units)
    from distp.transport import sweep  # numba takes half a second to load

    mine, theirs = np.argsort(x, kind="stable"), np.argsort(y, kind="stable")
    x, y, supply, demand = x[mine], y[theirs], supply[mine], demand[theirs]
    arcs = corner(supply, demand)
    upper, lower = float(np.abs(x[arcs[0]] - y[arcs[1]]).max()), 0.0
    r = float(np.nextafter(upper, 0.0))  # a slack for rounding alone is mostly settled by this one try
    total, matched = int(supply.sum()), arcs
    while lower < upper:
        tried: Arcs = sweep.match(x, y, supply, demand, r)
        if total - int(tried[2].sum()) <= allowed:
            matched = tried
            upper = float(np.abs(x[tried[0]] - y[tried[1]]).max(initial=0.0))
            lower = min(lower, upper)
        else:
            lower = min(float(sweep.next_distance(x, y, r)), upper)
        r = middle(lower, upper)
    spare, wanted = supply.copy(), demand.copy()
    np.subtract.at(spare, matched[0], matched[2])
    np.subtract.at(wanted, matched[1], matched[2])
    i, j, units = (np.concatenate(both) for both in zip(matched, corner(spare, wanted), strict=True))
    return upper, (mine[i], theirs[j], units)


def middle(lower: float, upper: float) -> float:
    """Return a number between two different ones, never the upper: trying that again would tell nothing."""
    half = lower + (upper - lower) / 2
    return half if half < upper else lower
