"""The attacker who looks for the input, against every tuple listed by following Algorithm 1."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from distp import Channel, Identity, RestrictedLaplace, Space, Tupling, posterior
from distp.attacks import location
from distp.attacks.location import LocationAttack, location_attack
from distp.errors import DistributionError, ParameterError, SpaceError
from distp.privacy.bracket import Bracket
from helpers import distributions


def tuple_law(row, nu, k, replacement):
    """Return the probability of each (ordered) tuple, or of each set, from one input."""
    law = {}
    if replacement:
        for values in itertools.product(range(len(row)), repeat=k + 1):
            chance = 0.0
            for place in range(k + 1):
                dummies = values[:place] + values[place + 1 :]
                chance += row[values[place]] * math.prod(nu[y] for y in dummies) / (k + 1)
            law[values] = chance
        return law
    for real, chance in enumerate(row):
        others = [y for y in range(len(row)) if y != real]
        for dummies in itertools.combinations(others, k):
            sent = tuple(sorted((real, *dummies)))
            law[sent] = law.get(sent, 0.0) + chance / math.comb(len(others), k)
    return law


def brute(matrix, prior, d, nu=None, k=0, replacement=True):
    """Return the attacker's error and success, tuple by tuple."""
    laws = [tuple_law(row, nu, k, replacement) for row in matrix]
    error = success = 0.0
    for sent in laws[0]:
        joint = [share * law[sent] for share, law in zip(prior, laws, strict=True)]
        error += min(sum(p * d[x][g] for x, p in enumerate(joint)) for g in range(len(prior)))
        success += max(joint)
    return error, success


def small(seed, inputs=3, outputs=4):
    rng = np.random.default_rng(seed)
    matrix = 0.5 * np.eye(inputs, outputs) + 0.5 * rng.dirichlet(np.full(outputs, 0.7), inputs)
    return (
        matrix,
        rng.dirichlet(np.ones(inputs)),
        rng.uniform(0, 5, (inputs, inputs)),
        rng.dirichlet(np.ones(outputs)),
    )


SEEDS = [10, 14, 15, 7]  # spaces where reports and tuples do help the attacker


def sample(monkeypatch):
    monkeypatch.setattr(location, "_MAX_LISTED", 0)


def near(bracket, value, width=1e-12):
    assert bracket.lower <= value * (1 + 1e-14) + 1e-15
    assert value <= bracket.upper * (1 + 1e-14) + 1e-15
    assert bracket.width < width


NU = {
    "uniform": lambda nu: np.full(nu.size, 1 / nu.size),
    "any": lambda nu: nu,
    "one zero": lambda nu: np.append(0.0, nu[1:] / nu[1:].sum()),
    "one left": lambda nu: np.eye(nu.size)[2],
}


@pytest.mark.parametrize("k", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", NU)
def test_listed_tuples_equal_brute_force(k, kind):
    matrix, prior, d, nu = small(SEEDS[k])
    nu = NU[kind](nu)
    found = location_attack(Tupling(Channel(matrix), k, nu), prior, d)
    error, success = brute(matrix, prior, d, nu, k)
    near(found.error, error)
    near(found.success, success)
    near(found.blind_error, min(sum(prior[x] * d[x, g] for x in range(3)) for g in range(3)))
    near(found.blind_success, max(prior))
    assert (found.samples, found.confidence) == (0, 1.0)


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_listed_sets_equal_brute_force(k):
    matrix, prior, d, _ = small(SEEDS[k])
    found = location_attack(Tupling(Channel(matrix), k, replacement=False), prior, d)
    error, success = brute(matrix, prior, d, None, k, replacement=False)
    near(found.error, error)
    near(found.success, success)


@pytest.mark.parametrize("k", [0, 2])
def test_a_sparse_matrix_is_a_matrix(k):
    matrix, prior, d, _ = small(10)
    matrix = np.where(matrix < 0.2, 0, matrix) / np.where(matrix < 0.2, 0, matrix).sum(axis=1, keepdims=True)
    found = location_attack(Tupling(Channel(sparse.csr_array(matrix)), k), prior, d)
    error, success = brute(matrix, prior, d, np.full(4, 0.25), k)
    near(found.error, error)
    near(found.success, success)


def test_sparse_products():
    space = Space(np.linspace(0, 7, 30) ** 1.3)
    prior = np.arange(1, 31) / 465
    found = location_attack(Tupling(Identity(space), 1), prior)
    error, success = brute(np.eye(30), prior, space.distances(), np.full(30, 1 / 30), 1)
    near(found.error, error)
    near(found.success, success)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_report_lies_between_what_is_known_before_and_the_truth(data):
    inputs, outputs, k = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4)), data.draw(st.integers(0, 2))
    matrix = np.array([data.draw(distributions(outputs)) for _ in range(inputs)])
    nu, prior = data.draw(distributions(outputs)), data.draw(distributions(inputs))
    d = np.array(data.draw(st.lists(st.integers(0, 4), min_size=inputs**2, max_size=inputs**2)), float)
    d = d.reshape(inputs, inputs)
    channel = Channel(matrix, Space.discrete(inputs), Space.discrete(outputs))
    found, single = location_attack(Tupling(channel, k, nu), prior, d), location_attack(channel, prior, d)
    error, success = brute(matrix, prior, d, nu, k)
    near(found.error, error, 1e-8)
    near(found.success, success, 1e-8)
    assert found.error.lower <= found.error.upper <= found.blind_error.upper
    assert found.blind_success.lower <= found.success.lower <= found.success.upper <= 1
    assert found.error.upper >= single.error.lower
    assert found.success.lower <= single.success.upper


SAMPLED = [(3, "uniform", True), (3, "any", True), (3, "one zero", True), (9, "any", True), (2, "uniform", False)]


@pytest.mark.parametrize(("k", "kind", "replacement"), SAMPLED)
def test_sampled_intervals_hold_the_exact_values(monkeypatch, k, kind, replacement):
    matrix, prior, d, nu = small(10, 4, 5)
    mechanism = Tupling(Channel(matrix), k, NU[kind](nu), replacement)
    exact = location_attack(mechanism, prior, d)
    sample(monkeypatch)
    drawn = location_attack(mechanism, prior, d)
    assert exact.error.upper < 0.97 * exact.blind_error.lower
    assert (exact.samples, drawn.samples, drawn.confidence) == (0, location.SAMPLES, location.CONFIDENCE)
    for wide, sharp in ((drawn.error, exact.error), (drawn.success, exact.success)):
        assert wide.lower <= sharp.lower
        assert sharp.upper <= wide.upper
        assert 0 < wide.width < 0.05 * sharp.upper
    assert drawn == location_attack(mechanism, prior, d)
    fewer = location_attack(mechanism, prior, d, samples=2_000)
    assert fewer.error.width > 2 * drawn.error.width
    surer = location_attack(mechanism, prior, d, confidence=1 - 1e-9)
    assert surer.error.width > drawn.error.width
    few, single = location_attack(mechanism, prior, d, samples=2), location_attack(mechanism.base, prior, d)
    assert (few.error.lower, few.success.upper) == (single.error.lower, single.success.upper)
    assert few.error.lower <= exact.error.lower <= exact.error.upper <= few.error.upper


@pytest.mark.parametrize(("k", "kind", "replacement"), SAMPLED)
def test_estimates_are_unbiased_and_their_values_inside_the_range(monkeypatch, k, kind, replacement):
    """The intervals are wide enough to hide an error of a per cent: look at the estimates themselves."""
    matrix, prior, d, nu = small(15, 4, 5)
    mechanism = Tupling(Channel(matrix), k, NU[kind](nu), replacement)
    exact = location_attack(mechanism, prior, d)
    errors, failures = [], []

    def mean(values, lowest, highest, failure):
        assert lowest - 1e-12 <= values.min()
        assert values.max() <= highest + 1e-12
        error = 4 * values.std() / math.sqrt(values.size)
        errors.append(error)
        failures.append(failure)
        return Bracket(values.mean() - error, values.mean() + error)

    sample(monkeypatch)
    monkeypatch.setattr(location, "_interval", mean)
    drawn = location_attack(mechanism, prior, d, samples=100_000, confidence=0.99)
    assert exact.error.midpoint in drawn.error
    assert exact.success.midpoint in drawn.success
    assert max(errors) < 0.02
    assert failures == pytest.approx([0.0025] * 2)


def test_the_range_is_no_wider_than_needed(monkeypatch):
    """Without dummies to speak of, the extreme posteriors are reached: highest and lowest value occur."""
    ranges = []

    def mean(values, lowest, highest, failure):
        ranges.append((lowest, values.min(), values.max(), highest))
        return interval(values, lowest, highest, failure)

    interval = location._interval
    sample(monkeypatch)
    monkeypatch.setattr(location, "_interval", mean)
    matrix, prior, d, _ = small(7)
    location_attack(Tupling(Channel(matrix), 1), prior, d)
    (lowest, least, most, highest), (_, _, likeliest, top) = ranges
    assert least == pytest.approx(lowest, abs=1e-12)
    assert most <= highest + 1e-12
    assert likeliest == pytest.approx(top, abs=1e-12)


def test_the_control_variate_narrows_the_interval(monkeypatch):
    space = Space(np.random.default_rng(4).uniform(0, 10, (40, 2)))
    mechanism, prior = Tupling(RestrictedLaplace(space, 1.0, 3.0), 30), np.full(40, 1 / 40)
    with_it = location_attack(mechanism, prior, samples=20_000)
    monkeypatch.setattr(location, "_slope", lambda *_: 0.0)
    without = location_attack(mechanism, prior, samples=20_000)
    assert with_it.error.width < 0.9 * without.error.width
    assert max(with_it.error.lower, without.error.lower) < min(with_it.error.upper, without.error.upper)


@pytest.mark.parametrize(
    ("values", "by", "slope"), [([0, 1, 2], [0, 2, 4], 0.5), ([0, 3], [0, 2], 1), ([0, 1], [1, 0], 0), ([1], [1], 0)]
)
def test_slope(values, by, slope):
    assert location._slope(np.array(values, float), np.array(by, float)) == pytest.approx(slope)


def test_empirical_bernstein_by_hand():
    found = location._interval(np.array([0.0, 0, 1, 3]), -1.0, 4.0, 0.02)
    log = math.log(100)
    radius = math.sqrt(2 * 2 * log / 4) + 7 * 5 * log / 9  # the sample variance is 2
    assert (found.lower, found.upper) == pytest.approx((1 - radius, 1 + radius))


def test_intervals_hold_more_often_than_they_promise(monkeypatch):
    matrix, prior, d, nu = small(8)
    mechanism = Tupling(Channel(matrix), 2, nu)
    exact = location_attack(mechanism, prior, d)
    sample(monkeypatch)
    missed = 0
    for stream in range(200):
        monkeypatch.setattr(location, "_STREAM", stream)
        drawn = location_attack(mechanism, prior, d, samples=200, confidence=0.9)
        missed += exact.error.midpoint not in drawn.error or exact.success.midpoint not in drawn.success
    assert missed <= 20


def test_without_dummies_the_identity_hides_nothing():
    found = location_attack(Identity([0.0, 1.0, 5.0]), [0.2, 0.3, 0.5])
    assert found == LocationAttack(Bracket(0, 0), found.success, found.blind_error, found.blind_success, 0, 1.0)
    near(found.success, 1.0)
    near(found.blind_error, 0.2 * 5 + 0.3 * 4)


@pytest.mark.parametrize("replacement", [True, False])
def test_a_constant_channel_says_nothing(replacement, monkeypatch):
    space = Space([0.0, 1.0, 5.0])
    mechanism = Tupling(Channel(np.tile([0.5, 0.3, 0.2], (3, 1)), space, space), 2, replacement=replacement)
    for _ in range(2):
        found = location_attack(mechanism, [0.2, 0.3, 0.5])
        near(found.error, 2.2)
        near(found.success, 0.5)
        mechanism = Tupling(mechanism.base, 1, replacement=replacement)
        sample(monkeypatch)
        monkeypatch.setattr(location, "SAMPLES", 50)


def test_all_outputs_without_replacement_say_nothing():
    found = location_attack(Tupling(Identity(4), 3, replacement=False), [0.1, 0.2, 0.3, 0.4])
    near(found.success, 0.4)
    near(found.error, 0.6)


def test_dummies_that_are_never_real_hide_nothing(monkeypatch):
    matrix, prior, d, _ = small(10, 3, 3)
    seen = location_attack(Channel(matrix), prior, d)
    mechanism = Tupling(Channel(np.hstack([matrix, np.zeros((3, 1))])), 2, [0, 0, 0, 1])
    sample(monkeypatch)
    found = location_attack(mechanism, prior, d)
    near(found.error, seen.error.midpoint)
    near(found.success, seen.success.midpoint)
    assert (found.samples, found.confidence) == (0, 1.0)


@pytest.mark.parametrize("replacement", [True, False])
def test_more_dummies_never_help(replacement):
    matrix, prior, d, nu = small(14, 4, 5)
    attacks = [
        location_attack(Tupling(Channel(matrix), k, nu if replacement else None, replacement), prior, d)
        for k in range(5)
    ]
    for fewer, more in itertools.pairwise(attacks):
        assert more.error.upper >= fewer.error.lower
        assert more.success.lower <= fewer.success.upper
    assert attacks[4].error.lower > attacks[0].error.upper
    assert attacks[4].success.upper < attacks[0].success.lower


def test_distinct_dummies_hide_no_less():
    matrix, prior, d, _ = small(7, 4, 5)
    for k in range(1, 5):
        same, distinct = (location_attack(Tupling(Channel(matrix), k, None, r), prior, d) for r in (True, False))
        assert distinct.error.upper >= same.error.lower
        assert distinct.success.lower <= same.success.upper


def test_names_of_outputs_do_not_matter():
    matrix, prior, d, nu = small(9)
    nu = NU["one zero"](nu)
    one = location_attack(Tupling(Channel(matrix), 2, nu), prior, d)
    other = location_attack(Tupling(Channel(matrix[:, [2, 0, 3, 1]]), 2, nu[[2, 0, 3, 1]]), prior, d)
    for name in ("error", "success"):
        ends = [(getattr(found, name).lower, getattr(found, name).upper) for found in (one, other)]
        assert ends[0] == pytest.approx(ends[1], rel=1e-13)


@pytest.mark.parametrize("kind", ["any", "one zero"])
def test_success_is_the_largest_posterior_of_point_masses(kind):
    matrix, prior, d, nu = small(4)
    mechanism = Tupling(Channel(matrix), 2, NU[kind](nu))
    laws = [tuple_law(row, mechanism.dummy_distribution, 2, True) for row in matrix]
    success = 0.0
    for sent in laws[0]:
        chance = sum(share * law[sent] for share, law in zip(prior, laws, strict=True))
        if chance:
            success += chance * posterior(mechanism, list(np.eye(3)), prior, sent).max()
    near(location_attack(mechanism, prior, d).success, success)


def test_rows_of_distances_are_inputs():
    """Guessing 1 costs nothing, whatever is true."""
    found = location_attack(Channel([[1.0, 0.0], [1.0, 0.0]]), [0.5, 0.5], [[1.0, 0.0], [3.0, 0.0]])
    assert found.error == Bracket(0.0, 0.0)


def test_default_distances_are_between_inputs():
    space = Space([0.0, 2.0, 7.0, 9.0])
    inputs = space.subset([0, 2])
    found = location_attack(Channel([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]], inputs, space), [0.25, 0.75])
    near(found.error, 0.25 * 7)


def test_tiny_numbers():
    matrix, prior, d, _ = small(11, 3, 3)
    none, rare = [0.0, 0.4, 0.6], [1e-320, 0.4, 0.6]
    sought, found = (location_attack(Tupling(Channel(matrix), 2, nu), prior, d) for nu in (none, rare))
    near(found.error, sought.error.midpoint)
    near(found.success, sought.success.midpoint)
    lost = location_attack(Channel(np.ones((2, 1))), [1.0, 1e-200], [[0, 1e-200], [1e-200, 0]])
    assert Fraction(lost.error.upper) >= Fraction(1e-200) ** 2
    assert location_attack(Channel(np.ones((2, 1))), [1.0, 1e-100]).error.width < 1e-100


def test_laws_that_miss_one_a_little_widen_the_brackets():
    prior = [0.5, 0.5 + 5e-10]
    found = location_attack(Channel([[0.5, 0.5], [0.5, 0.5 - 5e-10]]), prior)
    assert 1e-10 < found.success.width + found.error.width < 1e-8


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"prior": [0.5, 0.5]}, DistributionError, "prior has 2 entries"),
        ({"prior": [0.5, 0.5, 0.5]}, DistributionError, "prior sums to"),
        ({"distances": np.zeros((3, 2))}, SpaceError, r"distances must have shape \(inputs, inputs\) = \(3, 3\)"),
        ({"distances": np.full((3, 3), -1.0)}, SpaceError, "distances must be finite"),
        ({"distances": np.full((3, 3), np.nan)}, SpaceError, "distances must be finite"),
        ({"distances": "far"}, SpaceError, "distances is not an array"),
        ({"samples": 1}, ParameterError, "samples must be at least 2"),
        ({"samples": 2.5}, ParameterError, "samples must be a whole number"),
        ({"confidence": 1.0}, ParameterError, "confidence must lie strictly"),
        ({"confidence": 0.0}, ParameterError, "confidence must lie strictly"),
        ({"confidence": 2}, ParameterError, r"confidence must lie in \[0, 1\]"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, error, match):
    given_ = {"prior": [0.2, 0.3, 0.5]} | arguments
    with pytest.raises(error, match=match):
        location_attack(Tupling(Identity(3), 1), **given_)


@pytest.mark.parametrize("k", [1, 60, 900])
def test_listed_brackets_hold_the_value_in_rational_arithmetic(k):
    found, m = location_attack(Tupling(Identity(2), k), [0.25, 0.75]), k + 1
    error = sum(math.comb(m, c) * min(Fraction(c, 4), Fraction(3 * (m - c), 4)) for c in range(m + 1))
    error *= Fraction(2, m * 2**m)
    assert Fraction(found.error.lower) <= error <= Fraction(found.error.upper)
    assert Fraction(found.success.lower) <= 1 - error <= Fraction(found.success.upper)
    assert found.error.width < 1e-9
