"""Delta and epsilon of any mechanism, for a pair of distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from distp.checks import FloatArray, distribution, positive, probability
from distp.errors import ParameterError, PrecisionError
from distp.mechanisms import Mechanism, Tupling
from distp.privacy.bracket import Bracket, largest
from distp.privacy.single import UNIT, hockey_stick, inverse
from distp.privacy.tuples import TupleSum, as_single_report

RTOL = 1e-4


@dataclass(frozen=True, eq=False)
class SingleReport:
    """Two laws of one report, in this order."""

    P: FloatArray
    Q: FloatArray
    slack: float

    def swapped(self) -> SingleReport:
        """Return the same in the other order."""
        return SingleReport(self.Q, self.P, self.slack)

    def delta(self, t: float, rtol: float = RTOL, atol: float = 0.0) -> Bracket:  # noqa: ARG002 - one signature
        """Return the hockey-stick divergence at ``t = e^epsilon`` >= 0."""
        return hockey_stick(self.P, self.Q, t, self.slack)

    def epsilon(self, delta: float, rtol: float = RTOL) -> Bracket:  # noqa: ARG002
        """Return the least epsilon >= 0 whose divergence is at most ``delta``."""
        return inverse(self.P, self.Q, delta, self.slack)


@dataclass(frozen=True, eq=False)
class TupleReport:
    """Two laws of a tuple, in this order."""

    terms: TupleSum

    def swapped(self) -> TupleReport:
        """Return the same in the other order."""
        return TupleReport(self.terms.swapped())

    def delta(self, t: float, rtol: float = RTOL, atol: float = 0.0) -> Bracket:
        """Return the hockey-stick divergence at ``t = e^epsilon`` >= 0."""
        if t < 1:
            # Below 1 the other order says the same without cancellation: 1 - t + t delta'(1/t).
            if t == 0:
                return Bracket(1.0 - 1e-9, 1.0 + 1e-9)
            other = self.terms.swapped().delta(1 / t, rtol, atol)[0]
            edge = 4 * UNIT + 2 * self.terms.slack
            return Bracket(max(0.0, 1 - t + t * other.lower - edge), 1 - t + t * other.upper + edge)
        return self.terms.delta(t, rtol, atol)[0]

    def epsilon(self, delta: float, rtol: float = RTOL) -> Bracket:
        """Return the least epsilon >= 0 whose divergence is at most ``delta``."""
        a, b = self.terms.a, self.terms.b
        if delta == 0:
            # The tuple that repeats the worst output is possible: dummies do not lower the pure epsilon.
            P = np.concatenate([a * self.terms.weight, self.terms.bare_p])
            Q = np.concatenate([b * self.terms.weight, self.terms.bare_q])
            return inverse(P, Q, 0.0, self.terms.slack)
        return _root(lambda epsilon, rtol: self.terms.delta(_exp(epsilon), rtol), delta, rtol)


Report = SingleReport | TupleReport


def report(mechanism: Mechanism, p: ArrayLike, q: ArrayLike) -> Report:
    """Return what a receiver may see under ``p`` and under ``q``: the object that all accounting works on."""
    size = len(mechanism.inputs)
    left, right = distribution(p, size, "p"), distribution(q, size, "q")
    if np.array_equal(left, right):
        return SingleReport(np.ones(1), np.ones(1), 0.0)  # nothing to tell apart, whatever is reported
    P, Q = mechanism.lift(left), mechanism.lift(right)
    slack = _lifting_error(mechanism)
    if not isinstance(mechanism, Tupling) or mechanism.dummies == 0:
        return SingleReport(P, Q, slack)
    terms = TupleSum.of(P, Q, mechanism.dummy_distribution, mechanism.dummies + 1, slack)
    listed = as_single_report(terms)
    return TupleReport(terms) if listed is None else SingleReport(*listed)


def _lifting_error(mechanism: Mechanism) -> float:
    """Bound the relative error of an entry of a lifted distribution: one rounding a product, one an addition."""
    matrix = mechanism.channel()
    if isinstance(matrix, sparse.csr_array):
        most = int(np.bincount(matrix.indices, minlength=1).max())
        exact = most == 1 and bool((matrix.data == 1).all())
        return 0.0 if exact else (most + 1) * UNIT
    return (len(mechanism.inputs) + 1) * UNIT


def delta(
    mechanism: Mechanism,
    p: ArrayLike,
    q: ArrayLike,
    epsilon: float,
    *,
    rtol: float = RTOL,
    ordered: bool = False,
) -> Bracket:
    """Return the least delta for which the mechanism is (epsilon, delta)-DistP for the pair.

    Parameters
    ----------
    mechanism : Mechanism
    p, q : array_like, shape (|X|,)
        The two distributions of the input.
    epsilon : float
        >= 0; ``inf`` asks for the mass that only one of the two can produce.
    rtol : float
        Relative width that the bracket must reach, unless the rounding of the lifted distributions leaves more.
    ordered : bool
        Only "p as if q", instead of the larger of both orders.

    Returns
    -------
    Bracket
        Contains the exact value; claim its upper end.

    Raises
    ------
    ParameterError, DistributionError
        Bad arguments, by name.
    PrecisionError
        The bracket stays wider than ``rtol`` asks.

    Notes
    -----
    Source: theory, Definition 8; section 4.2 for tuples.

    Examples
    --------
    >>> from distp.mechanisms import Identity, Tupling
    >>> p, q = [.5, .3, .2, 0], [.1, .2, .3, .4]
    >>> round(delta(Tupling(Identity(4), dummies=5), p, q, 0.5).upper, 10)
    0.0588062921
    """
    epsilon = float(epsilon)
    if math.isnan(epsilon) or epsilon < 0:
        raise ParameterError(f"epsilon must be a number >= 0, got {epsilon!r}")
    positive(rtol, "rtol")
    seen = report(mechanism, p, q)
    orders = [seen] if ordered else [seen, seen.swapped()]
    return largest([one.delta(_exp(epsilon), rtol) for one in orders])


def epsilon(
    mechanism: Mechanism,
    p: ArrayLike,
    q: ArrayLike,
    delta: float,
    *,
    rtol: float = RTOL,
    ordered: bool = False,
) -> Bracket:
    """Return the least epsilon for which the mechanism is (epsilon, delta)-DistP for the pair.

    Parameters
    ----------
    mechanism : Mechanism
    p, q : array_like, shape (|X|,)
    delta : float
        In [0, 1]. At 0 this is the pure epsilon, infinite where the supports differ.
    rtol : float
        Relative width that the bracket must reach.
    ordered : bool
        Only "p as if q", instead of the larger of both orders.

    Returns
    -------
    Bracket
        Contains the exact value; claim its upper end.

    Examples
    --------
    >>> from distp.mechanisms import RandomizedResponse
    >>> round(epsilon(RandomizedResponse(2, 1.0), [1, 0], [0, 1], 0.0).upper, 6)
    1.0
    """
    delta = probability(delta, "delta")
    positive(rtol, "rtol")
    seen = report(mechanism, p, q)
    first = seen.epsilon(delta, rtol)
    if ordered:
        return first
    other = seen.swapped()
    # Often one order is plainly the worse: a look at the other where the first ends saves its whole search.
    if 0 < first.lower < math.inf and other.delta(_exp(first.lower), rtol).upper <= delta:
        return first
    return largest([first, other.epsilon(delta, rtol)])


def _exp(epsilon: float) -> float:
    return math.exp(epsilon) if epsilon < 709 else math.inf


Evaluate = Callable[[float, float], tuple[Bracket, float]]


def _root(evaluate: Evaluate, target: float, rtol: float) -> Bracket:
    """Bracket the epsilon at which a decreasing, bracketed delta reaches ``target`` > 0.

    ``evaluate(epsilon, rtol)`` returns the bracket of delta and ``-d delta / d e^epsilon``. The root is found
    roughly on a coarse grid, once more on a finer one, and then proven from both sides.
    """
    start, beyond = evaluate(0.0, rtol)[0], evaluate(math.inf, rtol)[0]
    if start.upper <= target:
        return Bracket(0.0, 0.0)
    if beyond.upper > target:  # what only one of the two can produce stays visible at any epsilon
        return Bracket(math.inf if beyond.lower > target else 0.0, math.inf)
    point, steepness = _newton(evaluate, target, 0.0, 1e-3, 1e-4)
    # Delta must be known better than the step in epsilon that is to be told apart.
    precision = max(1e-8, min(1e-3, 0.1 * rtol * steepness * max(point, rtol)))
    point, steepness = _newton(evaluate, target, point, precision, 0.1 * rtol)
    high, low = point, point
    for widen in (0.4, 1.0, 4.0, 16.0, 1e3, 1e6):
        margin = widen * rtol * max(point, 1e-9)
        if high == point and evaluate(point + margin, precision)[0].upper <= target:
            high = point + margin
        if low == point and (point <= margin or evaluate(point - margin, precision)[0].lower >= target):
            low = max(0.0, point - margin)
        if low < point < high or (low == 0 < high and point == 0):
            break
    bracket = Bracket(low if low < point else 0.0, high if high > point else math.inf)
    if bracket.width > 1.1 * rtol * bracket.upper and bracket.upper > 1e-9:
        raise PrecisionError(f"epsilon lies in {bracket}, which could not be narrowed to rtol={rtol:g}", bracket)
    return bracket


def _newton(evaluate: Evaluate, target: float, point: float, precision: float, rtol: float) -> tuple[float, float]:
    """Return an estimate of the root and ``-d ln delta / d epsilon`` there: Newton, halving where it strays."""
    low, high, step = 0.0, math.inf, math.inf
    for _ in range(100):
        value, slope = evaluate(point, precision)
        low, high = (point, high) if value.midpoint > target else (low, point)
        steepness = slope * _exp(point) / value.midpoint if value.midpoint > 0 else 0.0
        new = point + math.log(value.midpoint / target) / steepness if steepness > 0 else math.nan
        if abs(new - point) <= max(rtol * point, precision / max(steepness, 1e-9)):
            return max(new, 0.0), steepness
        if not (low < new < high and abs(new - point) < 0.7 * step):
            new = 2 * low + 1 if math.isinf(high) else (low + high) / 2
            if high - low <= rtol * high:
                return new, steepness
        step, point = abs(new - point), new
    return point, steepness
