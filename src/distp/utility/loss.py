"""Expected and worst quality loss, in closed form.

The loss of a tuple is the distance from the input to its *nearest* element (theory, Definition 10): the
person's client uses whichever answer serves best. `real_report_loss` ignores the dummies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from distp.checks import FloatArray, count, distribution
from distp.errors import SpaceError
from distp.mechanisms import Mechanism, Tupling


def expected_loss(mechanism: Mechanism, prior: ArrayLike, distances: ArrayLike | None = None) -> float:
    """Return the expected distance from the input to the nearest reported value.

    Parameters
    ----------
    mechanism : Mechanism
        With one report or a tuple of them.
    prior : array_like, shape (|X|,)
        Law of the input.
    distances : array_like, shape (|X|, |Y|), optional
        Default: the mechanism's own spaces.

    Returns
    -------
    float
        In the space's unit (km on maps).

    Notes
    -----
    Closed form of theory 4.9: no tuple is sampled or listed.

    Examples
    --------
    >>> from distp.mechanisms import RestrictedLaplace
    >>> base = RestrictedLaplace([0.0, 1.0, 2.0, 3.0], epsilon=1.0, radius=1.0)
    >>> round(expected_loss(Tupling(base, dummies=5), [0.4, 0.3, 0.2, 0.1]), 10)
    0.0822052551
    """
    between = _distances(mechanism, distances)
    if isinstance(mechanism, Tupling):
        between = loss_matrix(between, mechanism.dummies, mechanism.dummy_distribution, mechanism.replacement)
    return mean_loss(mechanism, prior, between)


def real_report_loss(mechanism: Mechanism, prior: ArrayLike, distances: ArrayLike | None = None) -> float:
    """Return the expected distance from the input to the real report, dummies ignored."""
    return mean_loss(mechanism, prior, _distances(mechanism, distances))


def worst_loss(mechanism: Mechanism, distances: ArrayLike | None = None) -> float:
    """Return the largest loss that can happen: the real report farthest, and every dummy farther still.

    Notes
    -----
    The nearest of k + 1 distinct outputs is at most as far as the (k+1)-th farthest output, and any report at
    most that far can be joined by k dummies that are no nearer.
    """
    between = _distances(mechanism, distances)
    if isinstance(mechanism, Tupling) and mechanism.dummies > 0:
        if mechanism.replacement:
            far = between[:, mechanism.dummy_distribution > 0].max(axis=1, keepdims=True)
        else:
            last = between.shape[1] - 1 - mechanism.dummies
            far = np.partition(between, last, axis=1)[:, last : last + 1]
        between = np.minimum(between, far)
    matrix = mechanism.channel()
    possible = matrix.toarray() > 0 if isinstance(matrix, sparse.csr_array) else matrix > 0
    return float(between[possible].max())


def loss_matrix(
    distances: ArrayLike, dummies: int, dummy_distribution: ArrayLike, replacement: bool = True
) -> FloatArray:
    """Return the expected loss of input ``x`` when the real report is ``y``, the dummies averaged out.

    Parameters
    ----------
    distances : array_like, shape (|X|, |Y|)
    dummies : int
    dummy_distribution : array_like, shape (|Y|,)
    replacement : bool
        If ``False``, the dummies are distinct and uniform over the other outputs, whatever their law says.

    Returns
    -------
    ndarray, shape (|X|, |Y|)
        ``E min(d(x, y), min_i d(x, r_i))``; the expected loss is linear in the channel with these weights.

    Notes
    -----
    With outputs sorted by distance from x, the nearest dummy lies beyond rank l with probability
    ``(1 - F(l))^k``, or ``C(n-1-l, k) / C(n-1, k)`` without replacement if the real report does too; summing
    the gaps between ranks gives the mean (theory 4.9, 4.12).
    """
    between = np.asarray(distances, dtype=np.float64)
    k = count(dummies, "dummies")
    nu = distribution(dummy_distribution, between.shape[1], "dummy_distribution")
    order = np.argsort(between, axis=1, kind="stable")
    ranked = np.take_along_axis(between, order, axis=1)
    if replacement:
        beyond = np.clip(1.0 - np.cumsum(nu[order], axis=1), 0.0, 1.0) ** k
    else:
        others = np.arange(between.shape[1] - 1, 0, -1)  # not yet passed, apart from the real report
        beyond = np.append(np.cumprod(np.maximum(others - k, 0) / others), 0.0)[None, :]
    means = np.empty_like(ranked)
    means[:, 0] = ranked[:, 0]
    means[:, 1:] = ranked[:, :1] + np.cumsum(np.diff(ranked, axis=1) * beyond[:, :-1], axis=1)
    result = np.empty_like(means)
    np.put_along_axis(result, order, means, axis=1)
    return result


def _distances(mechanism: Mechanism, distances: ArrayLike | None) -> FloatArray:
    if distances is None:
        return mechanism.inputs.distances(mechanism.outputs)
    between = np.asarray(distances, dtype=np.float64)
    shape = (len(mechanism.inputs), len(mechanism.outputs))
    if between.shape != shape:
        raise SpaceError(f"distances must have shape (inputs, outputs) = {shape}, got {between.shape}")
    if not np.isfinite(between).all() or (between < 0).any():
        raise SpaceError("distances must be finite and >= 0")
    return between


def mean_loss(mechanism: Mechanism, prior: ArrayLike, weights: FloatArray) -> float:
    """Return the mean of ``weights[x, y]`` (shape (|X|, |Y|)) over the input x and its real report y.

    With `loss_matrix` as weights this is the expected loss; a search computes those once.
    """
    law = distribution(prior, len(mechanism.inputs), "prior")
    matrix = mechanism.channel()
    if isinstance(matrix, sparse.csr_array):
        rows = np.repeat(np.arange(law.size), np.diff(matrix.indptr))
        return float((law[rows] * matrix.data) @ weights[rows, matrix.indices])
    return float(law @ (matrix * weights).sum(axis=1))
