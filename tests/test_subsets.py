"""Dummies without replacement: every subset in rational arithmetic, the i.i.d. tuple above, the sampler below."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from distp import Channel, Identity, RandomizedResponse, Space, Tupling, delta, epsilon, expected_loss, worst_loss
from distp.errors import MechanismError, ParameterError, PrecisionError
from distp.privacy import accountant
from distp.privacy.subsets import SubsetSum
from distp.release.entropy import Seeded, SystemEntropy
from distp.release.sampling import Sampler
from distp.release.weights import Weights
from helpers import distributions, fractions

P = [0.5, 0.3, 0.2, 0.0]
Q = [0.1, 0.2, 0.3, 0.4]
ALPHA = 1e-6
EPSILONS = [0.0, 1e-9, 0.1, 0.5, 1.0, 3.0, 10.0, 800.0]


def exp(eps: float) -> float:
    return math.exp(eps) if eps < 709 else math.inf


def subset_laws(p, q, m):
    """Return both probabilities of every set of m outputs, by following the mechanism: report, then dummies."""
    p, q = fractions(p), fractions(q)
    share = Fraction(1, math.comb(len(p) - 1, m - 1))
    laws = {frozenset(T): [Fraction(0), Fraction(0)] for T in itertools.combinations(range(len(p)), m)}
    for s in range(len(p)):
        others = [y for y in range(len(p)) if y != s]
        for dummies in itertools.combinations(others, m - 1):
            law = laws[frozenset((s, *dummies))]
            law[0] += p[s] * share
            law[1] += q[s] * share
    return list(laws.values())


def brute(p, q, m, t) -> Fraction:
    laws = subset_laws(p, q, m)
    if math.isinf(t):
        return sum((a for a, b in laws if b == 0), Fraction(0))
    return sum((max(a - Fraction(t) * b, Fraction(0)) for a, b in laws), Fraction(0))


def walked(p, q, m, t, rtol=1e-4):
    """Evaluate on a grid even where listing all subsets would be exact."""
    return SubsetSum(np.asarray(p, float), np.asarray(q, float), m, 0.0).delta(t, rtol).bracket


def paper_size(seed: int = 3):
    return np.random.default_rng(seed).dirichlet(np.full(276, 0.5), size=2)


# --- delta -----------------------------------------------------------------------------------------------


def test_vector_v1_set_variant():
    for eps, printed in ((0.0, 0.2666666667), (0.5, 0.1152983702), (1.0, 0.0)):
        found = delta(Tupling(Identity(4), 1, replacement=False), P, Q, eps, ordered=True)
        assert found.upper == pytest.approx(printed, abs=6e-11)
        on_grid = walked(P, Q, 2, math.exp(eps), 1e-7)
        assert on_grid.lower - 6e-11 <= printed <= on_grid.upper + 6e-11


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_bracket_contains_brute_force_over_all_subsets(data):
    n = data.draw(st.integers(2, 6))
    k = data.draw(st.integers(1, n - 1))
    p, q = data.draw(distributions(n)), data.draw(distributions(n))
    eps = data.draw(st.sampled_from(EPSILONS))
    found = delta(Tupling(Identity(n), k, replacement=False), p, q, eps, ordered=True)
    exact = brute(p, q, k + 1, exp(eps))
    if min(law[law > 0].min() for law in (p, q)) > 1e-280:  # smaller ones lose digits when they are shared out
        assert found.width <= 1e-11 or min(x for x in (*p, *q) if x > 0) < 1e-280
    if k + 1 < n:  # the whole set tells nothing, whatever floats sum to
        assert Fraction(found.lower) <= exact <= Fraction(found.upper)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_walked_bracket_contains_brute_force_over_all_subsets(data):
    n = data.draw(st.integers(2, 6))
    m = data.draw(st.integers(1, n))
    p, q = data.draw(distributions(n)), data.draw(distributions(n))
    t = exp(data.draw(st.sampled_from(EPSILONS)))
    found = walked(p, q, m, t, data.draw(st.sampled_from([0.5, 1e-2, 1e-4])))
    assert Fraction(found.lower) <= brute(p, q, m, t) <= Fraction(found.upper)


def test_a_change_of_the_law_leaves_the_walked_bracket():
    """The check above is able to fail: 1 part in 1000 on the largest probability shows."""
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.ones(6), size=2)
    other = p.copy()
    other[np.argmax(p - q)] *= 1.001
    found = walked(p, q, 3, 1.2)
    assert not Fraction(found.lower) <= brute(other, q, 3, 1.2) <= Fraction(found.upper)


def test_walk_and_list_agree_where_both_apply():
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.full(16, 0.5), size=2)
    for m in (2, 5, 8, 12, 15):
        listed = SubsetSum(p, q, m, 0.0).listed()
        assert listed is not None
        for eps in (0.0, 0.3, 1.0, 2.0, 4.0):
            one = accountant.SingleReport(*listed).delta(math.exp(eps)).bracket
            two = walked(p, q, m, math.exp(eps))
            assert two.lower <= one.upper
            assert one.lower <= two.upper
            assert two.width <= 1e-4 * two.upper


@pytest.mark.parametrize("k", [2, 10, 60])
def test_never_above_independent_dummies(k):
    p, q = paper_size()
    for eps in (0.0, 0.5, 1.0, 2.0):
        apart = delta(Tupling(Identity(276), k, replacement=False), p, q, eps)
        independent = delta(Tupling(Identity(276), k), p, q, eps)
        assert apart.lower > 0
        assert apart.upper <= independent.lower
        assert apart.width <= 1e-4 * apart.upper


def test_paper_size_agrees_with_sampled_sets():
    p, q = paper_size()
    rng, k, draws = np.random.default_rng(11), 10, 100_000
    drawn = rng.random((draws, 276)).argpartition(k + 1, axis=1)[:, : k + 1]
    for eps in (0.0, 1.0):
        gain = 276 / (k + 1) * np.maximum(0.0, (p - math.exp(eps) * q)[drawn].sum(axis=1))
        found = delta(Tupling(Identity(276), k, replacement=False), p, q, eps, ordered=True)
        assert abs(found.midpoint - gain.mean()) < 5 * gain.std() / math.sqrt(draws)


def test_tiny_deltas_keep_their_relative_precision():
    p, q = paper_size()
    found = delta(Tupling(Identity(276), 100, replacement=False), p, q, 1.5)
    assert 0 < found.lower < found.upper < 1e-15
    assert found.width <= 1e-4 * found.upper


@pytest.mark.parametrize("k", [2, 10, 100])
def test_two_point_masses_match_the_closed_form(k):
    """T tells all if it holds one of the two outputs, and ``1 - t`` if it holds both."""
    p, q = np.zeros(276), np.zeros(276)
    p[3], q[200] = 1, 1
    exact = 1 - k / 275  # the other output is not among the dummies
    for eps in (0.0, 1.0, math.inf):
        found = delta(Tupling(Identity(276), k, replacement=False), p, q, eps)
        assert found.lower <= exact * (1 + 1e-12)
        assert exact * (1 - 1e-12) <= found.upper
        assert found.width <= 1e-4 * exact


def test_slope_is_about_that_of_the_curve():
    p, q = paper_size()
    sums = SubsetSum(p, q, 11, 0.0)
    for t in (1.2, 2.0, 5.0):
        near, far = (sums.delta(t * s, 1e-7).bracket.midpoint for s in (0.99, 1.01))
        assert sums.delta(t, 1e-4).slope == pytest.approx((near - far) / (0.02 * t), rel=0.1)


def test_width_out_of_reach_is_an_error_that_carries_the_bracket():
    p, q = paper_size()
    with pytest.raises(PrecisionError) as caught:
        delta(Tupling(Identity(276), 20, replacement=False), p, q, 0.3, rtol=1e-12)
    found = delta(Tupling(Identity(276), 20, replacement=False), p, q, 0.3)
    assert found.lower <= caught.value.bracket.upper
    assert caught.value.bracket.lower <= found.upper


# --- epsilon ---------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_pure_epsilon_equals_the_largest_ratio(data):
    n = data.draw(st.integers(2, 6))
    p, q = data.draw(distributions(n)), data.draw(distributions(n))
    before = math.inf
    for m in range(1, n):
        found = SubsetSum(p, q, m, 0.0).pure()
        laws = subset_laws(p, q, m)
        if any(a > 0 and b == 0 for a, b in laws):
            assert found.lower == math.inf
        else:
            ratio = max([a / b for a, b in laws if b > 0] + [Fraction(1)])
            # The difference of two huge logarithms would lose what is compared here.
            exact = math.log(ratio) if ratio < 10**300 else math.log(ratio.numerator) - math.log(ratio.denominator)
            assert found.lower - 1e-13 <= exact <= found.upper + 1e-13
            assert found.width <= 1e-13 * (1 + exact) or exact > 709  # a ratio beyond the range of a double
        assert found.lower <= before
        before = found.upper
        if found.upper < 700:
            assert epsilon(
                Tupling(Identity(n), m - 1, replacement=False), p, q, 0.0, ordered=True
            ).upper == pytest.approx(found.upper, abs=1e-12)
    assert SubsetSum(p, q, n, 0.0).pure().upper == 0.0
    assert epsilon(Tupling(Identity(n), n - 1, replacement=False), p, q, 0.0).upper <= 1e-15


def test_pure_epsilon_falls_with_dummies_at_paper_size():
    p, q = paper_size()
    found = [epsilon(Tupling(Identity(276), k, replacement=False), p, q, 0.0) for k in (1, 5, 20, 100, 250, 275)]
    assert all(b.upper < a.lower for a, b in itertools.pairwise(found))
    assert found[-1].upper == 0.0


@pytest.mark.parametrize(("k", "target"), [(2, 0.2), (2, 1e-6), (10, 0.2), (10, 1e-3), (40, 1e-3)])
def test_epsilon_is_the_inverse_of_delta(k, target):
    p, q = paper_size(6)
    mechanism = Tupling(Identity(276), k, replacement=False)
    found = epsilon(mechanism, p, q, target)
    assert found.width <= 1.2e-4 * found.upper
    assert delta(mechanism, p, q, found.upper * (1 + 1e-9), rtol=1e-6).upper <= target * (1 + 2e-6)
    if found.lower > 0:
        assert delta(mechanism, p, q, found.lower * (1 - 1e-9), rtol=1e-6).lower >= target * (1 - 2e-6)


def test_a_perturbing_base_is_accounted_for():
    base = RandomizedResponse(6, 1.0)
    lifted = base.lift(np.array([0.5, 0.3, 0.2, 0, 0, 0])), base.lift(np.array([0, 0, 0.1, 0.2, 0.3, 0.4]))
    found = delta(
        Tupling(base, 2, replacement=False), [0.5, 0.3, 0.2, 0, 0, 0], [0, 0, 0.1, 0.2, 0.3, 0.4], 0.1, ordered=True
    )
    assert found.midpoint == pytest.approx(float(brute(*lifted, 3, math.exp(0.1))), rel=1e-12)


# --- loss ------------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_losses_equal_the_sum_over_all_sets(data):
    inputs, n = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 5))
    k = data.draw(st.integers(0, n - 1))
    matrix = np.array([data.draw(distributions(n)) for _ in range(inputs)])
    prior = data.draw(distributions(inputs))
    entries = st.lists(st.integers(0, 4), min_size=n, max_size=n)
    d = np.array(data.draw(st.lists(entries, min_size=inputs, max_size=inputs)), float)
    base = Channel(matrix, Space.discrete(inputs), Space.discrete(n))
    total, worst = 0.0, 0.0
    for x, s in itertools.product(range(inputs), range(n)):
        others = [y for y in range(n) if y != s]
        nearest = [min(d[x, y] for y in (s, *chosen)) for chosen in itertools.combinations(others, k)]
        total += prior[x] * matrix[x, s] * sum(nearest) / len(nearest)
        worst = max(worst, max(nearest) if matrix[x, s] > 0 else 0.0)
    mechanism = Tupling(base, k, replacement=False)
    assert expected_loss(mechanism, prior, d) == pytest.approx(total, abs=1e-12)
    assert worst_loss(mechanism, d) == worst
    assert total <= expected_loss(Tupling(base, k), prior, d) + 1e-12


# --- sampler ---------------------------------------------------------------------------------------------


def set_law(channel, k):
    n = channel.size
    sets = list(itertools.combinations(range(n), k + 1))
    return sets, np.array([channel[list(T)].sum() for T in sets]) / math.comb(n - 1, k)


@pytest.mark.parametrize("source", [SystemEntropy(), Seeded(3)], ids=["system", "seeded"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_sets_follow_the_law_that_the_accountant_assumes(source, k):
    row = np.array([0.5, 0.25, 0.125, 0.125, 0.0])
    drawn = Sampler(Weights.of(row[None]), None, k, replacement=False).draw(np.zeros(400_000, dtype=np.int64), source)
    assert (np.diff(drawn.astype(int), axis=1) > 0).all()  # distinct, ascending
    sets, law = set_law(row, k)
    place = {T: i for i, T in enumerate(sets)}
    unique, times = np.unique(drawn, axis=0, return_counts=True)
    counts = np.zeros(len(sets))
    for T, c in zip(unique.tolist(), times, strict=True):
        counts[place[tuple(T)]] = c

    def p_value(expected):
        return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue

    assert p_value(law) > ALPHA
    off = law.copy()
    off[0] *= 1.05
    assert p_value(off) < ALPHA
    # Independent dummies that happen to be distinct and other than the report follow the same law, but sets
    # with repeats dropped, or topped up by index, do not: here each is uniform, whatever the report.
    assert p_value(np.full(len(sets), 1 / len(sets))) < ALPHA


def test_independent_draws_are_told_from_sets():
    channel = Weights.of(np.array([[0.5, 0.25, 0.125, 0.125]]))
    zeros = np.zeros(50_000, dtype=np.int64)
    for replacement in (True, False):
        drawn = np.sort(Sampler(channel, None, 2, replacement).draw(zeros, Seeded(1)), axis=1)
        assert bool((np.diff(drawn, axis=1) == 0).any()) is replacement


@pytest.mark.parametrize(("width", "k"), [(2, 1), (5, 4), (276, 275), (276, 274)])
def test_nearly_all_outputs_as_dummies(width, k):
    sampler = Sampler(Weights.of(np.full((1, width), 1 / width)), None, k, replacement=False)
    drawn = sampler.draw(np.zeros(200, dtype=np.int64), SystemEntropy())
    assert drawn.shape == (200, k + 1)
    assert (np.diff(drawn.astype(int), axis=1) > 0).all()
    assert drawn.min() >= 0
    assert drawn.max() < width


def test_long_batches_are_drawn_in_parts(monkeypatch):
    monkeypatch.setattr("distp.release.sampling.CHUNK", 100)
    drawn = Sampler(Weights.of(np.eye(7)), None, 3, replacement=False).draw(np.arange(7).repeat(11), SystemEntropy())
    assert (drawn == np.arange(7).repeat(11)[:, None]).any(axis=1).all()  # the real report is in
    assert (np.diff(drawn.astype(int), axis=1) > 0).all()


# --- errors ----------------------------------------------------------------------------------------------


def test_bad_arguments_are_named():
    with pytest.raises(ParameterError, match="dummies must be at most 3"):
        Tupling(Identity(4), 4, replacement=False)
    with pytest.raises(MechanismError, match="dummy_distribution"):
        Tupling(Identity(4), 1, [0.4, 0.3, 0.2, 0.1], replacement=False)
    assert not Tupling(Identity(4), 1, np.full(4, 0.25), replacement=False).replacement
    channel = Weights.of(np.eye(3))
    with pytest.raises(ParameterError, match="count"):
        Sampler(channel, None, 3, replacement=False)
    with pytest.raises(ParameterError, match="uniform"):
        Sampler(channel, channel, 1, replacement=False)
