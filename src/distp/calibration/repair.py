"""What a solver returns, made to keep what it was asked to keep: clipped, raised, mixed; and proven."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from scipy.sparse import csgraph

from distp.checks import FloatArray
from distp.errors import PrecisionError
from distp.privacy import Bracket

_LEAST_MIXED = 1e-15

Made = TypeVar("Made")


def stochastic(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the solver's rows clipped at 0 and divided by their sums; one that it left open says nothing."""
    rows = np.maximum(rows, 0.0)
    sums = rows.sum(axis=1)
    closed = sums > 0.5
    if not closed.any():
        raise PrecisionError("the solver's rows do not sum to 1", None)
    rows[closed] /= sums[closed, None]
    mean = weights[closed] @ rows[closed]
    rows[~closed] = mean / mean.sum()
    return rows


def balanced(rows: FloatArray, signed: FloatArray) -> FloatArray:
    """Return rows with ``signed @ rows`` 0 (``signed`` sums to 0): both laws of reports made the same.

    In rows that the first law has more of, a share of each output that it reports too often moves to those that it
    reports too rarely. Sums and signs stay; at epsilon 0 a mixture could not do it without losing nearly all.
    """
    surplus = signed @ rows
    most, lack = np.maximum(signed, 0.0) @ rows, np.maximum(-surplus, 0.0)
    if lack.sum() == 0:
        return rows
    share = np.where(surplus > 0, np.minimum(surplus / np.where(most > 0, most, 1.0), 1.0), 0.0)
    moved = np.where(signed[:, None] > 0, rows * share, 0.0)
    return np.asarray(rows - moved + moved.sum(axis=1, keepdims=True) * (lack / lack.sum()))


def raised(rows: FloatArray, epsilon: float, distances: FloatArray) -> FloatArray:
    """Return the least rows above these that have the extended DP exactly, scaled to sum to 1.

    ``max_x' e^(-epsilon d(x, x')) A(x')[y]`` has it, by the triangle inequality; it turns violations by a solver's
    tolerance, which may be large beside a small entry, into sums off by it. Rows are one or more classes over the
    same inputs, one after the other.
    """
    # Of given distances that break the triangle inequality, the ways round count.
    shrink = np.exp(-epsilon * csgraph.shortest_path(distances, method="FW"))
    parts = rows.reshape(-1, distances.shape[0], rows.shape[1])
    high = np.array([[(one[:, None] * part).max(axis=0) for one in shrink] for part in parts]).reshape(rows.shape)
    return np.asarray(high / high.sum(axis=1, keepdims=True))


def proven(found: Bracket, inverse: Callable[[], Bracket], epsilon: float, delta: float) -> Bracket:
    """Return a bracket of delta, its upper end also proven by the least epsilon at the target's delta.

    A delta of 0 has no room for rounding, but the pure epsilon is known to its own size.
    """
    if found.upper <= delta or found.lower > delta:
        return found
    try:
        least = inverse()
    except PrecisionError as error:
        least = error.bracket
    return Bracket(found.lower, delta) if least.upper <= epsilon else found


def least_mixed(made: Callable[[float], Made | None]) -> Made | None:
    """Return what is made of the least share that is enough, within a part in eight of it; None if 1 is not."""
    found = made(0.0)
    if found is not None:
        return found
    low, high = 0.0, _LEAST_MIXED
    while (found := made(high)) is None:
        if high == 1:
            return None
        low, high = high, min(1.0, 16 * high)
    while high - low > high / 8:
        middle = math.sqrt(low * high) if low > 0 else high / 2
        if low == 0 and high < _LEAST_MIXED / 2:
            break
        if (trial := made(middle)) is None:
            low = middle
        else:
            high, found = middle, trial
    return found
