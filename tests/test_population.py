"""People who are not in the sample: resamples, the limit for the population, mechanisms that meet a target at it."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

import distp
from distp import Bracket, Identity, Pair, RestrictedLaplace, Space, Tupling, calibrate, delta, expected_loss
from distp.calibration.optimal_tupling import optimal_tupling
from distp.calibration.simplex import onto_simplex
from distp.calibration.steady import _least, best_dummies, cheapest, moments_of, wary_prior
from distp.certificates import Certificate, certify, halves, population
from distp.certificates.population import _chernoff, _class_limit, _largest, rank
from distp.data import Sample
from distp.distributions import People, Support, resampled, resampling, second_moments
from distp.distributions.resampling import DRAWS, MOVED, SHARE, astray, sizes
from distp.errors import DistributionError, InfeasibleError, ParameterError
from distp.privacy.rough import rough_deltas
from distp.utility import loss_matrix

GRID = Space(np.array([(x, y) for x in range(4) for y in range(4)], dtype=float))
SIZE = len(GRID)


def crowd(seed, people=60, size=SIZE, share=0.5):
    """Draw people with a favourite place of each class and a few others; return them as a sample."""
    rng = np.random.default_rng(seed)
    likely = [rng.dirichlet(np.full(size, 2.0)) for _ in range(2)]
    users, inputs, holds = [], [], []
    for person in range(people):
        for held in (True, False):
            visits = int(rng.geometric(0.2 if held else 0.2 * share))
            places = rng.choice(size, 2, p=likely[held])
            inputs += rng.choice(places, visits).tolist()
            users += [person] * visits
            holds += [held] * visits
    return Sample("a", size, np.array(inputs), np.array(holds), np.array(users))


def pair_of(seed, people=60, **more):
    return crowd(seed, people, **more).pair()


def nameless(pair):
    """Return a pair as from data that name nobody."""
    supports = [replace(one, people=None) for one in (pair.support_p, pair.support_q)]
    return replace(pair, people=None, support_p=supports[0], support_q=supports[1])


# People


@pytest.mark.parametrize("weight", ["check-ins", "users"])
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_people_add_up_to_the_pair_they_travel_with(weight, smoothing):
    sample = replace(crowd(1), weight=weight)
    pair = sample.pair(smoothing)
    assert pair.people is not None
    for law, known in zip((pair.p, pair.q), pair.people.laws(), strict=True):
        np.testing.assert_allclose(law, known, atol=1e-12)
    assert len(pair.people) == len(np.unique(sample.users))
    if weight == "users":
        assert sorted(set(np.asarray(pair.people.with_attribute.sum(axis=1)).ravel().round(9))) == [1.0]


def test_people_that_do_not_fit_are_refused():
    pair = pair_of(2)
    with pytest.raises(DistributionError, match="other distributions than the pair"):
        Pair("b", pair.q, pair.p, people=pair.people)
    one, two = sparse.csr_array([[1.0, 0.0]]), sparse.csr_array([[1.0, 0.0, 1.0]])
    with pytest.raises(DistributionError, match=r"\(1, 2\) and \(1, 3\)"):
        People(one, two)
    with pytest.raises(DistributionError, match="each class must have some"):
        People(one, sparse.csr_array((1, 2)))


def test_halves_part_persons_and_the_same_in_every_pair():
    sample = crowd(3)
    other = replace(sample, holds=sample.inputs % 2 == 0, name="b")
    first, second = halves([sample.pair(), other.pair()])
    for one, two, whole in zip(first, second, (sample, other), strict=True):
        assert not set(one.people.numbers) & set(two.people.numbers)
        assert set(one.people.numbers) | set(two.people.numbers) == set(np.unique(whole.users))
        together = one.people.sums[0] + two.people.sums[0]
        np.testing.assert_allclose(together / together.sum(), whole.pair().p)
    assert set(first[0].people.numbers) == set(first[1].people.numbers)
    assert halves([Pair.from_counts("c", [1, 2], [2, 1])]) is None
    assert halves([crowd(3, people=1).pair()]) is None


# Resamples


def test_resamples_are_distributions_and_always_the_same():
    pair = pair_of(4)
    P, Q = resampled(pair, 50)
    again = resampling._resampled(pair, 50, True)
    assert P.shape == Q.shape == (50, SIZE)
    assert (P >= 0).all()
    assert (np.abs(P.sum(axis=1) - 1) < 1e-12).all()
    np.testing.assert_array_equal(P, again[0])
    np.testing.assert_array_equal(Q, again[1])
    assert len({row.tobytes() for row in P}) == 50


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("people", [40, 400])
def test_second_moments_are_those_of_the_resamples(named, people):
    pair = pair_of(5, people)
    if not named:
        pair = nameless(pair)
    t = 1.3
    P, Q = resampled(pair, 6_000)
    contrasts = pair.p - t * pair.q, pair.q - t * pair.p
    for moments, c, drawn in zip(second_moments(pair, t), contrasts, (P - t * Q, Q - t * P), strict=True):
        noise, found = moments - np.outer(c, c), np.cov(drawn.T)
        # Ratios are linear to first order only.
        assert np.linalg.norm(noise - found) < (0.4 if people == 40 else 0.15) * np.linalg.norm(found)
        assert np.trace(noise) == pytest.approx(np.trace(found), rel=0.35 if people == 40 else 0.12)
        assert np.linalg.eigvalsh(moments).min() > -1e-12


def test_second_moments_equal_the_sum_over_persons_written_out():
    pair, t = pair_of(6, 12), 1.5
    a, b = (weights.toarray() for weights in (pair.people.with_attribute, pair.people.without))
    moved = max(MOVED, min(1, 6 / math.sqrt(min(sizes(pair)))), *unseen(pair))
    target = np.mean(
        [(1 - s) * law + s / SIZE for s, law in zip(astray(pair), (pair.p, pair.q), strict=True)], axis=0
    )
    c = pair.p - t * pair.q
    expected = np.outer(c, c)
    for one, two in zip(a / a.sum(), b / b.sum(), strict=True):
        mean = (1 - moved) * (one - one.sum() * pair.p - t * (two - two.sum() * pair.q))
        expected += np.outer(mean, mean) / SHARE
        for x, step in enumerate(one - t * two):
            here = np.eye(SIZE)[x]
            law = (1 - moved) * here + moved * target
            expected += step**2 * (np.diag(law) - np.outer(law, law)) / SHARE
    np.testing.assert_allclose(second_moments(pair, t)[0], expected, atol=1e-15)


def unseen(pair):
    shares = []
    for weights in (pair.people.with_attribute.toarray(), pair.people.without.toarray()):
        alone = (weights > 0).sum(axis=0) == 1
        shares.append(weights[:, alone].sum() / weights.sum())
    return shares


def test_the_fewer_the_people_the_more_is_moved_and_the_wider_the_resamples():
    spread = []
    for people in (10, 50, 250, 1250):
        P, _ = resampled(pair_of(7, people), 200)
        spread.append(np.sqrt(((P - P.mean(axis=0)) ** 2).sum(axis=1).mean()))
    assert all(b < a for a, b in itertools.pairwise(spread))
    shares = [max(astray(pair_of(7, people))) for people in (10, 50, 250, 1250)]
    assert all(b < a for a, b in itertools.pairwise(shares))


def test_a_class_of_one_person_is_in_every_resample():
    sample = crowd(8, 30)
    rare = replace(sample, holds=sample.holds & (sample.users == 3))
    P, Q = resampled(rare.pair(), 200)
    assert np.isfinite(P).all()
    assert np.isfinite(Q).all()


def test_without_counts_nothing_is_said_of_others():
    bare = Pair("bare", [0.5, 0.5], [0.2, 0.8])
    for ask in (
        lambda: resampled(bare),
        lambda: second_moments(bare, 1.0),
        lambda: population(Identity(2), bare, 1.0, 0.95),
        lambda: calibrate([bare], None, Space([0.0, 1.0]), epsilon=1, delta=0.1, max_dummies=2, confidence=0.9),
    ):
        with pytest.raises(DistributionError, match="'bare' does not say how many records or people"):
            ask()


# Rough deltas


@pytest.mark.parametrize("k", [0, 1, 2, 5, 20, 60])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_rough_deltas_are_near_the_exact_ones(k, epsilon):
    P, Q = resampled(pair_of(9), 12)
    nu = np.random.default_rng(k).dirichlet(np.ones(SIZE))
    for mechanism in (Tupling(RestrictedLaplace(GRID, 0.7, 2.0), k), Tupling(Identity(GRID), k, nu)):
        rough = rough_deltas(mechanism, P, Q, math.exp(epsilon))
        for p, q, found in zip(P, Q, rough, strict=True):
            exact = delta(mechanism, p, q, epsilon, rtol=1e-6).upper
            assert found == pytest.approx(exact, rel=0.02, abs=5e-5)  # a grid of 2,048 points


def test_rough_deltas_of_dummies_that_do_not_reach_everywhere_and_of_constant_reports():
    P, Q = resampled(pair_of(9), 5)
    nu = np.where(np.arange(SIZE) < 10, 0.1, 0.0)
    found = rough_deltas(Tupling(Identity(GRID), 4, nu), P, Q, 1.5)
    for p, q, rough in zip(P, Q, found, strict=True):
        exact = delta(Tupling(Identity(GRID), 4, nu), p, q, math.log(1.5)).upper
        assert rough == pytest.approx(exact, rel=0.01)
    constant = distp.Channel(np.full((SIZE, SIZE), 1 / SIZE), GRID, GRID)
    assert rough_deltas(Tupling(constant, 4), P, Q, 1.5).max() < 1e-9
    single = rough_deltas(Identity(GRID), P, Q, 1.0)
    np.testing.assert_allclose(single, np.abs(P - Q).sum(axis=1) / 2)


# The limit for the population


def test_the_limit_is_the_certified_order_statistic():
    pair, mechanism = pair_of(10), Tupling(RestrictedLaplace(GRID, 1.0, 2.0), 3)
    P, Q = resampled(pair)
    every = sorted(delta(mechanism, p, q, 0.5, rtol=1e-3).upper for p, q in zip(P, Q, strict=True))
    for confidence in (0.5, 0.9, 0.95):
        found = population(mechanism, pair, 0.5, confidence)
        assert found.delta == pytest.approx(every[rank(confidence, DRAWS) - 1], rel=1e-3)
        assert (found.people, found.resamples, found.confidence) == (60, DRAWS, confidence)
    assert rank(0.95, 400) == 381
    for bad in (0.0, 1.0, 0.999, -1, 2):
        with pytest.raises(ParameterError, match="confidence must lie"):
            population(mechanism, pair, 0.5, bad)


def test_chernoff_limits_hold_as_often_as_they_say():
    risk = 0.01
    for people, truth in ((5, 0.3), (40, 0.02), (200, 0.5)):
        seen = np.arange(people + 1)
        limits = _chernoff(seen / people, people, risk)
        assert stats.binom.pmf(seen, people, truth)[limits < truth].sum() <= risk
        assert (limits >= seen / people).all()
        # And they are no looser than Hoeffding's.
        assert (limits <= seen / people + math.sqrt(-math.log(risk) / (2 * people)) + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_the_largest_probability_under_limits_is_a_linear_programme(seed):
    from scipy.optimize import linprog

    rng = np.random.default_rng(seed)
    channel = rng.dirichlet(np.ones(4), 5)
    limits = np.minimum(1, rng.dirichlet(np.ones(5)) + rng.uniform(0, 0.3, 5))
    for y, found in enumerate(_largest(channel, limits)):
        best = linprog(
            -channel[:, y], A_eq=np.ones((1, 5)), b_eq=[1], bounds=list(zip(np.zeros(5), limits, strict=True))
        )
        assert found == pytest.approx(-best.fun, abs=1e-9)


def test_the_class_limit_bounds_every_pair_within_the_limits_and_needs_people_who_count_alike():
    sample = crowd(11, 300)
    pair = replace(sample, weight="users").pair()
    mechanism = Tupling(RestrictedLaplace(GRID, 0.5, 2.0), 4)
    limit = _class_limit(mechanism, pair, 0.5, 0.95)
    uppers = [
        _chernoff(law, size, 0.05 / (2 * SIZE)) for law, size in zip((pair.p, pair.q), sizes(pair), strict=True)
    ]
    rng = np.random.default_rng(0)
    for _ in range(30):
        p, q = (filled(rng.permutation(SIZE), upper) for upper in uppers)
        assert delta(mechanism, p, q, 0.5).upper <= limit
    assert limit < 1
    assert _class_limit(mechanism, sample.pair(), 0.5, 0.95) is None  # people weigh what they like
    assert (
        _class_limit(mechanism, replace(sample, weight="users").pair(0.5), 0.5, 0.95) == limit
    )  # of people themselves
    assert _class_limit(RestrictedLaplace(GRID, 0.5, 2.0), pair, 0.5, 0.95) is None
    records = Pair.from_counts("r", [30] * SIZE, [20] * SIZE)
    assert 0 < _class_limit(mechanism, records, 0.5, 0.95) < 1


def filled(order, upper):
    law = np.zeros(SIZE)
    for x in order:
        law[x] = min(upper[x], 1 - law.sum())
    return law / law.sum()


def test_the_limit_holds_for_a_population_that_is_known():
    """Ten samples of 40 people from 4,000: the true delta stays within the limit; in-sample it mostly would not."""
    everybody = crowd(12, 4000)
    truth = everybody.pair()
    within, in_sample = [], []
    rng = np.random.default_rng(5)
    for _ in range(10):
        chosen = np.isin(everybody.users, rng.choice(4000, 40, replace=False))
        users = np.unique(everybody.users[chosen], return_inverse=True)[1]
        some = Sample("a", SIZE, everybody.inputs[chosen], everybody.holds[chosen], users).pair()
        for confidence, found in ((0.95, within), (None, in_sample)):
            made = optimal_tupling([some], GRID, 2, epsilon=0.5, delta=0.02, confidence=confidence)
            limit = 0.02 if made.populations is None else made.populations[0].delta
            found.append(delta(made.mechanism, truth.p, truth.q, 0.5).upper <= limit)
    assert all(within)
    assert sum(in_sample) <= 5  # the test has power


# The designer


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_projection_is_the_nearest_law(seed):
    rng = np.random.default_rng(seed)
    nu = rng.dirichlet(np.ones(6))
    V = rng.normal(0, rng.choice([0.1, 1, 10]), (3, 6))
    found = onto_simplex(V, nu)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-9)
    # No direction within the simplex is downhill: (V - found)/nu is largest, and equal, where found is positive.
    pull = (V - found) / nu
    for row, law in zip(pull, found, strict=True):
        assert np.ptp(row[law > 1e-12]) < 1e-6 * max(1, np.abs(row).max())
        assert row.max() <= row[law > 1e-12].max() + 1e-6 * max(1, np.abs(row).max())


def test_the_designed_channel_is_the_least_of_its_quadratic_programme():
    pair = pair_of(13)
    M, nu = moments_of([pair], 0.3), np.random.default_rng(1).dirichlet(np.full(SIZE, 5.0))
    cost = (np.full(SIZE, 1 / SIZE)[:, None]) * loss_matrix(GRID.distances(), 3, nu)
    price = 0.5

    def value(A):
        return float((cost * A).sum() + price * ((M @ A) * A / nu).sum())

    A = np.tile(nu, (SIZE, 1))
    for _ in range(60):
        A = _least(cost, M, nu, price, A)
    # Convexity: the linear programme at the found channel bounds every other channel's value from below.
    gradient = cost + 2 * price * (M @ A) / nu
    lower = value(A) + float(gradient.min(axis=1).sum() - (gradient * A).sum())
    assert lower > 0.98 * value(A)


def test_the_best_dummies_are_best_but_for_their_floor():
    pair = pair_of(14)
    M, A = moments_of([pair], 0.3), RestrictedLaplace(GRID, 1.0, 2.0).channel().toarray()

    def chi(nu):
        return float((((M @ A) * A).sum(axis=0) / nu).sum())

    best = best_dummies(M, A)
    rng = np.random.default_rng(2)
    assert chi(best) < chi(np.full(SIZE, 1 / SIZE))
    for _ in range(50):
        other = 0.15 / SIZE + 0.85 * rng.dirichlet(np.full(SIZE, 20.0))
        assert chi(best) <= chi(other) * 1.02  # a share of uniform dummies is not free


def test_the_cheapest_price_is_found():
    for limit in (1e-9, 0.3, 1.0, 77.0, 1e9):
        found = cheapest(lambda price, limit=limit: price >= limit, 1.0)
        assert limit <= found <= 1.07 * limit
    assert cheapest(lambda _: False, 1.0) is None


def test_a_wary_prior_reaches_everywhere_and_less_so_with_many_people():
    shares = []
    for people in (20, 2000):
        pair = pair_of(15, people)
        law = np.eye(SIZE)[0]
        prior = wary_prior(law, [pair])
        assert prior.min() > 0
        assert prior.sum() == pytest.approx(1)
        shares.append(1 - prior[0])
    assert shares[1] < 0.2 * shares[0]


# Targets met at the limit


@pytest.mark.parametrize("base", ["laplace", "optimal"])
def test_calibration_with_confidence_meets_the_target_at_the_limit(base):
    pair = pair_of(16, 120)
    found = calibrate([pair], None, GRID, epsilon=0.5, delta=0.01, max_dummies=3, confidence=0.9, base=base)
    known = found.certificate.pairs[0].population
    assert found.certificate.holds
    assert known.delta <= 0.01
    assert known.delta == population(found.mechanism, pair, 0.5, 0.9).delta
    assert known.held_out is not None
    assert not found.certificate.in_sample
    plain = calibrate([pair], None, GRID, epsilon=0.5, delta=0.01, max_dummies=3)
    assert plain.certificate.in_sample
    assert plain.certificate.pairs[0].population is None
    if base == "laplace":
        assert plain.certificate.loss < found.certificate.loss
        stricter = calibrate([pair], None, GRID, epsilon=0.5, delta=0.01, max_dummies=3, confidence=0.99)
        assert stricter.certificate.loss >= found.certificate.loss * (1 - 1e-3)


def test_optimal_tupling_with_confidence_is_feasible_and_repeating_a_pair_changes_nothing():
    pair = pair_of(17, 200)
    one = optimal_tupling([pair], GRID, 3, epsilon=0.5, delta=0.01, confidence=0.95)
    two = optimal_tupling([pair, pair], GRID, 3, epsilon=0.5, delta=0.01, confidence=0.95)
    for found in (one, two):
        assert all(known.delta <= 0.01 for known in found.populations)
        assert all(bracket.upper <= 0.01 for bracket in found.deltas)
        assert found.lower <= found.loss
    assert two.loss == pytest.approx(one.loss, rel=0.05)
    laplace = calibrate([pair], None, GRID, epsilon=0.5, delta=0.01, max_dummies=3, confidence=0.95)
    assert one.loss < laplace.certificate.loss
    uniform = optimal_tupling(
        [pair], GRID, 3, epsilon=0.5, delta=0.01, confidence=0.95, dummy_distribution=np.full(SIZE, 1 / SIZE)
    )
    assert uniform.mechanism.dummy_distribution.max() == 1 / SIZE
    assert np.ptp(one.mechanism.dummy_distribution) > 0.01


@pytest.mark.parametrize("dummies", ["uniform", "mixture", None])
def test_held_out_means_that_the_search_saw_one_half_only(dummies):
    pair = pair_of(25, 160)
    about = {"epsilon": 0.5, "delta": 0.02, "max_dummies": 3, "confidence": 0.9, "base": "optimal"}
    found = calibrate([pair], None, GRID, dummy_distribution=dummies, **about)
    first, second = halves([pair])
    again = calibrate(first, None, GRID, dummy_distribution=dummies, **about)
    expected = delta(again.mechanism, second[0].p, second[0].q, 0.5)
    assert found.certificate.pairs[0].population.held_out == expected


def test_at_delta_0_and_on_large_maps_two_parameters_are_all_there_is(monkeypatch):
    pair = pair_of(26, 160)
    about = {"epsilon": 2.0, "max_dummies": 2, "confidence": 0.9, "base": "optimal"}
    with pytest.raises(InfeasibleError, match="ask for a larger delta"):  # as with the other base: rounding alone
        calibrate([pair], None, GRID, delta=0.0, **about)
    monkeypatch.setattr(sys.modules["distp.calibration.calibrate"], "MOST_PRODUCTS", SIZE**3 - 1)
    large = calibrate([pair], None, GRID, delta=0.01, **about)
    assert isinstance(large.mechanism.base, (RestrictedLaplace, Identity))


def test_few_people_get_two_parameters_only():
    pair = pair_of(18, 30)
    found = calibrate([pair], None, GRID, epsilon=0.5, delta=0.05, max_dummies=3, confidence=0.9, base="optimal")
    assert isinstance(found.mechanism.base, (RestrictedLaplace, Identity))


def test_a_budget_buys_the_fewest_dummies():
    pair = pair_of(19, 300)
    about = {"epsilon": 0.5, "delta": 0.01}
    losses = {
        k: calibrate([pair], None, GRID, max_dummies=k, **about).certificate.loss for k in (0, 1, 2, 3, 5, 8, 12)
    }
    budget = losses[5] * 1.0001
    found = calibrate([pair], None, GRID, max_dummies=12, max_loss=budget, **about)
    assert found.certificate.loss <= budget
    fewer = found.mechanism.dummies - 1
    assert found.mechanism.dummies <= 5
    with pytest.raises(InfeasibleError, match="at most"):
        calibrate([pair], None, GRID, max_dummies=fewer, max_loss=budget, **about)
    nothing = calibrate([pair], None, GRID, max_dummies=200, max_loss=0.0, **about)
    assert nothing.certificate.loss == 0


@pytest.mark.parametrize("base", ["laplace", "optimal"])
def test_the_place_is_as_hard_to_find_as_was_asked(base):
    pair = pair_of(20, 300)
    about = {"epsilon": 1.0, "delta": 0.05, "max_dummies": 6, "base": base}
    free = calibrate([pair], None, GRID, **about)
    blind = free.certificate.location.blind_error.lower
    asked = (free.certificate.location.error.lower + blind) / 2
    found = calibrate([pair], None, GRID, min_location_error=asked, **about)
    assert found.certificate.location.error.lower >= asked > free.certificate.location.error.lower
    assert found.certificate.loss >= free.certificate.loss
    with pytest.raises(InfeasibleError, match="sees no report at all is off by"):
        calibrate([pair], None, GRID, min_location_error=blind * 1.01, **about)


def test_dummies_by_name():
    pair = pair_of(21, 300)
    losses = {}
    for name in ("uniform", "mixture", "difference"):
        found = calibrate([pair], None, GRID, epsilon=0.4, delta=0.01, max_dummies=3, dummy_distribution=name)
        losses[name] = found.certificate.loss
        assert found.certificate.holds
    assert losses["uniform"] == calibrate([pair], None, GRID, epsilon=0.4, delta=0.01, max_dummies=3).certificate.loss
    assert len(set(losses.values())) == 3
    for bad, why in (("best", "must be one of uniform"), ("chosen", "optimal base and a confidence only")):
        with pytest.raises(ParameterError, match=why):
            calibrate([pair], None, GRID, epsilon=0.4, delta=0.01, max_dummies=3, dummy_distribution=bad)
    with pytest.raises(ParameterError, match="base must be one of"):
        calibrate([pair], None, GRID, epsilon=0.4, delta=0.01, max_dummies=3, base="best")
    equal = Pair.from_counts("e", [5] * SIZE, [5] * SIZE)
    assert calibrate([equal], None, GRID, epsilon=1, delta=0.1, max_dummies=1, dummy_distribution="difference")


# Certificates


def test_a_certificate_keeps_what_it_says_of_the_population():
    pair = pair_of(22)
    mechanism = Tupling(RestrictedLaplace(GRID, 1.0, 2.0), 3)
    made = certify(mechanism, [pair], 0.5, 0.9, confidence=0.9, held_out=[Bracket(0.1, 0.2)])
    back = Certificate.from_dict(made.to_dict())
    assert back == made
    assert back.pairs[0].population.held_out == Bracket(0.1, 0.2)
    assert back.location == made.location
    assert "random draw" in " ".join(made.assumptions)
    assert made.holds
    limit = made.pairs[0].population.delta
    between = (made.pairs[0].delta.upper + limit) / 2
    assert made.pairs[0].delta.upper < between < limit
    assert not certify(mechanism, [pair], 0.5, between, confidence=0.9).holds
    assert certify(mechanism, [pair], 0.5, between).holds
    records = certify(mechanism, [nameless(pair)], 0.5, 0.9, confidence=0.9)
    assert records.pairs[0].population.people is None
    assert "names nobody" in " ".join(records.assumptions) or "name nobody" in " ".join(records.assumptions)


def test_certificates_agree_on_what_both_know():
    pair = pair_of(23)
    mechanism = Tupling(RestrictedLaplace(GRID, 1.0, 2.0), 3)
    full = certify(mechanism, [pair], 0.5, 0.9, confidence=0.9)
    plain = certify(mechanism, [pair], 0.5, 0.9)
    old = replace(plain, location=None)
    assert full.agrees_with(plain)
    assert plain.agrees_with(full)
    assert old.agrees_with(full)
    assert not plain.agrees_with(replace(full, loss=full.loss + 0.01))
    other = replace(full.pairs[0], population=replace(full.pairs[0].population, delta=0.5))
    assert not full.agrees_with(replace(full, pairs=(other,)))
    moved = replace(full.location, error=Bracket(0, 0))
    assert not full.agrees_with(replace(full, location=moved))
    data = plain.to_dict()
    del data["location"]
    for part in data["pairs"]:
        del part["population"]
    assert Certificate.from_dict(data) == old


def test_a_sample_of_the_right_size_gives_the_support():
    pair = pair_of(24)
    assert isinstance(pair.support_p, Support)
    assert pair.support_p.people == len(pair.people) == 60
    assert expected_loss(Identity(GRID), pair.p) == 0
