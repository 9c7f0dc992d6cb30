"""The attacker who sees one report (or tuple) and guesses where the person is: expected distance, chance of a hit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations, combinations_with_replacement

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import gammaln

from distp.checks import FloatArray, IntArray, count, distribution, numbers, probability
from distp.errors import ParameterError, SpaceError
from distp.mechanisms import Mechanism, Tupling
from distp.privacy.bracket import Bracket
from distp.privacy.single import LEAST, UNIT

SAMPLES = 20_000  # tuples, or fewer on maps of more than 1,400 inputs: each takes a square of those
_FEWEST, _MOST_PRODUCTS = 500, 40_000_000_000
CONFIDENCE = 0.9999

_MAX_LISTED = 2_000_000  # numbers in the tables of all tuples
_BLOCK = 1_000_000  # numbers in the tables of the tuples that are drawn at once
_SPARSE = 12  # times fewer values in a tuple than outputs: a sparse product is quicker
_PILOT = 20  # one in so many tuples chooses the control variate
_RAREST = 1e-100  # a dummy this rare counts as none; the change is below any rounding
_LOST = 1e-80  # exceeds what that, or underflow, takes from a probability

# Nothing is released by an evaluation, and whoever checks a certificate must find its numbers again: the stream is
# fixed. An interval holds with its probability for any one mechanism; for one that a search chose among n by their
# intervals, 1 - confidence is to be taken n times.
_STREAM = 20190729


@dataclass(frozen=True)
class LocationAttack:
    """How well the best attacker finds the input, who knows the mechanism and the prior over inputs.

    Attributes
    ----------
    error : Bracket
        Expected distance from the true input to the best guess after seeing a report, in the space's unit (km on
        maps).
    success : Bracket
        Probability that the likeliest input is the true one.
    blind_error, blind_success : Bracket
        The same without any report.
    samples : int
        Tuples that were drawn; 0 where the brackets are exact up to rounding.
    confidence : float
        Probability with which the brackets of `error` and `success` hold together; 1.0 where they are exact.
    """

    error: Bracket
    success: Bracket
    blind_error: Bracket
    blind_success: Bracket
    samples: int
    confidence: float


@dataclass(frozen=True, eq=False)
class _Reports:
    """What each of n outputs says, as the real report.

    Attributes
    ----------
    weights : ndarray, shape (n, |X|)
        Joint probability of the output and each input (divided by the dummies' law where tuples add it up).
    costs : ndarray, shape (n, |X|)
        For each guess, its mean distance from the input on the event of this output (divided likewise).
    """

    weights: FloatArray
    costs: FloatArray

    def values(self) -> tuple[FloatArray, FloatArray]:
        """Return what the best guesses achieve on each output: the distance, and the probability of a hit."""
        return self.costs.min(axis=1), self.weights.max(axis=1)

    def added(self, chosen: FloatArray) -> _Reports:
        """Add up what outputs say that occur ``chosen`` times, shape (tuples, n)."""
        times = sparse.csr_array(chosen) if _SPARSE * np.count_nonzero(chosen[0]) < chosen.shape[1] else chosen
        return _Reports(np.asarray(times @ self.weights), np.asarray(times @ self.costs))


@dataclass(frozen=True)
class _Found:
    error: Bracket
    success: Bracket


def location_attack(
    mechanism: Mechanism,
    prior: ArrayLike,
    distances: ArrayLike | None = None,
    *,
    samples: int | None = None,
    confidence: float = CONFIDENCE,
) -> LocationAttack:
    """Return how well the input can be found from one report, or from one tuple.

    Parameters
    ----------
    mechanism : Mechanism
    prior : array_like, shape (|X|,)
        Law of the input, which the attacker knows.
    distances : array_like, shape (|X|, |X|), optional
        From the input (row) to the guess (column). Default: those of the mechanism's inputs.
    samples : int, optional
        Tuples to draw where there are too many to list, at least 2.
    confidence : float
        Probability, in (0, 1), with which both sampled brackets shall hold.

    Raises
    ------
    DistributionError
        ``prior`` is not a distribution over the inputs.
    SpaceError
        ``distances`` have another shape, or are not finite and >= 0.
    ParameterError
        ``samples`` or ``confidence`` is outside its range.

    Notes
    -----
    The posterior of a tuple is a mean of its values' posteriors, ``prior[x] sum_i A[x, y_i] / nu[y_i]`` (theory
    3.4). A value that is no dummy's is the real report, and the rest of its tuple says nothing. The others are
    listed as multisets (as subsets without replacement, theory 4.7) where these are few, and drawn otherwise: each
    one drawn contributes its conditional values given the tuple, averaged over the inputs (Rao-Blackwell), and the
    intervals are empirical Bernstein bounds (Maurer and Pontil 2009, Theorem 4). No tuple says more than its real
    report, nor less than nothing: that bounds them too.

    Measures: expected estimation error of the optimal inference attack (Shokri et al. 2011; Shokri 2015), and
    Bayes vulnerability.

    Examples
    --------
    >>> from distp.mechanisms import Identity
    >>> found = location_attack(Tupling(Identity([0.0, 1.0, 3.0]), dummies=1), [0.5, 0.25, 0.25])
    >>> round(found.error.upper, 6), round(found.blind_error.upper, 6), round(found.success.lower, 6)
    (0.5, 1.0, 0.75)
    """
    law = distribution(prior, len(mechanism.inputs), "prior")
    between = _distances(mechanism, distances)
    usual = min(SAMPLES, max(_FEWEST, _MOST_PRODUCTS // len(mechanism.inputs) ** 2))
    samples = usual if samples is None else count(samples, "samples", minimum=2)
    confidence = probability(confidence, "confidence")
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must lie strictly between 0 and 1, got {confidence}")
    reports, rounding = _reports(mechanism, law, between), _Rounding.of(mechanism, law, between)
    alone = rounding.around(reports.values())
    blind = rounding.around(_Reports(law[None, :], (law @ between)[None, :]).values())
    found, drawn = alone, 0
    if isinstance(mechanism, Tupling) and mechanism.dummies:
        found, drawn = _tuples(mechanism, reports, rounding, samples, (1 - confidence) / 4)
    return LocationAttack(
        _within(found.error, Bracket(alone.error.lower, blind.error.upper)),
        _within(found.success, Bracket(blind.success.lower, alone.success.upper)),
        blind.error,
        blind.success,
        drawn,
        confidence if drawn else 1.0,
    )


def _distances(mechanism: Mechanism, distances: ArrayLike | None) -> FloatArray:
    if distances is None:
        return mechanism.inputs.distances()
    between = numbers(distances, "distances", SpaceError)
    shape = (len(mechanism.inputs), len(mechanism.inputs))
    if between.shape != shape:
        raise SpaceError(f"distances must have shape (inputs, inputs) = {shape}, got {between.shape}")
    if not np.isfinite(between).all() or (between < 0).any():
        raise SpaceError("distances must be finite and >= 0")
    return between


def _reports(mechanism: Mechanism, law: FloatArray, between: FloatArray) -> _Reports:
    matrix = mechanism.channel()
    if isinstance(matrix, sparse.csr_array):
        joint = sparse.csr_array((matrix * law[:, None]).T)
        return _Reports(joint.toarray(), np.asarray(joint @ between))
    weights = (matrix * law[:, None]).T
    return _Reports(weights, weights @ between)


@dataclass(frozen=True)
class _Rounding:
    """What rounding may change: a share of a sum of terms >= 0, and what underflow takes from it.

    Attributes
    ----------
    share : float
        Also bounds by how much the given laws miss a sum of 1.
    lost : float
        Underflow, as a probability.
    largest : float
        Largest distance.
    """

    share: float
    lost: float
    largest: float

    @classmethod
    def of(cls, mechanism: Mechanism, law: FloatArray, between: FloatArray) -> _Rounding:
        matrix = mechanism.channel()
        entries = matrix.data if isinstance(matrix, sparse.csr_array) else matrix
        missed = abs(1 - math.fsum(law)) + float(np.abs(1 - np.asarray(matrix.sum(axis=1))).max())
        smallest = math.prod(float(a[a > 0].min(initial=1.0)) for a in (law, entries, between))
        share = 4 * UNIT * (16 + sum(matrix.shape)) + 2 * missed
        return cls(share, _LOST if smallest < LEAST else 0.0, float(between.max()))

    def around(self, values: tuple[FloatArray, FloatArray], share: float = 0.0, lost: float = 0.0) -> _Found:
        """Bracket the sums of both of these values, each term with a further relative error of ``share``."""
        share, lost = self.share + share, self.lost + lost
        error, success = (math.fsum(terms) for terms in values)
        return _Found(
            Bracket(max(0.0, error * (1 - share) - lost * self.largest), error * (1 + share) + lost * self.largest),
            Bracket(max(0.0, success * (1 - share) - lost), min(1.0, success * (1 + share) + lost)),
        )


def _within(bracket: Bracket, known: Bracket) -> Bracket:
    lower, upper = (min(max(end, known.lower), known.upper) for end in (bracket.lower, bracket.upper))
    return Bracket(lower, upper)


def _sum(one: Bracket, other: Bracket) -> Bracket:
    return Bracket(one.lower + other.lower, one.upper + other.upper)


def _tuples(
    mechanism: Tupling, reports: _Reports, rounding: _Rounding, samples: int, failure: float
) -> tuple[_Found, int]:
    """Return the brackets against tuples, and how many were drawn; each side fails with ``failure`` at most."""
    nu, places = mechanism.dummy_distribution, mechanism.dummies + 1
    usual = nu >= _RAREST
    revealed = _Reports(reports.weights[~usual], reports.costs[~usual])
    hidden, nu = _Reports(reports.weights[usual], reports.costs[usual]), nu[usual]
    lost = 0.0 if usual.all() else _LOST * (mechanism.dummy_distribution[~usual] > 0).any()
    sure = rounding.around(revealed.values(), lost=float(lost))
    if not hidden.weights.any():
        return sure, 0
    if _listed_size(nu.size, reports.weights.shape[1], places, mechanism.replacement) <= _MAX_LISTED:
        part, drawn = _listed(hidden, nu, places, mechanism.replacement, rounding), 0
    else:
        part, drawn = _sampled(hidden, nu, mechanism, rounding, samples, failure), samples
    return _Found(_sum(sure.error, part.error), _sum(sure.success, part.success)), drawn


def _listed_size(outputs: int, inputs: int, places: int, replacement: bool) -> int:
    """Count the numbers in the tables of all tuples: values, counts and, for each guess, its cost."""
    ways = math.comb(outputs + places - 1, places) if replacement else math.comb(outputs, places)
    return ways * (places + outputs + inputs)


def _listed(reports: _Reports, nu: FloatArray, places: int, replacement: bool, rounding: _Rounding) -> _Found:
    """Add up all multisets of dummies, or subsets: ``E[min_g sum_i costs[y_i, g] / nu[y_i]] / places``."""
    list_all = combinations_with_replacement if replacement else combinations
    flat = np.fromiter(chain.from_iterable(list_all(range(nu.size), places)), np.int64)
    hits = _counts(flat.reshape(-1, places), nu.size)
    if replacement:
        logs = gammaln(places + 1) - gammaln(hits + 1).sum(axis=1) + hits @ np.log(nu)
        chances = np.exp(logs) / places
        size = 2 * float(gammaln(places + 1)) + places * float(np.abs(np.log(nu)).max())
        share = 32 * UNIT * (1 + size) + places * abs(1 - math.fsum(nu))
    else:
        chances, share = np.full(hits.shape[0], 1 / (hits.shape[0] * places)), 0.0
    nearest, likeliest = _divided(reports, nu).added(hits).values()
    return rounding.around((chances * nearest, chances * likeliest), share + 8 * UNIT * places, _LOST)


def _sampled(
    reports: _Reports, nu: FloatArray, mechanism: Tupling, rounding: _Rounding, samples: int, failure: float
) -> _Found:
    """Draw tuples as they are sent, and average what the attacker achieves given each.

    The distance of one fixed guess, the best without a report, has a known mean: a multiple of it is taken off
    (control variate), chosen by the first tuples, which are then left out. All these values of a tuple are
    concave or linear in its posterior, a mean of the outputs' posteriors, so what these say bounds the range.
    """
    law = reports.weights.sum(axis=1)
    fixed = int(np.argmin(reports.costs.sum(axis=0)))
    tables = _divided(reports, nu)
    blocks = [_conditional(tables.added(hits), fixed) for hits in _draws(law, nu, mechanism, samples)]
    nearest, at_fixed, likeliest = np.concatenate(blocks, axis=1)
    pilot = samples // _PILOT
    multiple = _slope(nearest[:pilot], at_fixed[:pilot])
    posteriors = _divided(_Reports(reports.weights[law > 0], reports.costs[law > 0]), law[law > 0])
    left = posteriors.costs - multiple * posteriors.costs[:, [fixed]]
    error = _interval(
        (nearest - multiple * at_fixed)[pilot:], float(left.min()), float(left.max(axis=0).min()), failure
    )
    success = _interval(likeliest, 0.0, float(posteriors.weights.max()), failure)
    mass, known = math.fsum(law), multiple * math.fsum(reports.costs[:, fixed])
    slack = rounding.share + 8 * UNIT * (mechanism.dummies + 1) * nu.size + rounding.lost
    slack += mechanism.dummies * abs(1 - math.fsum(nu))
    far = slack * rounding.largest
    return _Found(
        Bracket(mass * error.lower + known - far, mass * error.upper + known + far),
        Bracket(mass * success.lower - slack, mass * success.upper + slack),
    )


def _divided(reports: _Reports, by: FloatArray) -> _Reports:
    return _Reports(reports.weights / by[:, None], reports.costs / by[:, None])


def _conditional(seen: _Reports, fixed: int) -> FloatArray:
    """Return each tuple's least mean distance, that of the fixed guess, and its largest posterior, shape (3, b)."""
    nearest, likeliest = seen.values()
    result: FloatArray = np.array([nearest, seen.costs[:, fixed], likeliest]) / seen.weights.sum(axis=1)
    return result


def _slope(values: FloatArray, by: FloatArray) -> float:
    """Return the multiple of ``by``, in [0, 1], that explains most of the variance of ``values``."""
    if values.size < 2 or not by.std() > 0:
        return 0.0
    return float(np.clip(np.mean((values - values.mean()) * (by - by.mean())) / by.var(), 0.0, 1.0))


def _interval(values: FloatArray, lowest: float, highest: float, failure: float) -> Bracket:
    """Bracket the mean of independent draws in [lowest, highest]; each side fails with probability ``failure``.

    Source: Maurer and Pontil (2009), Theorem 4.
    """
    size, log = values.size, math.log(2 / failure)
    radius = math.sqrt(2 * float(values.var(ddof=1)) * log / size) + 7 * (highest - lowest) * log / (3 * (size - 1))
    mean = math.fsum(values) / size
    return Bracket(mean - radius, mean + radius)


def _counts(values: IntArray, size: int) -> FloatArray:
    """Return how often each of ``size`` outputs stands in each row, shape (rows, size)."""
    rows = values.shape[0]
    cells = (np.arange(rows)[:, None] * size + values).ravel()
    return np.bincount(cells, minlength=rows * size).reshape(rows, size).astype(np.float64)


def _draws(law: FloatArray, nu: FloatArray, mechanism: Tupling, samples: int) -> Iterator[FloatArray]:
    """Draw tuples as they are sent, block by block: how often each output occurs, shape (block, n)."""
    rng = np.random.Generator(np.random.PCG64(_STREAM))
    k, block = mechanism.dummies, max(1, _BLOCK // max(law.size, len(mechanism.inputs)))
    for start in range(0, samples, block):
        size = min(block, samples - start)
        real = _pick(rng, law, (size, 1))
        if not mechanism.replacement:
            keys = rng.random((size, nu.size))
            np.put_along_axis(keys, real, -1.0, axis=1)  # the real report comes first
            yield _counts(np.argpartition(keys, k, axis=1)[:, : k + 1], nu.size)
        elif k > nu.size:
            yield _counts(real, nu.size) + rng.multinomial(k, nu / nu.sum(), size)
        else:
            yield _counts(np.hstack([real, _pick(rng, nu, (size, k))]), nu.size)


def _pick(rng: np.random.Generator, law: FloatArray, shape: tuple[int, int]) -> IntArray:
    """Draw from a law by inverting its distribution function; an outcome without mass never comes."""
    possible = np.flatnonzero(law)
    ladder = np.cumsum(law[possible])
    found = np.searchsorted(ladder, rng.random(shape) * ladder[-1], side="right")
    result: IntArray = possible[np.minimum(found, possible.size - 1)]
    return result
