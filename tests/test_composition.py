"""Composition of independent reports against enumerated products, closed forms and another accountant."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from distp import Channel, Identity, RandomizedResponse, Tupling, delta, epsilon
from distp.errors import DistributionError, ParameterError, PrecisionError
from distp.privacy import composition
from distp.privacy.accountant import TupleReport, report
from distp.privacy.composition import compose, compose_epsilon, same_location
from distp.privacy.profiles import Profile
from helpers import distributions, fractions, tuple_laws

P = [0.5, 0.3, 0.2, 0.0]
Q = [0.1, 0.2, 0.3, 0.4]

Law = Sequence[tuple[Fraction, Fraction]]


def together(laws: Sequence[Law], t: float) -> Fraction:
    """Return the larger order's divergence of a product, by listing every combination of outputs."""
    pairs: dict[tuple[Fraction, Fraction], int] = {(Fraction(1), Fraction(1)): 1}
    for law in laws:
        longer: dict[tuple[Fraction, Fraction], int] = {}
        for (p, q), times in pairs.items():
            for a, b in law:
                key = (p * a, q * b)
                longer[key] = longer.get(key, 0) + times
        pairs = longer
    t = Fraction(t)
    one = sum((times * max(p - t * q, Fraction(0)) for (p, q), times in pairs.items()), Fraction(0))
    two = sum((times * max(q - t * p, Fraction(0)) for (p, q), times in pairs.items()), Fraction(0))
    return max(one, two)


def law_of(p, q) -> Law:
    return list(zip(fractions(p), fractions(q), strict=True))


def assert_contains(found, exact: Fraction) -> None:
    assert 0 <= found.lower <= found.upper <= 1
    assert Fraction(found.lower) <= exact
    assert min(exact, Fraction(1)) <= Fraction(found.upper)


def bracket_of(parts, eps, rtol=1e-2):
    """Return the bracket, also where it is wider than asked: it must be right all the same."""
    try:
        return compose(parts, eps, rtol=rtol).delta
    except PrecisionError as error:
        return error.bracket


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_bracket_contains_the_enumerated_product(data):
    size, n = data.draw(st.integers(2, 4)), data.draw(st.integers(1, 4))
    p, q = data.draw(distributions(size)), data.draw(distributions(size))
    eps = data.draw(st.sampled_from([0.0, 1e-9, 0.1, math.log(2), 1.0, 3.0, 10.0]))
    exact = together([law_of(p, q)] * n, math.exp(eps))
    assert_contains(bracket_of([(Identity(size), p, q, n)], eps), exact)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_bracket_contains_the_enumerated_product_of_different_pairs(data):
    parts, laws = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        size = data.draw(st.integers(2, 3))
        p, q = data.draw(distributions(size)), data.draw(distributions(size))
        n = data.draw(st.integers(1, 2))
        parts.append((Identity(size), p, q, n))
        laws += [law_of(p, q)] * n
    eps = data.draw(st.sampled_from([0.0, 0.3, 1.0, 3.0]))
    assert_contains(bracket_of(parts, eps), together(laws, math.exp(eps)))


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("size", [3, 4])
def test_tuples_contain_the_product_of_all_tuples(n, size):
    p, q = np.random.default_rng(size).dirichlet(np.ones(size), size=2)
    k = 2
    laws = list(tuple_laws(fractions(p), fractions(q), [Fraction(1, size)] * size, k).values())
    # Equal likelihoods may be counted together, or a product of three would be long.
    grouped: dict[tuple[Fraction, Fraction], int] = {}
    for pair in laws:
        grouped[pair] = grouped.get(pair, 0) + 1
    laws = [(a * times, b * times) for (a, b), times in grouped.items()]
    nu = np.full(size, 1 / size)
    for eps in (0.0, 0.4, 1.0):
        exact = together([laws] * n, math.exp(eps))
        found = compose([(Tupling(Identity(size), k, nu), p, q, n)], eps).delta
        assert found.width <= 1e-2 * found.upper
        assert found.lower - 1e-12 <= float(exact) <= found.upper + 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_profiles_contain_the_product_where_the_tuple_could_be_listed(seed, monkeypatch):
    """The pairs above and below, which real tuples need, on tuples small enough to list exactly."""
    rng = np.random.default_rng(seed)
    p, q, nu = rng.dirichlet(np.full(4, 0.7), size=3)
    p[0], q[1] = (0.0, 0.0) if seed % 2 else (p[0], q[1])
    nu[3] = 0.0 if seed == 3 else nu[3]
    p, q, nu = p / p.sum(), q / q.sum(), nu / nu.sum()
    part = (Tupling(Identity(4), 4, nu), p, q, 2)
    exact = {eps: compose([part], eps, rtol=1e-6).delta for eps in (0.0, 0.3, 1.0, 2.5)}
    monkeypatch.setattr("distp.privacy.accountant.as_single_report", lambda _: None)
    assert isinstance(report(*part[:3]), TupleReport)
    for eps, listed in exact.items():
        found = bracket_of([part], eps)
        assert found.lower <= listed.upper
        assert listed.lower <= found.upper
        assert found.width <= 0.05 * found.upper


@pytest.mark.parametrize("order", [0, 1])
def test_pairs_above_and_below_enclose_the_profile(order):
    p, q = np.random.default_rng(8).dirichlet(np.full(60, 0.5), size=2)
    seen = report(Tupling(Identity(60), 10), p, q)
    assert isinstance(seen, TupleReport)
    profile = Profile(seen, 1e-4)
    ordered = seen if order == 0 else seen.swapped()
    at = np.random.default_rng(1).uniform(-3, 6, size=16)
    gaps = []
    for _ in range(3):
        above, below = (pair.profile(at) for pair in profile.sides[order])
        for high, low, e in zip(above, below, at, strict=True):
            exact = ordered.delta(math.exp(e), 1e-6).bracket
            assert low <= exact.upper * (1 + 1e-12)
            assert exact.lower <= high * (1 + 1e-12)
        gaps.append(float((above - below).max()))
        assert profile.refine(order, 1.0)
    assert gaps[-1] < 0.3 * gaps[0] < 1e-3


def randomised_response(eps0: float, n: int, eps: float) -> float:
    """The sum of losses is (2j - n) eps0, j ~ Binomial."""
    j = np.arange(n + 1)
    loss = (2 * j - n) * eps0
    pmf = stats.binom(n, 1 / (1 + math.exp(-eps0))).pmf(j)
    beyond = loss > eps
    return float((pmf[beyond] * -np.expm1(eps - loss[beyond])).sum())


@pytest.mark.parametrize("n", [1, 2, 7, 100, 1000, 10_000])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.5])
def test_randomised_response_is_the_binomial(n, share):
    eps0 = 1 / math.sqrt(n)
    eps = share * min(n * eps0, 3.0)
    exact = randomised_response(eps0, n, eps)
    found = compose([(RandomizedResponse(2, eps0), [1, 0], [0, 1], n)], eps).delta
    # scipy's pmf has about 1e-11 of relative error here.
    assert found.lower <= exact * (1 + 1e-9) + 1e-15
    assert exact <= found.upper * (1 + 1e-9)
    assert found.width <= 1e-2 * found.upper + 1e-7


def test_small_deltas_keep_their_relative_precision():
    found = compose([(RandomizedResponse(2, 0.1), [1, 0], [0, 1], 100)], 7.0).delta
    exact = randomised_response(0.1, 100, 7.0)
    assert exact < 1e-9
    assert found.lower <= exact * (1 + 1e-9) <= found.upper * (1 + 2e-9)
    assert found.width <= 1e-2 * found.upper


def test_both_orders_are_taken():
    p, q = [0.9, 0.1, 0.0], [0.5, 0.3, 0.2]  # only q can show the third output
    one = compose([(Identity(3), p, q, 3)], 2.0).delta
    two = compose([(Identity(3), q, p, 3)], 2.0).delta
    assert one == two
    backwards = 1 - 0.8**3
    assert one.lower >= backwards - 1e-9
    assert compose([(Identity(3), p, q, 3)], math.inf).delta.upper == pytest.approx(backwards, rel=1e-9)


def paper_size(seed: int = 3):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(276, 0.5)), rng.dirichlet(np.full(276, 0.5))


def test_many_tuples_look_gaussian():
    p, q = paper_size()
    mechanism = Tupling(Identity(276), 200)
    n = 1000
    found = compose([(mechanism, p, q, n)], 1.0).delta
    assert found.width <= 1e-2 * found.upper
    # The loss of one tuple is about N(+-s^2/2, s^2) with s^2 = chi^2 / m (theory 4.5), also through its mean TV.
    s = 2 * stats.norm.ppf((1 + delta(mechanism, p, q, 0.0).upper) / 2) * math.sqrt(n)
    gaussian = stats.norm.cdf(s / 2 - 1 / s) - math.e * stats.norm.cdf(-s / 2 - 1 / s)
    assert found.midpoint == pytest.approx(gaussian, abs=0.02)


def test_one_report_is_the_exact_delta():
    p, q = paper_size()
    mechanism = Tupling(Identity(276), 10)
    assert compose([(mechanism, p, q, 1)], 0.7).delta == delta(mechanism, p, q, 0.7)
    assert compose_epsilon([(mechanism, p, q, 1)], 1e-3) == epsilon(mechanism, p, q, 1e-3)
    two = compose([(mechanism, p, q, 2)], 0.7)
    assert two.reports == 2
    assert two.protected


def test_delta_rises_with_reports_and_falls_with_epsilon():
    p, q = paper_size(5)
    mechanism = Tupling(Identity(276), 20)
    rising = [compose([(mechanism, p, q, n)], 0.5).delta for n in (1, 2, 4, 8, 30)]
    assert all(a.upper < b.lower for a, b in itertools.pairwise(rising))
    falling = [compose([(mechanism, p, q, 10)], e).delta for e in (0.0, 0.3, 1.0, 2.0, 4.0, 8.0)]
    assert all(a.lower > b.upper for a, b in itertools.pairwise(falling))
    assert all(b.lower > 0 and b.width <= 1e-2 * b.upper for b in falling)


def test_equal_parts_are_one_part():
    p, q = paper_size(6)
    mechanism, twin = Tupling(Identity(276), 20), Tupling(Identity(276), 20)
    whole = compose([(mechanism, p, q, 6)], 1.0).delta
    same = compose([(mechanism, p, q, 4), (mechanism, p, q, 2)], 1.0).delta
    other = compose([(mechanism, p, q, 4), (twin, p, q, 2)], 1.0).delta
    assert same == whole
    assert other.lower <= whole.upper
    assert whole.lower <= other.upper
    with_nothing = compose([(mechanism, p, q, 6), (twin, p, p, 50)], 1.0).delta
    assert with_nothing == whole


def test_identical_distributions_give_nothing():
    p, _ = paper_size()
    part = (Tupling(Identity(276), 3), p, p, 5000)
    assert compose([part], 0.0).delta.upper == 0.0
    assert compose_epsilon([part], 1e-6).upper == 0.0


def test_disjoint_distributions_give_everything():
    part = (Identity(2), [1, 0], [0, 1], 9)
    assert compose([part], 3.0).delta.lower == pytest.approx(1.0)
    assert compose_epsilon([part], 0.5).lower == math.inf


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_sum_bound_of_independent_inputs_holds(data):
    """Theory 5.2: (e0 + e1, d0 + d1)."""
    parts, sum_eps, sum_delta = [], 0.0, 0.0
    for _ in range(2):
        size = data.draw(st.integers(2, 4))
        p, q = data.draw(distributions(size)), data.draw(distributions(size))
        eps = data.draw(st.sampled_from([0.0, 0.2, 1.0]))
        parts.append((Identity(size), p, q, 1))
        sum_eps += eps
        sum_delta += delta(Identity(size), p, q, eps).upper
    assert bracket_of(parts, sum_eps).lower <= sum_delta + 1e-12


@pytest.mark.parametrize(("n", "target"), [(2, 1e-6), (50, 0.1), (50, 1e-3), (3000, 1e-3)])
def test_epsilon_is_the_inverse_of_delta(n, target):
    p, q = paper_size(7)
    parts = [(Tupling(Identity(276), 50), p, q, n)]
    found = compose_epsilon(parts, target)
    assert 0 < found.lower <= found.upper
    assert found.width <= 1e-2 * found.upper
    assert compose(parts, found.upper * 1.0001).delta.lower <= target
    assert compose(parts, found.lower * 0.9999).delta.upper >= target


def test_epsilon_at_the_edges():
    mechanism = RandomizedResponse(3, 0.5)
    parts = [(mechanism, [1, 0, 0], [0, 1, 0], 40)]
    assert compose_epsilon(parts, 0.0).upper == pytest.approx(20.0)
    assert compose_epsilon(parts, 1.0).upper == 0.0
    assert compose_epsilon([(Identity(4), P, Q, 2)], 0.0).lower == math.inf
    assert compose_epsilon([(Identity(4), P, Q, 2)], 1 - 0.6**2 - 1e-3).lower == math.inf
    at_pure = compose(parts, 20.0).delta
    assert at_pure.lower == 0.0
    assert at_pure.upper < 1e-9


@pytest.mark.parametrize("eps", [50.0, 800.0, 1e300, math.inf])
def test_huge_epsilon_is_an_ordinary_number(eps):
    found = compose([(Identity(4), P, Q, 100)], eps).delta
    assert 0 <= found.lower <= found.upper <= 1
    assert found.upper == pytest.approx(1.0)
    assert compose([(RandomizedResponse(4, 0.1), P, Q, 100)], eps).delta.upper < 1e-12


def test_vector_v7_two_releases_of_one_location_reveal_it():
    """X = {00, 01, 10, 11}: each bit says nothing, both say which distribution it was."""
    first = Channel(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=float))
    second = Channel(np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=float))
    both = Channel(np.eye(4))
    p, q = [0.5, 0, 0, 0.5], [0, 0.5, 0.5, 0]
    assert max(delta(first, p, q, 0.0).upper, delta(second, p, q, 0.0).upper) < 1e-14
    assert delta(both, p, q, 0.0).lower == pytest.approx(1.0)
    # On independent draws the same two releases reveal nothing ...
    assert compose([(first, p, q, 1), (second, p, q, 1)], 0.0).delta.upper < 1e-12
    # ... and on one location nothing is claimed.
    fresh = same_location(first, p, q, 2, 0.0)
    assert fresh.delta is None
    assert not fresh.protected
    assert "unprotected" in fresh.statement


def test_a_memoised_report_counts_once():
    p, q = paper_size()
    mechanism = Tupling(Identity(276), 10)
    again = same_location(mechanism, p, q, 500, 1.0, memoised=True)
    assert again.delta == delta(mechanism, p, q, 1.0)
    assert again.protected
    assert again.reports == 500
    once = same_location(mechanism, p, q, 1, 1.0)
    assert once.protected
    assert same_location(mechanism, p, q, 2, 1.0).delta is None


@pytest.mark.parametrize(("n", "eps"), [(2, 0.3), (20, 1.0), (300, 5.0)])
def test_another_accountant_agrees(n, eps):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    p, q = np.random.default_rng(n).dirichlet(np.full(12, 8.0), size=2)
    found = compose([(Identity(12), p, q, n)], eps, rtol=1e-5).delta
    theirs = []
    for pessimistic in (False, True):
        values = []
        # One direction by default: the other one is asked for by name.
        for a, b in ((p, q), (q, p)):
            made = pld.from_two_probability_mass_functions(
                dict(enumerate(np.log(a))),
                dict(enumerate(np.log(b))),
                pessimistic_estimate=pessimistic,
                value_discretization_interval=1e-4,
            )
            values.append(made.self_compose(n).get_delta_for_epsilon(eps))
        theirs.append(max(values))
    assert theirs[0] - 1e-9 <= found.lower <= found.upper <= theirs[1] + 1e-9


def test_bad_arguments_are_named():
    good = (Identity(4), P, Q, 2)
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="n of parts"):
            compose([(Identity(4), P, Q, bad)], 1.0)
        with pytest.raises(ParameterError, match="n must be"):
            same_location(Identity(4), P, Q, bad, 1.0)
    for call in (compose, compose_epsilon):
        with pytest.raises(ParameterError, match="parts must hold"):
            call([], 0.5)
        with pytest.raises(ParameterError, match=r"parts\[1\]"):
            call([good, (Identity(4), P, Q)], 0.5)
        with pytest.raises(ParameterError, match="10000"):
            call([(Identity(4), P, Q, 6000), (Identity(4), Q, P, 4001)], 0.5)
        with pytest.raises(DistributionError, match="p has 3 entries"):
            call([(Identity(4), P[:3], Q, 2)], 0.5)
        with pytest.raises(ParameterError, match="rtol"):
            call([good], 0.5, rtol=0.0)
    with pytest.raises(ParameterError, match="epsilon"):
        compose([good], -1.0)
    with pytest.raises(ParameterError, match="delta"):
        compose_epsilon([good], 1.5)


def test_width_out_of_reach_is_an_error_that_carries_the_bracket(monkeypatch):
    p, q = paper_size()
    monkeypatch.setattr(composition, "_ROUNDS", 1)
    with pytest.raises(PrecisionError) as caught:
        compose([(Tupling(Identity(276), 20), p, q, 10)], 1.0, rtol=1e-6)
    assert 0 < caught.value.bracket.width < 0.1


@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0])
def test_sets_of_distinct_outputs_compose_to_their_enumerated_product(eps):
    mechanism = Tupling(Identity(4), 1, replacement=False)
    p, q = fractions(P), fractions(Q)
    one = [((p[i] + p[j]) / 3, (q[i] + q[j]) / 3) for i, j in itertools.combinations(range(4), 2)]
    assert_contains(bracket_of([(mechanism, P, Q, 2)], eps), together([one, one], math.exp(eps)))
