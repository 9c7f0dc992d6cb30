"""How far apart the reports of two distributions are, in the divergences of the field."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, positive, real
from distp.errors import MechanismError
from distp.mechanisms import Mechanism
from distp.privacy import accountant
from distp.privacy.accountant import RTOL, SingleReport
from distp.privacy.bracket import Bracket
from distp.privacy.single import LEAST, UNIT


def total_variation(mechanism: Mechanism, p: ArrayLike, q: ArrayLike, *, rtol: float = RTOL) -> Bracket:
    """Return the total variation between the reports under ``p`` and under ``q``: delta at epsilon 0.

    Parameters
    ----------
    mechanism : Mechanism
        One report or a tuple of any length.
    p, q : array_like, shape (|X|,)
    rtol : float
        Relative width that the bracket must reach.

    Returns
    -------
    Bracket
        In [0, 1]: the best attacker's advantage is this.

    Notes
    -----
    Theory, section 1: ``max_R P[R] - Q[R]``.

    Examples
    --------
    >>> from distp.mechanisms import RandomizedResponse
    >>> round(total_variation(RandomizedResponse(2, 1.0), [1, 0], [0, 1]).upper, 6)
    0.462117
    """
    return accountant.delta(mechanism, p, q, 0.0, rtol=rtol)


def kl_divergence(mechanism: Mechanism, p: ArrayLike, q: ArrayLike) -> Bracket:
    """Return the Kullback-Leibler divergence of the report under ``p`` from the report under ``q``, in nats.

    Parameters
    ----------
    mechanism : Mechanism
        One report, or a tuple that is short enough to be listed.
    p, q : array_like, shape (|X|,)

    Returns
    -------
    Bracket
        ``sum_y P[y] ln(P[y] / Q[y])``, at least 0; ``inf`` where only ``p`` can produce an output.

    Raises
    ------
    MechanismError
        A tuple too long to list: its base's divergence is an upper bound.

    Notes
    -----
    Theory 5.6.

    Examples
    --------
    >>> from distp.mechanisms import RandomizedResponse
    >>> round(kl_divergence(RandomizedResponse(2, 1.0), [1, 0], [0, 1]).upper, 6)  # epsilon tanh(epsilon / 2)
    0.462117
    """
    laws = _laws(mechanism, p, q)
    if laws.only_p:
        return Bracket(math.inf, math.inf)
    logs, wrong = _log_ratio(laws.P, laws.Q)
    value = math.fsum(laws.P * logs)
    error = math.fsum(laws.P * ((laws.slack + 8 * UNIT) * np.abs(logs) + wrong + 2.2 * laws.slack))
    if logs.any():
        error += laws.P.size * 5e-324  # products that underflow
    if laws.lost:
        # Merging the entries that may have lost digits gives a lower end; only those that Q surely has, an upper one.
        p_rest, q_rest = laws.rest
        merged = p_rest * math.log(p_rest / (q_rest + laws.lost)) if p_rest > 0 else 0.0
        lower = value - error + merged - 1e-12 * abs(merged)
        return Bracket(max(0.0, lower), math.inf)
    return Bracket(max(0.0, value - error), max(0.0, value + error))


def renyi_divergence(mechanism: Mechanism, p: ArrayLike, q: ArrayLike, order: float) -> Bracket:
    """Return the Renyi divergence of the report under ``p`` from the report under ``q``, in nats.

    Parameters
    ----------
    mechanism : Mechanism
        One report, or a tuple that is short enough to be listed.
    p, q : array_like, shape (|X|,)
    order : float
        alpha > 0. At 1 it is the Kullback-Leibler divergence, at ``inf`` the pure epsilon of "p as if q".

    Returns
    -------
    Bracket
        ``ln(sum_y P[y]^alpha Q[y]^(1 - alpha)) / (alpha - 1)``, at least 0; ``inf`` from order 1 on where only
        ``p`` can produce an output, below 1 where no output is common. Rounding leaves it the wider, the nearer
        the order is to 1.

    Raises
    ------
    ParameterError
        An order that is not > 0.
    MechanismError
        A tuple too long to list: its base's divergence is an upper bound.

    Notes
    -----
    Theory 5.6 (and 8.1).

    Examples
    --------
    >>> from distp.mechanisms import RandomizedResponse
    >>> mechanism = RandomizedResponse(2, 1.0)
    >>> [round(renyi_divergence(mechanism, [1, 0], [0, 1], a).upper, 4) for a in (0.5, 2, float("inf"))]
    [0.2402, 0.7353, 1.0]
    """
    order = real(order, "order")
    if math.isinf(order) and order > 0:
        return accountant.epsilon(mechanism, p, q, 0.0, ordered=True)
    alpha = positive(order, "order")
    if alpha == 1:
        return kl_divergence(mechanism, p, q)
    laws = _laws(mechanism, p, q)
    if laws.only_p and (alpha > 1 or not laws.P.size):
        return Bracket(math.inf, math.inf)
    if laws.lost:
        # No entry is known well enough to be weighed by a power: the order-free ends are valid.
        return Bracket(0.0, math.inf)
    step = alpha - 1
    logs, wrong = _log_ratio(laws.P, laws.Q)
    log_p = np.log(laws.P)
    exponent = log_p + step * logs
    largest = float(exponent.max())
    weight = np.exp(exponent - largest)
    total = math.fsum(weight)
    rounding = 4 * UNIT * np.abs(log_p) + abs(step) * wrong + 4 * UNIT * (np.abs(exponent) + abs(step * logs) + 2)
    # Each entry's own rounding counts as much as the entry; the lifted laws' errors are at most slack each.
    error = 1.1 * math.fsum(weight * np.expm1(np.minimum(rounding, 1.0))) / total + 1.1 * laws.slack
    if error > 0.05:  # of an order beyond 1e13 or so
        return Bracket(0.0, math.inf)
    log_sum = largest + math.log(total)
    error += 4 * UNIT * (abs(largest) + abs(log_sum) + 1)
    value = log_sum / step
    edge = error / abs(step) + 2.2 * laws.slack + 4 * UNIT * abs(value)
    return Bracket(max(0.0, value - edge), max(0.0, value + edge))


def hellinger_distance(mechanism: Mechanism, p: ArrayLike, q: ArrayLike) -> Bracket:
    """Return the Hellinger distance between the reports under ``p`` and under ``q``.

    Parameters
    ----------
    mechanism : Mechanism
        One report, or a tuple that is short enough to be listed.
    p, q : array_like, shape (|X|,)

    Returns
    -------
    Bracket
        ``sqrt(sum_y (sqrt P[y] - sqrt Q[y])^2 / 2)``, in [0, 1].

    Raises
    ------
    MechanismError
        A tuple too long to list: its base's distance is an upper bound.

    Examples
    --------
    >>> from distp.mechanisms import Identity
    >>> hellinger_distance(Identity(2), [1, 0], [0, 1]).upper
    1.0
    """
    seen = _single(mechanism, p, q)
    roots = np.sqrt(seen.P), np.sqrt(seen.Q)
    apart = np.abs(roots[0] - roots[1])
    wrong = (0.6 * seen.slack + 2 * UNIT) * (roots[0] + roots[1])
    wrong[seen.P == seen.Q] = 0.6 * seen.slack * 2 * roots[0][seen.P == seen.Q]
    lost = seen.lost
    low = math.fsum(np.maximum(apart - wrong, 0.0) ** 2) / 2 * (1 - 8 * UNIT) - lost - _root_loss(seen)
    high = math.fsum((apart + wrong) ** 2) / 2 * (1 + 8 * UNIT) + lost + _root_loss(seen)
    lower = math.sqrt(max(0.0, low)) * (1 - 2 * UNIT)
    return Bracket(lower, max(lower, min(1.0, math.sqrt(high) * (1 + 2 * UNIT))))


def _root_loss(seen: SingleReport) -> float:
    """Bound what losing ``lost`` of either law changes in half the sum of squares: cross terms by Cauchy."""
    if not seen.lost:
        return 0.0
    small = (seen.P < LEAST) | (seen.Q < LEAST)
    mass = math.fsum(seen.P[small]) + math.fsum(seen.Q[small]) + 2 * seen.lost
    return 2 * math.sqrt(mass * seen.lost)


class _Laws(NamedTuple):
    """What both laws can produce; ``rest`` are the masses of entries that may have lost digits."""

    P: FloatArray
    Q: FloatArray
    slack: float
    lost: float
    rest: tuple[float, float]
    only_p: bool


def _single(mechanism: Mechanism, p: ArrayLike, q: ArrayLike) -> SingleReport:
    seen = accountant.report(mechanism, p, q)
    if isinstance(seen, SingleReport):
        return seen
    raise MechanismError(
        "this tuple is too long to list its laws: only delta, epsilon, profile and total_variation are available. "
        "The divergence of its base is an upper bound, because adding dummies only processes the real report"
    )


def _laws(mechanism: Mechanism, p: ArrayLike, q: ArrayLike) -> _Laws:
    seen = _single(mechanism, p, q)
    P, Q = seen.P, seen.Q
    if not seen.lost:
        both = (P > 0) & (Q > 0)
        return _Laws(P[both], Q[both], seen.slack, 0.0, (0.0, 0.0), bool(((P > 0) & (Q == 0)).any()))
    both = (P >= LEAST) & (Q >= LEAST)
    return _Laws(P[both], Q[both], seen.slack, seen.lost, (math.fsum(P[~both]), math.fsum(Q[~both])), False)


def _log_ratio(P: FloatArray, Q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return ``ln(P / Q)`` and a bound on its error, entry by entry."""
    with np.errstate(over="ignore", under="ignore"):
        near = (P - Q) / Q
        ratio = P / Q
    close = np.abs(near) < 0.5  # the difference is exact there, so the logarithm is exact to its own size
    plain = (ratio > 1e-300) & (ratio < 1e300)
    logs = np.where(close, np.log1p(np.where(close, near, 0.0)), np.log(np.where(plain, ratio, 1.0)))
    logs = np.where(plain, logs, np.log(P) - np.log(Q))
    wrong = np.where(close, 8 * UNIT * np.abs(logs), 2 * UNIT + 4 * UNIT * np.abs(logs))
    return logs, np.where(plain, wrong, 8 * UNIT * 745.0)
