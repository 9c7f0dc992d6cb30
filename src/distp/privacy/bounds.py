"""Closed bounds on a tuple's delta: looser than the accountant, cheaper by far, and a check on it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, nonnegative
from distp.errors import MechanismError
from distp.mechanisms import Tupling
from distp.privacy.single import exp, scaled

_MARGIN = 1 + 1e-9  # rounding of a few hundred operations


class TupleBounds(NamedTuple):
    """Upper bounds on delta, the larger of both orders; ``normal`` is an approximation, not a bound."""

    hoeffding: float
    bennett: float
    chernoff: float
    normal: float


def tuple_bounds(mechanism: Tupling, p: ArrayLike, q: ArrayLike, epsilon: float) -> TupleBounds:
    """Return Hoeffding's, Bennett's and Chernoff's bounds on a tuple's delta, and the normal approximation.

    Parameters
    ----------
    mechanism : Tupling
        Independent dummies that can take every output that p or q reach.
    p, q : array_like, shape (|X|,)
    epsilon : float
        >= 0. Hoeffding's bound is infinite at 0.

    Notes
    -----
    Source: theory 4.3 and 4.5.

    Examples
    --------
    >>> from distp.mechanisms import Identity
    >>> found = tuple_bounds(Tupling(Identity(4), 5), [.5, .3, .2, 0], [.1, .2, .3, .4], 0.5)
    >>> [round(value, 3) for value in found]
    [1.012, 0.636, 0.11, 0.059]
    """
    epsilon = nonnegative(epsilon, "epsilon")
    if not isinstance(mechanism, Tupling) or not mechanism.replacement:
        raise MechanismError("the bounds are those of tuples with independent dummies")
    P, Q, nu = mechanism.lift(p), mechanism.lift(q), mechanism.dummy_distribution
    if ((nu == 0) & ((P > 0) | (Q > 0))).any():
        raise MechanismError("the bounds need dummies that can take every output that p or q reach")
    covered = nu > 0
    m, t = mechanism.dummies + 1, exp(epsilon)
    found = [_one_order(a[covered], b[covered], nu[covered], m, t) for a, b in ((P, Q), (Q, P))]
    return TupleBounds(*(max(values) for values in zip(*found, strict=True)))


def _one_order(P: FloatArray, Q: FloatArray, nu: FloatArray, m: int, t: float) -> tuple[float, float, float, float]:
    g = (P - scaled(t, Q)) / nu
    a, top, low = t - 1, float(g.max()), float(g.min())
    if top <= 0:
        return 0.0, 0.0, 0.0, 0.0
    if math.isinf(low):
        return math.inf, math.inf, math.inf, math.nan
    spread = top - low
    hoeffding = spread**2 / (4 * a * m) * math.exp(-2 * m * a**2 / spread**2) if a > 0 else math.inf
    second = float(nu @ g**2)
    u = a * top / second
    if u > 0:
        bennett = top / (m * math.log1p(u)) * math.exp(-m * second / top**2 * ((1 + u) * math.log1p(u) - u))
    else:
        bennett = math.inf
    variance = second - float(nu @ g) ** 2
    z = a * math.sqrt(m / variance)
    density, beyond = math.exp(-z * z / 2) / math.sqrt(2 * math.pi), math.erfc(z / math.sqrt(2)) / 2
    normal = math.sqrt(variance / m) * (density - z * beyond)
    return hoeffding * _MARGIN, bennett * _MARGIN, _chernoff(g, nu, m, top), normal


def _chernoff(g: FloatArray, nu: FloatArray, m: int, top: float) -> float:
    """Minimise ``(E e^(theta g))^m / (e theta m)`` over a row of theta: every one of them gives a bound."""
    theta = np.geomspace(1e-4, 300, 200) / top
    log_moment = np.log(np.exp(np.maximum(np.outer(theta, g), -700.0)) @ nu)
    return math.exp(min(float(np.min(m * log_moment - 1 - np.log(theta * m))), 700.0)) * _MARGIN


def pairwise_chernoff(laws: FloatArray, nu: FloatArray, m: int, t: float) -> FloatArray:
    """Return Chernoff's bound for every ordered pair of rows of ``laws`` (shape (n, |Y|)), shape (n, n).

    ``e^(theta g)`` is a product of one factor for each of the two laws, so one matrix product serves all pairs.
    """
    density = laws / nu
    top = float(density.max())
    best = np.full((laws.shape[0],) * 2, np.inf)
    for theta in np.geomspace(1e-2, 300, 24) / top:
        moments = (np.exp(theta * density) * nu) @ np.exp(np.maximum(-theta * t * density, -700.0)).T
        best = np.minimum(best, m * np.log(moments) - 1 - math.log(theta * m))
    bounds: FloatArray = np.exp(np.minimum(best, 0.0)) * _MARGIN
    return bounds
