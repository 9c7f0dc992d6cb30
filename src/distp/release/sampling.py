"""Drawing tuples with integers only, from a source of uniform 64-bit words."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from distp.checks import IntArray
from distp.errors import ParameterError
from distp.release.weights import BITS, Weights

Words = NDArray[np.uint64]

_MARKS = 1 << 24  # bytes of marks held at once


class Source(Protocol):
    """Where uniform 64-bit words come from."""

    def words(self, size: int) -> Words:
        """Return ``size`` independent uniform words."""


class SystemEntropy:
    """The operating system's cryptographic generator: the only source of anything released.

    It holds no state, so threads and forked processes cannot share any.
    """

    def words(self, size: int) -> Words:
        """Return ``size`` words of `os.urandom`."""
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


class Seeded:
    """A reproducible source, for simulations; never for release."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def words(self, size: int) -> Words:
        """Return the next ``size`` words of the seeded stream."""
        return self._generator.integers(0, 2**64 - 1, size=size, dtype=np.uint64, endpoint=True)


def below(bound: int, size: int, source: Source) -> IntArray:
    """Return ``size`` integers uniform on 0..bound-1, without bias: words beyond a multiple are redrawn."""
    limit = (2**64 // bound) * bound
    drawn = source.words(size)
    if limit < 2**64:
        refused = np.flatnonzero(drawn >= np.uint64(limit))
        if refused.size:
            drawn = drawn.copy()
        while refused.size:
            drawn[refused] = source.words(refused.size)
            refused = refused[drawn[refused] >= np.uint64(limit)]
    return (drawn % np.uint64(bound)).astype(np.int64)


def by_weight(weights: Weights, rows: IntArray, source: Source) -> IntArray:
    """Return one column for each entry of ``rows``, by its row's integer weights."""
    target = (source.words(rows.size) >> np.uint64(64 - BITS)).astype(np.int64)
    result = np.empty(rows.size, dtype=np.int64)
    order = np.argsort(rows, kind="stable")
    distinct, starts = np.unique(rows[order], return_index=True)
    for row, members in zip(distinct.tolist(), np.split(order, starts)[1:], strict=True):
        columns, running = weights.row(int(row))
        result[members] = columns[np.searchsorted(running, target[members], side="right")]
    return result


def tuples(
    channel: Weights,
    dummies: Weights | None,
    count: int,
    inputs: IntArray,
    source: Source,
    replacement: bool = True,
) -> IntArray:
    """Return a tuple for each input, shape (n, count + 1): the real report at a uniformly random place.

    Without ``replacement`` the dummies are distinct, uniform over the outputs other than the real report, and
    each row is an unordered set, written in ascending order; ``dummies`` must be None.

    Raises
    ------
    ParameterError
        Without replacement: dummies with a law of their own, or more of them than other outputs.

    Notes
    -----
    Source: theory 3.3, Algorithm 1; without replacement, 4.7.
    """
    if not replacement:
        if dummies is not None:
            raise ParameterError("dummies must be uniform (None) without replacement")
        if count > channel.width - 1:
            raise ParameterError(f"count must be at most {channel.width - 1} without replacement, got {count}")
        return _sets(by_weight(channel, inputs, source), channel.width, count, source)
    n, places = inputs.size, count + 1
    result = np.empty((n, places), dtype=np.int64)
    result[:, 0] = by_weight(channel, inputs, source)
    if count:
        if dummies is None:
            drawn = below(channel.width, n * count, source)
        else:
            drawn = by_weight(dummies, np.zeros(n * count, dtype=np.int64), source)
        result[:, 1:] = drawn.reshape(n, count)
        # Exchanging the first place with a random one is Algorithm 1's insertion: dummies are exchangeable.
        rows, place = np.arange(n), below(places, n, source)
        real = result[:, 0].copy()
        result[:, 0] = result[rows, place]
        result[rows, place] = real
    return result


def _sets(real: IntArray, width: int, count: int, source: Source) -> IntArray:
    """Return each real report with ``count`` distinct others out of ``width``, ascending in each row.

    Floyd's method: of the integers below ``width - 1``, for j = width-1-count, ..., width-2, draw one of 0..j,
    and take j itself if that one is taken already. Every subset is equally likely after exactly ``count`` draws.
    """
    result = np.empty((real.size, count + 1), dtype=np.int64)
    several = max(1, _MARKS // width)
    for first in range(0, real.size, several):
        own = real[first : first + several]
        rows = np.arange(own.size)
        taken = np.zeros((own.size, width), dtype=np.bool_)
        for j in range(width - 1 - count, width - 1):
            drawn = below(j + 1, own.size, source)
            drawn += drawn >= own  # the outputs other than the real report, in order
            drawn = np.where(taken[rows, drawn], j + (own <= j), drawn)
            taken[rows, drawn] = True
        taken[rows, own] = True
        result[first : first + several] = np.nonzero(taken)[1].reshape(own.size, count + 1)
    return result
