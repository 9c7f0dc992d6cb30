"""How much planar Laplace noise falls into a rectangle: one integral over the angle, to full relative accuracy.

With the noise at the origin, the ray at angle ``theta`` is inside the rectangle from ``r_in`` to ``r_out``, and

    mass = 1 / (2 pi)  *  integral of  S(r_in) - S(r_out)  over theta,     S(r) = (1 + epsilon r) e^(-epsilon r).

Angles are split at the axes and at the corners, so that one edge is entered and one left in each arc. An edge at
distance ``a`` from the origin is written as ``r = a cosh v``, ``dtheta = dv / cosh v``, and one at a right angle to
it as ``r = b coth v``: in ``v``, edges that are near, far, or without an end look alike.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from distp.checks import FloatArray, IntArray
from distp.errors import MechanismError

_ORDER = 20
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(_ORDER)
# From the values at the nodes to the last four coefficients of the polynomial through them.
_LAST = np.arange(_ORDER - 4, _ORDER)
_TAIL = np.polynomial.legendre.legvander(_NODES, _ORDER - 1)[:, _LAST] * _WEIGHTS[:, None] * (2 * _LAST + 1) / 2
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2
# Of those coefficients, relative to the rectangle. Where they fall the panel's error is far smaller, as it comes from
# coefficients beyond the 40th. (That a panel agrees with its two halves says less: it happens by chance.)
_TOLERANCE = 1e-11
_MOST = 1 << 19  # panels; halving ends by itself, at the latest where they have no width
_BLOCK = 1 << 12  # rectangles whose panels are in the cache together
_FOLDS = 50.0  # e-foldings below an arc's largest value after which it no longer counts
_TINY = 1e-290  # masses below it lose digits in doubles anyway
_LARGE = 800.0  # e^-800 is 0 in doubles
_FLATTEST = 700.0  # cosh of it is finite


def laplace_masses(
    epsilon: float, west: FloatArray, east: FloatArray, south: FloatArray, north: FloatArray
) -> FloatArray:
    """Return the mass of planar Laplace noise in each rectangle.

    Parameters
    ----------
    epsilon : float
        Per unit of length, > 0.
    west, east, south, north : ndarray, shape (n,)
        Edges as seen from the noise's centre; infinite where the rectangle has no end.

    Returns
    -------
    ndarray, shape (n,)
        Relative error below 1e-12 down to masses of 1e-280; less than that may be 0.

    Raises
    ------
    MechanismError
        The panels do not become smooth.

    Notes
    -----
    Source: Andrés et al. 2013 (the law); panels of 20 Gauss-Legendre nodes are halved until they
    are smooth.

    Examples
    --------
    >>> one, whole = np.ones(1), np.full(1, np.inf)
    >>> laplace_masses(0.5, 0 * one, whole, -whole, whole).tolist()
    [0.5]
    """
    found = np.empty(west.size)
    for start in range(0, west.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        found[block] = _block(epsilon, west[block], east[block], south[block], north[block])
    return found


def _block(epsilon: float, west: FloatArray, east: FloatArray, south: FloatArray, north: FloatArray) -> FloatArray:
    total = np.zeros(west.size)
    parts = []
    for left, right in halves(west, east):
        for low, high in halves(south, north):
            owner = np.flatnonzero((right > left) & (high > low))
            box = left[owner], right[owner], low[owner], high[owner]
            # From the corner of a whole quadrant nothing is left to integrate.
            everything = (box[0] == 0) & (box[2] == 0) & np.isinf(box[1]) & np.isinf(box[3])
            total[owner[everything]] += math.tau / 4
            parts += [(arcs, owner[rows]) for arcs, rows in _arcs(epsilon, *box)]
    arcs = np.concatenate([part[0] for part in parts], axis=1)
    owner = np.concatenate([part[1] for part in parts])
    scale = total.copy()
    while owner.size <= _MOST:
        value, doubt = _panels(epsilon, arcs)
        # A first panel may miss most of a narrow peak: the best estimate so far is what errors are measured by.
        scale = np.maximum(scale, total + np.bincount(owner, value, total.size)).clip(_TINY)
        rough = doubt > _TOLERANCE * scale[owner]
        total += np.bincount(owner[~rough], value[~rough], total.size)
        owner = np.tile(owner[rough], 2)
        if not owner.size:
            mass: FloatArray = total / math.tau
            return mass
        left, right = arcs[:, rough], arcs[:, rough]
        left[-1] = right[-2] = (left[-2] + left[-1]) / 2
        arcs = np.concatenate([left, right], axis=1)
    raise MechanismError(f"the integral over {np.unique(owner).size} cells does not converge at epsilon {epsilon:g}")


def halves(low: FloatArray, high: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Cut intervals at 0 and reflect the lower part: two lists of intervals of [0, inf], empty where high <= low."""
    return [(np.maximum(low, 0.0), np.maximum(high, 0.0)), (np.maximum(-high, 0.0), np.maximum(-low, 0.0))]


def _arcs(
    epsilon: float, west: FloatArray, east: FloatArray, south: FloatArray, north: FloatArray
) -> list[tuple[FloatArray, IntArray]]:
    """Return the arcs of rectangles in the first quadrant, and which rectangle each belongs to.

    An arc is a column (near, foot, far, side, low, high), for v from low to high: rays enter at ``near cosh v`` or
    ``foot coth v``, the other of which is 0, and leave at the smaller of ``far cosh v`` and ``side coth v``.
    """
    found = []
    zero, nowhere = np.zeros_like(west), np.full_like(west, np.inf)
    with np.errstate(all="ignore"):  # 0 / 0 and the like belong to arcs that are not there
        for near, far, start, side in ((west, east, south, north), (south, north, west, east)):
            # Noise that enters the near edge higher up than this hardly counts beside the noise that enters below.
            count = np.arccosh(np.cosh(np.arcsinh(start / near)) + _FOLDS / (epsilon * near))
            end = np.minimum(side, near * np.sinh(count))
            # The ray through the far corner crosses the near edge at this height; above it, rays leave sideways.
            corner = np.where(np.isinf(side), np.inf, np.where(np.isinf(far), 0.0, near * side / far))
            split = np.clip(corner, start, end)
            # They are written along the side as long as that is the steeper edge; so its end may be infinitely far.
            steep = np.where(np.isinf(side), split, np.clip(near, split, end))
            for begin, stop in ((start, split), (steep, end)):
                low, high = np.arcsinh(begin / near), np.arcsinh(stop / near)
                found.append(_kept(near > 0, near, zero, far, side, low, high))
            # Far along an edge rays leave beyond all noise, and only their angle, 2 e^-v, matters.
            limit = _FOLDS + np.arcsinh(1 / (epsilon * side))
            low, high = np.arcsinh(near / steep), np.minimum(np.arcsinh(near / split), limit)
            found.append(_kept((near > 0) & (steep > split), zero, near, side, nowhere, low, high))
            # From an own corner rays go straight to the side.
            own = (near == 0) & (start == 0) & np.isfinite(side)
            found.append(_kept(own, zero, zero, side, nowhere, zero, np.minimum(np.arcsinh(far / side), limit)))
    return found


def _kept(there: NDArray[np.bool_], *arc: FloatArray) -> tuple[FloatArray, IntArray]:
    columns = np.array(arc)
    columns[-1] = np.minimum(columns[-1], _FLATTEST)
    rows = np.flatnonzero(there & (columns[-1] > columns[-2]))
    return columns[:, rows], rows


def _panels(epsilon: float, arcs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the integral over each arc by one panel, and the size of what the panel can hardly resolve."""
    near, foot, far, side, low, high = arcs[:, :, None]
    with np.errstate(over="ignore", divide="ignore"):
        v = low + (high - low) * _NODES
        cosh, coth = np.cosh(v), 1 / np.tanh(v)
        entry = near * cosh + foot * coth
        path = np.maximum(np.minimum((far - near) * cosh, side * coth - near * cosh) - foot * coth, 0.0)
        inside = _between(np.minimum(epsilon * entry, _LARGE), np.minimum(epsilon * path, _LARGE)) / cosh
    width = (high - low)[:, 0]
    return (inside @ _WEIGHTS) * width, np.abs(inside @ _TAIL).sum(axis=1) * width


def _between(t: FloatArray, h: FloatArray) -> FloatArray:
    """Return S(t) - S(t + h) for S(t) = (1 + t) e^-t, without cancellation.

    It is ``e^-t [ t (1 - e^-h) + 1 - (1 + h) e^-h ]``, of which every term is >= 0.
    """
    rise = -np.expm1(-h)
    result: FloatArray = np.exp(-t) * (t * rise + _gamma(h, rise))
    return result


# 1 - (1 + h) e^-h = h^2 times the sum of these times h^k
_SERIES = [(-1) ** k * (k + 1) / math.factorial(k + 2) for k in range(15)]


def _gamma(h: FloatArray, rise: FloatArray) -> FloatArray:
    """Return the distribution function of a Gamma(2) variate, given 1 - e^-h too."""
    small: NDArray[np.bool_] = h < 0.5
    x = np.where(small, h, 0.0)
    series = np.full_like(x, _SERIES[-1])
    for coefficient in reversed(_SERIES[:-1]):
        series = series * x + coefficient
    result: FloatArray = np.where(small, series * x * x, rise - h * (1 - rise))
    return result
