"""The epsilon at which a bracketed, falling delta reaches a target."""

from __future__ import annotations

import math
from collections.abc import Callable

from distp.privacy.bracket import Bracket
from distp.privacy.single import exp
from distp.privacy.tuples import Found

Evaluate = Callable[[float, float], Found]


def root(evaluate: Evaluate, target: float, rtol: float) -> Bracket:
    """Bracket the least epsilon >= 0 with delta at most ``target`` > 0.

    ``evaluate(t, rtol)`` returns delta at ``t = e^epsilon``. The root is found roughly on a coarse grid, once more
    on a finer one, and then proven from both sides; the bracket is wider than ``rtol`` where that does not succeed.
    """
    if target >= 1:
        return Bracket(0.0, 0.0)
    start, beyond = evaluate(1.0, rtol).bracket, evaluate(math.inf, rtol).bracket
    if start.upper <= target:
        return Bracket(0.0, 0.0)
    if beyond.upper > target:  # what only one of the two can produce stays visible at any epsilon
        return Bracket(math.inf if beyond.lower > target else 0.0, math.inf)
    point, steepness = _newton(evaluate, target, 0.0, 1e-3, 1e-4)
    # Delta must be known better than the step in epsilon that is to be told apart.
    precision = max(1e-8, min(1e-3, 0.1 * rtol * steepness * max(point, rtol)))
    point, steepness = _newton(evaluate, target, point, precision, 0.1 * rtol)
    low, high = 0.0, math.inf
    for widen in (0.4, 1.0, 4.0, 16.0, 1e3, 1e6):
        margin = widen * rtol * max(point, 1e-9)
        above = point + margin
        if math.isinf(high) and above < _LARGEST and evaluate(exp(above), precision).bracket.upper <= target:
            high = above
        if low == 0 and point > margin and evaluate(exp(point - margin), precision).bracket.lower >= target:
            low = point - margin
        if math.isfinite(high) and (low > 0 or point <= margin):
            break
    return Bracket(low, high)


_LARGEST = 708.0  # e^epsilon is finite


def _newton(evaluate: Evaluate, target: float, point: float, precision: float, rtol: float) -> tuple[float, float]:
    """Return an estimate of the root and ``-d ln delta / d epsilon`` there: Newton, halving where it strays."""
    low, high, step = 0.0, _LARGEST, math.inf
    steepness = 0.0
    for _ in range(100):
        value, slope, _resolved = evaluate(exp(point), precision)
        low, high = (point, high) if value.midpoint > target else (low, point)
        steepness = slope * exp(point) / value.midpoint if value.midpoint > 0 else 0.0
        new = point + math.log(value.midpoint / target) / steepness if steepness > 0 else math.nan
        if abs(new - point) <= max(rtol * point, precision / max(steepness, 1e-9)):
            return max(new, 0.0), steepness
        if not (low < new < high and abs(new - point) < 0.7 * step):
            new = 2 * low + 1 if high == _LARGEST and 2 * low + 1 < high else (low + high) / 2
            if high - low <= rtol * high:
                return new, steepness
        step, point = abs(new - point), new
    return point, steepness
