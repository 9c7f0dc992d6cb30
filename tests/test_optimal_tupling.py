"""The optimal tupling mechanism: it meets its target, nothing beats its bound, and it is near that bound."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from distp import (
    Channel,
    Identity,
    OptimalTupling,
    Pair,
    RestrictedLaplace,
    Space,
    Tupling,
    calibrate,
    delta,
    expected_loss,
)
from distp.calibration.feasibility import Target
from distp.calibration.optimal_dummies import dummy_laws, optimal_dummies
from distp.calibration.optimal_tests import TupleTests
from distp.calibration.optimal_tupling import optimal_tupling
from distp.errors import DistributionError, ParameterError, PrecisionError
from distp.utility import loss_matrix
from helpers import distributions

LINE = Space(np.arange(8.0))


def laws(count: int, seed: int, size: int = 8):
    return np.random.default_rng(seed).dirichlet(np.full(size, 0.7), size=count)


def listed_delta(excess: np.ndarray, nu: np.ndarray, k: int) -> np.ndarray:
    """Return the exact delta where P - t Q is ``excess``, shape (..., |Y|), by listing all tuples."""
    total = 0.0
    for values in itertools.product(range(nu.size), repeat=k + 1):
        places = list(values)
        total = total + np.prod(nu[places]) * np.maximum((excess[..., places] / nu[places]).sum(axis=-1), 0)
    return np.asarray(total / (k + 1))


def worst(A: np.ndarray, p: np.ndarray, q: np.ndarray, t: float, nu: np.ndarray, k: int) -> np.ndarray:
    return np.maximum(*(listed_delta((a - t * b) @ A, nu, k) for a, b in ((p, q), (q, p))))


# --- tests of tuples -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3])
def test_value_weights_and_curvature_are_delta_and_its_derivatives(k):
    rng = np.random.default_rng(k)
    nu, t = rng.dirichlet(np.full(5, 4.0)), 1.6
    excess = rng.dirichlet(np.ones(5)) - t * rng.dirichlet(np.ones(5))
    tests = TupleTests(nu, k)
    sharp = tests.at(excess, 1e-9)
    assert sharp.value == pytest.approx(listed_delta(excess, nu, k), rel=1e-4)
    assert float(sharp.weights @ excess) == pytest.approx(listed_delta(excess, nu, k), rel=1e-4)
    step = 1e-7
    slopes = [
        (listed_delta(excess + e, nu, k) - listed_delta(excess - e, nu, k)) / (2 * step) for e in step * np.eye(5)
    ]
    assert sharp.weights == pytest.approx(np.array(slopes), abs=2e-3)
    # With noise, delta is smooth: its gradient is the weights, and theirs the curvature.
    noise, step = 0.3 * tests.spread(excess), 1e-4
    smooth = tests.at(excess, noise)
    for i, e in enumerate(step * np.eye(5)):
        above, below = tests.at(excess + e, noise), tests.at(excess - e, noise)
        assert (above.value - below.value) / (2 * step) == pytest.approx(smooth.weights[i], abs=3e-4)
        assert (above.weights - below.weights) / (2 * step) == pytest.approx(
            smooth.curvature[i], abs=2e-2 * smooth.curvature.max()
        )


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_test_stays_below_delta_and_the_smooth_value_above_even_on_a_tiny_grid(data):
    """Sums that wrap round many times must not make a test too good: this is what the bound rests on."""
    k, points = data.draw(st.integers(0, 2)), data.draw(st.sampled_from([64, 128, 1024]))
    nu = data.draw(distributions(4))
    t = math.exp(data.draw(st.floats(0, 2)))
    here, there = (data.draw(distributions(4)) - t * data.draw(distributions(4)) for _ in range(2))
    tests = TupleTests(nu, k, points)
    found = tests.at(here, data.draw(st.sampled_from([1e-6, 0.01, 0.5])))
    seen = nu > 1e-120  # rarer dummies hide nothing
    for excess in (here, there, -here):
        exact = float(np.maximum(excess[~seen], 0).sum()) if k else float(np.maximum(excess, 0).sum())
        exact += float(listed_delta(excess[seen], nu[seen], k)) if k and seen.any() else 0.0
        assert float(found.weights @ excess) <= exact + 2 * found.slip * (1 + t) + 1e-12
    assert ((found.weights >= 0) & (found.weights <= 1)).all()


@pytest.mark.parametrize("shrink", [1, 4, 20, 100])
@pytest.mark.parametrize("k", [1, 3])
def test_a_window_that_is_far_too_small_leaves_a_test_a_test(monkeypatch, k, shrink):
    chosen = TupleTests._grid

    def smaller(self, *arguments):
        step, end = chosen(self, *arguments)
        return step / shrink, end

    monkeypatch.setattr(TupleTests, "_grid", smaller)
    rng, worst_excess = np.random.default_rng(shrink), -math.inf
    for _ in range(20):
        nu = rng.dirichlet(np.ones(4))
        here, t = rng.dirichlet(np.ones(4)) - rng.dirichlet(np.ones(4)), 1.2
        weights = TupleTests(nu, k, 256).at(here, 1e-6).weights
        # The channel that a test likes best is the one to try: everything on one output for p, another for q.
        P, Q = np.eye(4)[weights.argmax()], np.eye(4)[weights.argmin()]
        for excess in (P - t * Q, P - Q, here):
            worst_excess = max(worst_excess, float(weights @ excess - listed_delta(excess, nu, k)))
    assert worst_excess <= 1e-9


@pytest.mark.parametrize("noise", [1e-9, 0.05, 0.5])
def test_the_smooth_value_is_never_smaller_and_grows_with_noise(noise):
    nu = laws(1, 0, 4)[0]
    excess = laws(1, 1, 4)[0] - 1.5 * laws(1, 2, 4)[0]
    for k in (0, 1, 3):
        value = TupleTests(nu, k).at(excess, noise).value
        exact = np.maximum(excess, 0).sum() if k == 0 else listed_delta(excess, nu, k)
        assert exact - 1e-10 <= value <= TupleTests(nu, k).at(excess, 2 * noise).value + 1e-10


# --- against brute force ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 2, 4])
def test_against_all_channels_of_two_inputs(k):
    space, p, q, target = Space([0.0, 1.0]), np.array([0.8, 0.2]), np.array([0.3, 0.7]), (0.4, 0.05)
    nu = np.array([0.35, 0.65])
    first, second = np.meshgrid(*[np.linspace(0, 1, 401)] * 2, indexing="ij")
    A = np.stack([np.stack([1 - first, first], -1), np.stack([1 - second, second], -1)], -2)
    allowed = np.maximum(*(listed_delta(np.einsum("x,abxy->aby", a - math.exp(0.4) * b, A), nu, k)
                           for a, b in ((p, q), (q, p)))) <= target[1]  # fmt: skip
    losses = np.einsum("x,abxy,xy->ab", (p + q) / 2, A, loss_matrix(space.distances(), k, nu))
    least = losses[allowed].min()
    found = optimal_tupling([(p, q)], space, k, epsilon=0.4, delta=0.05, dummy_distribution=nu)
    assert found.lower <= least
    assert found.loss <= least + 1e-3
    assert found.loss >= least - 2e-3
    assert found.gap < 0.006


@pytest.mark.parametrize("k", [1, 2])
def test_against_a_general_solver_on_the_exact_delta(k):
    space, (p, q), t, nu = Space([0.0, 1.0, 2.5]), laws(2, 3, 3), math.exp(0.5), np.full(3, 1 / 3)
    cost = ((p + q) / 2)[:, None] * loss_matrix(space.distances(), k, nu)
    best = math.inf
    for seed in range(4):
        start = np.random.default_rng(seed).dirichlet(np.ones(3), size=3)
        solved = minimize(
            lambda a: float((a.reshape(3, 3) * cost).sum()),
            start.ravel(),
            method="SLSQP",
            bounds=[(0, 1)] * 9,
            constraints=[
                {"type": "eq", "fun": lambda a: a.reshape(3, 3).sum(axis=1) - 1},
                {"type": "ineq", "fun": lambda a: 0.02 - worst(a.reshape(3, 3), p, q, t, nu, k)},
            ],
            options={"maxiter": 300, "ftol": 1e-10},
        )
        A = np.clip(solved.x.reshape(3, 3), 0, 1)
        if abs(A.sum(axis=1) - 1).max() < 1e-7 and worst(A, p, q, t, nu, k) <= 0.02 + 1e-7:
            best = min(best, float((A * cost).sum()))
    found = optimal_tupling([(p, q)], space, k, epsilon=0.5, delta=0.02)
    assert found.lower <= best + 1e-6
    assert found.loss <= best * 1.01 + 1e-6


def test_without_dummies_it_is_the_linear_programme():
    (p, q, other), t, target = laws(3, 4), math.exp(0.5), 0.01
    n, pairs = 8, [(p, q), (p, other)]
    ordered = [both for a, b in pairs for both in ((a, b), (b, a))]
    prior = np.mean([law for pair in pairs for law in pair], axis=0)
    cost = np.concatenate([(prior[:, None] * LINE.distances()).ravel(), np.zeros(len(ordered) * n)])
    rows, right = [], []
    for j, (a, b) in enumerate(ordered):
        slack = slice(n * n + j * n, n * n + (j + 1) * n)
        for y in range(n):
            row = np.zeros(cost.size)
            row[y : n * n : n] = a - t * b
            row[n * n + j * n + y] = -1
            rows.append(row)
            right.append(0.0)
        row = np.zeros(cost.size)
        row[slack] = 1
        rows.append(row)
        right.append(target)
    equal = np.hstack([np.kron(np.eye(n), np.ones(n)), np.zeros((n, len(ordered) * n))])
    exact = linprog(cost, np.array(rows), right, equal, np.ones(n)).fun
    found = optimal_tupling(pairs, LINE, 0, epsilon=0.5, delta=target)
    assert found.lower <= exact * (1 + 1e-9) <= found.loss * (1 + 1e-6)
    assert found.gap < 0.012


# --- what is claimed -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 3, 10])
def test_certified_accountant_and_loss_agree_with_what_is_claimed(k):
    p, q, r = laws(3, 5)
    pairs = [Pair("a", p, q), Pair("b", r, q)]
    found = optimal_tupling(pairs, LINE, k, epsilon=0.6, delta=0.005)
    assert isinstance(found, OptimalTupling)
    assert found.mechanism.dummies == k
    for pair, bracket in zip(pairs, found.deltas, strict=True):
        again = delta(found.mechanism, pair.p, pair.q, 0.6)
        assert again.upper <= 0.005
        assert again == bracket
    assert max(bracket.upper for bracket in found.deltas) > 0.0045 or found.loss == 0
    assert found.loss == pytest.approx(expected_loss(found.mechanism, (p + 2 * q + r) / 4), rel=1e-9)
    assert 0 <= found.gap < 0.006


def test_more_epsilon_more_delta_and_more_dummies_never_cost_more():
    pairs = [tuple(laws(2, 6))]

    def solved(k=2, epsilon=0.5, delta=0.01):
        return optimal_tupling(pairs, LINE, k, epsilon=epsilon, delta=delta)

    for row in (
        [solved(k=k) for k in (0, 1, 4)],
        [solved(epsilon=e) for e in (0.0, 0.5, 2.0)],
        [solved(delta=d) for d in (1e-4, 1e-2, 1.0)],
    ):
        assert all(b.lower <= a.loss for a, b in itertools.pairwise(row))
        assert all(b.loss <= a.loss * 1.006 + 1e-12 for a, b in itertools.pairwise(row))
        assert row[0].loss > row[-1].loss


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_no_mechanism_that_meets_the_target_is_below_the_bound(data):
    p, q, nu = (data.draw(distributions(5)) for _ in range(3))
    nu = (nu + data.draw(st.sampled_from([0.0, 0.5, 5.0])) / 5) / (nu + data.draw(st.just(0.0))).sum()
    nu = nu / nu.sum()
    space, k = Space([0.0, 0.7, 1.0, 2.0, 4.0]), data.draw(st.integers(0, 3))
    epsilon, target = data.draw(st.sampled_from([0.0, 0.5, 1.5])), data.draw(st.sampled_from([1e-3, 0.02, 0.2]))
    found = optimal_tupling([(p, q)], space, k, epsilon=epsilon, delta=target, dummy_distribution=nu, steps=60)
    assert max(bracket.upper for bracket in found.deltas) <= target
    assert found.lower <= found.loss
    constant = np.tile(np.eye(5)[data.draw(st.integers(0, 4))], (5, 1))
    rough = np.random.default_rng(data.draw(st.integers(0, 99))).dirichlet(np.full(5, 0.3), size=5)
    bases = [np.eye(5), RestrictedLaplace(space, 1.0, 1.5).channel().toarray(), rough]
    for base in bases:
        for share in (0.0, 0.3, 0.6, 0.9):
            mechanism = Tupling(Channel((1 - share) * base + share * constant, space, space), k, nu)
            try:
                met = delta(mechanism, p, q, epsilon, rtol=1e-2, threshold=target).lower <= target
            except PrecisionError as error:  # some masses are below 1e-100: no grid resolves them, and it is said
                met = error.bracket.upper <= target
            if met:
                assert expected_loss(mechanism, (p + q) / 2) >= found.lower * (1 - 1e-12)


def test_a_search_that_goes_wrong_costs_loss_but_proves_nothing_false(monkeypatch):
    """A channel far outside the target, said to be inside, and arbitrary prices: neither may reach the result."""
    p, q = laws(2, 5)
    honest = optimal_tupling([(p, q)], LINE, 2, epsilon=0.5, delta=0.01)
    module = sys.modules["distp.calibration.optimal_tupling"]
    found = list(
        module.iterates(
            module._Search.of(
                Target([Pair("a", p, q)], 0.5, 0.01), LINE, LINE, 2, np.full(len(LINE), 1 / len(LINE))
            ).programme,
            9,
        )
    )

    def wrong(_programme, steps):
        for one in found:
            prices = np.random.default_rng(steps).exponential(3.0, one.multipliers.size)
            yield one._replace(channel=np.eye(8), values=np.zeros_like(one.values), multipliers=prices)

    monkeypatch.setattr(module, "iterates", wrong)
    result = optimal_tupling([(p, q)], LINE, 2, epsilon=0.5, delta=0.01)
    assert 0.009 < result.deltas[0].upper <= 0.01
    assert result.lower <= honest.loss < result.loss


def test_it_beats_the_calibrated_restricted_laplace():
    p, q = laws(2, 3)
    found = optimal_tupling([(p, q)], LINE, 3, epsilon=0.5, delta=0.001)
    assert found.loss < 0.9 * calibrate(p, q, LINE, epsilon=0.5, delta=0.001, max_dummies=3).certificate.loss


def test_relabelling_changes_nothing():
    p, q = laws(2, 8)
    nu, order = laws(1, 9)[0], np.random.default_rng(0).permutation(8)
    one = optimal_tupling([(p, q)], LINE, 2, epsilon=0.5, delta=0.01, dummy_distribution=nu)
    moved = Space(np.arange(8.0)[order])
    two = optimal_tupling([(q[order], p[order])], moved, 2, epsilon=0.5, delta=0.01, dummy_distribution=nu[order])
    assert two.loss == pytest.approx(one.loss, rel=2e-3)
    assert max(one.lower, two.lower) <= min(one.loss, two.loss)


def test_a_pair_repeated_or_turned_round_changes_nothing():
    p, q = laws(2, 7)
    once = optimal_tupling([(p, q)], LINE, 3, epsilon=0.5, delta=0.01, prior=q)
    more = optimal_tupling([(p, q), (q, p), Pair("a", p, q), (p, p)], LINE, 3, epsilon=0.5, delta=0.01, prior=q)
    assert more.loss == pytest.approx(once.loss, rel=2e-3)
    assert len(more.deltas) == 4


def test_what_costs_nothing_costs_nothing():
    p, q = laws(2, 1)
    same = optimal_tupling([(p, p)], LINE, 1, epsilon=0.0, delta=1e-6)
    assert (same.loss, same.lower, same.gap) == (0.0, 0.0, 0.0)
    assert optimal_tupling([(p, q)], LINE, 300, epsilon=1, delta=0.05).loss == 0
    assert isinstance(optimal_tupling([(p, q)], LINE, 300, epsilon=1, delta=0.05).mechanism, Tupling)


def test_inputs_that_no_pair_has_keep_their_best_report():
    p, q = np.array([0.7, 0.3, 0, 0]), np.array([0.1, 0.9, 0, 0])
    found = optimal_tupling(
        [(p, q)], Space([0.0, 1.0, 2.0, 3.0]), 1, epsilon=0.3, delta=0.01, prior=[0.1, 0.2, 0.3, 0.4]
    )
    assert found.mechanism.channel().toarray()[2:].tolist() == np.eye(4)[2:].tolist()
    assert found.gap < 0.006


def test_dummies_that_leave_outputs_bare_and_better_dummies():
    p, q = laws(2, 2)
    bare = np.r_[np.full(5, 0.2), np.zeros(3)]
    some = optimal_tupling([(p, q)], LINE, 3, epsilon=0.5, delta=0.01, dummy_distribution=bare)
    assert some.gap < 0.1  # kinks that no dummy smooths: slower, and the bound says so
    uniform = optimal_tupling([(p, q)], LINE, 3, epsilon=0.5, delta=0.01)
    _name, best = optimal_dummies([(p, q)], LINE, 3, epsilon=0.5, delta=0.01)
    assert best.loss <= uniform.loss
    assert delta(best.mechanism, p, q, 0.5).upper <= 0.01
    for law in dummy_laws([(p, q)], Identity(LINE)).values():
        assert law.sum() == pytest.approx(1)
        assert law.min() > 0.02


def test_progress_and_steps():
    calls: list[tuple[int, int]] = []
    pairs = [tuple(laws(2, 6))]
    rough = optimal_tupling(
        pairs, LINE, 1, epsilon=0.5, delta=0.01, steps=4, progress=lambda done, most: calls.append((done, most))
    )
    assert calls[-1][0] <= 4
    assert calls[0] == (1, 4)
    assert rough.deltas[0].upper <= 0.01  # feasible however early it stops
    assert rough.lower <= optimal_tupling(pairs, LINE, 1, epsilon=0.5, delta=0.01).loss


def test_bad_arguments_are_named():
    p, q = laws(2, 0)
    good = {"pairs": [(p, q)], "space": LINE, "dummies": 2, "epsilon": 1.0, "delta": 0.1}
    for keyword, bad in (
        ("epsilon", -1), ("epsilon", math.nan), ("delta", 2), ("delta", 0), ("dummies", -1), ("dummies", 1.5),
        ("gap", 0), ("steps", 0),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=keyword):
            optimal_tupling(**{**good, keyword: bad})
    for bad, message in (([], "non-empty list"), ([p], "pairs\\[0\\] must"), ([(p, q[:3])], "q of pairs\\[0\\]")):
        with pytest.raises(DistributionError, match=message):
            optimal_tupling(**{**good, "pairs": bad})
    for keyword in ("prior", "dummy_distribution"):
        with pytest.raises(DistributionError, match=keyword):
            optimal_tupling(**good, **{keyword: [1.0]})
