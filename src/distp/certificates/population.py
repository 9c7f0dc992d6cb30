"""What a sample says about the population that its people were drawn from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from distp.checks import FloatArray, probability
from distp.distributions import Pair, People, resampled
from distp.distributions.resampling import DRAWS, counted
from distp.errors import ParameterError
from distp.mechanisms import Mechanism, Tupling
from distp.privacy import Bracket, class_delta
from distp.privacy.accountant import best_delta
from distp.privacy.rough import ROUGHLY, rough_deltas

_NEAR = 0.9  # of the limit: resamples whose rough delta is below this lie below the limit
_MOST_EXACT = 40
_ROUNDING = 1e-11


@dataclass(frozen=True)
class Population:
    """A limit on delta that holds for the population with some confidence, and two numbers to hold beside it.

    Attributes
    ----------
    confidence : float
    delta : float
        Upper limit on delta at the certificate's epsilon: that of the given share of resamples of the people
        (`distp.distributions.resampling`), of those who stay where they are or of those who go elsewhere, whichever
        is larger. It rests on two things: the people in the sample are a random draw from the population, and the
        resamples scatter at least as people do, which is tested and not proven.
    people : int or None
        How many were resampled; None where nobody is named and every record counted as a person.
    resamples : int
    held_out : Bracket or None
        Delta, for one half of the people, of a mechanism that was found in the same way from the other half.
    class_delta : float or None
        A limit with a proof and the same confidence, whatever the mechanism leans on: every input's probability lies
        below its own limit (Chernoff's inequality, all inputs and both classes at once), and the worst pair of such
        distributions has this delta (theory 4.11). It needs people who count alike; usually large.
    """

    confidence: float
    delta: float
    people: int | None
    resamples: int
    held_out: Bracket | None = None
    class_delta: float | None = None


def population(
    mechanism: Mechanism, pair: Pair, epsilon: float, confidence: float, held_out: Bracket | None = None
) -> Population:
    """Return what the people of a pair say about the population.

    Parameters
    ----------
    mechanism : Mechanism
    pair : Pair
        With its people, or at least its records.
    epsilon : float
    confidence : float
        Below 1.
    held_out : Bracket, optional

    Raises
    ------
    DistributionError
        The pair does not say what it was counted from.
    """
    return Population(
        probability(confidence, "confidence"),
        limit(mechanism, pair, epsilon, confidence),
        None if pair.people is None else len(pair.people),
        DRAWS,
        held_out,
        _class_limit(mechanism, pair, epsilon, confidence),
    )


def limit(mechanism: Mechanism, pair: Pair, epsilon: float, confidence: float) -> float:
    """Return the largest certified delta of all but the worst resamples; which those are, the rough deltas say.

    Any choice of the worst gives an upper limit of that rank; where the rough deltas are mostly rounding, all are
    certified instead.
    """
    place, found = rank(confidence, DRAWS), 0.0
    for P, Q, rough in roughly(mechanism, pair, epsilon, DRAWS):
        kept = np.argsort(rough)[:place]
        last = rough[kept[-1]]
        if epsilon > ROUGHLY or not last > _ROUNDING:
            deltas = np.sort(
                [best_delta(mechanism, p, q, epsilon, rtol=1e-3).upper for p, q in zip(P, Q, strict=True)]
            )
            found = max(found, float(deltas[place - 1]))
        elif last > _NEAR * found:  # the others lie well below what was found
            near = kept[rough[kept] >= _NEAR * last][-_MOST_EXACT:]
            found = max(found, *(best_delta(mechanism, P[i], Q[i], epsilon, rtol=1e-3).upper for i in near))
    return min(found, 1.0)


def roughly(
    mechanism: Mechanism, pair: Pair, epsilon: float, draws: int
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Yield the resamples of people who go elsewhere, then of those who stay, each with its rough deltas."""
    for moved in (True, False):
        P, Q = resampled(pair, draws, moved=moved)
        yield P, Q, rough_deltas(mechanism, P, Q, math.exp(min(epsilon, ROUGHLY)))


def rank(confidence: float, draws: int) -> int:
    """Return which of so many sorted draws is an upper limit with this confidence."""
    confidence = probability(confidence, "confidence")
    place = math.ceil(confidence * (draws + 1))
    if not 1 <= place <= draws:
        raise ParameterError(
            f"confidence must lie in (0, {draws / (draws + 1):.4f}] with {draws} resamples, got {confidence!r}"
        )
    return place


def _class_limit(mechanism: Mechanism, pair: Pair, epsilon: float, confidence: float) -> float | None:
    """Return the limit for every pair of distributions that these people leave possible; None if there is none."""
    sizes = _alike(pair)
    if sizes is None or not isinstance(mechanism, Tupling) or not mechanism.replacement:
        return None
    risk = (1 - confidence) / (2 * pair.p.size)
    matrix = mechanism.channel()
    channel = matrix.toarray() if isinstance(matrix, sparse.csr_array) else matrix
    nu = mechanism.dummy_distribution
    caps = []
    for law, people in zip(counted(pair), sizes, strict=True):
        reach = _largest(channel, _chernoff(law, people, risk))
        if (reach[nu == 0] > 0).any():
            return None
        caps.append(float((reach[nu > 0] / nu[nu > 0]).max()))
    return min(class_delta(mechanism.dummies, epsilon, max(1.0, *caps), rtol=1e-2).upper, 1.0)


def _alike(pair: Pair) -> tuple[int, int] | None:
    """Return how many people each class has, if every one of them has the same weight in it."""
    if pair.people is None:
        supports = pair.support_p, pair.support_q
        if any(one is None or one.people is not None for one in supports):
            return None  # records of named people are not people
        return tuple(one.records for one in supports if one is not None)  # type: ignore[return-value]
    sizes = []
    for weights in (pair.people.with_attribute, pair.people.without):
        rows = np.asarray(weights.sum(axis=1)).ravel()
        rows = rows[rows > 0]
        if not np.allclose(rows, rows[0], rtol=1e-9, atol=0):
            return None
        sizes.append(rows.size)
    return sizes[0], sizes[1]


def _chernoff(shares: FloatArray, people: int, risk: float) -> FloatArray:
    """Return what each true mean exceeds with probability ``risk`` at most, from means of values in [0, 1].

    Source: Chernoff's inequality as Hoeffding (1963) states it: ``Pr[mean <= x] <= e^(-n kl(x, true mean))``.
    """
    low, high = shares.copy(), np.ones_like(shares)
    for _ in range(60):
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = np.where(shares > 0, shares * np.log(shares / middle), 0.0)
            gap += np.where(shares < 1, (1 - shares) * np.log((1 - shares) / (1 - middle)), 0.0)
        far = people * gap > -math.log(risk)
        low, high = np.where(far, low, middle), np.where(far, middle, high)
    return high


def _largest(channel: FloatArray, limits: FloatArray) -> FloatArray:
    """Return the largest probability of each output under any law below ``limits``, shape (|Y|,)."""
    order = np.argsort(-channel, axis=0)
    filled = np.minimum(np.cumsum(limits[order], axis=0), 1.0)
    shares = np.diff(filled, axis=0, prepend=0.0)
    return np.asarray((shares * np.take_along_axis(channel, order, axis=0)).sum(axis=0))


def halves(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]] | None:
    """Part the people of all pairs in two: the same person is in the same half of every pair.

    None where nobody is named, or a half has nobody of some class.
    """
    known = [pair.people for pair in pairs]
    everybody = np.unique(np.concatenate([_numbers(people, i) for i, people in enumerate(known)]))
    if not everybody.size:
        return None
    first = np.random.default_rng(_STREAM).permutation(everybody)[: everybody.size // 2]
    parts: tuple[list[Pair], list[Pair]] = ([], [])
    for i, (pair, people) in enumerate(zip(pairs, known, strict=True)):
        if people is None:
            return None
        here = np.isin(_numbers(people, i), first)
        for side, chosen in zip(parts, (here, ~here), strict=True):
            some = people.only(chosen)
            if some is None:
                return None
            side.append(Pair(pair.name, *some.laws(), people=some))
    return parts


_STREAM = 20120403  # of the split: fixed, as a certificate must be found again


def _numbers(people: People | None, place: int) -> FloatArray:
    """Return a number for each person; those of a pair without numbers are in no other pair."""
    if people is None:
        return np.zeros(0)
    return np.asarray(people.numbers if people.numbers is not None else -(np.arange(len(people)) + 1) - place * 1e9)
