"""Delta and epsilon of any mechanism, for a pair of distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from distp.checks import FloatArray, distribution, positive, probability
from distp.errors import ParameterError, PrecisionError
from distp.mechanisms import Mechanism, Tupling
from distp.privacy.bracket import Bracket, largest
from distp.privacy.root import root
from distp.privacy.single import LEAST, UNIT, at_epsilon, exp, hockey_stick, inverse, scaled
from distp.privacy.subsets import SubsetSum
from distp.privacy.tuples import Found, TupleSum, as_single_report

RTOL = 1e-4


@dataclass(frozen=True, eq=False)
class SingleReport:
    """Two laws of one report, in this order."""

    P: FloatArray
    Q: FloatArray
    slack: float
    lost: float = 0.0
    place: Report | None = None  # of a listed tuple: what has the same pure epsilon, such as its real report alone

    @property
    def masses(self) -> tuple[float, float]:
        """The sums of both laws: 1 up to rounding."""
        return math.fsum(self.P), math.fsum(self.Q)

    def swapped(self) -> SingleReport:
        """Return the same in the other order."""
        return SingleReport(self.Q, self.P, self.slack, self.lost, self.place.swapped() if self.place else None)

    def delta(  # one signature for every kind of report
        self,
        t: float,
        rtol: float = RTOL,  # noqa: ARG002
        atol: float = 0.0,  # noqa: ARG002
        threshold: float | None = None,  # noqa: ARG002
    ) -> Found:
        """Return the hockey-stick divergence at ``t = e^epsilon`` >= 0."""
        slope = float(self.Q[scaled(t, self.Q) < self.P].sum())
        return Found(hockey_stick(self.P, self.Q, t, self.slack, self.lost), slope, True)

    def at(self, epsilon: float, rtol: float = RTOL, threshold: float | None = None) -> Found:  # noqa: ARG002
        """Return the divergence at ``epsilon`` >= 0, also where its exponential is no double."""
        slope = self.delta(exp(epsilon)).slope
        return Found(at_epsilon(self.P, self.Q, epsilon, self.slack, self.lost), slope, True)

    def epsilon(self, delta: float, rtol: float = RTOL) -> Bracket:  # noqa: ARG002
        """Return the least epsilon >= 0 whose divergence is at most ``delta``."""
        if delta == 0 and self.place is not None:
            return self.place.epsilon(0.0)
        return inverse(self.P, self.Q, delta, self.slack, self.lost)


@dataclass(frozen=True, eq=False)
class TupleReport:
    """Two laws of a tuple, in this order, by the sum of its terms."""

    terms: TupleSum | SubsetSum
    single: SingleReport

    @property
    def masses(self) -> tuple[float, float]:
        """The sums of both laws: 1 up to rounding."""
        dummies, _ = self.terms.dummies_mass
        return self.terms.masses[0] * dummies, self.terms.masses[1] * dummies

    def swapped(self) -> TupleReport:
        """Return the same in the other order."""
        return TupleReport(self.terms.swapped(), self.single.swapped())

    def delta(self, t: float, rtol: float = RTOL, atol: float = 0.0, threshold: float | None = None) -> Found:
        """Return the hockey-stick divergence at ``t = e^epsilon`` >= 0; see `TupleSum.delta`."""
        if t >= 1:
            return self.terms.delta(t, rtol, atol, threshold)
        # Below 1 the other order says the same without cancellation: P - t Q + t delta'(1/t), in masses.
        p, q = self.masses
        other = self.terms.swapped().delta(1 / t if t > 0 else math.inf, rtol, atol)
        edge = 16 * UNIT + 4 * self.terms.slack + self.terms.dummies_mass[1]
        lower, upper = (p - t * q + t * end for end in (other.bracket.lower, other.bracket.upper))
        return Found(Bracket(max(0.0, lower - edge), upper + edge), q, other.resolved)

    def at(self, epsilon: float, rtol: float = RTOL, threshold: float | None = None) -> Found:
        """Return the divergence at ``epsilon`` >= 0, also where its exponential is no double."""
        if exp(epsilon) < math.inf or math.isinf(epsilon):
            return self.delta(exp(epsilon), rtol, threshold=threshold)
        before, after = self.delta(exp(708.0), rtol), self.delta(math.inf, rtol)
        bracket = Bracket(after.bracket.lower, before.bracket.upper)
        return Found(bracket, after.slope, bracket.width <= rtol * bracket.upper)

    def epsilon(self, delta: float, rtol: float = RTOL) -> Bracket:
        """Return the least epsilon >= 0 whose divergence is at most ``delta``."""
        if delta == 0 and isinstance(self.terms, SubsetSum):
            return self.terms.pure()
        if delta == 0:
            # The tuple that repeats the worst output is possible: dummies do not lower the pure epsilon.
            return self.single.epsilon(0.0)
        return root(self.terms.delta, delta, rtol)


Report = SingleReport | TupleReport


def report(mechanism: Mechanism, p: ArrayLike, q: ArrayLike) -> Report:
    """Return what a receiver may see under ``p`` and under ``q``: the object that all accounting works on."""
    size = len(mechanism.inputs)
    left, right = distribution(p, size, "p"), distribution(q, size, "q")
    if np.array_equal(left, right):
        return SingleReport(np.ones(1), np.ones(1), 0.0)  # nothing to tell apart, whatever is reported
    (P, Q), slack, lost = lifted_laws(mechanism, [left, right])
    return law_report(mechanism, P, Q, slack, lost)


def lifted_laws(mechanism: Mechanism, laws: Sequence[FloatArray]) -> tuple[list[FloatArray], float, float]:
    """Return the laws of the report, a bound on their relative error, and one on what each lost to underflow."""
    lifted, slack = [mechanism.lift(law) for law in laws], lifting_error(mechanism)
    lost = 0.0 if slack == 0 else max(underflow(mechanism, *both) for both in zip(laws, lifted, strict=True))
    return lifted, slack, lost


def law_report(mechanism: Mechanism, P: FloatArray, Q: FloatArray, slack: float, lost: float = 0.0) -> Report:
    """Return what a receiver may see when ``P`` or ``Q`` (shape (|Y|,)) is the law of the real report."""
    alone = SingleReport(P, Q, slack, lost)
    if not isinstance(mechanism, Tupling) or mechanism.dummies == 0:
        return alone
    if not mechanism.replacement:
        subsets = SubsetSum(P, Q, mechanism.dummies + 1, slack, lost)
        summed, listed = TupleReport(subsets, alone), subsets.listed()
        return summed if listed is None else SingleReport(*listed, summed)
    terms = TupleSum.of(P, Q, mechanism.dummy_distribution, mechanism.dummies + 1, slack, lost)
    listed = as_single_report(terms)
    return TupleReport(terms, alone) if listed is None else SingleReport(*listed, alone)


def underflow(mechanism: Mechanism, law: FloatArray, lifted: FloatArray) -> float:
    """Bound the mass that lifting lost in products below the range of a double (of its normal numbers)."""
    matrix = mechanism.channel()
    entries = matrix.data if isinstance(matrix, sparse.csr_array) else matrix
    if float(entries[entries > 0].min()) * float(law[law > 0].min()) >= LEAST:
        return 0.0
    small = lifted[np.asarray((law > 0) @ (matrix > 0), dtype=bool)] < LEAST
    return LEAST * float(small.sum())


def lifting_error(mechanism: Mechanism) -> float:
    """Bound the relative error of an entry of a lifted distribution: one rounding a product, one an addition."""
    matrix = mechanism.channel()
    if isinstance(matrix, sparse.csr_array):
        most = int(np.bincount(matrix.indices, minlength=1).max())
        exact = most == 1 and bool((matrix.data == 1).all())
        return 0.0 if exact else (most + 1) * UNIT
    return (len(mechanism.inputs) + 1) * UNIT


def delta(
    mechanism: Mechanism,
    p: ArrayLike,
    q: ArrayLike,
    epsilon: float,
    *,
    rtol: float = RTOL,
    ordered: bool = False,
    threshold: float | None = None,
) -> Bracket:
    """Return the least delta for which the mechanism is (epsilon, delta)-DistP for the pair.

    Parameters
    ----------
    mechanism : Mechanism
    p, q : array_like, shape (|X|,)
        The two distributions of the input.
    epsilon : float
        >= 0; ``inf`` asks for the mass that only one of the two can produce.
    rtol : float
        Relative width that the bracket must reach, unless the rounding of the lifted distributions leaves more.
    ordered : bool
        Only "p as if q", instead of the larger of both orders.
    threshold : float, optional
        Stop as soon as the bracket lies on one side of this, however wide it is.

    Returns
    -------
    Bracket
        Contains the exact value; claim its upper end.

    Raises
    ------
    ParameterError, DistributionError
        Bad arguments, by name.
    PrecisionError
        The bracket stays wider than ``rtol`` asks.

    Notes
    -----
    Source: theory, Definition 8; section 4.2 for tuples, 4.7 for dummies without replacement.

    Examples
    --------
    >>> from distp.mechanisms import Identity, Tupling
    >>> p, q = [.5, .3, .2, 0], [.1, .2, .3, .4]
    >>> round(delta(Tupling(Identity(4), dummies=5), p, q, 0.5).upper, 10)
    0.0588062921
    """
    epsilon = check_epsilon(epsilon)
    positive(rtol, "rtol")
    seen = report(mechanism, p, q)
    orders = [seen] if ordered else [seen, seen.swapped()]
    return _worst_order([one.at(epsilon, rtol, threshold) for one in orders], rtol)


def best_delta(
    mechanism: Mechanism,
    p: ArrayLike,
    q: ArrayLike,
    epsilon: float,
    *,
    rtol: float = RTOL,
    threshold: float | None = None,
) -> Bracket:
    """Return `delta`, or the bracket that could not be narrowed as far as ``rtol`` asks: it is valid all the same."""
    try:
        return delta(mechanism, p, q, epsilon, rtol=rtol, threshold=threshold)
    except PrecisionError as error:
        bracket: Bracket = error.bracket
        return bracket


def profile(
    mechanism: Mechanism,
    p: ArrayLike,
    q: ArrayLike,
    epsilons: ArrayLike,
    *,
    rtol: float = RTOL,
    ordered: bool = False,
) -> list[Bracket]:
    """Return delta at many epsilons: the privacy profile of the pair.

    Parameters
    ----------
    mechanism, p, q, rtol, ordered
        As for `delta`.
    epsilons : array_like, shape (n,)

    Returns
    -------
    list of Bracket
        Upper and lower ends fall with epsilon: what a smaller epsilon proves, a larger one inherits.

    Examples
    --------
    >>> from distp.mechanisms import RandomizedResponse
    >>> [round(b.upper, 4) for b in profile(RandomizedResponse(2, 1.0), [1, 0], [0, 1], [0.0, 0.5, 1.0])]
    [0.4621, 0.2876, 0.0]
    """
    asked = [check_epsilon(value) for value in np.atleast_1d(np.asarray(epsilons, dtype=np.float64)).tolist()]
    positive(rtol, "rtol")
    seen = report(mechanism, p, q)
    orders = [seen] if ordered else [seen, seen.swapped()]
    found: dict[float, Bracket] = {}
    upper = math.inf
    for value in sorted(set(asked)):
        bracket = _worst_order([one.at(value, rtol) for one in orders], rtol)
        upper = min(upper, bracket.upper)
        found[value] = Bracket(min(bracket.lower, upper), upper)
    return [found[value] for value in asked]


def _worst_order(found: list[Found], rtol: float) -> Bracket:
    """Return the bracket of the larger value, or raise with it if it is too wide."""
    result = largest([one.bracket for one in found])
    if not all(one.resolved for one in found) and result.width > rtol * result.upper:
        raise PrecisionError(
            f"delta lies in {result}, which the finest grid does not narrow to rtol={rtol:g}", result
        )
    return result


def epsilon(
    mechanism: Mechanism,
    p: ArrayLike,
    q: ArrayLike,
    delta: float,
    *,
    rtol: float = RTOL,
    ordered: bool = False,
) -> Bracket:
    """Return the least epsilon for which the mechanism is (epsilon, delta)-DistP for the pair.

    Parameters
    ----------
    mechanism : Mechanism
    p, q : array_like, shape (|X|,)
    delta : float
        In [0, 1]. At 0 this is the pure epsilon, infinite where the supports differ.
    rtol : float
        Relative width that the bracket must reach.
    ordered : bool
        Only "p as if q", instead of the larger of both orders.

    Returns
    -------
    Bracket
        Contains the exact value; claim its upper end.

    Examples
    --------
    >>> from distp.mechanisms import RandomizedResponse
    >>> round(epsilon(RandomizedResponse(2, 1.0), [1, 0], [0, 1], 0.0).upper, 6)
    1.0
    """
    delta = probability(delta, "delta")
    positive(rtol, "rtol")
    seen = report(mechanism, p, q)
    result = seen.epsilon(delta, rtol)
    if not ordered:
        other = seen.swapped()
        # Often one order is plainly the worse: a look at the other where the first ends saves its whole search.
        settled = 0 < result.lower < math.inf and other.at(result.lower, rtol).bracket.upper <= delta
        result = result if settled else largest([result, other.epsilon(delta, rtol)])
    if result.lower < result.upper and (math.isinf(result.upper) or result.width > 1.1 * rtol * result.upper > 1e-13):
        raise PrecisionError(f"epsilon lies in {result}, which could not be narrowed to rtol={rtol:g}", result)
    return result


def check_epsilon(epsilon: float) -> float:
    """Return ``epsilon`` as a float >= 0, infinity included."""
    epsilon = float(epsilon)
    if math.isnan(epsilon) or epsilon < 0:
        raise ParameterError(f"epsilon must be a number >= 0, got {epsilon!r}")
    return epsilon
