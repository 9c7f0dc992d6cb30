"""The accountant at paper size (276 outputs) against exact arithmetic: 1,050 random points, contained, always.

The oracle knows nothing of the code's sums, grids or tilts. Counts are whole numbers, so at ``t0 = a/b`` every
term ``P - t0 Q`` over nu is a whole multiple of one unit, and the law of k dummies is a power of a polynomial
with whole coefficients. By Neyman and Pearson the best test of the tuple says "P" where the terms add up to
more than 0; its two error rates follow Algorithm 1 to the letter: one report from P or Q, k dummies from nu.
The test is best for every t near t0 that no other likelihood ratio lies between, and those are 1e-9 away at
least. So the value is also exact at ``e^epsilon`` for the double ``epsilon`` next to ``ln t0``; only tuples
whose terms add up to exactly 0 need a look at both sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import fmpz_poly

from distp import Identity, Tupling, delta, epsilon

OUTPUTS = 276
DUMMIES = (1, 2, 5, 10, 20, 50, 100)
PAIRS = 15  # of every kind: with 7 numbers of dummies and both orders 210 points each, 1,050 in all
DIGITS = 60


@dataclass(frozen=True)
class Case:
    """Counts of both distributions (of ``total`` each), whole weights of the dummies, and ``t0 = a/b``."""

    p: np.ndarray
    q: np.ndarray
    weights: np.ndarray
    a: int
    b: int

    @property
    def total(self) -> int:
        return int(self.p.sum())

    @property
    def epsilon(self) -> float:
        return math.log(self.a / self.b)

    def mechanism(self, dummies: int) -> Tupling:
        return Tupling(Identity(OUTPUTS), dummies, self.law)

    @property
    def law(self) -> np.ndarray | None:
        """The dummies' law, exact in doubles; ``None`` stands for the uniform one, which is not."""
        return None if (self.weights == 1).all() else self.weights / self.weights.sum()

    def swapped(self) -> Case:
        return Case(self.q, self.p, self.weights, self.a, self.b)


def powers(base: fmpz_poly) -> dict[int, fmpz_poly]:
    """Return ``base`` to each number of dummies, one from the other."""
    two = base * base
    five = two * two * base
    ten = five * five
    twenty = ten * ten
    fifty = twenty * twenty * ten
    return dict(zip(DUMMIES, (base, two, five, ten, twenty, fifty, fifty * fifty), strict=True))


def rates(case: Case) -> dict[int, list[tuple[Fraction, Fraction]]]:
    """Return for every k the probabilities under P and under Q that the terms add up to more than 0, and to 0."""
    live = case.weights > 0
    p, q, weights = case.p[live], case.q[live], case.weights[live]
    lattice = int(weights.max()) * (case.b * p - case.a * q) // weights  # weights are powers of two: exact
    least = int(lattice.min())
    shape = np.zeros(int(lattice.max()) - least + 1, dtype=np.int64)
    np.add.at(shape, lattice - least, weights)
    found = {}
    for k, law in powers(fmpz_poly(shape.tolist())).items():
        coefficients = [int(x) for x in law.coeffs()]  # [i] belongs to the sum i + k * least
        scale = case.total * int(weights.sum()) ** k
        above, beyond, at = [0, 0], 0, len(coefficients)
        level = [0, 0]
        # A report of lattice point n sends the tuple above 0 if its dummies sum to more than -n.
        for n in np.unique(lattice).tolist():
            first = max(0, min(len(coefficients), 1 - n - k * least))
            beyond += sum(coefficients[first:at])
            at = first
            tie = coefficients[-n - k * least] if 0 <= -n - k * least < len(coefficients) else 0
            for i, counts in enumerate((p, q)):
                share = int(counts[lattice == n].sum())
                above[i] += share * beyond
                level[i] += share * tie
        found[k] = [tuple(Fraction(x, scale) for x in pair) for pair in (above, level)]
    return found


def as_meant(case: Case, k: int) -> Fraction:
    """Return what the doubles of the dummies' law multiply every probability by: 1 unless it is uniform on 276."""
    if case.law is not None:
        return Fraction(1)
    return (OUTPUTS * Fraction(float(case.mechanism(k).dummy_distribution[0]))) ** k


def number(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def exact_deltas(case: Case) -> dict[int, mpmath.mpf]:
    """Return delta at ``e^epsilon`` for every k: to 40 digits at least, for fewer than 20 of 60 cancel."""
    t = mpmath.exp(mpmath.mpf(case.epsilon))
    missed = case.weights == 0  # what no dummy hides
    bare = sum(
        max(mpmath.mpf(0), int(p) - t * int(q)) for p, q in zip(case.p[missed], case.q[missed], strict=True)
    ) / mpmath.mpf(case.total)
    found = {}
    for k, (above, level) in rates(case).items():
        value = number(above[0]) - t * number(above[1])
        value += max(mpmath.mpf(0), number(level[0]) - t * number(level[1]))
        found[k] = number(as_meant(case, k)) * value + bare
    return found


ONES = np.ones(OUTPUTS, dtype=np.int64)


def counts(rng, total: int, alpha: float, heavy: int = 0) -> np.ndarray:
    """Draw ``total`` counts over the outputs, ``heavy`` of them on one."""
    drawn = rng.multinomial(total - heavy, rng.dirichlet(np.full(OUTPUTS, alpha)))
    drawn[rng.integers(OUTPUTS)] += heavy
    return drawn


def plain(rng) -> Case:
    alpha = rng.choice([1.0, 8.0])
    a, b = [(1, 1), (3, 2), (2, 1), (3, 1)][rng.integers(4)]
    return Case(counts(rng, 512, alpha), counts(rng, 512, alpha), ONES, a, b)


def nearly_equal(rng) -> Case:
    p = counts(rng, 1024, 2.0)
    q = p.copy()
    for _ in range(rng.integers(1, 150)):
        source = rng.choice(np.flatnonzero(q))
        q[source] -= 1
        q[rng.integers(OUTPUTS)] += 1
    a, b = [(1, 1), (11, 10), (3, 2), (3, 1)][rng.integers(4)]
    return Case(p, q, ONES, a, b)


def heavy_and_sparse(rng) -> Case:
    a, b = [(1, 1), (3, 2), (2, 1), (4, 1)][rng.integers(4)]
    p, q = (counts(rng, 128, 0.2, int(rng.integers(0, 40))) for _ in range(2))
    return Case(p, q, ONES, a, b)


def uneven_dummies(rng) -> Case:
    weights = rng.permutation(np.repeat([1, 2, 4], [80, 176, 20]))  # 512 in all: exact in doubles
    alpha = rng.choice([1.0, 8.0])
    a, b = [(1, 1), (3, 2), (2, 1), (5, 4)][rng.integers(4)]
    return Case(counts(rng, 128, alpha), counts(rng, 128, alpha), weights, a, b)


def outputs_without_dummies(rng) -> Case:
    weights = rng.permutation(np.repeat([0, 1], [20, 256]))
    p, q = counts(rng, 512, 1.0), counts(rng, 512, 1.0)
    if rng.random() < 0.5:  # in one order nothing is bare then, and delta may be tiny
        kept = np.where(weights == 1, p, 0)
        kept[np.flatnonzero(weights)[rng.integers(256)]] += p.sum() - kept.sum()
        p = kept
    a, b = [(1, 1), (3, 2), (2, 1), (5, 4)][rng.integers(4)]
    return Case(p, q, weights, a, b)


KINDS = (plain, nearly_equal, heavy_and_sparse, uneven_dummies, outputs_without_dummies)


def cases(kind):
    """Draw pairs of one kind; both orders of each."""
    rng = np.random.default_rng([2024, KINDS.index(kind)])
    for _ in range(PAIRS):
        case = kind(rng)
        yield case, case.swapped()


def tolerance(kind, k: int) -> float:
    """Return a width that can be had quickly: many exact ties at 0 ask for long transforms."""
    return 1e-3 if kind is nearly_equal and k > 2 else 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_delta_contains_the_exact_value_at_each_of_1050_points(kind):
    """210 points of each of five kinds; the brackets are as narrow as asked, so none is right by being wide."""
    judged = set()
    with mpmath.workdps(DIGITS):
        for pair, orders in enumerate(cases(kind)):
            exact = [exact_deltas(case) for case in orders]
            for k in DUMMIES:
                rtol = tolerance(kind, k)
                found = []
                for order, case in enumerate(orders):
                    p, q = case.p / case.total, case.q / case.total
                    found.append(delta(case.mechanism(k), p, q, case.epsilon, ordered=True, rtol=rtol))
                    value = exact[order][k]
                    assert found[-1].lower <= value <= found[-1].upper, (pair, order, k, mpmath.nstr(value, 20))
                    assert found[-1].width <= rtol * found[-1].upper or value == 0
                    judged.add((pair, order, k))
                if k == 20:
                    both = delta(case.mechanism(k), p, q, case.epsilon)
                    assert both.lower <= max(exact[0][k], exact[1][k]) <= both.upper
    assert len(judged) == 210


@pytest.mark.parametrize("kind", KINDS)
def test_epsilon_lies_on_the_right_sides_of_a_root_known_exactly(kind):
    """The root for a target just below the exact delta at ``epsilon`` is above it; just above, below it."""
    judged = 0
    with mpmath.workdps(DIGITS):
        for case, _ in cases(kind):
            if judged == 12 or case.epsilon == 0:
                continue
            exact = exact_deltas(case)
            for k in (2, 20):
                p, q = case.p / case.total, case.q / case.total
                nearest = float(exact[k])
                below = nearest if nearest <= exact[k] else math.nextafter(nearest, 0.0)
                above = math.nextafter(below, 1.0) if below < exact[k] else below
                for target, side in ((below, "upper"), (above, "lower")):
                    found = epsilon(case.mechanism(k), p, q, target, ordered=True, rtol=3e-4)
                    end = getattr(found, side)
                    assert end >= case.epsilon if side == "upper" else end <= case.epsilon
                    assert found.width <= 3.3e-4 * found.upper
                    judged += 1
    assert judged == 12
