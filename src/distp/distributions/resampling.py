"""Pairs as they might have come out with other people: what a certificate for a population is computed from.

A mechanism is fitted to a sample, so it fits that sample better than anything else, and the sample's own delta
says little about other people (theory 4.13). The resamples here are rougher than the sample on purpose. Each draws a
*third* as many people as there are, so that they scatter around the sample with three times the variance of a sample:
once for this one, once for other people, once for what the mechanism makes of this one's accidents. And each *moves*
at least a quarter of what people did at a place, all of it together, to a place drawn anew, some of it to any place
at all: people who were not in the sample go where nobody of it was, and no mechanism may lean on any one place.
The fewer the people, and the more of what they do is done by nobody else, the more is moved. How much was set on real
check-ins and held against known populations and held-out people (docs/decisions/0008).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import sparse

from distp.checks import FloatArray, IntArray, count, frozen
from distp.distributions.pair import Pair
from distp.errors import DistributionError

SHARE = 1 / 3  # of the people, in each resample
MOVED, MOVED_OF_FEW = 0.25, 6.0  # of what a person did at a place: this share, or this divided by the root of people
ASTRAY = 1.0  # divided by the root of people: of what is moved goes to any place, the rest where their class is
DRAWS = 400

# Nothing is released by a resample, and whoever checks a certificate must find its numbers again.
_STREAM = 20201123


def resampled(pair: Pair, draws: int = DRAWS, *, moved: bool = True) -> tuple[FloatArray, FloatArray]:
    """Return resamples of a pair, shape (draws, |X|) each, not to be written to: row i of both is one pair.

    Parameters
    ----------
    pair : Pair
        With its people; without, every record counts as a person of its own.
    draws : int
    moved : bool
        Whether people go elsewhere in them. What they do anywhere brings the classes closer to each other; without
        moves, the resamples are as far apart as the sample.

    Raises
    ------
    DistributionError
        The pair does not say what it was counted from.
    """
    return _resampled(pair, count(draws, "draws", 1), moved)


@lru_cache(maxsize=32)
def _resampled(pair: Pair, draws: int, moved: bool) -> tuple[FloatArray, FloatArray]:
    P, Q = _drawn(pair, draws, _moves(pair) if moved else _STAY)
    return frozen(P), frozen(Q)


def _drawn(pair: Pair, draws: int, moves: _Moves) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(_STREAM)
    if pair.people is None:
        return _of_records(pair, moves, draws, rng)
    people = pair.people
    both = (people.with_attribute + people.without).tocoo()
    blocks = _Blocks(
        both.row,
        both.col,
        np.asarray(people.with_attribute[both.row, both.col], dtype=np.float64).ravel(),
        np.asarray(people.without[both.row, both.col], dtype=np.float64).ravel(),
        pair.p.size,
    )
    # What was added to smooth the sample is no part of what people do: it would hide how much they differ.
    size = max(1, round(SHARE * len(people)))
    made = np.array([blocks.drawn(rng, len(people), size, moves) for _ in range(draws)])
    made /= made.sum(axis=2, keepdims=True)
    return made[:, 0], made[:, 1]


def second_moments(pair: Pair, t: float) -> tuple[FloatArray, FloatArray]:
    """Return ``E c c'`` over resamples for ``c = p - t q`` and ``c = q - t p``, shape (|X|, |X|) each.

    The covariance is that of the ratios to first order, so it needs no draws. The mean is the sample's own; moved
    resamples fall a little short of it.
    """
    if pair.people is None:
        return _moments_of_records(pair, _moves(pair), t)
    people, moves = pair.people, _moves(pair)
    sides = []
    for weights, law, total in zip(
        (people.with_attribute, people.without), (pair.p, pair.q), people.sums, strict=True
    ):
        part = weights / total.sum()
        sides.append((part.tocsr(), np.asarray(part.sum(axis=1)).ravel(), law))
    return tuple(  # type: ignore[return-value]
        _moments(one, other, moves, t) for one, other in (sides, sides[::-1])
    )


_Side = tuple[sparse.csr_array, FloatArray, FloatArray]


def _moments(one: _Side, other: _Side, moves: _Moves, t: float) -> FloatArray:
    (a, alone, p), (b, besides, q) = one, other
    effect = (a - t * b).tocsr()  # what each person adds to c, but for what they add to the totals
    centre = np.column_stack([-p, t * q])
    totals = np.column_stack([alone, besides])
    cross = effect.T @ totals @ centre.T
    between = (effect.T @ effect).toarray() + cross + cross.T + centre @ (totals.T @ totals) @ centre.T
    spread = np.asarray(effect.multiply(effect).sum(axis=0)).ravel()
    elsewhere = moves.targets.mean(axis=0)
    moved, stay, total = moves.share, 1 - moves.share, float(spread.sum())
    both = np.outer(spread, elsewhere)
    within = (
        np.diag(moved * stay * spread + moved * total * elsewhere)
        - moved * stay * (both + both.T)
        - moved**2 * total * np.outer(elsewhere, elsewhere)
    )
    c = p - t * q
    result: FloatArray = np.outer(c, c) + (stay**2 * between + within) / SHARE
    return result


def _moments_of_records(pair: Pair, moves: _Moves, t: float) -> tuple[FloatArray, FloatArray]:
    def noise(law: FloatArray, elsewhere: FloatArray, records: int) -> FloatArray:
        moved = (1 - moves.share) * law + moves.share * elsewhere
        return np.asarray((np.diag(moved) - np.outer(moved, moved)) / (SHARE * records))

    first = noise(pair.p, moves.targets[0], _records(pair)[0])
    second = noise(pair.q, moves.targets[1], _records(pair)[1])
    c, d = pair.p - t * pair.q, pair.q - t * pair.p
    return np.outer(c, c) + first + t * t * second, np.outer(d, d) + second + t * t * first


class _Moves(NamedTuple):
    """How much of what people did is moved, and to where: shape (2, |X|), a law for each class."""

    share: float
    targets: FloatArray


_STAY = _Moves(0.0, np.full((2, 1), 1.0))


def _moves(pair: Pair) -> _Moves:
    few = min(1.0, MOVED_OF_FEW / math.sqrt(min(sizes(pair))))
    targets = [(1 - part) * law + part / law.size for part, law in zip(astray(pair), (pair.p, pair.q), strict=True)]
    return _Moves(max(MOVED, few, *_unseen(pair)), np.array(targets))


def astray(pair: Pair) -> tuple[float, float]:
    """Return how much of what people of either class do may be anywhere, for all that the sample says."""
    shares = [max(one, ASTRAY / math.sqrt(size)) for one, size in zip(_unseen(pair), sizes(pair), strict=True)]
    return shares[0], shares[1]


def sizes(pair: Pair) -> tuple[int, int]:
    """Return how many people each class has; where nobody is named, records."""
    if pair.people is None:
        return _records(pair)
    return tuple(  # type: ignore[return-value]
        int((np.diff(weights.indptr) > 0).sum()) for weights in (pair.people.with_attribute, pair.people.without)
    )


def _unseen(pair: Pair) -> tuple[float, float]:
    """Return about how much another person would do where nobody of the sample was, of either class.

    That is how much people did where nobody else was: Good (1953) and Turing, with persons for words.
    """
    if pair.people is not None:
        shares = []
        for weights in (pair.people.with_attribute, pair.people.without):
            visitors = np.bincount(weights.indices, minlength=pair.p.size)
            shares.append(float(weights.data[visitors[weights.indices] == 1].sum() / weights.data.sum()))
        return shares[0], shares[1]
    counts = [None if one is None else one.counts for one in (pair.support_p, pair.support_q)]
    return tuple(  # type: ignore[return-value]
        0.0 if one is None else sum(value == 1 for value in one) / max(1, sum(one)) for one in counts
    )


def _records(pair: Pair) -> tuple[int, int]:
    supports = pair.support_p, pair.support_q
    if any(one is None or one.records == 0 for one in supports):
        raise DistributionError(
            f"{pair.name!r} does not say how many records or people it was counted from: nothing can be said "
            "with confidence about others"
        )
    if any(one is not None and one.people is not None for one in supports):
        raise DistributionError(
            f"{pair.name!r} was counted from people who are not at hand (no policy holds them): nothing can be said "
            "with confidence about others without their data"
        )
    return tuple(one.records for one in supports if one is not None)  # type: ignore[return-value]


def counted(pair: Pair) -> tuple[FloatArray, FloatArray]:
    """Return what people or records themselves say, shape (|X|,) each: without what smoothed the pair, if known."""
    if pair.people is not None:
        return replace(pair.people, smoothing=0.0).laws()
    shares = []
    for law, support in ((pair.p, pair.support_p), (pair.q, pair.support_q)):
        counts = None if support is None else support.counts
        shares.append(law if counts is None else np.array(counts) / sum(counts))
    return shares[0], shares[1]


def _of_records(pair: Pair, moves: _Moves, draws: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    made = []
    for law, elsewhere, records in zip(counted(pair), moves.targets, _records(pair), strict=True):
        size = max(1, round(SHARE * records))
        moved = (1 - moves.share) * law + moves.share * elsewhere
        made.append(rng.multinomial(size, moved / moved.sum(), size=draws) / size)
    return made[0], made[1]


class _Blocks:
    """What each person did at each place, of either class, as parallel arrays."""

    def __init__(self, person: IntArray, place: IntArray, a: FloatArray, b: FloatArray, size: int) -> None:
        self.person, self.place, self.weights, self.size = person, place, (a, b), size
        self.members = [np.unique(person[weights > 0]) for weights in (a, b)]

    def drawn(self, rng: np.random.Generator, people: int, size: int, moves: _Moves) -> FloatArray:
        """Return the weights of one resample in each input, shape (2, |X|)."""
        times = np.bincount(rng.integers(0, people, size), minlength=people)
        for members in self.members:
            if not times[members].any():  # nobody drawn is of this class: one more person, who is
                times[rng.choice(members)] += 1
        return self._moved(rng, times[self.person], moves)

    def _moved(self, rng: np.random.Generator, copies: IntArray, moves: _Moves) -> FloatArray:
        moved, targets = rng.binomial(copies, moves.share), moves.targets
        each = np.repeat(np.arange(moved.size), moved)
        # Both classes of a person's visits to a place move to the same place wherever both laws allow it.
        common = targets.min(axis=0)
        apart = 1 - float(common.sum())
        u = rng.random(each.size)
        together = _places(common, u)
        separate = rng.random(each.size) < apart
        result = np.empty((2, self.size))
        for i, (weights, law) in enumerate(zip(self.weights, targets, strict=True)):
            goal = np.where(separate, _places(law - common, rng.random(each.size)), together)
            result[i] = np.bincount(self.place, weights=(copies - moved) * weights, minlength=self.size)
            result[i] += np.bincount(goal, weights=weights[each], minlength=self.size)
        return result


def _places(law: FloatArray, u: FloatArray) -> IntArray:
    """Return a draw from a law (up to scale) for each number in [0, 1)."""
    cumulated = np.cumsum(np.maximum(law, 0.0))
    found: IntArray = np.searchsorted(cumulated, u * cumulated[-1], side="right").clip(0, law.size - 1)
    return found
