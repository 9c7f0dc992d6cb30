"""The paper's bound for the tupling mechanism, kept for comparison: the accountant does not use it."""

from __future__ import annotations

import math
from typing import NamedTuple

from distp.checks import count, positive, probability
from distp.errors import ParameterError


class Theorem3(NamedTuple):
    """The paper's (epsilon, delta) at eta = 0."""

    epsilon: float
    delta: float


def theorem3(dummies: int, outputs: int, beta: float, alpha: float) -> Theorem3:
    """Return what the paper's Theorem 3 claims, with eta = 0 (the part that is proven).

    Parameters
    ----------
    dummies : int
        k >= 1.
    outputs : int
        |Y|; dummies are uniform over it.
    beta : float
        Upper limit on every output probability of every distribution, in (0, 1].
    alpha : float
        In (0, k/|Y|): the trade between epsilon and delta.

    Notes
    -----
    Source: theory 3.5.

    Examples
    --------
    >>> theorem3(100, 276, 0.01, 0.2).epsilon
    1.26013369...
    """
    k, n = count(dummies, "dummies", 1), count(outputs, "outputs", 1)
    beta, alpha = positive(probability(beta, "beta"), "beta"), positive(alpha, "alpha")
    if alpha >= k / n:
        raise ParameterError(f"alpha must be below dummies/outputs = {k / n:g}, got {alpha:g}")
    return Theorem3(math.log((k + (alpha + beta) * n) / (k - alpha * n)), 2 * math.exp(-2 * alpha**2 / (k * beta**2)))


def theorem3_excess(
    dummies: int, outputs: int, beta: float, alpha: float, excess_p: float, excess_q: float
) -> Theorem3:
    """Return the proven replacement for eta > 0: any two distributions, with their mass above ``beta``.

    Parameters
    ----------
    dummies, outputs, beta, alpha
        As for `theorem3`.
    excess_p, excess_q : float
        ``sum_y (p_t[y] - beta)_+`` of the lifted distributions: at most their output mass above beta.

    Notes
    -----
    Source: theory 3.7, the larger of both orders. With both excesses 0 it is Theorem 3 at eta = 0. (The paper's
    bare ``+ eta`` is false under one reading of eta and unproven under the other: theory 3.8.)

    Examples
    --------
    >>> theorem3_excess(100, 276, 0.01, 0.2, 0.0, 0.0) == theorem3(100, 276, 0.01, 0.2)
    True
    """
    excess_p, excess_q = probability(excess_p, "excess_p"), probability(excess_q, "excess_q")
    plain = theorem3(dummies, outputs, beta, alpha)
    ratio = math.exp(plain.epsilon)
    orders = (
        (1 - first) * plain.delta + max(first, ratio * second)
        for first, second in ((excess_p, excess_q), (excess_q, excess_p))
    )
    return Theorem3(plain.epsilon, max(orders))


def theorem3_epsilon(dummies: int, outputs: int, beta: float, delta: float) -> float:
    """Return the least epsilon that Theorem 3 gives at ``delta``: ``inf`` where it says nothing.

    Source: theory 3.5, with alpha solved from delta.

    Examples
    --------
    >>> round(theorem3_epsilon(100, 276, 2 / 276, 0.001), 3)
    0.838
    """
    k, n = count(dummies, "dummies", 0), count(outputs, "outputs", 1)
    beta, delta = positive(probability(beta, "beta"), "beta"), positive(delta, "delta")
    alpha = beta * math.sqrt(k * max(0.0, math.log(2 / delta)) / 2)
    if alpha >= k / n or k == 0:
        return math.inf
    if alpha == 0:
        return math.log1p(beta * n / k)
    return theorem3(k, n, beta, alpha).epsilon
