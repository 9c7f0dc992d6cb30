"""What one guarantee implies for another: lifted relations, transport, other inputs, mixtures.

Every number is rounded up, so that it may be claimed; each guarantee says what it assumes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import count, distribution, nonnegative, probability
from distp.errors import ParameterError
from distp.privacy.accountant import check_epsilon
from distp.privacy.single import UNIT
from distp.privacy.upward import add, capped, ceiling, power, product
from distp.spaces import Space
from distp.transport import lifted, wasserstein_inf
from distp.transport.masses import whole


@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) that follows from others.

    Attributes
    ----------
    epsilon : float
        >= 0; ``inf`` where nothing follows.
    delta : float
        In [0, 1].
    assumes : tuple of str
        What has to hold for it, in words.
    """

    epsilon: float
    delta: float
    assumes: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", probability(self.delta, "delta"))
        object.__setattr__(self, "assumes", tuple(self.assumes))


def theorem1(p: ArrayLike, q: ArrayLike, relation: ArrayLike, epsilon: float, delta: float = 0.0) -> Guarantee:
    """Return what (epsilon, delta)-DP for all related values gives for a pair of distributions.

    Parameters
    ----------
    p, q : array_like, shapes (n,) and (m,)
        Counts, taken exactly, or probabilities, whose rounding (about 1e-15) then counts towards delta.
    relation : array_like of bool, shape (n, m)
        The pairs (x, x') for which the mechanism is (epsilon, delta)-DP, "x as if x'".
    epsilon, delta : float

    Returns
    -------
    Guarantee
        (epsilon, delta) for "p as if q"; for both orders if the relation is symmetric.

    Raises
    ------
    ParameterError
        The pair is not in the lifted relation; the message names a set that shows it.

    Notes
    -----
    Theory 3.1: delta in place of the paper's delta |Phi|.

    Examples
    --------
    >>> relation = [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    >>> found = theorem1([2, 3, 5], [3, 5, 2], relation, 1.0, 0.01)
    >>> found.epsilon, found.delta
    (1.0, 0.01)
    """
    epsilon, delta = check_epsilon(epsilon), probability(delta, "delta")
    answer = lifted(p, q, relation)
    if not answer.holds:
        assert answer.witness is not None
        inside = answer.witness.tolist()
        shown = ", ".join(map(str, inside[:10])) + (", ..." if len(inside) > 10 else "")
        raise ParameterError(
            f"(p, q) is not in the lifted relation: p gives the set S = {{{shown}}} more by {float(answer.excess):g} "
            "than q gives all values related to S, so no coupling stays within the relation"
        )
    n, m = np.shape(relation)
    rounding = whole(p, q, (n, m)).error
    return Guarantee(
        epsilon,
        capped(Fraction(delta) + _moved(rounding, epsilon)),
        (
            f"the mechanism is ({epsilon:g}, {delta:g})-DP for every pair (x, x') of the relation, x as if x'",
            "one report of one value drawn from p, or from q",
            *_of_rounding(rounding),
        ),
    )


def theorem2(
    p: ArrayLike,
    q: ArrayLike,
    distances: Space | ArrayLike,
    epsilon: float,
    delta: float = 0.0,
    slack: float = 0.0,
) -> Guarantee:
    """Return what (epsilon, d, delta)-XDP of a mechanism gives for a pair of distributions, in both orders.

    Parameters
    ----------
    p, q : array_like, shapes (n,) and (m,)
        Counts, taken exactly, or probabilities, whose rounding (about 1e-15) then counts towards delta.
    distances : Space or array_like, shape (n, m)
    epsilon : float
        Per unit of distance.
    delta : float
    slack : float
        In [0, 1]: mass that may move any distance.

    Returns
    -------
    Guarantee
        ``(epsilon W^slack(p, q), delta + slack)``; the slack that the coupling uses may be less.

    Notes
    -----
    Theory 3.2, variant (a). Pairs of the coupling within W^slack keep the XDP bound, and the others' reports are
    at most the mass that they carry: ``delta (1 - slack) + slack``, which is less than the sum by their product.

    Examples
    --------
    >>> from distp.spaces import Space
    >>> found = theorem2([2, 3, 5], [3, 5, 2], Space([0.0, 1.0, 2.0]), 0.5)
    >>> found.epsilon, found.delta
    (0.5, 0.0)
    """
    epsilon, delta = nonnegative(epsilon, "epsilon"), probability(delta, "delta")
    slack = probability(slack, "slack")
    moved = wasserstein_inf(p, q, distances, slack)
    total = product(epsilon, moved.value)
    return Guarantee(
        total,
        capped(Fraction(delta) + max(Fraction(slack), moved.left) + _moved(moved.error, total)),
        (
            f"the mechanism is ({epsilon:g}, d, {delta:g})-XDP for every pair of inputs, d the given distances",
            f"all but {slack:g} of the mass moves at most {moved.value:g} from p to q",
            "one report of one value drawn from p, or from q",
            *_of_rounding(moved.error),
        ),
    )


def preprocessed(guarantee: Guarantee | tuple[float, float], stability: int) -> Guarantee:
    """Return what remains of a guarantee behind a transformation of the distributions.

    Parameters
    ----------
    guarantee : Guarantee or (epsilon, delta)
        Of the mechanism, for the related pairs.
    stability : int
        c >= 1: related distributions become distributions at most c related steps apart.

    Returns
    -------
    Guarantee
        ``(c epsilon, delta (1 + e^epsilon + ... + e^((c - 1) epsilon)))``.

    Notes
    -----
    Theory 5.4. It is also what c steps of a chain of covered pairs give. Post-processing changes no number (5.3).

    Examples
    --------
    >>> found = preprocessed((0.0, 0.25), 2)
    >>> found.epsilon, found.delta
    (0.0, 0.5)
    """
    one = _as_guarantee(guarantee)
    c = count(stability, "stability", 1)
    # Without a delta the factor does not matter, and may be infinite.
    factor = _geometric(one.epsilon, c) if one.delta > 0 else 1.0
    return Guarantee(
        product(one.epsilon, ceiling(Fraction(c))),
        min(1.0, product(one.delta, factor)),
        (*one.assumes, f"the transformation turns related distributions into ones at most {c} related steps apart"),
    )


def mixed(parts: Sequence[tuple[float, Guarantee | tuple[float, float]]]) -> Guarantee:
    """Return the guarantee of using one of several mechanisms at random.

    Parameters
    ----------
    parts : sequence of (weight, Guarantee)
        Weights are the probabilities of the mechanisms, chosen without looking at the data; they sum to 1.

    Returns
    -------
    Guarantee
        ``(largest epsilon, sum of weight delta)``, over the parts of positive weight.

    Notes
    -----
    Theory 5.5, over mechanisms. Over distributions: a guarantee for a family holds for all its mixtures unchanged.

    Examples
    --------
    >>> found = mixed([(0.5, Guarantee(1.0, 0.0, ())), (0.5, Guarantee(0.5, 0.25, ()))])
    >>> found.epsilon, found.delta
    (1.0, 0.125)
    """
    weights = distribution([weight for weight, _ in parts], None, "weights")
    used = [(float(w), _as_guarantee(one)) for w, (_, one) in zip(weights, parts, strict=True) if w > 0]
    assumed = dict.fromkeys(text for _, one in used for text in one.assumes)
    return Guarantee(
        max(one.epsilon for _, one in used),
        capped(sum((Fraction(w) * Fraction(one.delta) for w, one in used), Fraction(0))),
        (*assumed, "the mechanism is chosen at random, by weights that do not depend on the data"),
    )


def _as_guarantee(value: Guarantee | tuple[float, float]) -> Guarantee:
    if isinstance(value, Guarantee):
        return value
    if not isinstance(value, tuple) or len(value) != 2:
        raise ParameterError(f"a guarantee is a Guarantee or a pair (epsilon, delta), got {value!r}")
    return Guarantee(value[0], value[1], ())


def _geometric(epsilon: float, c: int) -> float:
    """Return at least ``sum_{i < c} e^(i epsilon)``."""
    if epsilon == 0 or c == 1:
        return ceiling(Fraction(c))
    exponent = product(epsilon, ceiling(Fraction(c)))
    if exponent > 709:
        return math.inf
    # Both functions are within a unit of their last place; the quotient rounds once.
    return math.expm1(exponent) / math.expm1(epsilon) * (1 + 8 * UNIT)


def _moved(rounding: float, epsilon: float) -> Fraction:
    """Return what the rounding of masses to whole units adds to delta: both laws, and what stays behind."""
    if rounding == 0:
        return Fraction(0)
    added = product(rounding, add(2.0, power(epsilon)))
    return Fraction(1) if math.isinf(added) else Fraction(added)


def _of_rounding(rounding: float) -> tuple[str, ...]:
    if rounding == 0:
        return ()
    return (f"probabilities are floats, taken to {rounding:.2g} of the mass; delta includes that (counts are exact)",)
