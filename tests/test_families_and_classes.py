"""Families, point privacy, classes of unknown distributions, closed bounds, and what one report says."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from distp import (
    Channel,
    Exponential,
    Identity,
    PlanarLaplace,
    RandomizedResponse,
    RestrictedLaplace,
    Space,
    Tupling,
    WorstPair,
    bayes_factor,
    class_delta,
    class_dummies,
    concentration,
    delta,
    density,
    epsilon,
    family_delta,
    family_epsilon,
    in_class,
    metric_epsilon,
    point_delta,
    point_epsilon,
    posterior,
    profile,
    theorem3,
    theorem3_epsilon,
    theorem3_excess,
    tuple_bounds,
)
from distp.errors import DistributionError, MechanismError, ParameterError, SpaceError
from helpers import tuple_laws

RNG = np.random.default_rng(0)
FAMILY = RNG.dirichlet(np.full(30, 0.7), size=5)
POINTS = Space(RNG.uniform(0, 5, (9, 2)))


@pytest.mark.parametrize(
    "mechanism", [Identity(30), Tupling(Identity(30), 4), Tupling(RandomizedResponse(30, 2.0), 12)]
)
def test_the_worst_pair_is_the_worst_of_all_pairs(mechanism):
    found = family_delta(mechanism, FAMILY, 0.5)
    every = {
        (i, j): delta(mechanism, FAMILY[i], FAMILY[j], 0.5, ordered=True)
        for i, j in itertools.permutations(range(5), 2)
    }
    worst = max(every, key=lambda pair: every[pair].midpoint)
    assert isinstance(found, WorstPair)
    assert found.pair == worst
    assert found.value.lower <= every[worst].upper
    assert every[worst].lower <= found.value.upper
    at = family_epsilon(mechanism, FAMILY, 0.02)
    alone = max(epsilon(mechanism, FAMILY[i], FAMILY[j], 0.02, ordered=True).upper for i, j in every)
    assert at.value.upper == pytest.approx(alone, rel=3e-4)


def test_mixtures_of_a_family_are_covered_by_it():
    mechanism = Tupling(Identity(30), 6)
    limit = family_delta(mechanism, FAMILY, 0.4).value.upper
    for _ in range(10):
        a, b = RNG.dirichlet(np.ones(5), size=2) @ FAMILY
        assert delta(mechanism, a / a.sum(), b / b.sum(), 0.4).lower <= limit


@pytest.mark.parametrize(
    "mechanism",
    [
        PlanarLaplace(POINTS, 1.0),
        Tupling(Identity(POINTS), 6),
        Tupling(PlanarLaplace(POINTS, 0.8), 5),
        Tupling(RestrictedLaplace(POINTS, 0.8, 1.5), 5),
    ],
)
def test_point_privacy_is_the_worst_pair_of_point_masses(mechanism):
    corners = np.eye(9)
    pairs = list(itertools.permutations(range(9), 2))
    slow = max(delta(mechanism, corners[i], corners[j], 0.7, ordered=True).upper for i, j in pairs)
    assert point_delta(mechanism, 0.7).upper == pytest.approx(slow, rel=2e-4)
    found = point_epsilon(mechanism, 0.05)
    slow_epsilon = max(epsilon(mechanism, corners[i], corners[j], 0.05, ordered=True).upper for i, j in pairs)
    assert found.upper == pytest.approx(slow_epsilon, rel=3e-4)


def test_point_privacy_of_the_identity_is_the_closed_form_of_4_6():
    for k, printed in ((1, 0.99638), (10, 0.96435), (100, 0.69716)):
        assert point_delta(Tupling(Identity(276), k), 1.0).upper == pytest.approx(printed, abs=6e-6)
    assert point_epsilon(RandomizedResponse(7, 1.3), 0.0).upper == pytest.approx(1.3)


@pytest.mark.parametrize("rate", [0.3, 1.0, 2.5])
def test_metric_epsilon_is_the_largest_log_ratio_per_distance(rate):
    for mechanism in (Exponential(POINTS, rate), PlanarLaplace(POINTS, rate)):
        logs, d = np.log(mechanism.channel()), POINTS.distances()
        slow = max(np.abs(logs[i] - logs[j]).max() / d[i, j] for i, j in itertools.permutations(range(9), 2))
        found = metric_epsilon(mechanism)
        assert found.lower <= slow <= found.upper
        assert found.width < 1e-12
        assert metric_epsilon(Tupling(mechanism, 7)) == found  # dummies do not lower a pure epsilon
    assert metric_epsilon(Exponential(POINTS, rate)).upper <= rate * (1 + 1e-12)
    assert metric_epsilon(RestrictedLaplace(POINTS, rate, 1.0)).lower == math.inf
    assert metric_epsilon(Channel([[0.5, 0.5], [0.5, 0.5]])).upper == 0
    with pytest.raises(SpaceError, match="shape"):
        metric_epsilon(Identity(3), [[0.0]])


def class_by_counts(k: int, t: float, B: float) -> float:
    """Theory 4.11, summed over the counts of the three outcomes."""
    q = 1 / B
    both = max(0.0, 2 * q - 1)
    m = k + 1
    total = 0.0
    for plus, minus, common in itertools.product(range(m + 1), repeat=3):
        if plus + minus + common <= m:
            chance = stats.multinomial.pmf(
                [plus, minus, common, m - plus - minus - common],
                m,
                [q - both, q - both, both, max(0.0, 1 - 2 * q + both)],
            )
            total += chance * max(0.0, plus - t * minus + (1 - t) * common)
    return B / m * total


@pytest.mark.parametrize(
    ("k", "eps", "B"), [(0, 0.5, 3.0), (3, 0.0, 1.5), (5, 0.7, 1.2), (6, 1.0, 4.0), (4, 0.3, 2.0)]
)
def test_class_bound_equals_its_sum_over_counts(k, eps, B):
    assert class_delta(k, eps, B).upper == pytest.approx(class_by_counts(k, math.exp(eps), B), abs=1e-12)


def test_class_dummies_are_those_of_the_theory_and_far_fewer_than_theorem_3_asks():
    for eps, row in ((1.0, (13, 30, 62, 126)), (0.5, (34, 88, 177, 356))):
        assert tuple(class_dummies(eps, 0.001, B) for B in (1.5, 2.0, 4.0, 8.0)) == row
    assert theorem3_epsilon(73, 276, 2 / 276, 0.001) > 1  # 74 by the theorem, 30 by the class bound


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 25), st.floats(0, 2))
def test_no_pair_of_the_class_exceeds_its_bound(seed, k, eps):
    p, q = np.random.default_rng(seed).dirichlet(np.full(12, 2.0), size=2)
    mechanism = Tupling(Identity(12), k)
    cap = max(density(mechanism, p), density(mechanism, q))
    assert cap == pytest.approx(12 * max(p.max(), q.max()))
    assert delta(mechanism, p, q, eps).lower <= class_delta(k, eps, cap).upper * (1 + 1e-9)


def test_class_bound_is_attained_by_two_disjoint_uniform_distributions():
    p, q = np.repeat([0.25, 0], [4, 8]), np.repeat([0, 0.25, 0], [4, 4, 4])
    for k in (0, 3, 20):
        exact, bound = delta(Tupling(Identity(12), k), p, q, 0.6), class_delta(k, 0.6, 3.0)
        assert exact.lower <= bound.upper
        assert bound.lower <= exact.upper


def test_membership_and_the_constant_of_3_9():
    p = [0.4, 0.3, 0.2, 0.1]
    assert in_class(Identity(4), p, 0.4)
    assert not in_class(Identity(4), p, 0.39)
    assert in_class(Identity(4), p, 0.25, eta=0.7)
    constant = Channel([[1.0, 0.0], [1.0, 0.0]])
    assert not in_class(constant, [0.5, 0.5], 0.5)  # max p is 0.5: the paper's Proposition 12 would say yes
    assert concentration(constant) == 2.0
    assert in_class(constant, [0.5, 0.5], 0.5 * concentration(constant))
    assert density(Tupling(Identity(2), 3, [1.0, 0.0]), [0.5, 0.5]) == math.inf
    for bad in (0.5, math.inf, math.nan):
        with pytest.raises(ParameterError, match="cap"):
            class_delta(5, 1.0, bad)


def test_replacement_of_theorem_3_bounds_the_exact_value_for_any_beta():
    checked = 0
    for seed in range(6):
        p, q = np.random.default_rng(seed).dirichlet(np.full(20, 3.0), size=2)
        for k, beta in ((40, 0.12), (120, 0.09), (300, 0.07)):
            excess = [float(np.maximum(law - beta, 0).sum()) for law in (p, q)]
            for alpha in np.linspace(0.1, 0.9, 5) * k / 20:
                found = theorem3_excess(k, 20, beta, alpha, *excess)
                assert delta(Tupling(Identity(20), k), p, q, found.epsilon).upper <= found.delta
                checked += found.delta < 1
    assert checked > 20
    assert theorem3_excess(50, 20, 0.1, 0.5, 0, 0) == theorem3(50, 20, 0.1, 0.5)


@pytest.mark.parametrize("k", [3, 10, 60])
@pytest.mark.parametrize("eps", [0.05, 0.5, 1.5])
def test_closed_bounds_lie_above_the_exact_value_in_their_order(k, eps):
    p, q = RNG.dirichlet(np.full(40, 1.0), size=2)
    mechanism = Tupling(Identity(40), k)
    exact, bounds = delta(mechanism, p, q, eps).upper, tuple_bounds(mechanism, p, q, eps)
    assert exact <= bounds.chernoff
    assert exact <= bounds.bennett
    assert exact <= bounds.hoeffding
    assert bounds.bennett <= bounds.hoeffding * 50


def test_normal_approximation_is_close_for_many_dummies():
    p, q = RNG.dirichlet(np.full(40, 5.0), size=2)
    mechanism = Tupling(Identity(40), 2000)
    chi = float((((p - q) ** 2) * 40).sum())
    tv = delta(mechanism, p, q, 0.0).upper
    assert tuple_bounds(mechanism, p, q, 0.0).normal == pytest.approx(tv, rel=0.005)
    assert math.sqrt(chi / (2 * math.pi * 2001)) == pytest.approx(tv, rel=0.005)  # theory 4.5
    with pytest.raises(MechanismError, match="dummies"):
        tuple_bounds(Tupling(Identity(2), 1, [1.0, 0.0]), [0.5, 0.5], [0.2, 0.8], 1.0)


def test_profile_is_the_curve_and_never_rises():
    p, q = RNG.dirichlet(np.full(60, 0.5), size=2)
    mechanism = Tupling(Identity(60), 10)
    asked = np.linspace(0, 3, 61)[::-1]
    curve = profile(mechanism, p, q, asked)
    for value, bracket in zip(asked[::10], curve[::10], strict=True):
        assert delta(mechanism, p, q, value).lower <= bracket.upper
    assert all(a.upper <= b.upper and a.lower <= b.upper for a, b in itertools.pairwise(curve))
    fine = profile(mechanism, p, q, 0.5 + np.arange(50) * 1e-7)
    assert all(b.upper <= a.upper for a, b in itertools.pairwise(fine))


@pytest.mark.parametrize("nu", [[0.25] * 4, [0.4, 0.3, 0.2, 0.1], [0.5, 0.5, 0.0, 0.0]])
def test_bayes_factor_and_posterior_are_those_of_the_tuples_law(nu):
    p, q = [0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]
    mechanism = Tupling(Identity(4), 2, nu)
    for values, (a, b) in tuple_laws([*map(float, p)], [*map(float, q)], [*map(float, nu)], 2).items():
        if a + b == 0:
            with pytest.raises(ParameterError, match="produce"):
                bayes_factor(mechanism, p, q, list(values))
            continue
        factor = bayes_factor(mechanism, p, q, list(values))
        assert factor == (math.inf if b == 0 else pytest.approx(a / b))
        found = posterior(mechanism, [p, q], [0.3, 0.7], np.array(values))
        assert found[0] == pytest.approx(0.3 * a / (0.3 * a + 0.7 * b))


def test_bayes_factor_stays_within_a_pure_epsilon():
    p, q = FAMILY[0], FAMILY[1]
    mechanism = Tupling(RandomizedResponse(30, 1.0), 3)
    limit = math.exp(epsilon(mechanism, p, q, 0.0).upper)
    factors = [bayes_factor(mechanism, p, q, RNG.integers(0, 30, 4)) for _ in range(200)]
    assert max(max(factors), 1 / min(factors)) <= limit * (1 + 1e-12)


def test_bad_reports_and_families_are_named():
    mechanism = Tupling(Identity(4), 2)
    p, q = [0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4]
    for bad in ([0, 1], [0, 1, 9], [0, 1, -1], [0.5, 1, 2]):
        with pytest.raises(ParameterError):
            bayes_factor(mechanism, p, q, bad)
    with pytest.raises(DistributionError, match="at least two"):
        family_delta(mechanism, [p], 1.0)
    with pytest.raises(DistributionError, match="distribution 1"):
        family_delta(mechanism, [p, [1.0]], 1.0)
    with pytest.raises(ParameterError, match="two members"):
        point_delta(Identity(1), 1.0)


def test_a_family_claims_nothing_about_what_lifting_lost_below_the_range_of_a_double():
    channel = Channel([[1.0, 0], [1.0, 1e-170]])
    found = family_epsilon(channel, [[0, 1.0], [1.0, 1e-170]], 0.0).value
    assert found.lower <= 391 <= found.upper  # 1e-170 against 1e-340, which lifting calls 0
