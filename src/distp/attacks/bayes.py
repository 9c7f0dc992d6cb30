"""The Bayes attacker who sees one report (or tuple) and guesses the attribute, exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import ArrayLike

from distp.checks import probability
from distp.errors import ParameterError
from distp.mechanisms import Mechanism
from distp.privacy.accountant import Report, SingleReport, report
from distp.privacy.bracket import Bracket

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
        _recognised_single(seen, t) if isinstance(seen, SingleReport) else _recognised(seen, t),
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
    divergence = seen.delta((1 - prior) / prior)
    return Bracket(1 - prior + prior * divergence.lower, min(1.0, 1 - prior + prior * divergence.upper * (1 + 1e-15)))


def _recognised_single(seen: SingleReport, t: float) -> Bracket:
    """Return P's mass where P > t Q, plus half of it where they are equal (to the rounding of P and Q)."""
    excess, edge = seen.P - t * seen.Q, (2 * seen.slack + 1e-14) * (seen.P + t * seen.Q)
    sure, tied = float(seen.P[excess > edge].sum()), float(seen.P[abs(excess) <= edge].sum())
    value = sure + tied / 2
    return Bracket(max(0.0, value - 1e-12), min(1.0, value + 1e-12))


def _recognised(seen: Report, t: float) -> Bracket:
    """Bracket P's mass on {P > t Q}: ``HS_t - t HS'_t``, the slope of a convex curve between two chords."""
    left, middle, right = (seen.delta(t * (1 + step), 1e-7, 2e-7) for step in (-_SLOPE_STEP, 0.0, _SLOPE_STEP))
    falls = ((middle.lower - right.upper) / _SLOPE_STEP, (left.upper - middle.lower) / _SLOPE_STEP)
    lower = max(0.0, middle.lower + max(0.0, falls[0]))
    return Bracket(min(1.0, lower), min(1.0, max(lower, middle.upper + falls[1])))
