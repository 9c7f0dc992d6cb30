"""Delta and epsilon of several independent reports, as brackets.

Of two reports, ``sum (p1 p2 - t q1 q2)_+ = sum_y p1[y] H_2(t q1[y] / p1[y])``, where H_2 is the second one's privacy
profile: a larger profile of one report gives a larger delta of all of them, a smaller one a smaller delta. So each
report is replaced by two discrete pairs (`distp.privacy.profiles`), one with a profile above its own and one below.

The losses ``L = ln(P/Q)`` of independent reports add up, and so do those of their atoms, on a lattice of step h:

* Upper end: an atom is split between its two lattice neighbours, with its masses under P and under Q both kept. That
  is a chord of its profile, so the profile can only grow. Then ``delta = E_P[(1 - e^(epsilon - L))_+]``.
* Lower end: the same split, read as a random label. "The labels add up to s or more" is a test of the reports, and
  the advantage ``P[test] - e^epsilon Q[test]`` of any test, with the *true* masses, is at most delta.

Both differ in second order of h. The laws of the sums are powers of Fourier transforms. They are tilted by
``e^(theta L)`` first, so that the sum is centred where it matters and a small delta keeps its relative precision.
What leaves the window is bounded by Chernoff and counted against either end, and so is the transforms' round-off
(entrywise ``c u log2 N``, in the 2-norm on the way back).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from distp.checks import count, positive, probability
from distp.errors import ParameterError, PrecisionError
from distp.mechanisms import Mechanism
from distp.privacy import accountant, lattice
from distp.privacy.accountant import Report, SingleReport, report
from distp.privacy.bracket import Bracket, largest
from distp.privacy.profiles import Exact, Profile
from distp.privacy.single import UNIT

MAX_REPORTS = 10_000
RTOL = 1e-2
Part = tuple[Mechanism, ArrayLike, ArrayLike, int]
_FIRST, _LAST = 1 << 13, 1 << 21  # lattice points
_LEAST = 1e-30  # below this a delta is only said to be below this
_SMALLEST = 1e-300
_ROUNDS = 40


@dataclass(frozen=True)
class Composition:
    """What several reports reveal together.

    Parameters
    ----------
    delta : Bracket or None
        Contains the exact delta of all reports together; None where no guarantee is known.
    reports : int
        How many reports were made.
    protected : bool
        Whether the upper end of ``delta`` may be claimed.
    statement : str
        The same in words.
    """

    delta: Bracket | None
    reports: int
    protected: bool
    statement: str


def compose(parts: Sequence[Part], epsilon: float, *, rtol: float = RTOL) -> Composition:
    """Return delta of several reports, each on a fresh independent draw from the same member of a pair.

    Parameters
    ----------
    parts : sequence of (mechanism, p, q, n)
        ``n`` reports of the mechanism on n independent draws, all from ``p`` or all from ``q``; the inputs of
        different parts are independent too. At most 10,000 reports in all.
    epsilon : float
        >= 0, of all reports together; may be ``inf``.
    rtol : float
        Relative width that the bracket must reach, unless the rounding of the reports' laws leaves more (about
        1e-14 a report); a delta below 1e-30 is only said to be below that.

    Returns
    -------
    Composition
        Its ``delta`` contains the larger of both orders.

    Raises
    ------
    ParameterError, DistributionError
        Bad arguments, by name.
    PrecisionError
        The bracket, which is attached, stays wider.

    Notes
    -----
    Source: theory 5.2 (independent inputs); nothing is claimed for reports of one location, see `same_location`.

    Examples
    --------
    >>> from distp.mechanisms import RandomizedResponse
    >>> part = (RandomizedResponse(2, 1.0), [1, 0], [0, 1], 2)
    >>> round(compose([part], 1.0).delta.upper, 6)
    0.337835
    """
    epsilon = accountant.check_epsilon(epsilon)
    positive(rtol, "rtol")
    parts, reports = _checked(parts)
    if reports == 1:
        mechanism, p, q, _ = parts[0]
        one = accountant.delta(mechanism, p, q, epsilon, rtol=min(rtol, accountant.RTOL))
        found = Bracket(min(one.lower, 1.0), min(one.upper, 1.0))
    else:
        found = _Sum(parts, rtol).delta(epsilon, rtol)
    text = (
        f"{reports} report(s), each on a fresh independent draw: together "
        f"({epsilon:g}, {found.claim()})-distribution privacy for this pair"
    )
    return Composition(found, reports, True, text)


def compose_epsilon(parts: Sequence[Part], delta: float, *, rtol: float = RTOL) -> Bracket:
    """Return the least epsilon at which several independent reports together have at most ``delta``.

    Parameters
    ----------
    parts : sequence of (mechanism, p, q, n)
        As for `compose`.
    delta : float
        In [0, 1]. At 0 this is the sum of the reports' pure epsilons, infinite where supports differ.
    rtol : float
        Relative width that the bracket must reach.

    Returns
    -------
    Bracket
        Contains the larger of both orders.

    Raises
    ------
    ParameterError, DistributionError
        Bad arguments, by name.
    PrecisionError
        The bracket, which is attached, stays wider.

    Examples
    --------
    >>> from distp.mechanisms import RandomizedResponse
    >>> part = (RandomizedResponse(2, 1.0), [1, 0], [0, 1], 3)
    >>> round(compose_epsilon([part], 0.0).upper, 6)
    3.0
    """
    delta = probability(delta, "delta")
    positive(rtol, "rtol")
    parts, reports = _checked(parts)
    if reports == 1:
        mechanism, p, q, _ = parts[0]
        return accountant.epsilon(mechanism, p, q, delta, rtol=min(rtol, accountant.RTOL))
    if delta == 0:
        seen = [(report(mechanism, p, q), n) for mechanism, p, q, n in parts]
        return largest([_pure(seen), _pure([(one.swapped(), n) for one, n in seen])])
    return _Sum(parts, min(rtol, 1e-2)).epsilon(delta, rtol)


def same_location(
    mechanism: Mechanism, p: ArrayLike, q: ArrayLike, n: int, epsilon: float, memoised: bool = False
) -> Composition:
    """Say what ``n`` reports of the *same* location reveal.

    Parameters
    ----------
    mechanism : Mechanism
    p, q : array_like, shape (|X|,)
    n : int
        >= 1 reports.
    epsilon : float
        >= 0.
    memoised : bool
        Whether the first report is sent again, unchanged; otherwise each is made afresh.

    Returns
    -------
    Composition
        With ``memoised`` (or n = 1): one report's delta. Otherwise no guarantee, as none exists.

    Notes
    -----
    Source: theory 5.1. Two reports, each with epsilon = delta = 0, can tell a pair apart with certainty.
    """
    n = count(n, "n", 1)
    found = accountant.delta(mechanism, p, q, epsilon)
    if memoised or n == 1:
        text = f"{n} time(s) the same report of one location: counts once, ({epsilon:g}, {found.claim()})"
        return Composition(found, n, True, text)
    text = (
        f"{n} fresh reports of the same location are unprotected: a guarantee for one report says nothing about "
        "several of one location. Send the first report again instead."
    )
    return Composition(None, n, False, text)


def _checked(parts: Sequence[Part]) -> tuple[list[Part], int]:
    """Return the parts, and how many reports they are."""
    if len(parts) == 0:
        raise ParameterError("parts must hold at least one (mechanism, p, q, n)")
    for i, part in enumerate(parts):
        if not isinstance(part, Sequence) or len(part) != 4:
            raise ParameterError(f"parts[{i}] must be (mechanism, p, q, n)")
    checked = [(m, p, q, count(n, f"n of parts[{i}]", 1)) for i, (m, p, q, n) in enumerate(parts)]
    total = sum(n for *_, n in checked)
    if total > MAX_REPORTS:
        raise ParameterError(f"parts hold {total} reports in all, at most {MAX_REPORTS} are supported")
    return checked, total


def _pure(seen: list[tuple[Report, int]]) -> Bracket:
    """Return the sum of the pure epsilons of one order: the worst outputs of all reports may coincide."""
    # Where Q is the larger one everywhere a report's own value would be negative; 0 is what `epsilon` says, and
    # impossible for laws of equal mass.
    found = [(one.epsilon(0.0), n) for one, n in seen]
    wobble = 1 + 4 * UNIT * len(found)
    return Bracket(sum(n * b.lower for b, n in found) / wobble, sum(n * b.upper for b, n in found) * wobble)


class _Sum:
    """All reports together: their discrete pairs, made finer as needed."""

    def __init__(self, parts: Sequence[Part], rtol: float) -> None:
        grouped: dict[tuple[int, bytes, bytes], tuple[Report, int]] = {}
        for mechanism, p, q, n in parts:
            key = (id(mechanism), np.asarray(p, np.float64).tobytes(), np.asarray(q, np.float64).tobytes())
            seen, before = grouped[key] if key in grouped else (report(mechanism, p, q), 0)
            if not (isinstance(seen, SingleReport) and seen.slack == 0 and np.array_equal(seen.P, seen.Q)):
                grouped[key] = (seen, before + n)
        self.counts = [n for _, n in grouped.values()]
        fine = max(1e-5, min(1e-4, 0.1 * rtol / math.sqrt(sum(self.counts) + 1)))
        self.sources: list[Exact | Profile] = [
            Exact(seen) if isinstance(seen, SingleReport) else Profile(seen, fine) for seen, _ in grouped.values()
        ]
        self.points = _FIRST

    @property
    def rounding(self) -> float:
        """Bound how far, in its logarithm, a mass of the sum is off."""
        worst = [max(atoms.rounding for pair in source.sides for atoms in pair) for source in self.sources]
        return sum(n * r for n, r in zip(self.counts, worst, strict=True))

    def delta(self, epsilon: float, rtol: float) -> Bracket:
        """Return the larger order's delta, refining until its relative width is ``rtol``."""
        before = math.inf
        for _ in range(_ROUNDS):
            found, side = self.bracket(epsilon)
            if found.width <= rtol * found.upper or found.upper <= _LEAST:
                return found
            # Rounding alone leaves this much open, whatever is refined.
            settled = found.width > 0.5 * before and found.width <= 8 * self.rounding
            before = found.width
            if settled or not self.refine(side, epsilon):
                break
        if found.width <= 8 * self.rounding:
            return found
        raise PrecisionError(f"delta lies in {found}, which could not be narrowed to rtol={rtol:g}", found)

    def epsilon(self, delta: float, rtol: float) -> Bracket:
        """Return the epsilon of ``delta`` > 0, refining until its relative width is ``rtol``."""
        if not self.sources:
            return Bracket(0.0, 0.0)
        for _ in range(_ROUNDS):
            # A value that is "at most delta" by its upper end, and one that is "above delta" by its lower end.
            upper = self._crossing(lambda e: max(self.upper(0, e), self.upper(1, e)), delta, rtol, 1.0)
            lower = self._crossing(lambda e: max(self.lower(0, e), self.lower(1, e)), delta, rtol, -1.0)
            found = Bracket(min(lower, upper), upper)
            if found.width <= rtol * found.upper:
                return found
            point = found.upper if math.isfinite(found.upper) else found.lower
            if not self.refine(self.bracket(point)[1], point):
                break
        raise PrecisionError(f"epsilon lies in {found}, which could not be narrowed to rtol={rtol:g}", found)

    def _crossing(self, value: Callable[[float], float], target: float, rtol: float, sign: float) -> float:
        """Return where a falling ``value`` passes ``target``, on its lower side for ``sign`` 1, else its upper."""
        if value(0.0) <= target:
            return 0.0
        if value(math.inf) > target:
            return math.inf
        low, high = 0.0, 0.5
        while value(high) > target:
            low, high = high, 2 * high
            if high > 1e8:
                return math.inf if sign > 0 else low

        def height(epsilon: float) -> float:
            return math.log(max(value(epsilon), 1e-300) / target)

        root = float(brentq(height, low, high, xtol=0.02 * rtol * max(low, 1e-3 * high), rtol=1e-14, maxiter=100))
        step = 0.05 * rtol * root
        for _ in range(60):
            edge = root + sign * step
            if edge <= low and sign < 0:
                return low  # where the search began: still above
            if (value(edge) <= target) if sign > 0 else (value(edge) > target):
                return edge
            step *= 2
        return math.inf if sign > 0 else 0.0

    def bracket(self, epsilon: float) -> tuple[Bracket, int]:
        """Return the bracket of the larger order with the present pairs, and which order that is."""
        if not self.sources:
            return Bracket(0.0, 0.0), 0
        uppers = [self.upper(side, epsilon) for side in (0, 1)]
        lower = max(self.lower(side, epsilon) for side in (0, 1))
        return Bracket(min(lower, max(uppers)), max(uppers)), int(uppers[1] > uppers[0])

    def refine(self, side: int, epsilon: float) -> bool:
        """Make finer what leaves most open: the lattice or a profile. Return whether anything could be."""
        atoms = [source.sides[side] for source in self.sources]
        uppers = self._reports(side, 0)
        if not _finite(uppers) or math.isinf(epsilon):
            return False
        theta, variance = lattice.tilt(uppers, epsilon)
        if theta == 0 and variance > 0:  # the untilted law weighs where it is wide
            largest_loss = max(float(np.abs(above.loss).max()) for above, _ in uppers)
            theta = min(1 / math.sqrt(variance), 30 / largest_loss)
        step = lattice.window(uppers, theta, self.points).step
        # Delta changes by about the factor by which an approximation changes E_P[e^(theta L)].
        spread = sum(n * math.log(lattice.labels(above, theta, step).P.sum()) for above, n in uppers)
        gaps = [
            n * (above.tilted(theta)[0] - below.tilted(theta)[0])
            for (above, below), n in zip(atoms, self.counts, strict=True)
        ]
        refined = False
        if max(gaps) > 0.3 * spread:
            for source, gap in zip(self.sources, gaps, strict=True):
                if gap > 0.3 * max(gaps):
                    refined = source.refine(side, theta) or refined
        if (not refined or spread > 0.3 * max(gaps)) and self.points < _LAST:
            self.points *= 4
            refined = True
        return refined

    def _reports(self, side: int, which: int) -> lattice.Reports:
        return [(source.sides[side][which], n) for source, n in zip(self.sources, self.counts, strict=True)]

    def upper(self, side: int, epsilon: float) -> float:
        """Return the upper end of one order's delta at ``epsilon``."""
        reports = self._reports(side, 0)
        value = lattice.infinite_part(reports)
        if math.isfinite(epsilon) and _finite(reports):
            # Masses off by a factor e^(+-r) are another epsilon, 2r away, and a factor on delta.
            moved = epsilon - 2 * self.rounding
            theta, _ = lattice.tilt(reports, moved)
            value += lattice.above(reports, moved, lattice.window(reports, theta, self.points))
        # Subnormal numbers round by more than a share of themselves.
        return min(value * math.exp(self.rounding) * (1 + 16 * UNIT) + _SMALLEST, 1.0)

    def lower(self, side: int, epsilon: float) -> float:
        """Return the lower end of one order's delta at ``epsilon``."""
        reports = self._reports(side, 1)
        value = lattice.infinite_part(reports)
        if math.isfinite(epsilon) and _finite(reports):
            theta, _ = lattice.tilt(reports, epsilon)
            at = lattice.window(reports, theta, self.points)
            value += max(0.0, lattice.below(reports, epsilon, self.rounding, at))
        return max(0.0, value * math.exp(-self.rounding) * (1 - 16 * UNIT) - _SMALLEST)


def _finite(reports: lattice.Reports) -> bool:
    """Whether any sum of losses is finite."""
    return all(atoms.loss.size > 0 for atoms, _ in reports)
