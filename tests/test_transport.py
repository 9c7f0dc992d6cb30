"""W_inf, W_1, lifted relations and barycentres against plain max-flow, linear programmes and identities."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse
from scipy.sparse import csgraph

from distp import (
    Coupling,
    Identity,
    Lifted,
    Plan,
    PlanarLaplace,
    Space,
    Transport,
    Tupling,
    barycenter,
    coupling_delta,
    coupling_epsilon,
    expected_loss,
    lifted,
    metric_epsilon,
    transport_cost,
    wasserstein,
    wasserstein_inf,
)
from distp.errors import DistributionError, MechanismError, ParameterError, SpaceError
from distp.transport import network
from distp.transport.masses import whole


def flow_within(p, q, allowed) -> int:
    """Return the largest flow over allowed pairs, by scipy's solver on all arcs."""
    n, m = allowed.shape
    arcs = np.zeros((n + m + 2, n + m + 2), dtype=np.int32)
    arcs[0, 1 : n + 1] = p
    arcs[1 : n + 1, n + 1 : n + m + 1] = np.where(allowed, int(np.sum(p)), 0)
    arcs[n + 1 : n + m + 1, -1] = q
    return int(csgraph.maximum_flow(sparse.csr_array(arcs), 0, n + m + 1).flow_value)


def plain_w_inf(p, q, distances, left=0):
    """Try every distance from the smallest: the definition."""
    if left >= sum(p):
        return 0.0
    for r in np.unique(distances):
        if flow_within(p, q, distances <= r) >= sum(p) - left:
            return float(r)
    raise AssertionError


@st.composite
def problems(draw, largest=7):
    n = draw(st.integers(1, largest))
    dimension = draw(st.integers(1, 3))
    # Few coordinates: ties, coinciding points and zero masses are common.
    points = draw(st.lists(st.tuples(*[st.integers(0, 4)] * dimension), min_size=n, max_size=n))
    metric = draw(st.sampled_from(["euclidean", "cityblock", "chebyshev"]))
    masses = st.lists(st.integers(0, 6), min_size=n, max_size=n).filter(any)
    return np.array(draw(masses)), np.array(draw(masses)), Space(np.array(points, float).reshape(n, -1), metric)


def equal_totals(p, q):
    common = math.lcm(int(p.sum()), int(q.sum()))
    return p * (common // p.sum()), q * (common // q.sum()), common


def assert_coupling_of(found, p, q):
    left, right = found.coupling.marginals()
    a, b, _ = equal_totals(p, q)
    scale = Fraction(found.coupling.total, int(a.sum()))
    assert [Fraction(int(x)) for x in left] == [scale * int(x) for x in a]
    assert [Fraction(int(x)) for x in right] == [scale * int(x) for x in b]


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]))
def test_w_inf_is_the_first_distance_that_lets_all_mass_through(problem, slack):
    p, q, space = problem
    a, b, total = equal_totals(p, q)
    exact = plain_w_inf(a, b, space.distances(), math.floor(Fraction(slack) * total))
    for ground in (space, space.distances()):
        found = wasserstein_inf(p, q, ground, slack)
        assert found.value == found.lower == exact
        assert exact in space.distances()
        assert_coupling_of(found, p, q)
        arcs = space.distances()[found.coupling.sources, found.coupling.targets]
        beyond = sum(found.coupling.units[arcs > found.value].tolist())
        assert Fraction(beyond, found.coupling.total) == found.left <= Fraction(slack) * (1 + Fraction(1, 2**52))
        if found.pair is not None:
            assert space.distances()[found.pair] == found.value
            assert found.coupling.toarray()[found.pair] > 0


@pytest.mark.parametrize("metric", ["euclidean", "cityblock", "chebyshev"])
@pytest.mark.parametrize("seed", range(4))
def test_matrix_lists_and_trees_equal_plain_bisection_on_hundreds_of_points(metric, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n = 120
    points = rng.beta(1, 3, (2 * n, 2)) if seed % 2 else rng.integers(0, 15, (2 * n, 2)).astype(float)
    points[n:] = points[n:] + rng.random(2)
    space = Space(points, metric)
    p, q = np.zeros(2 * n, int), np.zeros(2 * n, int)
    p[:n], q[n:] = rng.integers(1, 9, n), rng.integers(1, 9, n)
    p[0] += max(0, q.sum() - p.sum())
    q[-1] += max(0, p.sum() - q.sum())
    distances = space.distances()
    values = np.unique(distances)
    low, high = 0, values.size - 1
    while low < high:
        middle = (low + high) // 2
        enough = flow_within(p, q, distances <= values[middle]) == p.sum()
        low, high = (low, middle) if enough else (middle + 1, high)
    for ground, table, pairs in ((distances, 0, 0), (space, 1 << 20, 0), (space, 0, 1 << 20), (space, 0, 0)):
        monkeypatch.setattr(network, "TABLE", table)
        monkeypatch.setattr(network, "LISTED", pairs)
        found = wasserstein_inf(p, q, ground)
        assert found.value == values[low]
        assert_coupling_of(found, p, q)
        with_slack = wasserstein_inf(p, q, ground, slack=0.25)
        assert flow_within(p, q, distances <= with_slack.value) >= 0.75 * p.sum()
        assert flow_within(p, q, distances < with_slack.value) < 0.75 * p.sum()


def test_vector_v5_of_the_theory():
    line = Space([0.0, 1.0, 2.0])
    found = wasserstein([2, 3, 5], [3, 5, 2], line)
    assert isinstance(found, Transport)
    assert isinstance(found.coupling, Plan)
    assert found.coupling.swapped().toarray() == pytest.approx(found.coupling.toarray().T)
    assert wasserstein_inf([0.2, 0.3, 0.5], [0.3, 0.5, 0.2], line).value == 1
    assert wasserstein([0.2, 0.3, 0.5], [0.3, 0.5, 0.2], line).value == pytest.approx(0.4, abs=1e-14)
    assert wasserstein([0.2, 0.3, 0.5], [0.3, 0.5, 0.2], line.distances()).value == pytest.approx(0.4, abs=1e-14)


@settings(max_examples=60, deadline=None)
@given(problems(), st.data())
def test_metric_axioms_and_order_of_the_two_distances(problem, data):
    p, q, space = problem
    r = np.array(data.draw(st.lists(st.integers(0, 6), min_size=p.size, max_size=p.size).filter(any)))
    for function in (wasserstein_inf, wasserstein):
        between = {pair: function(*pair_laws, space).value for pair, pair_laws in _pairs(p=p, q=q, r=r)}
        assert between["pp"] == between["qq"] == 0
        assert between["pq"] == pytest.approx(between["qp"], abs=1e-12)
        assert between["pr"] <= between["pq"] + between["qr"] + 1e-12
    assert wasserstein_inf(p, q, space).value >= wasserstein(p, q, space).value - 1e-12


def _pairs(**laws):
    return [(a + b, (laws[a], laws[b])) for a, b in itertools.product(laws, repeat=2)]


@settings(max_examples=60, deadline=None)
@given(problems(), st.randoms(use_true_random=False))
def test_relabelling_translation_and_scaling(problem, random):
    p, q, space = problem
    order = np.array(random.sample(range(p.size), p.size))
    for function in (wasserstein_inf, wasserstein):
        value = function(p, q, space).value
        assert function(p[order], q[order], space.subset(order)).value == pytest.approx(value, abs=1e-12)
        moved = Space(space.points + 8.0, space.metric)  # exact, as the coordinates are whole numbers
        assert function(p, q, moved).value == pytest.approx(value, abs=1e-12)
        assert function(p, q, Space(4 * space.points, space.metric)).value == pytest.approx(4 * value, abs=1e-12)
        assert function(3 * p, 5 * q, space).value == pytest.approx(value, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_w_1_is_the_linear_programme(problem):
    p, q, space = problem
    n, cost = p.size, space.distances()
    rows = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    exact = optimize.linprog(cost.ravel(), A_eq=rows, b_eq=np.concatenate([p / p.sum(), q / q.sum()])).fun
    for ground in (space, cost):
        found = wasserstein(p, q, ground)
        assert found.value == pytest.approx(exact, abs=1e-9)
        assert found.lower <= found.value + 1e-15
        assert found.value - found.lower <= 1e-12 * (1 + found.value)
        assert_coupling_of(found, p, q)


def test_translates_are_as_far_apart_as_the_translation():
    rng = np.random.default_rng(0)
    points = rng.integers(0, 50, (200, 2)).astype(float)
    counts = rng.integers(1, 100, 200)
    both = Space(np.vstack([points, points + [30.0, 40.0]]))
    p, q = np.concatenate([counts, 0 * counts]), np.concatenate([0 * counts, counts])
    assert wasserstein_inf(p, q, both).value <= 50
    assert wasserstein(p, q, both).value == pytest.approx(50, rel=1e-12)  # Kantorovich: the linear function shows it


def test_dust_counts_exactly_when_it_should():
    line, plane = Space([0.0, 1.0, 100.0]), Space([[0.0, 0.0], [1.0, 0.0], [100.0, 0.0]])
    counts = [10**12 - 1, 0, 1], [0, 10**12, 0]
    floats = [1 - 1e-12, 0, 1e-12], [0, 1.0, 0]
    assert wasserstein_inf([7, 0, 3], [0, 10, 0], line, slack=0.3).value == 1  # 0.3 as a float is below 3/10
    for p, q in (counts, floats):
        for ground in (line, plane, plane.distances()):
            assert wasserstein_inf(p, q, ground).value == 99
            assert wasserstein_inf(p, q, ground, slack=1e-12).value == 1
            assert wasserstein_inf(p, q, ground, slack=0.9e-12).value == 99


def test_rounding_of_floats_is_no_dust():
    space = Space([[0.0, 0.0], [100.0, 0.0], [0.0, 3.0]])
    p, q = [0.1 + 0.2, 0.7, 0.0], [0.3, 0.7, 0.0]
    assert p[0] != q[0]
    found = wasserstein_inf(p, q, space)
    assert found.value == 0
    assert 0 < found.left <= found.error < 1e-14


def test_many_points_on_a_line_match_their_quantiles():
    rng = np.random.default_rng(1)
    n = 200_000
    points = np.concatenate([rng.random(n), 0.25 + rng.random(n)])
    p, q = np.zeros(2 * n, int), np.zeros(2 * n, int)
    p[:n], q[n:] = 1, 1
    found = wasserstein_inf(p, q, Space(points))
    quantiles = np.abs(np.sort(points[:n]) - np.sort(points[n:]))
    assert found.value == quantiles.max()
    with_slack = wasserstein_inf(p, q, Space(points), slack=0.5).value
    assert with_slack < found.value


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_lifting_gives_a_coupling_or_a_set_that_violates_it(data):
    n, m = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    relation = np.array(data.draw(st.lists(st.lists(st.booleans(), min_size=m, max_size=m), min_size=n, max_size=n)))
    p = np.array(data.draw(st.lists(st.integers(0, 5), min_size=n, max_size=n).filter(any)))
    q = np.array(data.draw(st.lists(st.integers(0, 5), min_size=m, max_size=m).filter(any)))
    # Strassen's theorem by listing all sets.
    subsets = itertools.chain.from_iterable(itertools.combinations(range(n), size) for size in range(n + 1))
    excess = max(
        Fraction(int(p[list(s)].sum()), int(p.sum()))
        - Fraction(int(q[relation[list(s)].any(axis=0)].sum()), int(q.sum()))
        for s in subsets
    )
    found = lifted(p, q, sparse.csr_array(relation) if data.draw(st.booleans()) else relation)
    assert isinstance(found, Lifted)
    assert found.holds == (excess <= 0)
    if found.holds:
        assert_coupling_of(found, p, q)
        assert relation[found.coupling.sources, found.coupling.targets].all()
        assert found.witness is None
    else:
        image = relation[found.witness].any(axis=0)
        violated = Fraction(int(p[found.witness].sum()), int(p.sum())) - Fraction(int(q[image].sum()), int(q.sum()))
        assert violated == found.excess == excess > 0
        assert found.coupling is None


def test_w_inf_is_the_least_radius_whose_relation_lifts():
    rng = np.random.default_rng(3)
    space = Space(rng.random((40, 2)))
    p, q = rng.integers(0, 20, 40), rng.integers(0, 20, 40)
    distances = space.distances()
    value = wasserstein_inf(p, q, space).value
    assert lifted(p, q, distances <= value).holds
    assert not lifted(p, q, distances < value).holds


def test_costs_of_any_kind():
    rng = np.random.default_rng(5)
    cost = rng.random((4, 4))
    best = min(sum(cost[i, s[i]] for i in range(4)) for s in itertools.permutations(range(4))) / 4
    found = transport_cost([1, 1, 1, 1], [1, 1, 1, 1], cost)
    assert found.value == pytest.approx(best, abs=1e-14)
    assert found.lower <= best + 1e-15


def test_barycentre_is_the_heavier_class_or_the_best_of_many():
    rng = np.random.default_rng(7)
    space = Space(rng.random((12, 2)))
    laws = [rng.dirichlet(np.ones(12)) for _ in range(3)]
    two = barycenter(laws[:2], space, [0.7, 0.3])
    assert np.array_equal(two.target, laws[0])
    assert two.value == pytest.approx(0.3 * wasserstein(laws[0], laws[1], space).value)
    three = barycenter(laws, space)
    mean = sum(wasserstein(law, three.target, space).value for law in laws) / 3
    assert mean == pytest.approx(three.value, abs=1e-9)
    rivals = [*laws, np.mean(laws, axis=0), *rng.dirichlet(np.ones(12), 30)]
    assert all(three.value <= np.mean([wasserstein(law, r, space).value for law in laws]) + 1e-9 for r in rivals)
    # The general programme agrees with the triangle inequality's answer.
    assert barycenter(laws[:2], space.distances(), [0.7, 0.3]).value == pytest.approx(two.value, abs=1e-9)


def test_units_keep_what_was_given():
    exact = whole([1, 2], [5, 5], (2, 2))
    assert exact.total == 30 or exact.total == math.lcm(3, 10)
    assert exact.error == 0
    rounded = whole([0.25, 0.75], [1e-300, 1.0], (2, 2))
    assert sum(rounded.p.tolist()) == sum(rounded.q.tolist()) == rounded.total
    assert 0 < rounded.error < 1e-14
    many = whole([10**12 + 1, 10**12], [10**9 + 7, 3], (2, 2))  # the common total leaves 2^61
    assert many.error > 0


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: wasserstein_inf([0.5, 0.5], [1.0], Space([0.0, 1.0])), DistributionError, "q has 1 entries"),
        (lambda: wasserstein_inf([1, 1], [1], [[0.0], [-1.0]]), SpaceError, r"distances\[1, 0\] is -1.0"),
        (lambda: wasserstein_inf([1, 1], [1], [[0.0], [math.nan]]), SpaceError, "finite"),
        (lambda: wasserstein_inf([1, 1], [1, 1], [[0.0, 1], [2, 0]]), SpaceError, "symmetric"),
        (lambda: wasserstein_inf([1, 1], [1, 1], [[0.0, 1], [1, 3]]), SpaceError, r"distances\[1, 1\] is 3.0"),
        (lambda: wasserstein_inf([1, 1], [1, 1], [[0.0, 1, 2], [1, 0, 1]]), SpaceError, "2 and 2 entries"),
        (lambda: wasserstein_inf([1, 1], [1, 1], []), SpaceError, "matrix"),
        (lambda: wasserstein_inf([-1, 2], [1, 1], Space([0.0, 1.0])), DistributionError, r"p\[0\] is -1"),
        (lambda: wasserstein_inf([0, 0], [1, 1], Space([0.0, 1.0])), DistributionError, "no mass"),
        (lambda: wasserstein_inf([math.nan, 1], [1.0, 0], Space([0.0, 1.0])), DistributionError, r"p\[0\] is nan"),
        (lambda: wasserstein_inf([0.5, 0.6], [1.0, 0], Space([0.0, 1.0])), DistributionError, "sums to"),
        (lambda: wasserstein_inf([1, 1], [1, 1], Space([0.0, 1.0]), slack=1.5), ParameterError, "slack"),
        (lambda: wasserstein([1, 1], [1, 1], [[0.0, 1], [2, 0]]), SpaceError, "symmetric"),
        (lambda: transport_cost([1, 1], [1, 1], [[0.0, -1], [2, 0]]), SpaceError, "costs"),
        (lambda: lifted([1, 1], [1, 1], [[0.5, 1], [1, 0]]), SpaceError, "truth values"),
        (lambda: lifted([1, 1], [1, 1], [[True, True]]), DistributionError, "shape"),
        (lambda: barycenter([[1.0, 0]], Space([0.0, 1.0])), DistributionError, "two"),
    ],
)
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def channels_by_hand(made):
    """Return each class's channel from its plan as a matrix."""
    return [plan.toarray() / law[:, None] for plan, law in zip(made.plans, made.laws, strict=True)]


@pytest.mark.parametrize("classes", [2, 3])
def test_coupling_reports_have_one_law_and_cost_the_transport_distance(classes):
    rng = np.random.default_rng(classes)
    space = Space(rng.random((20, 2)))
    laws = [rng.dirichlet(np.ones(20)) for _ in range(classes)]
    made = Coupling(space, laws)
    for law, channel, value, by_hand in zip(laws, made.channels, made.distances, channels_by_hand(made), strict=True):
        assert channel.lift(law) == pytest.approx(made.target, abs=1e-12)
        assert expected_loss(channel, law) == pytest.approx(value, abs=1e-12)
        assert channel.channel().toarray() == pytest.approx(by_hand, abs=1e-9)
        assert value == pytest.approx(wasserstein(law, made.target, space).value, abs=1e-9)
    assert coupling_delta(made, 0.0).value.upper < 1e-13
    assert coupling_epsilon(made, 1e-9).value.upper == 0
    if classes == 2:
        total = sum(0.5 * value for value in made.distances)
        assert total == pytest.approx(wasserstein(*laws, space).value / 2)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 0.3), st.sampled_from([0.0, 0.5, 2.0]))
def test_wrong_information_costs_no_more_than_it_is_wrong(seed, wrong, eps):
    rng = np.random.default_rng(seed)
    space = Space(rng.random((6, 2)))
    believed = [rng.dirichlet(np.ones(6)) for _ in range(2)]
    really = [(1 - wrong) * law + wrong * rng.dirichlet(np.ones(6)) for law in believed]
    made = Coupling(space, believed)
    found = coupling_delta(made, eps, really)
    apart = [np.abs(a - b).sum() / 2 for a, b in zip(believed, really, strict=True)]
    assert found.value.upper <= apart[0] + math.exp(eps) * apart[1] + 1e-12 or found.pair == (1, 0)
    assert found.value.upper <= max(apart[0] + math.exp(eps) * apart[1], apart[1] + math.exp(eps) * apart[0]) + 1e-12
    P, Q = (law @ channel for law, channel in zip(really, channels_by_hand(made), strict=True))
    exact = max(np.maximum(P - math.exp(eps) * Q, 0).sum(), np.maximum(Q - math.exp(eps) * P, 0).sum())
    assert found.value.lower - 1e-12 <= exact <= found.value.upper + 1e-12


def test_a_mechanism_behind_bounds_what_wrong_information_reveals():
    rng = np.random.default_rng(4)
    space = Space(rng.random((8, 2)))
    believed = [rng.dirichlet(np.ones(8)) for _ in range(2)]
    really = [np.roll(law, 1) for law in believed]
    bare = Coupling(space, believed)
    robust = Coupling(space, believed, behind=PlanarLaplace(space, 1.0))
    rate = metric_epsilon(robust.behind).upper
    reports = [channel.lift(law) for channel, law in zip(bare.channels, really, strict=True)]
    # Theorem 2 between what the couplings really report.
    bound = rate * wasserstein_inf(*reports, space).value
    assert coupling_epsilon(robust, 0.0, really).value.upper <= bound + 1e-9
    assert coupling_delta(robust, 0.2, really).value.upper < coupling_delta(bare, 0.2, really).value.lower


def test_inputs_nobody_knew_of_report_from_the_target():
    made = Coupling(Space([0.0, 1.0, 2.0]), [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    for channel in made.channels:
        assert channel.channel().toarray()[2] == pytest.approx(made.target)


def test_a_coupling_can_report_among_other_outputs():
    outputs = Space([0.0, 1.0, 2.0, 3.0])
    inputs = outputs.subset([1, 2])
    made = Coupling(inputs, [[0.9, 0.1], [0.2, 0.8]], outputs, weights=[0.3, 0.7])
    assert made.target.tolist() == [0, 0.2, 0.8, 0]
    given = Coupling(inputs, [[0.9, 0.1], [0.2, 0.8]], outputs, target=[0.25] * 4)
    assert given.channels[0].lift([0.9, 0.1]) == pytest.approx([0.25] * 4)
    with pytest.raises(MechanismError, match="behind"):
        Coupling(inputs, [[0.9, 0.1], [0.2, 0.8]], outputs, behind=PlanarLaplace(inputs, 1.0))
    with pytest.raises(DistributionError, match=r"laws\[1\]"):
        Coupling(inputs, [[0.9, 0.1], [0.2, 0.9]], outputs)
    with pytest.raises(DistributionError, match="2"):
        coupling_delta(made, 1.0, [[0.9, 0.1]])


@pytest.mark.parametrize("unit", [1e-12, 1e-8, 1.0, 1e8, 1e100])
def test_costs_and_barycentres_do_not_depend_on_the_unit(unit):
    rng = np.random.default_rng(11)
    for _ in range(5):
        points, (p, q) = rng.random((6, 2)), rng.integers(1, 9, (2, 6))
        found = wasserstein(p, q, Space(points * unit))
        assert found.value == pytest.approx(unit * wasserstein(p, q, Space(points)).value, rel=1e-9)
        assert found.lower <= found.value <= found.lower * (1 + 1e-9)
    middle = barycenter([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]], Space(np.array([0.0, 1.0, 2.0]) * unit))
    assert middle.target == pytest.approx([0, 1, 0], abs=1e-6)
    assert middle.value == pytest.approx(unit * 2 / 3, rel=1e-6)


def test_given_distances_without_the_triangle_inequality_get_their_true_barycentre():
    space = Space.from_distances([[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    for ground in (space, space.distances()):
        assert barycenter([[1.0, 0, 0], [0, 0, 1.0]], ground).value == pytest.approx(1.0)
    assert Coupling(space, [[1.0, 0, 0], [0, 0, 1.0]]).target == pytest.approx([0, 1, 0])


def test_inputs_of_the_wrong_kind_are_named():
    line = Space([0.0, 1.0])
    with pytest.raises(DistributionError, match="p is not an array"):
        wasserstein_inf([[1], [1, 2]], [1, 1], line)
    with pytest.raises(SpaceError, match="larger unit"):
        wasserstein_inf([1, 1], [1, 1], Space([[0.0, 0], [1e160, 0]]))
    with pytest.raises(SpaceError, match="relation"):
        lifted([1, 1], [1, 1], [[True], [True, False]])
    with pytest.raises(MechanismError, match="not a tuple"):
        Coupling(line, [[1.0, 0], [0, 1.0]], behind=Tupling(Identity(2), 3))
    with pytest.raises(DistributionError, match="two classes"):
        Coupling(line, 3)
    with pytest.raises(SpaceError, match="distances"):
        metric_epsilon(PlanarLaplace(line, 1.0), "abc")
