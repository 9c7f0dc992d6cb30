"""The optimal channel: feasible by the accountant, bounded from below, and right where the answer is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from distp import (
    Channel,
    Classwise,
    Exponential,
    OptimalChannel,
    Pair,
    PlanarGaussian,
    PlanarLaplace,
    RandomizedResponse,
    Space,
    coupling_delta,
    delta,
    epsilon,
    expected_loss,
    metric_epsilon,
    optimal_channel,
    wasserstein,
)
from distp.calibration import blocks as blocks_module
from distp.calibration import programme as programme_module
from distp.calibration.blocks import Blocks, _Newton
from distp.calibration.feasibility import Target, weakest
from distp.calibration.optimal_channel import _Task
from distp.calibration.programme import Programme, Solution
from distp.calibration.repair import balanced, raised, stochastic
from distp.calibration.spanner import greedy_spanner
from distp.errors import DistributionError, InfeasibleError, MechanismError, ParameterError
from helpers import distributions

LINE = Space(np.arange(6.0))
PLANE = Space(np.random.default_rng(3).random((7, 2)) * 4)


def laws(count: int, size: int = 6, seed: int = 0):
    return np.random.default_rng(seed).dirichlet(np.full(size, 0.7), size=count)


def hockey(P, Q, e):
    return max(np.maximum(P - math.exp(e) * Q, 0).sum(), np.maximum(Q - math.exp(e) * P, 0).sum())


def plain(d, prior, pairs, e, delta_):
    """Solve the same task written out row by row, with one more variable per order and output."""
    n, m = d.shape
    orders = [order for p, q in pairs for order in ((p, q), (q, p))]
    cost = np.append((prior[:, None] * d).ravel(), np.zeros(len(orders) * m))
    above, limits = [], []
    for o, (p, q) in enumerate(orders):
        total = np.zeros(cost.size)
        for y in range(m):
            row = np.zeros(cost.size)
            for x in range(n):
                row[x * m + y] = p[x] - math.exp(e) * q[x]
            row[n * m + o * m + y] = -1
            total[n * m + o * m + y] = 1
            above.append(row)
            limits.append(0)
        above.append(total)
        limits.append(delta_)
    sums = np.zeros((n, cost.size))
    for x in range(n):
        sums[x, x * m : (x + 1) * m] = 1
    return optimize.linprog(cost, np.array(above), limits, sums, np.ones(n), method="highs").fun


@pytest.mark.parametrize("share", [0.5, 0.2, 0.9])
@pytest.mark.parametrize("space", [LINE, PLANE], ids=["line", "plane"])
def test_at_epsilon_0_a_device_that_knows_moves_the_lighter_class_by_w_1(space, share):
    # Theory 7.3: the best common law is the heavier class's own, by the triangle inequality.
    p, q = laws(2, len(space))
    found = optimal_channel(p, q, space, epsilon=0, delta=1e-12, aware=True, share=share)
    least = min(share, 1 - share) * wasserstein(p, q, space).value
    assert found.loss == pytest.approx(least, rel=1e-9)
    assert isinstance(found.mechanism, Classwise)
    assert coupling_delta(found.mechanism, 0.0).value.upper <= 1e-12
    own = [expected_loss(channel, law) for channel, law in zip(found.mechanism.channels, (p, q), strict=True)]
    assert found.loss == pytest.approx(share * own[0] + (1 - share) * own[1], rel=1e-12)


@pytest.mark.parametrize("space", [LINE, PLANE], ids=["line", "plane"])
@pytest.mark.parametrize(("e", "d"), [(0.0, 1e-10), (0.3, 0.0), (0.3, 0.02), (1.0, 0.1)])
def test_as_the_task_written_out_row_by_row(space, e, d):
    p, q, prior = laws(3, len(space), 1)
    found = optimal_channel(p, q, space, epsilon=e, delta=d, prior=prior)
    expected = plain(space.distances(), prior, [(p, q)], e, d)
    assert found.loss == pytest.approx(expected, rel=1e-6)
    assert found.lower <= found.loss <= found.lower + 1e-7
    assert found.loss == pytest.approx(expected_loss(found.mechanism, prior), abs=1e-15)


def test_at_epsilon_0_every_report_is_as_likely_under_both():
    # The other way to say it: (p - q) A = 0, and no row of slacks.
    p, q = laws(2, 7, 5)
    d, n = PLANE.distances(), 7
    equal = np.vstack([np.kron(p - q, np.eye(n)), np.kron(np.eye(n), np.ones(n))])
    cost = (((p + q) / 2)[:, None] * d).ravel()
    least = optimize.linprog(cost, A_eq=equal, b_eq=np.append(np.zeros(n), np.ones(n))).fun
    found = optimal_channel(p, q, PLANE, epsilon=0, delta=1e-12)
    assert found.loss == pytest.approx(least, rel=1e-9)
    # A device that knows can do no worse than one that does not.
    assert wasserstein(p, q, PLANE).value / 2 <= found.loss


def grid_rows(size, steps):
    return [np.array(c) / steps for c in itertools.product(range(steps + 1), repeat=size) if sum(c) == steps]


@pytest.mark.parametrize(("size", "steps"), [(2, 200), (3, 10)])
@pytest.mark.parametrize(("e", "d"), [(0.2, 0.05), (0.8, 0.0)])
def test_no_channel_of_a_fine_grid_is_better(size, steps, e, d):
    p, q = np.array([0.5, 0.3, 0.2])[:size], np.array([0.1, 0.3, 0.6])[:size]
    p, q = p / p.sum(), q / q.sum()
    space = Space([0.0, 1.0, 2.5][:size])
    distances, prior = space.distances(), (p + q) / 2
    rows = np.array(grid_rows(size, steps))
    places = np.array(list(itertools.product(range(len(rows)), repeat=size)))
    P = sum(p[x] * rows[places[:, x]] for x in range(size))
    Q = sum(q[x] * rows[places[:, x]] for x in range(size))
    t = math.exp(e)
    told = np.maximum(np.maximum(P - t * Q, 0).sum(axis=1), np.maximum(Q - t * P, 0).sum(axis=1))
    losses = sum(prior[x] * (rows[places[:, x]] @ distances[x]) for x in range(size))
    best = losses[told <= d].min()
    found = optimal_channel(p, q, space, epsilon=e, delta=d)
    assert found.lower <= best
    assert found.loss <= best + 1e-9
    assert best <= found.loss + 2 * distances.max() / steps  # the grid comes near, so it could have shown a fault


def test_two_values_by_hand():
    # p = (1, 0), q = (0, 1): the channel's rows are the laws. Both orders bind: a lie of probability 1 / (1 + t).
    found = optimal_channel([1.0, 0.0], [0.0, 1.0], Space([0.0, 1.0]), epsilon=1.0)
    assert found.loss == pytest.approx(1 / (1 + math.e), rel=1e-9)
    assert epsilon(found.mechanism, [1, 0], [0, 1], 0.0).upper <= 1.0
    # With delta: P1 - t (1 - P1) = delta.
    some = optimal_channel([1.0, 0.0], [0.0, 1.0], Space([0.0, 1.0]), epsilon=1.0, delta=0.1)
    assert some.loss == pytest.approx(1 - (0.1 + math.e) / (1 + math.e), rel=1e-9)


def test_more_epsilon_or_delta_never_costs_more():
    p, q = laws(2, 7, 2)
    for aware in (False, True):
        for targets in (
            [(e, 0.0) for e in (0.1, 0.4, 1.0, 3.0)],
            [(0.2, d) for d in (0.0, 1e-10, 1e-6, 0.01, 0.2, 1.0)],
        ):
            losses = [optimal_channel(p, q, PLANE, epsilon=e, delta=d, aware=aware).loss for e, d in targets]
            assert all(b <= a + 1e-7 for a, b in itertools.pairwise(losses))
            assert losses[-1] < losses[0] / 2


@settings(max_examples=40, deadline=None)
@given(
    p=distributions(6),
    q=distributions(6),
    e=st.sampled_from([0.0, 1e-9, 0.1, 1.0, 5.0, 30.0, 800.0]),
    d=st.sampled_from([1e-12, 1e-9, 1e-6, 0.01, 0.5, 1.0]),
    aware=st.booleans(),
)
def test_the_realised_delta_is_within_the_target_and_the_loss_near_the_bound(p, q, e, d, aware):
    found = optimal_channel(p, q, LINE, epsilon=e, delta=d, aware=aware)
    assert found.realised.upper <= d
    assert found.lower <= found.loss <= found.lower + 1e-5
    if aware:
        assert min(1.0, coupling_delta(found.mechanism, e).value.upper) <= d
    else:
        assert min(1.0, delta(found.mechanism, p, q, e).upper) <= d  # which rounding may put above 1
    assert np.abs(np.array([c.channel().sum(axis=1) for c in channels(found)]) - 1).max() < 1e-12


def channels(found: OptimalChannel) -> list[Channel]:
    made = found.mechanism
    return list(made.channels) if isinstance(made, Classwise) else [made]


KNOWN = {
    "RR": (lambda number: RandomizedResponse(LINE, number), 40.0),
    "PL": (lambda number: PlanarLaplace(LINE, number), 60.0),
    "PG": (lambda number: PlanarGaussian(LINE, 1 / number), 60.0),
    "EM": (lambda number: Exponential(LINE, number), 60.0),
}


@settings(max_examples=25, deadline=None)
@given(
    p=distributions(6),
    q=distributions(6),
    e=st.floats(0.0, 2.0),
    d=st.sampled_from([1e-3, 0.03, 0.3]),
    data=st.data(),
)
def test_no_known_mechanism_of_the_same_privacy_is_below_the_bound(p, q, e, d, data):
    found = optimal_channel(p, q, LINE, epsilon=e, delta=d)
    target = Target([Pair("a", p, q)], e, d)
    met = []
    for make, top in KNOWN.values():
        result = weakest(make, target, 1e-3, top, 1e-2)
        if result is not None:
            met.append(result[1].channel())
    if met:
        share = np.array(data.draw(st.lists(st.floats(0.01, 1), min_size=len(met), max_size=len(met))))
        met.append(sum(w * A for w, A in zip(share / share.sum(), met, strict=True)))
    prior = (p + q) / 2
    for A in met:
        assert delta(Channel(A, LINE, LINE), p, q, e).upper <= d + 1e-12
        assert expected_loss(Channel(A, LINE, LINE), prior) >= found.lower
        assert expected_loss(Channel(A, LINE, LINE), prior) >= found.loss - 1e-5


@pytest.mark.parametrize("e", [0.0, 0.5, 20.0])
@pytest.mark.parametrize("point", [None, 1.0])
@pytest.mark.parametrize("aware", [False, True])
def test_the_bound_holds_for_any_multipliers(aware, point, e):
    rng = np.random.default_rng(0)
    p, q = rng.dirichlet(np.full(6, 0.7), size=2)
    found = optimal_channel(p, q, LINE, epsilon=e, delta=0.02, aware=aware, point_epsilon=point, dilation=1.0)
    masses = np.array([p, q]) / 2 if aware else (p + q)[None, :] / 2
    task = _Task([Pair("a", p, q)], LINE, LINE, e, 0.02, masses, point, 1.0)
    best = next(task._solutions(task.programme.t, task._factors(1.0), 1))
    assert task.programme.bound(best) == pytest.approx(found.loss, abs=1e-6)
    # Near the solver's multipliers a wrong bound would exceed the loss: where a constraint does not bind, a
    # multiplier below 0 would raise it.
    for orders, edges in itertools.product((0.0, 1e-4, 1e-2, 1.0), repeat=2):
        for sign in (-1, 0, 1):
            shift = [rng.normal(size=v.shape) + 2 * sign for v in (best.of_orders, best.of_edges)]
            wild = Solution(best.rows, best.of_orders + orders * shift[0], best.of_edges + edges * shift[1])
            assert task.programme.bound(wild) <= found.loss


def test_the_bound_counts_its_roundings():
    one = Programme(np.full((3, 2), 0.1), np.full((1, 3), 0.1), np.full((1, 3), 0.1), 1.0, 0.0, np.full(3, 1 / 3))
    nothing = Solution(np.empty(0), np.zeros((1, 2)), np.empty((0, 2)))
    assert 0.3 - 1e-13 < one.bound(nothing) < 3 * 0.1 - 1e-16


def test_names_of_inputs_and_outputs_do_not_matter():
    p, q, prior = laws(3, 7, 4)
    order = np.random.default_rng(1).permutation(7)
    renamed = Space(PLANE.points[order])
    for point in (None, 1.5):
        a = optimal_channel(p, q, PLANE, epsilon=0.4, delta=0.01, prior=prior, point_epsilon=point, dilation=1.0)
        b = optimal_channel(
            p[order],
            q[order],
            renamed,
            epsilon=0.4,
            delta=0.01,
            prior=prior[order],
            point_epsilon=point,
            dilation=1.0,
        )
        c = optimal_channel(q, p, PLANE, epsilon=0.4, delta=0.01, prior=prior, point_epsilon=point, dilation=1.0)
        assert a.loss == pytest.approx(b.loss, abs=1e-8)
        assert a.loss == pytest.approx(c.loss, abs=1e-8)


def test_a_pair_again_changes_nothing_and_several_cost_as_much_as_the_dearest():
    p, q = laws(3, 7, 6), laws(3, 7, 7)
    prior = laws(1, 7, 8)[0]

    def loss(p, q):
        found = optimal_channel(p, q, PLANE, epsilon=0.3, delta=0.01, prior=prior)
        for a, b in zip(np.atleast_2d(p), np.atleast_2d(q), strict=True):
            assert delta(found.mechanism, a, b, 0.3).upper <= 0.01
        return found.loss

    each = [loss(a, b) for a, b in zip(p, q, strict=True)]
    assert loss([p[0], p[0]], [q[0], q[0]]) == pytest.approx(each[0], abs=1e-8)
    together = loss(p, q)
    assert together >= max(each) - 1e-9
    assert together == pytest.approx(
        plain(PLANE.distances(), prior, list(zip(p, q, strict=True)), 0.3, 0.01), abs=1e-7
    )


@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize("dilation", [1.0, 1.1, 1.5])
def test_point_privacy_is_realised_and_costs(dilation, aware):
    p, q = laws(2, 7, 9)
    free = optimal_channel(p, q, PLANE, epsilon=0.5, delta=0.01, aware=aware)
    found = optimal_channel(p, q, PLANE, epsilon=0.5, delta=0.01, aware=aware, point_epsilon=0.8, dilation=dilation)
    assert free.point is None
    assert 1 <= found.stretch <= dilation * (1 + 1e-9)
    assert max(metric_epsilon(channel).upper for channel in channels(found)) == found.point.upper <= 0.8
    assert found.realised.upper <= 0.01
    assert free.loss < found.lower <= found.loss
    # The spanner's edges at the tightened epsilon imply all pairs: there is nothing to repair but rounding.
    masses = np.array([p, q]) / 2 if aware else (p + q)[None, :] / 2
    task = _Task([Pair("a", p, q)], PLANE, PLANE, 0.5, 0.01, masses, 0.8, dilation)
    tight = next(task._solutions(math.exp(0.5), task._factors(found.stretch), 1))
    relaxed = next(task._solutions(math.exp(0.5), task._factors(1.0), 1))
    proven = max(task.programme.bound(tight), task.programme.bound(relaxed))
    assert found.lower == pytest.approx(proven, abs=1e-9)
    repaired = task._repaired(tight.rows, found.stretch)
    assert repaired.mixed < 1e-8
    assert found.loss <= repaired.loss
    if dilation == 1:
        assert found.gap < 1e-6
        wide = optimal_channel(p, q, PLANE, epsilon=0.5, delta=0.01, aware=aware, point_epsilon=0.8, dilation=1.5)
        # The bound of the wide spanner is of all channels: also of this one, which it does not allow.
        assert wide.lower <= found.loss <= wide.loss


def test_point_privacy_as_all_pairs_written_out():
    p, q = laws(2, 5, 9)
    space = PLANE.subset(np.arange(5))
    d, n = space.distances(), 5
    pairs = [(a, b) for a in range(n) for b in range(n) if a != b]
    above = np.zeros((len(pairs) * n, n * n))
    for r, ((a, b), y) in enumerate(itertools.product(pairs, range(n))):
        above[r, a * n + y], above[r, b * n + y] = 1, -math.exp(0.8 * d[a, b])
    above = np.vstack([above, *(np.kron(u - math.exp(0.5) * v, np.eye(n)) for u, v in ((p, q), (q, p)))])
    cost = (((p + q) / 2)[:, None] * d).ravel()
    sums = np.kron(np.eye(n), np.ones(n))
    least = optimize.linprog(cost, above, np.zeros(len(above)), sums, np.ones(n)).fun
    found = optimal_channel(p, q, space, epsilon=0.5, point_epsilon=0.8, dilation=1.0)
    assert found.loss == pytest.approx(least, rel=1e-6)
    loose = optimal_channel(p, q, space, epsilon=0.5, point_epsilon=0.8, dilation=1.3)
    assert loose.lower <= least <= loose.loss


def test_inputs_at_one_place_get_one_row_where_point_privacy_is_asked():
    space = Space([0.0, 0.0, 1.0, 2.0])
    p, q = laws(2, 4, 3)
    found = optimal_channel(p, q, space, epsilon=0.5, delta=0.01, point_epsilon=1.0)
    A = found.mechanism.channel()
    assert np.array_equal(A[0], A[1])
    assert found.point.upper <= 1.0
    apart = optimal_channel(
        [p[0] + p[1], *p[2:]],
        [q[0] + q[1], *q[2:]],
        space.subset([0, 2, 3]),
        epsilon=0.5,
        delta=0.01,
        point_epsilon=1.0,
    )
    assert found.loss == pytest.approx(apart.loss, abs=1e-8)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 14), dilation=st.sampled_from([1.0, 1.05, 1.5, 3.0]))
def test_the_spanner_keeps_its_dilation(seed, n, dilation):
    rng = np.random.default_rng(seed)
    d = Space(rng.integers(0, 6, (n, 2)) + rng.random((n, 2)) * 0.1).distances()
    if seed % 3 == 0:  # no triangle inequality
        d = np.triu(rng.random((n, n)) + 0.01, 1)
        d = d + d.T
    found = greedy_spanner(d, dilation)
    way = np.where(np.eye(n, dtype=bool), 0, np.inf)
    for (a, b), length in zip(found.edges, found.lengths, strict=True):
        assert length == d[a, b]
        way[a, b] = way[b, a] = length
    for c in range(n):  # Floyd and Warshall
        way = np.minimum(way, way[:, c, None] + way[None, c])
    off = ~np.eye(n, dtype=bool)
    stretch = (way[off] / d[off]).max(initial=1.0)
    assert stretch <= dilation * (1 + 1e-9)
    assert found.stretch == pytest.approx(stretch, rel=1e-12)
    assert len(found.edges) >= n - 1


def test_given_distances_without_the_triangle_inequality():
    d = np.array([[0, 1, 5.0], [1, 0, 1], [5, 1, 0]])
    p, q = laws(2, 3, 3)
    found = optimal_channel(p, q, Space.from_distances(d), epsilon=0.5, delta=0.01, point_epsilon=0.6)
    assert found.point.upper <= 0.6
    assert found.mixed < 1e-6


def test_rows_are_repaired_as_they_say():
    made = stochastic(np.array([[1.2, -0.2, 0.0], [0.3, 0.6, 0.3], [1e-3, 0, 0]]), np.array([1.0, 1, 1]))
    assert made[0].tolist() == [1, 0, 0]
    assert made[1] == pytest.approx([0.25, 0.5, 0.25])
    assert made[2] == pytest.approx([0.625, 0.25, 0.125])  # left open by the solver: the mean of the others
    rng = np.random.default_rng(0)
    signed = np.array([0.5, 0.2, -0.3, -0.4])
    level = balanced(rng.dirichlet(np.ones(3), 4), signed)
    assert np.abs(signed @ level).max() < 1e-15
    assert level.sum(axis=1) == pytest.approx(np.ones(4), abs=1e-15)
    assert level.min() >= 0
    # Raised ones are at the limit for neighbours, and for the way round where that is shorter.
    d = np.array([[0, 1, 5.0], [1, 0, 1], [5, 1, 0]])
    high = raised(np.eye(3), 0.6, d)
    assert high / np.diagonal(high)[:, None] == pytest.approx(
        np.exp(-0.6 * np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]]))
    )


def test_an_input_that_nothing_is_known_of_says_nothing():
    p, q = np.array([0.5, 0.5, 0, 0, 0, 0]), np.array([0.2, 0.3, 0.5, 0, 0, 0])
    found = optimal_channel(p, q, LINE, epsilon=0.5, delta=0.01)
    A = found.mechanism.channel()
    assert np.array_equal(A[3], A[5])
    assert A[3] == pytest.approx(found.mechanism.lift((p + q) / 2), abs=1e-9)
    known = optimal_channel(p, p, LINE, epsilon=0, delta=0)
    assert (known.loss, known.realised.upper) == (0.0, 0.0)


def test_little_is_mixed_in_to_repair_the_solver():
    p, q = laws(2, 7, 10)
    for e, d in ((0.0, 1e-12), (1e-6, 0.0), (0.1, 0.0), (0.1, 1e-3), (1.0, 0.1)):
        for aware in (False, True):
            found = optimal_channel(p, q, PLANE, epsilon=e, delta=d, aware=aware)
            assert found.mixed < 1e-8
            assert found.gap < 1e-7


def test_a_spoiled_solution_is_still_repaired(monkeypatch):
    p, q = laws(2, 7, 10)
    honest = Programme.solve

    def spoiled(self, *arguments):
        found = honest(self, *arguments)
        noise = 1e-6 * np.random.default_rng(0).normal(size=found.rows.shape)
        honest_report = np.tile(np.eye(7), (len(found.rows) // 7, 1))
        return Solution(
            0.999 * found.rows + 0.001 * honest_report + noise, found.of_orders - 1e-4, found.of_edges - 1e-4
        )

    monkeypatch.setattr(Programme, "solve", spoiled)
    for aware, point in itertools.product((False, True), (None, 0.8)):
        found = optimal_channel(p, q, PLANE, epsilon=0.3, delta=0.01, aware=aware, point_epsilon=point, dilation=1.0)
        assert found.realised.upper <= 0.01
        assert found.point is None or found.point.upper <= 0.8
        assert found.mixed < 0.2
        assert found.mixed > 1e-5
        assert found.lower <= found.loss


TARGETS = [(1.0, 0.001), (0.3, 0.01), (0.05, 0.0), (0.0, 1e-3), (0.0, 1e-7), (800.0, 0.0)]


@pytest.mark.parametrize("dilation", [1.0, 1.3])
@pytest.mark.parametrize("aware", [False, True])
@pytest.mark.parametrize(("e", "d"), TARGETS)
def test_a_large_programme_has_the_same_optimum(monkeypatch, e, d, aware, dilation):
    p, q = laws(2, 7, 9)
    for point in (0.4, 2.0, 40.0):

        def run(point=point):
            return optimal_channel(
                p, q, PLANE, epsilon=e, delta=d, aware=aware, point_epsilon=point, dilation=dilation
            )

        exact = run()
        with monkeypatch.context() as patch:
            patch.setattr(programme_module, "MOST_ROWS", 0)
            patch.setattr(Programme, "solve", by_blocks_alone(Programme.solve))
            found = run()
        assert found.realised.upper <= d
        assert max(metric_epsilon(channel).upper for channel in channels(found)) == found.point.upper <= point
        assert found.lower <= exact.loss
        assert found.lower == pytest.approx(exact.lower, abs=1e-4)
        assert found.loss >= exact.lower
        if dilation == 1:  # else the one's solution may happen to be mended at less cost than the other's
            assert found.loss == pytest.approx(exact.loss, abs=1e-4)


def by_blocks_alone(honest):
    def solve(self, way, *arguments):
        assert way[0] == "blocks"
        return honest(self, way, *arguments)

    return solve


def test_a_large_programme_with_several_pairs_or_a_prior(monkeypatch):
    p, q, prior = laws(2, 7, 6), laws(2, 7, 7), laws(1, 7, 8)[0]

    def run():
        return optimal_channel(p, q, PLANE, epsilon=0.3, delta=0.01, prior=prior, point_epsilon=2.0, dilation=1.0)

    exact = run()
    monkeypatch.setattr(programme_module, "MOST_ROWS", 0)
    found = run()
    for a, b in zip(p, q, strict=True):
        assert delta(found.mechanism, a, b, 0.3).upper <= 0.01
    assert exact.lower <= found.loss <= exact.loss + 1e-4
    assert exact.lower - 1e-4 <= found.lower <= exact.loss


def test_a_large_programme_without_an_inside(monkeypatch):
    p, q = laws(2, 7, 9)
    monkeypatch.setattr(programme_module, "MOST_ROWS", 0)
    found = optimal_channel(p, q, PLANE, epsilon=0, delta=1e-12, point_epsilon=2.0)
    assert found.realised.upper <= 1e-12
    assert found.point.upper <= 2
    assert 0 < found.lower <= found.loss
    with pytest.raises(InfeasibleError, match="larger delta"):
        optimal_channel(p, q, PLANE, epsilon=0, delta=0, point_epsilon=2.0)


@pytest.mark.parametrize("most", [0, 1, 4, 8])
def test_a_large_programme_left_early_is_feasible_and_its_bound_holds(monkeypatch, most):
    p, q = laws(2, 7, 9)
    exact = optimal_channel(p, q, PLANE, epsilon=0.3, delta=0.01, point_epsilon=2.0, dilation=1.0)
    monkeypatch.setattr(programme_module, "MOST_ROWS", 0)
    monkeypatch.setattr(blocks_module, "_ITERATIONS", most)
    found = optimal_channel(p, q, PLANE, epsilon=0.3, delta=0.01, point_epsilon=2.0, dilation=1.0)
    assert found.realised.upper <= 0.01
    assert found.point.upper <= 2
    assert found.lower <= exact.loss
    assert exact.lower <= found.loss
    assert found.gap > 1e-4


def test_large_by_its_own_size():
    side = np.arange(8.0)
    space = Space(np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2))
    p, q = laws(2, 64, 11)
    task = _Task([Pair("a", p, q)], space, space, 0.2, 0.001, (p + q)[None] / 2, 1.0, 1.1)
    assert task.programme.large
    found = optimal_channel(p, q, space, epsilon=0.2, delta=0.001, point_epsilon=1.0)
    assert found.realised.upper <= 0.001
    assert found.point.upper <= 1
    assert found.gap < 0.1 * found.loss


def test_a_step_of_newton_solves_its_equations():
    p, q = laws(2, 7, 9)
    task = _Task([Pair("a", p, q)], PLANE, PLANE, 0.3, 0.01, (p + q)[None] / 2, 2.0, 1.1)
    programme, factors = task.programme, task._factors(1.0)
    signed = programme.plus - programme.t * programme.minus
    made = Blocks.of(programme.cost, signed, 0.01, programme._incidence(factors), programme.edges, factors)
    point = made.start()
    assert point.inside
    assert made.kept.T @ point.prices + point.price[:, None] == pytest.approx(made.cost, abs=1e-12)
    assert point.x.sum(axis=1) == pytest.approx(made.totals)
    aim = np.random.default_rng(0).random(point.room.shape)
    x, room, prices, price = _Newton(made, point)._direction(aim)
    assert room == pytest.approx(made.kept @ x, abs=1e-10)
    assert point.room * (point.prices + prices) + point.prices * room == pytest.approx(aim, abs=1e-10)
    assert made.kept.T @ (point.prices + prices) + price[:, None] == pytest.approx(made.cost, abs=1e-8)
    assert x.sum(axis=1) == pytest.approx(np.zeros(len(x)), abs=1e-10)


def test_bad_arguments_are_named():
    p, q = laws(2)
    for keyword, bad in (
        ("epsilon", -1),
        ("epsilon", math.inf),
        ("delta", 2),
        ("share", 1.5),
        ("point_epsilon", 0),
        ("point_epsilon", "x"),
        ("dilation", 0.9),
        ("dilation", math.nan),
    ):
        with pytest.raises(ParameterError, match=keyword):
            optimal_channel(p, q, LINE, **{"epsilon": 1, "delta": 0.1, keyword: bad})
    with pytest.raises(ParameterError, match="one pair"):
        optimal_channel([p, p], [q, q], LINE, epsilon=1, aware=True)
    with pytest.raises(ParameterError, match="prior"):
        optimal_channel(p, q, LINE, epsilon=1, aware=True, prior=p)
    with pytest.raises(DistributionError, match="prior"):
        optimal_channel(p, q, LINE, epsilon=1, prior=2 * p)
    with pytest.raises(DistributionError, match="shape"):
        optimal_channel([p, p], q, LINE, epsilon=1)
    with pytest.raises(DistributionError, match="6 points"):
        optimal_channel([1.0], [1.0], LINE, epsilon=1)
    with pytest.raises(InfeasibleError, match="larger delta"):
        optimal_channel(p, q, LINE, epsilon=0, delta=0)
    one = Channel(np.eye(2))
    with pytest.raises(DistributionError, match="one each"):
        Classwise([[1, 0]], [one])
    with pytest.raises(MechanismError, match="differ in shape"):
        Classwise([[1, 0], [0, 1]], [one, Channel(np.eye(3))])
