"""The Bayes attacker who sees one report (or tuple) and guesses the attribute, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import probability
from distp.errors import ParameterError
from distp.mechanisms import Mechanism
from distp.privacy.accountant import Report, SingleReport, report
from distp.privacy.bracket import Bracket
from distp.privacy.single import UNIT

_SLOPE_STEP = 2e-3


@dataclass(frozen=True)
class AttackSuccess:
    """How often the best attacker is right, who knows both distributions, the mechanism and the prior.

    Attributes
    ----------
    success : Bracket
        Probability of a right guess when a share ``prior`` of people have the attribute.
    balanced : Bracket
        The same at prior 1/2: 0.5 is blind guessing. Equals (1 + total variation) / 2.
    recognised : Bracket
        Share of the people *with* the attribute of whom it is inferred, at ``prior`` (the paper's ASR);
        ties are broken by a fair coin.
    prior : float
    """

    success: Bracket
    balanced: Bracket
    recognised: Bracket
    prior: float


def attack_success(mechanism: Mechanism, p: ArrayLike, q: ArrayLike, prior: float = 0.5) -> AttackSuccess:
    """Return the Bayes attacker's success against one report.

    Parameters
    ----------
    mechanism : Mechanism
    p, q : array_like, shape (|X|,)
        Law of the input with the attribute, and without.
    prior : float
        Share of people with the attribute, in (0, 1).

    Notes
    -----
    The success at prior pi is ``(1 - pi) + pi HS_t(P || Q)`` with ``t = (1 - pi)/pi``: the accountant's own
    number (theory 4.8). `recognised` is the slope of that curve, bracketed by its convexity.

    Examples
    --------
    >>> from distp.mechanisms import Identity
    >>> attack_success(Identity(2), [0.9, 0.1], [0.2, 0.8]).balanced.upper.__round__(6)
    0.85
    """
    prior = probability(prior, "prior")
    if not 0 < prior < 1:
        raise ParameterError(f"prior must lie strictly between 0 and 1, got {prior}")
    seen = report(mechanism, p, q)
    t = (1 - prior) / prior
    return AttackSuccess(
        _correct(seen, prior),
        _correct(seen, 0.5),
        _recognised_single(seen, prior, t) if isinstance(seen, SingleReport) else _recognised(seen, t),
        prior,
    )


def success_limit(epsilon: float, delta: float) -> float:
    """Return the largest balanced success that (epsilon, delta)-DistP allows: (e^eps + delta)/(e^eps + 1).

    Source: theory 4.8.

    Examples
    --------
    >>> round(success_limit(1.0, 0.001), 4)
    0.7313
    """
    return min(1.0, 1 / (1 + math.exp(-epsilon)) + delta / (math.exp(min(epsilon, 700.0)) + 1))


def _correct(seen: Report, prior: float) -> Bracket:
    if prior > 0.5:
        seen, prior = seen.swapped(), 1 - prior
    divergence = seen.delta((1 - prior) / prior).bracket
    rest = (1 - prior) * seen.masses[1]
    lower, upper = (rest + prior * end for end in (divergence.lower, divergence.upper))
    return Bracket(lower - 8 * UNIT, upper + 8 * UNIT)


def _recognised_single(seen: SingleReport, prior: float, t: float) -> Bracket:
    """Return P's mass where P > t Q, plus half of it where they are equal; what rounding leaves open is width."""
    excess, edge = seen.P - t * seen.Q, (2 * seen.slack + 8 * UNIT) * (seen.P + t * seen.Q)
    low = high = math.fsum(seen.P[excess > edge])
    for p, q in zip(
        *(law[(np.abs(excess) <= edge) & (seen.P > 0)].tolist() for law in (seen.P, seen.Q)), strict=True
    ):
        if seen.slack > 0:
            high += p
        else:  # the laws are exact, and so is this comparison
            gain = Fraction(p) * Fraction(prior) - Fraction(q) * (1 - Fraction(prior))
            low += p / 2 if gain == 0 else p * (gain > 0)
            high = low
    error = (seen.slack + 4 * UNIT) * (1 + high)
    return Bracket(max(0.0, low - error), high + error)


def _recognised(seen: Report, t: float) -> Bracket:
    """Bracket P's mass on {P > t Q}: ``HS_t - t HS'_t``, the slope of a convex curve between two chords."""
    steps = (-_SLOPE_STEP, 0.0, _SLOPE_STEP)
    left, middle, right = (seen.delta(t * (1 + step), 1e-7, 2e-7).bracket for step in steps)
    falls = ((middle.lower - right.upper) / _SLOPE_STEP, (left.upper - middle.lower) / _SLOPE_STEP)
    lower = max(0.0, middle.lower + max(0.0, falls[0]))
    return Bracket(lower, max(lower, min(seen.masses[0] + 8 * UNIT, middle.upper + falls[1])))
