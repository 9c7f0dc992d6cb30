"""What extended DP of a mechanism gives for a pair of distributions by optimal transport of a cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, nonnegative
from distp.errors import ParameterError
from distp.privacy.accountant import check_epsilon
from distp.privacy.bracket import Bracket
from distp.privacy.single import LEAST, UNIT
from distp.spaces import Space
from distp.transport import transport_cost
from distp.transport.ground import checked


def transported_delta(
    p: ArrayLike, q: ArrayLike, distances: Space | ArrayLike, rate: float, epsilon: float
) -> Bracket:
    """Return the delta at ``epsilon`` that (rate, d, 0)-XDP gives for a pair, by transport of the hockey-stick.

    Parameters
    ----------
    p, q : array_like, shapes (n,) and (m,)
    distances : Space or array_like, shape (n, m)
    rate : float
        The mechanism's XDP epsilon per unit of distance.
    epsilon : float
        >= 0.

    Returns
    -------
    Bracket
        Of the least transport cost. Its upper end bounds delta of every such mechanism, in both orders, because
        distances do not depend on the order; its lower end says nothing about a mechanism.

    Notes
    -----
    Theory 3.2, variant (b): the cost of moving by d is the delta of the worst pair that is pure ``rate d``-DP,
    ``(e^(rate d) - e^epsilon)_+ / (1 + e^(rate d))``.

    Examples
    --------
    >>> from distp.spaces import Space
    >>> round(transported_delta([2, 3, 5], [3, 5, 2], Space([0.0, 1.0, 2.0]), 1.0, 0.0).upper, 6)
    0.168583
    """
    d = _matrix(p, q, distances)
    rate, epsilon = nonnegative(rate, "rate"), check_epsilon(epsilon)

    def cost(t: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore", over="ignore"):
            beyond = np.where(t > epsilon, t - epsilon, 0.0)  # inf - inf never counts
        worst: FloatArray = -np.expm1(-beyond) / (1 + np.exp(-t))
        return worst

    return _transported(p, q, *_ends(cost, rate, d))


def earth_mover_bound(
    p: ArrayLike, q: ArrayLike, distances: Space | ArrayLike, rate: float, divergence: Literal["KL", "TV"] = "KL"
) -> float:
    """Return an upper bound on a divergence of the reports of a (rate, d, 0)-XDP mechanism.

    Parameters
    ----------
    p, q : array_like, shapes (n,) and (m,)
    distances : Space or array_like, shape (n, m)
    rate : float
        The mechanism's XDP epsilon per unit of distance.
    divergence : {"KL", "TV"}
        Kullback-Leibler in nats, or total variation.

    Returns
    -------
    float
        Rounded up. The same for both orders.

    Raises
    ------
    ParameterError
        Another divergence.

    Notes
    -----
    Theory 5.6, with the cost ``t tanh(t / 2)`` for KL and ``tanh(t / 2)`` for TV of moving by ``t = rate d``. As
    ``t tanh(t / 2) <= min(t, t^2 / 2)``, it is never above ``rate W_1`` or ``rate^2 W_2^2 / 2``.

    Examples
    --------
    >>> from distp.spaces import Space
    >>> round(earth_mover_bound([2, 3, 5], [3, 5, 2], Space([0.0, 1.0, 2.0]), 1.0), 6)
    0.184847
    """
    d = _matrix(p, q, distances)
    rate = nonnegative(rate, "rate")
    if divergence == "TV":
        return _transported(p, q, *_ends(lambda t: np.tanh(t / 2), rate, d)).upper
    if divergence != "KL":
        raise ParameterError(f"divergence {divergence!r} is unknown: use 'KL' or 'TV'")

    def cost(t: FloatArray) -> FloatArray:
        with np.errstate(under="ignore"):
            return np.maximum(t * np.tanh(t / 2), np.where(t > 0, 5e-324, 0.0))

    upper = _transported(p, q, *_ends(cost, rate, d), most=math.inf).upper
    # Masses times costs may underflow where something has to move.
    return upper if rate == 0 or np.array_equal(p, q) else max(upper, 5e-324)


def _matrix(p: ArrayLike, q: ArrayLike, distances: Space | ArrayLike) -> FloatArray:
    return checked(distances, p, q).array()


def _ends(cost: Callable[[FloatArray], FloatArray], rate: float, d: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a lower and an upper end of a cost that rises with ``t = rate d``."""
    with np.errstate(over="ignore"):
        t = rate * d
        below = t * (1 - 2 * UNIT)
        above = np.where((d > 0) & (rate > 0), np.maximum(t * (1 + 4 * UNIT), LEAST), 0.0)  # t may underflow
        # The functions used are within a few units of their last place.
        return cost(below) * (1 - 16 * UNIT), cost(above) * (1 + 16 * UNIT)


def _transported(p: ArrayLike, q: ArrayLike, low: FloatArray, high: FloatArray, most: float = 1.0) -> Bracket:
    """Return a bracket of the least transport cost, at most ``most``, for a cost between ``low`` and ``high``."""
    largest = float(high.max())
    if math.isinf(largest):
        return Bracket(0.0, most)
    found = transport_cost(p, q, high)
    # Whole units of mass differ from the floats given by this much, at either end.
    edge = 2 * found.error * largest
    # The coupling's own cost is an upper end, whatever the solver did.
    arcs = found.coupling
    value = math.fsum(high[arcs.sources, arcs.targets] * arcs.masses) * (1 + 8 * UNIT) + edge
    lower = found.lower - edge - float((high - low).max())
    upper = min(most, math.nextafter(value, math.inf) if value > 0 else 0.0)
    return Bracket(min(max(0.0, lower * (1 - 4 * UNIT)), upper), upper)
