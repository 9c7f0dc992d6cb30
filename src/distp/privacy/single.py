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


def scaled(t: float, Q: FloatArray) -> FloatArray:
    """Return ``t Q``, with 0 where ``Q`` is 0 even for an infinite ``t``."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(Q > 0, t * Q, 0.0)


def hockey_stick(P: FloatArray, Q: FloatArray, t: float, slack: float = 0.0) -> Bracket:
    """Return ``sum_y (P[y] - t Q[y])_+`` for ``t = e^epsilon`` (any t >= 0), as a bracket.

    Source: theory section 1.
    """
    excess = P - scaled(t, Q)
    terms = excess[excess > 0]
    value = math.fsum(terms)
    # An entry that counts has t Q < P up to rounding, so its error is at most this share of 2 P. At t = 1 on
    # exact laws only the subtraction rounds, and never across 0.
    share = 0.0 if slack == 0 and t == 1 else 2 * slack + 6 * UNIT
    error = share * math.fsum(P[excess > -share * P])
    return Bracket(max(0.0, value * (1 - 4 * UNIT) - error), value * (1 + 4 * UNIT) + error)


def inverse(P: FloatArray, Q: FloatArray, delta: float, slack: float = 0.0) -> Bracket:
    """Return the least epsilon >= 0 with ``hockey_stick(P, Q, e^epsilon) <= delta``, as a bracket.

    The divergence is piecewise linear in ``t = e^epsilon`` with kinks at the ratios P/Q, so the root lies on
    one piece, found after sorting by ratio. The result is then pushed outward until the bracketed
    divergences agree with it.
    """
    guess = _root(P, Q, delta)
    if guess == math.inf:
        # Every kink passed and still above delta: true infinity, unless rounding alone decides.
        only_p = math.fsum(P[Q == 0])
        lower = math.inf if only_p * (1 - slack - 4 * UNIT) > delta else 0.0
        return Bracket(lower, math.inf)
    step = 4 * UNIT * (1 + guess) + 2 * slack
    upper, lower = guess, max(0.0, min(guess, 709.0) - (step if delta == 0 else 0.0))
    while hockey_stick(P, Q, math.exp(upper) if upper < 709 else math.inf, slack).upper > delta:
        upper = guess + step
        step *= 2
        if step > 800:
            upper = math.inf
            break
    step = 4 * UNIT * (1 + guess) + 2 * slack
    while lower > 0 and hockey_stick(P, Q, math.exp(lower), slack).lower < delta:
        lower = max(0.0, guess - step)
        step *= 2
    return Bracket(lower, upper)


def _root(P: FloatArray, Q: FloatArray, delta: float) -> float:
    only_p = math.fsum(P[Q == 0])
    both = (Q > 0) & (P > 0)
    p, q = P[both], Q[both]
    if only_p > delta:
        return math.inf
    with np.errstate(over="ignore"):
        log_ratio = np.log(p) - np.log(q)
    order = np.argsort(-log_ratio, kind="stable")
    p, q, log_ratio = p[order], q[order], log_ratio[order]
    # With the j largest ratios in the sum: value(t) = only_p + sum p - t sum q, so t_j = (…- delta) / sum q.
    with np.errstate(divide="ignore", invalid="ignore"):
        numerator = only_p + np.cumsum(p) - delta
        candidate = np.where(numerator > 0, np.log(np.maximum(numerator, 0)) - np.log(np.cumsum(q)), -np.inf)
    # value(t) is the maximum over j of the lines, so the root is the largest candidate.
    return max(0.0, float(candidate.max())) if candidate.size else 0.0
