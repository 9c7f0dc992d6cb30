"""Sweeps over two sorted sets of points on a line: compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from distp.compiled import compiled


@compiled
def match(x: Any, y: Any, supply: Any, demand: Any, r: float) -> Any:
    """Match from the left over distances at most ``r``: as much as any matching can; return arcs."""
    n, m = x.size, y.size
    arc_i, arc_j, units = np.empty(n + m, np.int64), np.empty(n + m, np.int64), np.empty(n + m, np.int64)
    i, j, used = 0, 0, 0
    spare, wanted = supply[0], demand[0]
    while i < n and j < m:
        done_i, done_j = False, False
        if abs(x[i] - y[j]) <= r:
            amount = min(spare, wanted)
            arc_i[used], arc_j[used], units[used] = i, j, amount
            used += 1
            spare -= amount
            wanted -= amount
            done_i, done_j = spare == 0, wanted == 0
        else:
            done_i = x[i] < y[j]
            done_j = not done_i
        if done_i:
            i += 1
            spare = supply[i] if i < n else 0
        if done_j:
            j += 1
            wanted = demand[j] if j < m else 0
    return arc_i[:used], arc_j[:used], units[:used]


@compiled
def next_distance(x: Any, y: Any, r: float) -> float:
    """Return the least ``|x_i - y_j|`` above ``r``."""
    least = np.inf
    above, below = 0, -1  # the first y further right than r, the last one further left
    for i in range(x.size):
        while above < y.size and not y[above] - x[i] > r:
            above += 1
        if above < y.size:
            least = min(least, y[above] - x[i])
        while below + 1 < y.size and x[i] - y[below + 1] > r:
            below += 1
        if below >= 0:
            least = min(least, x[i] - y[below])
    return float(least)
