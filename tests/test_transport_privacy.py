"""What guarantees become on couplings, under other beliefs and in other divergences; and extended privacy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import distp
from distp import (
    Bracket,
    Channel,
    Exponential,
    Guarantee,
    Identity,
    PlanarGaussian,
    PlanarLaplace,
    RandomizedResponse,
    RestrictedLaplace,
    Space,
    Tupling,
    close_beliefs,
    close_beliefs_chain,
    close_beliefs_metric,
    delta,
    earth_mover_bound,
    epsilon,
    family_epsilon,
    hellinger_distance,
    kl_divergence,
    metric_epsilon,
    mixed,
    preprocessed,
    renyi_divergence,
    theorem1,
    theorem2,
    total_variation,
    transported_delta,
    wasserstein,
    wasserstein_inf,
    xdistp,
)
from distp.errors import DistributionError, MechanismError, ParameterError, PrecisionError, SpaceError
from distp.privacy import metric
from distp.privacy.upward import add, ceiling, power, product
from helpers import distributions

POINTS = Space([[0, 0], [1, 0], [0, 2], [3, 1], [2, 2], [4, 4]])
SEED = 20191


def random_channel(rng: np.random.Generator, n: int, m: int) -> Channel:
    return Channel(rng.dirichlet(np.ones(m), n))


# metric_epsilon


def exact_metric_epsilon(laws: np.ndarray, distances: np.ndarray) -> mpmath.mpf:
    """Follow the definition, at 50 digits."""
    with mpmath.workdps(50):
        worst = mpmath.mpf(0)
        for x, z in itertools.permutations(range(len(laws)), 2):
            for P, Q in zip(laws[x].tolist(), laws[z].tolist(), strict=True):
                if P <= Q:
                    continue
                if Q == 0 or distances[x, z] == 0:
                    return mpmath.inf
                worst = max(worst, mpmath.log(mpmath.mpf(P) / Q) / distances[x, z])
        return worst


def plain_metric_epsilon(laws: np.ndarray, distances: np.ndarray) -> float:
    worst = 0.0
    logs = np.log(laws)
    for x in range(len(laws)):
        gap = (logs[x] - logs).max(axis=1)
        gap[x] = 0
        worst = max(worst, float((gap / np.where(distances[x] == 0, np.inf, distances[x])).max()))
    return worst


@pytest.fixture(params=["direct", "pruned"])
def _both_ways(request, monkeypatch):
    if request.param == "pruned":
        monkeypatch.setattr(metric, "_DIRECT", 0)
        monkeypatch.setattr(metric, "_NEAREST", 2)
        monkeypatch.setattr(metric, "_FEW", 0)
        monkeypatch.setattr(metric, "_BLOCK", 8)


@st.composite
def channels_with_distances(draw):
    n, m = draw(st.integers(4, 7)), draw(st.integers(1, 5))
    laws = np.array([draw(distributions(m)) for _ in range(n)])
    if draw(st.booleans()):  # no zeros, so that the result is finite more often
        laws = (laws + 0.01) / (laws + 0.01).sum(axis=1, keepdims=True)
    for _ in range(draw(st.integers(0, 2))):
        laws[draw(st.integers(0, n - 1))] = laws[draw(st.integers(0, n - 1))]
    values = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.0, 1e-7, 1e6]), min_size=n * n, max_size=n * n))
    distances = np.triu(np.array(values).reshape(n, n), 1)
    return laws, distances + distances.T


@pytest.mark.usefixtures("_both_ways")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(channels_with_distances())
def test_metric_epsilon_brackets_the_definition_at_50_digits(drawn):
    laws, distances = drawn
    mechanism = Channel(laws, inputs=Space.from_distances(distances))
    found = metric_epsilon(mechanism)
    exact = exact_metric_epsilon(laws, distances)
    assert found.lower <= exact <= found.upper
    assert found.width <= 1e-9 * found.upper or found.upper < 1e-9
    assert metric_epsilon(Channel(laws), distances) == found


def test_metric_epsilon_accepts_distances_that_are_no_metric():
    laws = np.array([[0.5, 0.5], [0.25, 0.75], [0.125, 0.875]])
    odd = np.array([[7.0, 1.0, 5.0], [0.5, 7.0, 0.1], [1.0, 1.0, 0.0]])
    found, exact = metric_epsilon(Channel(laws), odd), exact_metric_epsilon(laws, odd)
    assert found.lower <= exact <= found.upper


@pytest.mark.parametrize("shape", ["square", "line", "clusters"])
@pytest.mark.parametrize("kind", [PlanarLaplace, Exponential, PlanarGaussian, RandomizedResponse])
def test_pruning_of_far_pairs_changes_nothing(kind, shape, monkeypatch):
    monkeypatch.setattr(metric, "_DIRECT", 0)
    monkeypatch.setattr(metric, "_BLOCK", 1000)
    rng = np.random.default_rng(SEED)
    n = 150
    if shape == "square":
        points = rng.uniform(0, 9, (n, 2))
    elif shape == "line":
        points = np.arange(n) / 10.0
    else:
        points = rng.normal(0, 0.1, (n, 2)) + 5 * rng.integers(0, 3, (n, 2))
    space = Space(points)
    mechanism = kind(space, 0.8)
    found = metric_epsilon(mechanism)
    assert found.lower <= plain_metric_epsilon(mechanism.channel(), space.distances()) * (1 + 1e-13)
    assert found.upper >= plain_metric_epsilon(mechanism.channel(), space.distances()) * (1 - 1e-13)
    assert found.width <= 1e-10 * found.upper


@pytest.mark.parametrize("seed", range(60))
def test_pruning_keeps_the_two_orders_of_a_pair_apart(seed, monkeypatch):
    # Rows from flat to peaked: ln A(x)[y] / A(z)[y] is large in one order only.
    for name, value in (("_DIRECT", 0), ("_NEAREST", 1), ("_FEW", [0, 0.2, 0.5, 1, 1000][seed % 5])):
        monkeypatch.setattr(metric, name, value)
    rng = np.random.default_rng(SEED + seed)
    n, m = 30, 6
    laws = np.exp(-rng.gamma(0.3, 2, (n, m)) * rng.random((n, 1)) ** 4 * 3)
    laws /= laws.sum(axis=1, keepdims=True)
    distances = Space(rng.uniform(1, 2, (n, 3))).distances() + 3 * (1 - np.eye(n))
    if seed % 2:
        distances = distances * rng.uniform(0.5, 1, (n, n))
    found, plain = metric_epsilon(Channel(laws), distances), plain_metric_epsilon(laws, distances)
    assert found.lower * (1 - 1e-13) <= plain <= found.upper * (1 + 1e-13)
    assert found.width <= 1e-10 * found.upper


def test_the_limits_by_which_pairs_are_dropped_are_upper_ends(monkeypatch):
    for name, value in (("_DIRECT", 0), ("_NEAREST", 1), ("_FEW", 0)):
        monkeypatch.setattr(metric, name, value)
    rng = np.random.default_rng(SEED)
    space = Space(rng.uniform(0, 9, (80, 2)) ** 2)
    laws, distances = PlanarLaplace(space, 0.1).channel(), space.distances()
    logs = np.log(laws)
    slow = (logs[:, None] - logs).max(axis=2) / np.where(distances > 0, distances, 1)
    drop, seen = metric._Search.drop, []

    def checked(self, i, j, limit):
        assert (limit >= slow[i, j] * (1 - 1e-13)).all()
        seen.append(i.size)
        return drop(self, i, j, limit)

    monkeypatch.setattr(metric._Search, "drop", checked)
    metric_epsilon(Channel(laws), distances)
    assert len(seen) > 3  # rows were used as ways round


def test_a_single_worst_far_pair_survives_the_pruning(monkeypatch):
    # Two far inputs differ in one output by much more than anything nearby explains.
    monkeypatch.setattr(metric, "_DIRECT", 0)
    rng = np.random.default_rng(SEED)
    space = Space(rng.uniform(0, 10, (120, 2)))
    far = np.unravel_index(np.argmax(space.distances()), (120, 120))
    laws = np.full((120, 30), 1 / 30)
    laws[far[0], 0], laws[far[0], 1] = 1 / 30 + 0.03, 1 / 30 - 0.03
    laws[far[1], 0], laws[far[1], 1] = 1 / 30 - 0.0333, 1 / 30 + 0.0333
    for distances in (space.distances(), 1 - np.eye(120)):
        found = metric_epsilon(Channel(laws), distances)
        plain = plain_metric_epsilon(laws, distances)
        assert found.lower * (1 - 1e-13) <= plain <= found.upper * (1 + 1e-13)
        assert found.width <= 1e-10 * found.upper


def test_metric_epsilon_of_many_ties_and_of_different_supports():
    n = 700
    found = metric_epsilon(RandomizedResponse(n, 1.0))  # every pair has ratio 1
    assert found.lower <= 1 + 1e-12
    assert found.upper * (1 + 1e-12) >= 1
    assert found.width < 1e-10
    line = Space(np.arange(float(n)))
    assert metric_epsilon(RestrictedLaplace(line, 1.0, 50.0)).lower == math.inf
    assert metric_epsilon(Identity(n)).lower == math.inf
    assert metric_epsilon(Channel(np.full((n, 3), 1 / 3))) == Bracket(0.0, 0.0)


def test_inputs_at_distance_zero_must_have_equal_laws():
    zero = np.zeros((2, 2))
    assert metric_epsilon(Channel([[0.5, 0.5], [0.5, 0.5]]), zero) == Bracket(0.0, 0.0)
    assert metric_epsilon(Channel([[0.5, 0.5], [0.5 + 2**-50, 0.5 - 2**-50]]), zero).lower == math.inf
    tiny = np.array([[0.0, 1e-320], [1e-320, 0.0]])
    assert metric_epsilon(Channel([[0.9, 0.1], [0.1, 0.9]]), tiny).upper == math.inf
    with pytest.raises(SpaceError, match="finite"):
        metric_epsilon(Identity(2), [[0, -1], [-1, 0]])


# xdistp


@pytest.mark.parametrize("name", ["W_inf", "W_1"])
@pytest.mark.parametrize("dummies", [0, 3])
def test_xdistp_is_the_largest_pure_epsilon_per_distance(name, dummies):
    rng = np.random.default_rng(SEED + dummies)
    base = PlanarLaplace(POINTS, 0.7)
    mechanism = Tupling(base, dummies) if dummies else base
    family = rng.dirichlet(np.ones(6), 4)
    found = xdistp(mechanism, family, name)
    apart = wasserstein_inf if name == "W_inf" else wasserstein
    slow = {}
    for i, j in itertools.permutations(range(4), 2):
        P, Q = base.lift(family[i]), base.lift(family[j])
        slow[i, j] = np.log(P / Q).max() / apart(family[i], family[j], POINTS).value
    assert found.pair == max(slow, key=slow.__getitem__)
    worst = max(slow.values())
    assert found.value.lower <= worst * (1 + 1e-12)
    assert found.value.upper >= worst * (1 - 1e-12)
    assert found.value.width <= 1e-9
    if name == "W_inf":  # Theorem 2
        assert found.value.lower <= metric_epsilon(base).upper


def test_xdistp_takes_numbers_and_functions_as_distances():
    mechanism = PlanarLaplace(POINTS, 0.7)
    family = np.random.default_rng(SEED).dirichlet(np.ones(6), 3)
    plain = xdistp(mechanism, family, 1 - np.eye(3))
    assert plain.value.lower <= family_epsilon(mechanism, family, 0.0).value.upper
    assert plain.value.upper >= family_epsilon(mechanism, family, 0.0).value.lower
    halved = xdistp(mechanism, family, lambda *_: 2.0)
    assert halved.value.upper == pytest.approx(plain.value.upper / 2, rel=1e-12)
    assert halved.pair == plain.pair
    ordered = np.full((3, 3), 1e9)
    ordered[1, 2] = 1e-3  # only this order is near
    assert xdistp(mechanism, family, ordered).pair == (1, 2)


@pytest.mark.parametrize("dummies", [0, 2, 40])
def test_xdistp_with_delta_is_the_least_rate_that_covers_every_pair(dummies):
    base = RandomizedResponse(POINTS, 3.0)
    mechanism = Tupling(base, dummies) if dummies else base
    family = np.random.default_rng(SEED).dirichlet(np.ones(6), 3)
    distances = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 0]]) / 10
    found = xdistp(mechanism, family, distances, 0.05)
    slow = max(
        epsilon(mechanism, family[i], family[j], 0.05, ordered=True).upper / distances[i, j]
        for i, j in itertools.permutations(range(3), 2)
    )
    assert found.value.upper == pytest.approx(slow, rel=3e-4)
    assert slow > 0
    # The first pair looked at need not be the worst one.
    rates = [
        xdistp(mechanism, [family[i], family[j]], distances[[i, j]][:, [i, j]], 0.05).value.upper
        for i, j in itertools.combinations(range(3), 2)
    ]
    assert max(rates) == pytest.approx(found.value.upper, rel=3e-4)
    for scale in ([1, 30, 60], [60, 1, 30], [30, 60, 1]):
        other = np.zeros((3, 3))
        for (i, j), value in zip(itertools.combinations(range(3), 2), scale, strict=True):
            other[i, j] = other[j, i] = value
        worst = max(
            epsilon(mechanism, family[i], family[j], 0.02, ordered=True).upper / other[i, j]
            for i, j in itertools.permutations(range(3), 2)
        )
        assert xdistp(mechanism, family, other, 0.02).value.upper == pytest.approx(worst, rel=3e-4)
    assert xdistp(mechanism, family, distances, 1.0).value == Bracket(0.0, 0.0)


def test_xdistp_at_distance_zero():
    p, q = [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]
    mechanism = RandomizedResponse(3, 1.0)
    found = xdistp(mechanism, [p, q, p], np.zeros((3, 3)))
    assert found.value == Bracket(math.inf, math.inf)
    assert set(found.pair) != {0, 2}
    assert xdistp(mechanism, [p, p], np.zeros((2, 2))).value == Bracket(0.0, 0.0)
    assert xdistp(mechanism, [p, q], np.zeros((2, 2)), 0.9).value == Bracket(0.0, 0.0)
    assert xdistp(mechanism, [p, q], np.zeros((2, 2)), 0.01).value.lower == math.inf
    # The first two inputs have one law and distance 0: the lifted laws differ by rounding at most.
    merged = Channel([[0.7, 0.3], [0.7, 0.3], [0.2, 0.8]], inputs=Space([0.0, 0.0, 1.0]))
    with pytest.raises(PrecisionError) as caught:
        xdistp(merged, [[0.1, 0.6, 0.3], [0.6, 0.1, 0.3]])
    assert caught.value.bracket == Bracket(0.0, math.inf)


def test_xdistp_refuses_bad_arguments():
    mechanism, family = RandomizedResponse(2, 1.0), [[1, 0], [0, 1]]
    with pytest.raises(ParameterError, match="W_3"):
        xdistp(mechanism, family, "W_3")
    with pytest.raises(SpaceError, match="shape"):
        xdistp(mechanism, family, np.zeros((3, 3)))
    with pytest.raises(SpaceError, match=r"metric\[0, 1\] is -1"):
        xdistp(mechanism, family, [[0, -1], [1, 0]])
    with pytest.raises(SpaceError, match="nan"):
        xdistp(mechanism, family, lambda *_: math.nan)
    with pytest.raises(DistributionError, match="two"):
        xdistp(mechanism, family[:1])


# Theorems 1 and 2


def hockey_stick(P: np.ndarray, Q: np.ndarray, eps: float) -> float:
    return float(np.maximum(P - math.exp(eps) * Q, 0).sum())


def coupled_counts(rng: np.random.Generator, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draw a coupling on the allowed pairs, in counts, and return its marginals."""
    plan = np.zeros(allowed.shape, dtype=int)
    i, j = np.nonzero(allowed)
    for place in rng.integers(0, i.size, 12):
        plan[i[place], j[place]] += rng.integers(1, 9)
    return plan.sum(axis=1), plan.sum(axis=0)


@pytest.mark.parametrize("seed", range(12))
def test_theorem_1_holds_for_what_random_couplings_on_a_relation_give(seed):
    rng = np.random.default_rng(SEED + seed)
    laws = rng.dirichlet(np.ones(4) / 2, 5)
    relation = rng.random((5, 5)) < 0.4
    relation[0, 1] = True
    eps = float(rng.uniform(0, 1))
    point = max(hockey_stick(laws[x], laws[z], eps) for x, z in np.argwhere(relation))
    p, q = coupled_counts(rng, relation)
    found = theorem1(p, q, relation, eps, min(1.0, point))
    assert (found.epsilon, found.delta) == (eps, min(1.0, point))  # sharp: no factor |Phi|
    assert hockey_stick(p / p.sum() @ laws, q / q.sum() @ laws, eps) <= found.delta + 1e-12
    assert any("relation" in text for text in found.assumes)


def test_theorem_1_refuses_with_a_set_that_violates_the_relation():
    relation = np.eye(3, dtype=bool)
    with pytest.raises(ParameterError, match=r"S = \{2\} more by 0.3") as caught:
        theorem1([2, 3, 5], [3, 5, 2], relation, 1.0)
    assert "lifted relation" in str(caught.value)
    # One direction only: what moves up cannot move down.
    up = np.triu(np.ones((3, 3), dtype=bool))
    assert theorem1([5, 3, 2], [2, 3, 5], up, 1.0).delta == 0
    with pytest.raises(ParameterError, match="lifted"):
        theorem1([2, 3, 5], [5, 3, 2], up, 1.0)


def test_floats_cost_their_rounding_and_counts_do_not():
    whole = theorem1([2, 3, 5], [3, 5, 2], np.ones((3, 3), dtype=bool), 1.0, 0.25)
    assert whole.delta == 0.25
    floats = theorem1([0.2, 0.3, 0.5], [0.3, 0.5, 0.2], np.ones((3, 3), dtype=bool), 1.0, 0.25)
    assert 0.25 < floats.delta < 0.25 + 1e-13
    assert any("floats" in text for text in floats.assumes)
    line = Space([0.0, 1.0, 2.0])
    assert theorem2([2, 3, 5], [3, 5, 2], line, 0.5).delta == 0
    assert 0 < theorem2([0.2, 0.3, 0.5], [0.3, 0.5, 0.2], line, 0.5).delta < 1e-13


def test_vector_v5():
    line = Space([0.0, 1.0, 2.0])
    p, q = [2, 3, 5], [3, 5, 2]
    assert wasserstein_inf(p, q, line).value == 1
    assert wasserstein(p, q, line).value == pytest.approx(0.4)
    found = theorem2(p, q, line, 0.75, 0.125, 0.0625)
    assert (found.epsilon, found.delta) == (0.75, 0.1875)
    assert theorem2(p, q, line, 0.75, 0.5, 0.5).delta == 1
    assert theorem2(p, q, line, 0.75, 0.0, 0.3).epsilon == 0  # 0.3 of the mass moves at all


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("slack", [0.0, 0.1])
def test_theorem_2_holds_for_random_pairs_in_both_orders(seed, slack):
    rng = np.random.default_rng(SEED + seed)
    laws = rng.dirichlet(np.ones(4), 6)
    distances = POINTS.distances()
    # The channel is (rate, d, tau)-XDP by definition of tau.
    rate = float(rng.uniform(0.1, 1))
    pairs = list(itertools.permutations(range(6), 2))
    tau = max(hockey_stick(laws[x], laws[z], rate * distances[x, z]) for x, z in pairs)
    p, q = rng.integers(0, 6, 6) + [1, 0, 0, 0, 0, 0], rng.integers(0, 6, 6) + [0, 0, 0, 0, 0, 1]
    found = theorem2(p, q, POINTS, rate, tau, slack)
    P, Q = p / p.sum() @ laws, q / q.sum() @ laws
    assert max(hockey_stick(P, Q, found.epsilon), hockey_stick(Q, P, found.epsilon)) <= found.delta + 1e-12
    assert found.epsilon == pytest.approx(rate * wasserstein_inf(p, q, POINTS, slack).value)
    assert found.delta == pytest.approx(min(1, tau + slack))


def test_theorem_2_is_attained_so_no_term_can_be_dropped():
    # Two inputs at distance 1 and a far third; mass 0.1 moves to the far one.
    eps, t = 0.5, math.exp(0.5)
    laws = np.array([[t / (1 + t), 1 / (1 + t), 0], [1 / (1 + t), t / (1 + t), 0], [0, 0, 1]])
    space = Space([0.0, 1.0, 100.0])
    p, q = np.array([9, 0, 1]), np.array([0, 10, 0])
    found = theorem2(p, q, space, eps, 0.0, 0.1)
    assert (found.epsilon, found.delta) == (eps, 0.1)
    assert hockey_stick(p / 10 @ laws, q / 10 @ laws, eps) > 0.099


# transport of divergences


@pytest.mark.parametrize("seed", range(8))
def test_transported_bounds_hold_for_random_channels_and_pairs(seed):
    rng = np.random.default_rng(SEED + seed)
    mechanism = Channel(rng.dirichlet(3 * np.ones(5), 6), inputs=POINTS)
    rate = metric_epsilon(mechanism).upper
    p, q = rng.dirichlet(np.ones(6), 2)
    for eps in (0.0, 0.1, 0.5, 2.0):
        bound = transported_delta(p, q, POINTS, rate, eps)
        assert bound.upper >= delta(mechanism, p, q, eps).lower
        assert bound.width < 1e-11
        assert transported_delta(q, p, POINTS, rate, eps).upper == pytest.approx(bound.upper, rel=1e-9, abs=1e-12)
    for left, right in ((p, q), (q, p)):
        assert earth_mover_bound(p, q, POINTS, rate) >= kl_divergence(mechanism, left, right).lower
        assert earth_mover_bound(p, q, POINTS, rate, "TV") >= total_variation(mechanism, left, right).lower
    assert transported_delta(p, q, POINTS, rate, 0.0).upper == pytest.approx(
        earth_mover_bound(p, q, POINTS, rate, "TV"), rel=1e-9
    )


def test_transported_bounds_are_attained_by_randomised_response_between_two_points():
    space = Space([0.0, 2.0])
    mechanism = RandomizedResponse(space, 1.4)  # 0.7 per unit
    for eps in (0.0, 0.3, 1.0):
        exact = delta(mechanism, [1, 0], [0, 1], eps)
        assert transported_delta([1, 0], [0, 1], space, 0.7, eps).upper == pytest.approx(exact.upper, rel=1e-12)
    assert earth_mover_bound([1, 0], [0, 1], space, 0.7) == pytest.approx(1.4 * math.tanh(0.7), rel=1e-12)
    assert earth_mover_bound([1, 0], [0, 1], space, 0.7) >= kl_divergence(mechanism, [1, 0], [0, 1]).lower
    assert earth_mover_bound([1, 0], [0, 1], space, 0.7, "TV") == pytest.approx(math.tanh(0.7), rel=1e-12)


def test_the_earth_mover_bound_is_below_the_plainer_ones():
    rng = np.random.default_rng(SEED)
    squares = POINTS.distances() ** 2
    for rate in (0.05, 0.5, 3.0):
        p, q = rng.dirichlet(np.ones(6), 2)
        found = earth_mover_bound(p, q, POINTS, rate)
        assert found <= rate * wasserstein(p, q, POINTS).value * (1 + 1e-10)
        assert found <= rate**2 / 2 * distp.transport_cost(p, q, squares).value * (1 + 1e-10)
        assert found > 0


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 40), st.floats(0, 45), st.floats(0, 30))
def test_the_cost_of_a_move_is_the_delta_of_the_worst_pair_at_50_digits(rate, eps, apart):
    found = transported_delta([1, 0], [0, 1], np.array([[0.0, apart], [apart, 0.0]]), rate, eps)
    with mpmath.workdps(50):
        t = mpmath.mpf(rate) * mpmath.mpf(apart)
        exact = max(mpmath.mpf(0), -mpmath.expm1(eps - t) / (1 + mpmath.exp(-t)))
        assert found.lower <= exact <= found.upper
        kl = t * mpmath.tanh(t / 2)
        bound = earth_mover_bound([1, 0], [0, 1], np.array([[0.0, apart], [apart, 0.0]]), rate)
        assert kl <= bound <= kl * (1 + mpmath.mpf(10) ** -13) + mpmath.mpf(10) ** -300
    assert found.width < 1e-12


def test_extremes_of_transported_bounds():
    d = np.array([[0.0, 1e300], [1e300, 0.0]])
    assert transported_delta([1, 0], [0, 1], d, 1e300, 5.0).upper == 1
    assert transported_delta([1, 0], [0, 1], d, 1e300, math.inf).upper == 0
    assert earth_mover_bound([1, 0], [0, 1], d, 1e300) == math.inf
    assert earth_mover_bound([1, 0], [0, 1], d, 1e300, "TV") == 1
    with pytest.raises(ParameterError, match="KL"):
        earth_mover_bound([1, 0], [0, 1], d, 1.0, "JS")  # type: ignore[arg-type]
    with pytest.raises(SpaceError, match="symmetric"):
        transported_delta([1, 0], [0, 1], [[0, 1], [2, 0]], 1.0, 0.0)


# close beliefs


@pytest.mark.parametrize("seed", range(10))
def test_beliefs_within_total_variation_stay_in_the_bracket(seed):
    rng = np.random.default_rng(SEED + seed)
    mechanism = random_channel(rng, 6, 4)
    p, q = rng.dirichlet(np.ones(6), 2)
    for eps in (0.0, 0.4, 1.5):
        known = delta(mechanism, p, q, eps, ordered=True)
        tv = float(rng.choice([0.001, 0.02, 0.1]))
        allowed = close_beliefs(eps, known, tv)
        for _ in range(10):
            believed = []
            for law in (p, q):
                other = rng.dirichlet(np.ones(6) / 5)
                apart = np.abs(law - other).sum() / 2
                believed.append(law + (other - law) * min(1, tv / apart) * (1 - 1e-12))
            exact = hockey_stick(*(law @ mechanism.channel() for law in believed), eps)
            assert allowed.lower - 1e-13 <= exact <= allowed.upper + 1e-13


def test_beliefs_can_be_that_far_off():
    # One belief gains where the other loses: delta + tv (1 + e^eps) is attained, and so is the lower end.
    p, q, tv, eps = [0.5, 0.5], [0.25, 0.75], 0.125, 0.2
    known = delta(Identity(2), p, q, eps, ordered=True)
    found = close_beliefs(eps, known, tv)
    more = delta(Identity(2), [0.625, 0.375], [0.125, 0.875], eps, ordered=True).upper
    assert more == pytest.approx(found.upper, rel=1e-12)
    assert close_beliefs(0.0, delta(Identity(2), p, q, 0.0, ordered=True), 0.0625).lower == pytest.approx(0.125)
    less = delta(Identity(2), [0.4375, 0.5625], [0.3125, 0.6875], 0.0, ordered=True).lower
    assert less == pytest.approx(0.125)


def test_beliefs_edge_cases():
    assert close_beliefs(1.0, 0.01, 0.0) == Bracket(0.01, 0.01)
    assert close_beliefs(1e9, 0.01, 0.5) == Bracket(0.0, 1.0)
    assert close_beliefs(1e9, 0.01, 0.0) == Bracket(0.01, 0.01)
    assert close_beliefs(math.inf, Bracket(0.2, 0.3), 0.0) == Bracket(0.2, 0.3)
    with pytest.raises(ParameterError, match="tv"):
        close_beliefs(1.0, 0.1, 1.5)
    with pytest.raises(ParameterError, match="delta"):
        close_beliefs(1.0, 1.1, 0.5)


@pytest.mark.parametrize("seed", range(8))
def test_proposition_1_holds_for_random_families(seed):
    rng = np.random.default_rng(SEED + seed)
    mechanism = Channel(rng.dirichlet(np.ones(4), 6), inputs=POINTS)
    truth = rng.dirichlet(np.ones(6), 2)
    believed = [0.9 * law + 0.1 * rng.dirichlet(np.ones(6)) for law in truth]
    family = [*truth, *believed]
    apart = np.array([[wasserstein(a, b, POINTS).value for b in family] for a in family])
    belief, distance = max(apart[0, 2], apart[1, 3]), apart[0, 1]
    laws = [law @ mechanism.channel() for law in family]

    def least_delta(rate: float, pairs: list[tuple[int, int]]) -> float:
        return max(hockey_stick(laws[i], laws[j], rate * apart[i, j]) for i, j in pairs)

    for rate in (0.05, 0.3):
        chain = close_beliefs_metric(rate, distance, belief, least_delta(rate, [(2, 0), (0, 1), (1, 3)]))
        assert hockey_stick(laws[2], laws[3], chain.epsilon) <= chain.delta + 1e-12
        closed = close_beliefs_metric(rate, distance, belief, least_delta(rate, [(2, 3)]), closed=True)
        assert hockey_stick(laws[2], laws[3], closed.epsilon) <= closed.delta + 1e-12
        assert closed.epsilon == chain.epsilon == pytest.approx(rate * (distance + 2 * belief))
    eps = 0.1
    worst = max(hockey_stick(laws[i], laws[j], eps) for i, j in ((2, 0), (0, 1), (1, 3)))
    found = close_beliefs_chain(eps, worst)
    assert hockey_stick(laws[2], laws[3], found.epsilon) <= found.delta + 1e-12


def test_the_chain_is_attained_so_no_term_can_be_dropped():
    # Group privacy's own worst case: delta enters at each of the three steps, grown by the steps before.
    eps, tau = 0.3, 0.01
    t = math.exp(eps)
    chain = [np.array([0.0, 1.0])]
    for _ in range(3):
        chain.append(np.array([t * chain[-1][0] + tau, 1 - t * chain[-1][0] - tau]))
    for near, far in itertools.pairwise(reversed(chain)):
        assert hockey_stick(near, far, eps) == pytest.approx(tau)
    found = close_beliefs_chain(eps, tau)
    assert hockey_stick(chain[3], chain[0], found.epsilon) == pytest.approx(found.delta)
    assert close_beliefs_metric(eps, 1.0, 1.0, tau).delta == pytest.approx(found.delta, rel=1e-14)
    assert close_beliefs_metric(eps, 1.0, 1.0, tau).epsilon == pytest.approx(found.epsilon, rel=1e-14)


# pre-processing, mixtures, rounding


def test_preprocessed_is_the_geometric_sum_rounded_up():
    for eps, tau, c in ((0.5, 0.001, 3), (1e-9, 1e-5, 1000), (2.0, 1e-12, 7), (0.0, 0.001, 5), (0.7, 0.125, 1)):
        found = preprocessed((eps, tau), c)
        with mpmath.workdps(50):
            exact = mpmath.mpf(tau) * sum(mpmath.exp(i * mpmath.mpf(eps)) for i in range(c))
            assert exact <= found.delta <= exact * (1 + mpmath.mpf(10) ** -14)
            assert c * mpmath.mpf(eps) <= found.epsilon <= c * mpmath.mpf(eps) * (1 + mpmath.mpf(10) ** -15)
    assert preprocessed(Guarantee(0.5, 0.0, ("so",)), 10**9).delta == 0
    assert preprocessed(Guarantee(0.5, 0.0, ("so",)), 2).assumes[0] == "so"
    huge = preprocessed((1e308, 1e-300), 100)
    assert (huge.epsilon, huge.delta) == (math.inf, 1.0)
    with pytest.raises(ParameterError, match="stability"):
        preprocessed((1.0, 0.0), 0)


def test_mixed_mechanisms_keep_the_largest_epsilon_and_the_mean_delta():
    rng = np.random.default_rng(SEED)
    first, second = random_channel(rng, 4, 3), random_channel(rng, 4, 3)
    p, q = rng.dirichlet(np.ones(4), 2)
    both = Channel(np.hstack([0.3 * first.channel(), 0.7 * second.channel()]))  # the receiver sees which
    parts = [
        (0.3, Guarantee(0.1, delta(first, p, q, 0.1).upper, ("the first",))),
        (0.7, Guarantee(0.1, delta(second, p, q, 0.1).upper, ("the second", "the first"))),
    ]
    found = mixed(parts)
    assert found.epsilon == 0.1
    assert delta(both, p, q, 0.1, ordered=True).lower <= found.delta
    assert found.assumes[:2] == ("the first", "the second")
    assert mixed([(1.0, Guarantee(0.1, 0.2, ())), (0.0, Guarantee(9.0, 1.0, ()))]).epsilon == 0.1
    with pytest.raises(DistributionError, match="weights"):
        mixed([(0.5, Guarantee(0.1, 0.2, ()))])
    with pytest.raises(ParameterError, match="delta"):
        Guarantee(0.1, 1.2, ())
    with pytest.raises(ParameterError, match="epsilon"):
        Guarantee(-0.1, 0.2, ())


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 1e300), st.floats(0, 1e300), st.floats(0, 800))
def test_sums_products_and_powers_are_rounded_up(a, b, x):
    with mpmath.workdps(700):
        assert add(a, b) >= mpmath.mpf(a) + mpmath.mpf(b)
        assert product(a, b) >= mpmath.mpf(a) * mpmath.mpf(b)
        assert power(x) >= mpmath.exp(mpmath.mpf(x))
    assert add(a, 0.0) == a == product(a, 1.0) == ceiling(Fraction(a))
    assert power(x) == math.inf if x > 709 else power(x) <= math.exp(x) * (1 + 1e-15)
    assert product(0.0, math.inf) == 0 == product(math.inf, 0.0)


# divergences


def exact_laws(mechanism, *laws):
    with mpmath.workdps(50):
        matrix = [[mpmath.mpf(float(entry)) for entry in row] for row in np.asarray(mechanism.channel())]
        return [
            [sum(mpmath.mpf(float(law[x])) * matrix[x][y] for x in range(len(law))) for y in range(len(matrix[0]))]
            for law in laws
        ]


def exact_divergences(P, Q, order):
    """Return Hellinger, Kullback-Leibler and Renyi from their definitions, at 50 digits."""
    with mpmath.workdps(50):
        pairs = list(zip(P, Q, strict=True))
        hellinger = mpmath.sqrt(sum((mpmath.sqrt(a) - mpmath.sqrt(b)) ** 2 for a, b in pairs) / 2)
        lone = any(a > 0 and b == 0 for a, b in pairs)
        kl = mpmath.inf if lone else sum(a * mpmath.log(a / b) for a, b in pairs if a > 0)
        if lone and order > 1:
            return hellinger, kl, mpmath.inf
        total = sum(a**order * b ** (1 - mpmath.mpf(order)) for a, b in pairs if a > 0 and b > 0)
        renyi = mpmath.inf if total == 0 else mpmath.log(total) / (mpmath.mpf(order) - 1)
        return hellinger, max(mpmath.mpf(0), kl), max(mpmath.mpf(0), renyi)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_divergences_bracket_their_definitions_at_50_digits(data):
    n, m = data.draw(st.integers(2, 4)), data.draw(st.integers(2, 4))
    mechanism = Channel(np.array([data.draw(distributions(m)) for _ in range(n)]))
    p, q = data.draw(distributions(n)), data.draw(distributions(n))
    order = data.draw(st.sampled_from([0.1, 0.5, 0.999, 1.001, 1.5, 2.0, 8.0, 64.0]))
    P, Q = exact_laws(mechanism, p, q)
    least = min(law[law > 0].min() for law in (p, q))
    sharp = least * mechanism.channel()[mechanism.channel() > 0].min() > 1e-250  # nothing lost to underflow
    hellinger, kl, renyi = exact_divergences(P, Q, order)
    found = kl_divergence(mechanism, p, q)
    assert found.lower <= kl <= found.upper
    assert not sharp or found.width <= 1e-12 * (1 + found.lower)
    found = renyi_divergence(mechanism, p, q, order)
    assert found.lower <= renyi <= found.upper
    assert not sharp or found.width <= 1e-11 * (1 + found.lower)
    found = hellinger_distance(mechanism, p, q)
    assert found.lower <= min(hellinger, 1) <= found.upper
    assert not sharp or found.width <= 1e-12 * (1 + found.lower)
    with mpmath.workdps(50):
        apart = max(sum(max(a - b, 0) for a, b in zip(*laws, strict=True)) for laws in ((P, Q), (Q, P)))
    found = total_variation(mechanism, p, q)
    assert found == delta(mechanism, p, q, 0.0)
    assert found.lower <= apart <= found.upper


def without_dust(law):
    law = np.where(law < 1e-100, 0, law)
    return law / law.sum()


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_divergences_keep_their_inequalities(data):
    n, m = 4, 4
    mechanism = Channel(np.array([without_dust(data.draw(distributions(m))) for _ in range(n)]))
    p, q = without_dust(data.draw(distributions(n))), without_dust(data.draw(distributions(n)))
    tv, kl = total_variation(mechanism, p, q), kl_divergence(mechanism, p, q)
    hellinger = hellinger_distance(mechanism, p, q)
    pure = epsilon(mechanism, p, q, 0.0) if kl.upper < math.inf else Bracket(math.inf, math.inf)
    assert tv.lower <= math.sqrt(kl.upper / 2)  # Pinsker
    assert hellinger.lower**2 <= tv.upper * (1 + 1e-12)
    assert tv.lower <= math.sqrt(2) * hellinger.upper
    if pure.upper < math.inf:  # theory 5.7
        assert kl.lower <= pure.upper * math.tanh(pure.upper / 2) * (1 + 1e-12)
        assert tv.lower <= math.tanh(pure.upper / 2) * (1 + 1e-12)
    orders = [0.3, 0.9, 1.0, 1.2, 3.0, math.inf]
    values = [renyi_divergence(mechanism, p, q, order) for order in orders]
    for smaller, larger in itertools.pairwise(values):
        assert smaller.lower <= larger.upper
    # Merging outputs never makes two reports easier to tell apart.
    merged = Channel(mechanism.channel() @ np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]]))
    for divergence in (total_variation, kl_divergence, hellinger_distance):
        assert divergence(merged, p, q).lower <= divergence(mechanism, p, q).upper
    assert renyi_divergence(merged, p, q, 3.0).lower <= values[4].upper


def test_renyi_near_order_one_is_near_kullback_leibler():
    rng = np.random.default_rng(SEED)
    mechanism, (p, q) = random_channel(rng, 5, 5), rng.dirichlet(np.ones(5), 2)
    kl = kl_divergence(mechanism, p, q)
    assert renyi_divergence(mechanism, p, q, 1.0) == kl
    for order in (1 - 1e-4, 1 + 1e-4):
        assert renyi_divergence(mechanism, p, q, order).upper == pytest.approx(kl.upper, rel=1e-3)
    assert renyi_divergence(mechanism, p, q, math.inf) == epsilon(mechanism, p, q, 0.0, ordered=True)
    assert renyi_divergence(mechanism, p, q, 1e17).upper == math.inf  # too coarse to say more, and it says so
    assert renyi_divergence(mechanism, p, q, 1e17).lower == 0


def test_divergences_depend_on_the_order_and_on_supports():
    p, q = [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]
    mechanism = Identity(3)
    assert kl_divergence(mechanism, p, q).upper == pytest.approx(math.log(2))
    assert kl_divergence(mechanism, q, p) == Bracket(math.inf, math.inf)
    assert renyi_divergence(mechanism, q, p, 2.0).lower == math.inf
    assert renyi_divergence(mechanism, q, p, 0.5).upper == pytest.approx(math.log(2))
    assert renyi_divergence(mechanism, [1, 0, 0], [0, 1, 0], 0.5).lower == math.inf
    for divergence in (kl_divergence, hellinger_distance, total_variation):
        assert divergence(mechanism, p, p) == Bracket(0.0, 0.0)
    with pytest.raises(ParameterError, match="order"):
        renyi_divergence(mechanism, p, q, 0.0)
    with pytest.raises(ParameterError, match="order"):
        renyi_divergence(mechanism, p, q, math.nan)


def test_divergences_of_short_tuples_are_listed_and_long_ones_refused():
    p, q = [0.5, 0.3, 0.2, 0], [0.1, 0.2, 0.3, 0.4]
    short = Tupling(Identity(4), 2)
    P, Q = np.zeros(64), np.zeros(64)
    for place, values in enumerate(itertools.product(range(4), repeat=3)):
        P[place], Q[place] = (sum(law[v] for v in values) / 3 / 16 for law in (p, q))
    ratio = P[P > 0] / Q[P > 0]
    assert kl_divergence(short, p, q).upper == pytest.approx((P[P > 0] * np.log(ratio)).sum(), rel=1e-12)
    assert renyi_divergence(short, p, q, 2.0).upper == pytest.approx(np.log((P[P > 0] * ratio).sum()), rel=1e-12)
    apart = math.sqrt(((np.sqrt(P) - np.sqrt(Q)) ** 2).sum() / 2)
    assert hellinger_distance(short, p, q).upper == pytest.approx(apart, rel=1e-12)
    assert total_variation(short, p, q).upper == pytest.approx(0.275)  # V1
    assert kl_divergence(short, p, q).upper < kl_divergence(Identity(4), p, q).lower
    long = Tupling(Identity(40), 60)
    far, near = np.arange(40.0) / np.arange(40.0).sum(), np.full(40, 1 / 40)
    assert total_variation(long, far, near).upper < total_variation(Identity(40), far, near).lower
    for divergence in (kl_divergence, hellinger_distance, lambda m, p, q: renyi_divergence(m, p, q, 2.0)):
        with pytest.raises(MechanismError, match="upper bound"):
            divergence(long, far, near)


def test_what_underflow_may_have_lost_is_left_open():
    tiny = 1e-200
    mechanism = Channel([[1 - tiny, tiny, 0.0], [0.5, 0.0, 0.5], [0.25, 0.5, 0.25]])
    p, q = [1 - tiny, tiny, 0.0], [tiny, 1 - tiny, 0.0]  # q's share of output 1 is 1e-400
    found = kl_divergence(mechanism, p, q)
    exact = exact_divergences(*exact_laws(mechanism, p, q), 2.0)
    assert found.lower <= exact[1] <= found.upper
    assert found.lower > 0.6
    assert found.upper == math.inf
    assert renyi_divergence(mechanism, p, q, 2.0).upper == math.inf
    close = hellinger_distance(mechanism, p, q)
    assert close.lower <= exact[0] <= close.upper
    assert close.width < 1e-12


def test_tails_lighter_than_the_rounding_of_floats_widen_the_bracket():
    channel = Exponential([0.0, 1.0, 2.0, 10.0], 1.0)
    p, q = [0.5, 0.5, 0, 0], [0.5, 0.25, 0.25, 1e-17]
    try:
        found = xdistp(channel, [p, q]).value
    except PrecisionError as error:
        found = error.bracket
    assert found.lower <= 0.0247870 <= found.upper  # W_inf is 9: the tail has to move from 1 to 10


def test_slack_of_a_guarantee_covers_what_the_coupling_leaves():
    found = theorem2([10, 0], [7, 3], [[0, 1e300], [1e300, 0]], 1.0, 0.0, 0.3)
    assert Fraction(found.delta) >= Fraction(3, 10)  # as the float 0.3 is not


def test_numbers_beyond_doubles_round_up():
    assert preprocessed((1.0, 0.0), 2**53 + 1).epsilon > 2**53
    assert preprocessed((0.1, 0.0), 10**400).epsilon == math.inf
    assert earth_mover_bound([1, 3], [3, 1], [[0, 1], [1, 0]], 1e-170) > 0
    assert mixed([(1.0, (0.5, 0.1))]).epsilon == 0.5
    with pytest.raises(ParameterError, match="pair"):
        preprocessed(0.1, 3)
    with pytest.raises(ParameterError, match="order"):
        renyi_divergence(Exponential([0.0, 1.0], 1.0), [1, 0], [0, 1], "a")


@pytest.mark.parametrize("n", [1, 2, 3, 8, 9])
def test_few_inputs_are_no_special_case(n, monkeypatch):
    matrix = np.random.default_rng(n).dirichlet(np.ones(5), n)
    channel = Channel(matrix, Space(np.arange(float(n))), Space(np.arange(5.0)))
    direct = metric_epsilon(channel)
    monkeypatch.setattr(metric, "_DIRECT", 0)
    pruned = metric_epsilon(channel)
    assert pruned.lower == pytest.approx(direct.lower, rel=1e-9)
    assert pruned.upper == pytest.approx(direct.upper, rel=1e-9)
