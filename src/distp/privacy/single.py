"""Two laws of one report: hockey-stick divergence and its inverse, by linear scans.

Functions take ``P`` and ``Q`` as they come from `Mechanism.lift`, with ``slack``, a bound on the relative
error that lifting left in each entry, and return brackets that account for it and for their own rounding.
"""

from __future__ import annotations

import math

import numpy as np

from distp.checks import FloatArray
from distp.privacy.bracket import Bracket

UNIT = 2.0**-53  # unit round-off of a double
LEAST = 1e-290  # below this, products and sums may lose digits to underflow
_SMALLEST = 5e-324
_FINITE = 700.0  # e^epsilon is used as a number up to here


def exp(epsilon: float) -> float:
    """Return ``e^epsilon``, infinite where that leaves the range of a double."""
    return math.exp(epsilon) if epsilon < 709 else math.inf


def scaled(t: float, Q: FloatArray) -> FloatArray:
    """Return ``t Q``, with 0 where ``Q`` is 0 even for an infinite ``t``."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(Q > 0, t * Q, 0.0)


def hockey_stick(P: FloatArray, Q: FloatArray, t: float, slack: float = 0.0, lost: float = 0.0) -> Bracket:
    """Return ``sum_y (P[y] - t Q[y])_+`` for ``t = e^epsilon`` (any t >= 0), as a bracket.

    ``lost`` bounds what each of the laws may have lost to underflow in all. Source: theory section 1.
    """
    excess = P - scaled(t, Q)
    terms = excess[excess > 0]
    value = math.fsum(terms)
    # An entry that counts has t Q < P up to rounding, so its error is at most this share of 2 P. At t = 1 on
    # exact laws only the subtraction rounds, and never across 0.
    share = 0.0 if slack == 0 and t == 1 else 2 * slack + 8 * UNIT
    error = share * math.fsum(P[excess > -share * P]) + (excess.size * _SMALLEST if t != 1 else 0.0)
    too_high = t * lost if lost else 0.0
    return Bracket(max(0.0, value * (1 - 4 * UNIT) - error - too_high), value * (1 + 4 * UNIT) + error + lost)


def at_epsilon(P: FloatArray, Q: FloatArray, epsilon: float, slack: float = 0.0, lost: float = 0.0) -> Bracket:
    """Return the hockey-stick divergence at ``epsilon``, also where ``e^epsilon`` is no double."""
    if lost and epsilon > _FINITE:
        return Bracket(0.0, hockey_stick(P, Q, math.exp(_FINITE), slack, lost).upper)
    if epsilon < _FINITE or epsilon > 2 * _FINITE + 100:  # beyond, t Q exceeds every P unless Q is 0
        return hockey_stick(P, Q, exp(epsilon), slack, lost)
    with np.errstate(divide="ignore", over="ignore"):
        moved = np.where(Q > 0, np.exp(np.log(Q) + (epsilon - _FINITE)), 0.0)
    # The logarithm of a double is below 745, and the shift adds to it; their rounding becomes relative.
    return hockey_stick(P, moved, math.exp(_FINITE), slack + UNIT * (4 * (745 + epsilon)))


def pure_epsilon(P: FloatArray, Q: FloatArray, slack: float = 0.0, lost: float = 0.0) -> Bracket:
    """Return ``max_y ln(P[y] / Q[y])``, at least 0, as a bracket; ``inf`` where only P is possible."""
    if lost:  # entries this small are only known to be this small
        known = pure_epsilon(P[P >= LEAST], np.maximum(Q[P >= LEAST], LEAST), slack)
        return Bracket(known.lower, math.inf)
    if ((P > 0) & (Q == 0)).any():
        return Bracket(math.inf, math.inf)
    both = P > 0
    if not both.any():
        return Bracket(0.0, 0.0)
    logs = np.log(P[both]), np.log(Q[both])
    worst = int(np.argmax(logs[0] - logs[1]))
    p, q = float(P[both][worst]), float(Q[both][worst])
    with np.errstate(over="ignore", under="ignore"):
        ratio = p / q
    # Dividing first keeps a ratio near 1 exact to its own size; logarithms serve where it leaves the range.
    if 1e-300 < ratio < 1e300:
        value, error = math.log(ratio), 3 * UNIT * (1 + abs(math.log(ratio)))
    else:
        value, error = math.log(p) - math.log(q), 4 * UNIT * (abs(math.log(p)) + abs(math.log(q)))
    # Another entry may be the true maximum: all are within the error of the logarithms compared above.
    compared = 4 * UNIT * float(np.abs(logs).max(initial=0.0))
    error += 2.1 * slack
    return Bracket(max(0.0, value - error), max(0.0, value + error + compared))


def inverse(P: FloatArray, Q: FloatArray, delta: float, slack: float = 0.0, lost: float = 0.0) -> Bracket:
    """Return the least epsilon >= 0 with a hockey-stick divergence of at most ``delta``, as a bracket.

    The divergence is piecewise linear in ``t = e^epsilon`` with kinks at the ratios P/Q, so the root lies on
    one piece, found after sorting by ratio. It is then pushed outward until the bracketed divergences at both
    ends prove it.
    """
    if delta >= 1:
        return Bracket(0.0, 0.0)
    if delta == 0:
        return pure_epsilon(P, Q, slack, lost)
    always = hockey_stick(P, Q, math.inf, slack, lost)
    if always.upper > delta:
        return Bracket(math.inf if always.lower > delta else 0.0, math.inf)
    guess = _root(P, Q, delta)
    first_step = 8 * UNIT * (1 + guess) + 2 * slack
    lower, upper, step = guess, guess, first_step
    while at_epsilon(P, Q, upper, slack, lost).upper > delta:
        upper = guess + step
        step *= 2
    step = first_step
    while lower > 0 and at_epsilon(P, Q, lower, slack, lost).lower < delta:
        lower = max(0.0, guess - step)
        step *= 2
    return Bracket(lower if math.exp(min(lower, 1.0)) > 1 else 0.0, upper)


def _root(P: FloatArray, Q: FloatArray, delta: float) -> float:
    only_p = math.fsum(P[Q == 0])
    both = (Q > 0) & (P > 0)
    p, q = P[both], Q[both]
    order = np.argsort(np.log(q) - np.log(p), kind="stable")
    p, q = p[order], q[order]
    # With the j largest ratios in the sum: value(t) = only_p + sum p - t sum q, so t_j = (... - delta) / sum q.
    numerator = only_p + np.cumsum(p) - delta
    with np.errstate(divide="ignore"):
        candidate = np.where(numerator > 0, np.log(np.maximum(numerator, 0)) - np.log(np.cumsum(q)), -np.inf)
    # value(t) is the maximum over j of the lines, so the root is the largest candidate.
    return max(0.0, float(candidate.max(initial=0.0)))
