"""Many distributions at once, and point privacy: the worst ordered pair, found without computing them all."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from distp.checks import FloatArray, distribution, positive, probability
from distp.errors import DistributionError, ParameterError
from distp.mechanisms import Mechanism, Tupling
from distp.privacy.accountant import RTOL, Report, check_epsilon, law_report, lifted_laws
from distp.privacy.bounds import pairwise_chernoff
from distp.privacy.bracket import Bracket
from distp.privacy.single import UNIT, exp, scaled
from distp.privacy.tuples import TupleSum


@dataclass(frozen=True)
class WorstPair:
    """The largest value over all ordered pairs of a family.

    Attributes
    ----------
    value : Bracket
    pair : (int, int)
        Where it was found: "first as if second".
    """

    value: Bracket
    pair: tuple[int, int]

    def joined(self, found: Bracket, pair: tuple[int, int]) -> WorstPair:
        """Return the worst of this and another pair."""
        value = Bracket(max(found.lower, self.value.lower), max(found.upper, self.value.upper))
        return WorstPair(value, pair if found.lower >= self.value.lower else self.pair)


def family_delta(
    mechanism: Mechanism, distributions: Sequence[ArrayLike], epsilon: float, *, rtol: float = RTOL
) -> WorstPair:
    """Return the largest delta over every ordered pair of a family of distributions.

    Parameters
    ----------
    mechanism : Mechanism
    distributions : sequence of array_like, each of shape (|X|,)
    epsilon : float
        >= 0.
    rtol : float
        Relative width that the bracket must reach.

    Notes
    -----
    DistP with respect to Lambda x Lambda (theory, Definition 8); by joint convexity it then holds for all
    mixtures of the family too (theory 5.5).

    Examples
    --------
    >>> from distp.mechanisms import Identity, Tupling
    >>> family = [[.5, .3, .2, 0], [.1, .2, .3, .4], [.25, .25, .25, .25]]
    >>> family_delta(Tupling(Identity(4), 5), family, 0.5).pair
    (1, 0)
    """
    return _largest_delta(_family(mechanism, distributions), check_epsilon(epsilon), rtol)


def family_epsilon(
    mechanism: Mechanism, distributions: Sequence[ArrayLike], delta: float, *, rtol: float = RTOL
) -> WorstPair:
    """Return the largest epsilon at ``delta`` over every ordered pair of a family of distributions."""
    delta = probability(delta, "delta")
    return _largest_epsilon(_family(mechanism, distributions), delta, positive(rtol, "rtol"))


def point_delta(mechanism: Mechanism, epsilon: float, *, rtol: float = RTOL) -> Bracket:
    """Return the ordinary local DP of the reports: the largest delta over every ordered pair of inputs.

    Parameters
    ----------
    mechanism : Mechanism
        One report or a tuple.
    epsilon : float
        >= 0.
    rtol : float
        Relative width that the bracket must reach.

    Notes
    -----
    Local DP is DistP for all distributions, and point masses are its extreme points (theory 3.1).

    Examples
    --------
    >>> from distp.mechanisms import Identity, Tupling
    >>> round(point_delta(Tupling(Identity(276), 10), 1.0).upper, 5)
    0.96435
    """
    return _largest_delta(_Family(mechanism, rows(mechanism)), check_epsilon(epsilon), rtol).value


def point_epsilon(mechanism: Mechanism, delta: float, *, rtol: float = RTOL) -> Bracket:
    """Return the ordinary local DP of the reports: the least epsilon at ``delta`` for every pair of inputs."""
    delta = probability(delta, "delta")
    family = _Family(mechanism, rows(mechanism))
    return _largest_epsilon(family, delta, positive(rtol, "rtol")).value


class _Family:
    """Laws of one report, and the report objects of their pairs.

    ``slack`` bounds the relative error of the laws, ``lost`` what lifting lost of them to underflow.
    """

    def __init__(self, mechanism: Mechanism, laws: FloatArray, slack: float = 0.0, lost: float = 0.0) -> None:
        self.mechanism, self.laws, self.slack, self.lost = mechanism, laws, slack, lost
        independent = isinstance(mechanism, Tupling) and mechanism.replacement and mechanism.dummies > 0
        self.tuples = mechanism if isinstance(mechanism, Tupling) and independent else None
        if laws.shape[0] < 2:
            raise ParameterError("a pair needs two members")

    @cached_property
    def _densities(self) -> FloatArray | None:
        """The laws in units of the dummies', where `exceeds` may ask them directly."""
        tuples = self.tuples
        if tuples is None or tuples.dummy_distribution.min() < 1e-100:
            return None
        return self.laws / tuples.dummy_distribution

    @cached_property
    def _mass(self) -> float:
        return 1.0 if self.tuples is None else math.fsum(self.tuples.dummy_distribution)

    def exceeds(self, i: int, j: int, epsilon: float, delta: float, rtol: float) -> bool:
        """Say whether a pair's delta at ``epsilon`` may exceed ``delta``."""
        t, densities = exp(epsilon), self._densities
        if self.tuples is None or densities is None or math.isinf(t):
            return self.report(i, j).at(epsilon, rtol, delta).bracket.upper > delta
        # Tens of thousands of pairs may come here: no listing, no merging of equal terms.
        none, nu, places = np.empty(0), self.tuples.dummy_distribution, self.tuples.dummies + 1
        masses, slack = (1.0, 1.0, self._mass), self.slack + 2 * UNIT
        terms = TupleSum(densities[i], densities[j], nu, none, none, places, slack, masses, lost=self.lost)
        return terms.delta(t, rtol, threshold=delta).bracket.upper > delta

    def report(self, i: int, j: int) -> Report:
        return law_report(self.mechanism, self.laws[i], self.laws[j], self.slack, self.lost)

    def single(self, t: float) -> FloatArray:
        """Return the hockey-stick divergence of one report for every ordered pair, to rounding."""
        values = np.array([np.maximum(row - scaled(t, self.laws), 0.0).sum(axis=1) for row in self.laws])
        np.fill_diagonal(values, -1.0)
        return values

    def limits(self, t: float) -> FloatArray:
        """Return an upper bound on delta for every ordered pair: of one report, and Chernoff's of a tuple."""
        values = self.single(t)
        off = ~np.eye(values.shape[0], dtype=bool)
        values[off] += (2 * self.slack + (self.laws.shape[1] + 8) * UNIT) * 2 + self.lost
        if self.tuples is not None and self.tuples.dummy_distribution.min() > 0 and math.isfinite(t):
            chernoff = pairwise_chernoff(self.laws, self.tuples.dummy_distribution, self.tuples.dummies + 1, t)
            values[off] = np.minimum(values, chernoff + 4 * self.slack + self.lost)[off]
        return values

    def ordered(self, limits: FloatArray) -> list[tuple[int, int]]:
        """Return the pairs, the most promising first."""
        order = np.argsort(-limits, axis=None)
        return [divmod(int(place), limits.shape[1]) for place in order if limits.flat[place] >= 0]

    def key(self, i: int, j: int) -> bytes:
        """Return what a pair's report depends on: its terms without their labels."""
        nu = getattr(self.mechanism, "dummy_distribution", np.zeros(self.laws.shape[1]))
        terms = np.array([self.laws[i], self.laws[j], nu])
        return terms[:, np.lexsort(terms)].tobytes()


def _largest_delta(family: _Family, epsilon: float, rtol: float) -> WorstPair:
    t = exp(epsilon)
    limits = family.limits(t)
    best = WorstPair(Bracket(0.0, 0.0), (0, 1))
    seen: set[bytes] = set()
    for i, j in family.ordered(limits):
        if limits[i, j] <= best.value.lower:
            break
        key = family.key(i, j)
        if key in seen:  # alike but for labels: as all pairs of the identity are
            continue
        seen.add(key)
        if best.value.lower > 0 and not family.exceeds(i, j, epsilon, best.value.lower, rtol):
            continue
        found = family.report(i, j).at(epsilon, rtol).bracket
        best = best.joined(found, (i, j))
    return best


def _largest_epsilon(family: _Family, delta: float, rtol: float) -> WorstPair:
    best = WorstPair(Bracket(0.0, 0.0), (0, 1))
    limits = family.limits(1.0)
    pairs = deque(family.ordered(limits))
    seen: set[bytes] = set()
    while pairs:
        i, j = pairs.popleft()
        if limits[i, j] <= delta and delta > 0:
            break
        key = family.key(i, j)
        if key in seen:  # alike but for labels: as all pairs of the identity are
            continue
        seen.add(key)
        ahead = best.value.lower
        if delta > 0 and ahead > 0 and not family.exceeds(i, j, ahead, delta, rtol):
            continue
        found = family.report(i, j).epsilon(delta, rtol)
        best = best.joined(found, (i, j))
        if math.isinf(best.value.lower):
            break
        if delta > 0 and best.value.lower > ahead:
            # At the epsilon that one pair needs, most others are within delta by their bounds alone.
            limits = np.minimum(limits, family.limits(exp(best.value.lower)))
            pairs = deque(pair for pair in family.ordered(limits) if limits[pair] > delta)
    return best


def rows(mechanism: Mechanism) -> FloatArray:
    """Return the laws of one report of every input, shape (|X|, |Y|)."""
    matrix = mechanism.channel()
    return matrix.toarray() if isinstance(matrix, sparse.csr_array) else matrix


def _family(mechanism: Mechanism, distributions: Sequence[ArrayLike]) -> _Family:
    size = len(mechanism.inputs)
    if len(distributions) < 2:
        raise DistributionError(f"a family needs at least two distributions, got {len(distributions)}")
    inputs = [distribution(law, size, f"distribution {i}") for i, law in enumerate(distributions)]
    laws, slack, lost = lifted_laws(mechanism, inputs)
    return _Family(mechanism, np.array(laws), slack, lost)
