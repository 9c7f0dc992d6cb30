"""Delta of one mechanism for many pairs at once: fast, near enough to rank them, and no ground for any claim.

The certified accountant takes milliseconds for a pair; a search over resamples asks for hundreds of pairs at every
step. Here each tuple's sum is rounded to a coarse grid (its mean is kept) and all are transformed together.
"""

from __future__ import annotations

import numpy as np
from scipy import fft

from distp.checks import FloatArray
from distp.mechanisms import Mechanism, Tupling

POINTS = ((8, 1024), (32, 2048), (500, 8192))  # for up to so many dummies
_MOST_POINTS = 16384
ROUGHLY = 20.0  # above this epsilon, e^epsilon times the rounding of a transform is no small number
_REACH = 8.0  # standard deviations
_ROOM = 8  # grid points at either end
_BLOCK = 64  # pairs at a time: their transforms stay in the cache


def rough_deltas(mechanism: Mechanism, P: FloatArray, Q: FloatArray, t: float) -> FloatArray:
    """Return about ``HS_t`` of the report for each pair of rows, the larger of both orders.

    Parameters
    ----------
    mechanism : Mechanism
        Dummies without replacement are taken for independent ones, whose delta is never smaller (theory 4.7).
    P, Q : ndarray, shape (n, |X|)
    t : float
        ``e^epsilon``, up to e^20 (`ROUGHLY`).

    Returns
    -------
    ndarray, shape (n,)
        Mostly within a hundredth where delta is above 1e-12.
    """
    matrix = mechanism.channel()
    lifted = [np.asarray(laws @ matrix) for laws in (P, Q)]
    both = [lifted[0] - t * lifted[1], lifted[1] - t * lifted[0]]
    if not isinstance(mechanism, Tupling) or mechanism.dummies == 0:
        alone: FloatArray = np.maximum(*(np.maximum(excess, 0.0).sum(axis=1) for excess in both))
        return alone
    nu, k = mechanism.dummy_distribution, mechanism.dummies
    points = next((points for most, points in POINTS if k <= most), _MOST_POINTS)
    found = [
        np.concatenate([_of_tuples(excess[i : i + _BLOCK], nu, k, points) for i in range(0, len(excess), _BLOCK)])
        for excess in both
    ]
    return np.asarray(np.maximum(*found))


def _of_tuples(excess: FloatArray, nu: FloatArray, k: int, points: int) -> FloatArray:
    """Return ``E(sum of k + 1 terms)_+ / (k + 1)``, and what no dummy hides."""
    hidden = nu > 0
    bare = np.maximum(excess[:, ~hidden], 0.0).sum(axis=1)
    excess, nu = excess[:, hidden], nu[hidden]
    rows, m = excess.shape[0], k + 1
    terms = excess / nu
    mean = excess.sum(axis=1)
    spread = np.sqrt(np.maximum(m * ((terms * terms) @ nu - mean**2), 0.0))
    high, low = terms.max(axis=1), terms.min(axis=1)
    above = np.minimum(m * high, m * mean + _REACH * spread + 2 * np.maximum(high, 0.0))
    below = np.maximum(m * low, m * mean - _REACH * spread - 2 * np.maximum(-low, 0.0))
    # Rounding spreads a sum of k + 1 terms by up to k + 1 grid points either way, but hardly ever by that much.
    width = np.maximum(above - below, 1e-9 * np.abs(terms).max(axis=1) + 1e-300)
    step = width / (points - 2 * (_ROOM + min(m, points // 8)))
    place = terms / step[:, None]
    left = np.floor(place)
    right = place - left
    start = (np.arange(rows) * points)[:, None]
    index = left.astype(np.int64)
    law = np.bincount((start + index % points).ravel(), (nu * (1 - right)).ravel(), rows * points)
    law += np.bincount((start + (index + 1) % points).ravel(), (nu * right).ravel(), rows * points)
    spectrum = fft.rfft(law.reshape(rows, points), axis=1)
    sums = fft.irfft(spectrum**m, points, axis=1)
    residue = np.arange(points)
    last = np.minimum(np.maximum(np.ceil(above / step), 0) + _ROOM, points - 1)
    positive = np.where(residue <= last[:, None], residue, 0)
    found = np.where(high > 0, np.maximum(step * (sums * positive).sum(axis=1) / m, 0.0), 0.0)
    return np.asarray(bare + found)
