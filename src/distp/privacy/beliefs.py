"""What a guarantee becomes against an attacker whose beliefs of the distributions are only close to them."""

from __future__ import annotations

import math
from fractions import Fraction

from distp.checks import nonnegative, probability
from distp.privacy.accountant import check_epsilon
from distp.privacy.bracket import Bracket
from distp.privacy.guarantees import Guarantee, preprocessed
from distp.privacy.upward import add, ceiling, power, product


def close_beliefs(epsilon: float, delta: Bracket | float, tv: float) -> Bracket:
    """Return delta against an attacker whose beliefs of both distributions are off by at most ``tv``.

    Parameters
    ----------
    epsilon : float
        >= 0; it stays.
    delta : Bracket or float
        Of the true pair at ``epsilon``. Of a mere bound only the upper end of the result means something.
    tv : float
        In [0, 1]: total variation between each belief and the truth, or between the reports of both.

    Returns
    -------
    Bracket
        Contains delta of the believed pair: at most ``delta + tv (1 + e^epsilon)``, and at least the same less.

    Notes
    -----
    Theory, section 2, DistP version (b). It also accounts for distributions that were estimated from data.

    Examples
    --------
    >>> found = close_beliefs(0.0, 0.01, 0.001)
    >>> round(found.lower, 6), round(found.upper, 6)
    (0.008, 0.012)
    """
    epsilon, tv = check_epsilon(epsilon), probability(tv, "tv")
    known = delta if isinstance(delta, Bracket) else Bracket(probability(delta, "delta"), float(delta))
    spread = product(tv, add(1.0, power(epsilon)))
    upper = min(1.0, add(known.upper, spread))
    below = 0.0 if math.isinf(spread) else -ceiling(Fraction(spread) - Fraction(known.lower))
    return Bracket(min(max(0.0, below), upper), upper)


def close_beliefs_metric(
    rate: float, distance: float, belief: float, delta: float = 0.0, *, closed: bool = False
) -> Guarantee:
    """Return what (rate, d, delta)-XDistP gives against an attacker with (belief, d)-close beliefs.

    Parameters
    ----------
    rate : float
        Epsilon per unit of distance between distributions.
    distance : float
        Between the two true distributions.
    belief : float
        Distance between each of them and what the attacker believes, at most.
    delta : float
    closed : bool
        The believed pair is itself among those that XDistP covers; delta then stays.

    Returns
    -------
    Guarantee
        ``rate (distance + 2 belief)`` with ``delta``, or along the chain belief, truth, truth, belief with
        ``delta (1 + e^(rate belief) + e^(rate (belief + distance)))``.

    Notes
    -----
    Theory, Proposition 1.

    Examples
    --------
    >>> close_beliefs_metric(0.5, 2.0, 1.0).epsilon
    2.0
    """
    rate, delta = nonnegative(rate, "rate"), probability(delta, "delta")
    distance, belief = nonnegative(distance, "distance"), nonnegative(belief, "belief")
    exponent = product(rate, add(distance, product(2.0, belief)))
    near = f"every belief is within {belief:g} of its distribution, and the distance is a metric"
    if closed:
        return Guarantee(exponent, delta, (near, f"the believed pair is covered by ({rate:g}, d, {delta:g})-XDistP"))
    first, second = power(product(rate, belief)), power(product(rate, add(belief, distance)))
    added = product(delta, add(1.0, add(first, second)))
    covered = "the pairs (belief, truth), (truth, truth) and (truth, belief) are covered by"
    return Guarantee(exponent, min(1.0, added), (near, f"{covered} ({rate:g}, d, {delta:g})-XDistP"))


def close_beliefs_chain(epsilon: float, delta: float) -> Guarantee:
    """Return what (epsilon, delta)-DistP gives against beliefs that it covers together with the truth.

    Returns
    -------
    Guarantee
        ``(3 epsilon, delta (1 + e^epsilon + e^(2 epsilon)))``.

    Notes
    -----
    Theory, section 2, DistP version (a).

    Examples
    --------
    >>> close_beliefs_chain(0.5, 0.0).epsilon
    1.5
    """
    step = preprocessed((epsilon, delta), 3)
    covered = "the pairs (belief, truth), (truth, truth) and (truth, belief) are covered by"
    return Guarantee(step.epsilon, step.delta, (f"{covered} ({epsilon:g}, {delta:g})-DistP",))
