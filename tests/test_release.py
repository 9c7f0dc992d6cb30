"""Release: the certified law and no other, from the operating system's entropy; policy files that cannot lie."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distp
from distp import Channel, Pair, Policy, Regions, RestrictedLaplace, Tupling, certify
from distp.errors import CoordinateError, OutsideError, ParameterError
from distp.release import quantised
from distp.release.weights import TOTAL, Weights
from distp.spaces import Box

ALPHA = 1e-6


def make_policy(dummies: int = 3, nu=None, outside: str = "refuse") -> Policy:
    rng = np.random.default_rng(0)
    lat, lon = 40.75 + 0.01 * rng.standard_normal(400), -73.97 + 0.01 * rng.standard_normal(400)
    regions = Regions.quadtree(lat, lon, box=Box.around(40.75, -73.97, 5, 5), regions=31)
    n = len(regions.inputs)
    pairs = [Pair("a", *rng.dirichlet(np.ones(n), size=2)), Pair("b", *rng.dirichlet(np.ones(n), size=2))]
    law = None if nu is None else rng.dirichlet(np.ones(len(regions)))
    mechanism = Tupling(RestrictedLaplace(regions.inputs, 1.2, 1.6, regions), dummies, law)
    return Policy.create(mechanism, regions, pairs, epsilon=1.0, delta=0.2, prior=np.full(n, 1 / n), outside=outside)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return make_policy()


# --- integer weights -------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 40), st.floats(0, 60), st.integers(0, 2**32 - 1))
def test_weights_sum_to_the_total_and_stay_within_one_unit_of_the_law(n, epsilon, seed):
    points = np.random.default_rng(seed).uniform(0, 5, (n, 2))
    matrix = distp.PlanarLaplace(points, epsilon).channel()
    weights = Weights.of(matrix)
    dense = weights.matrix().toarray()
    for row in range(n):
        columns, running = weights.row(row)
        assert int(running[-1]) == TOTAL
        assert set(columns.tolist()) <= set(np.flatnonzero(matrix[row]).tolist())
    assert np.abs(dense - matrix).max() <= (n + 2**13) / TOTAL


def test_certificate_is_that_of_the_integer_weights(policy):
    exact = policy.mechanism
    assert isinstance(exact.base, Channel)
    assert policy.certificate == certify(exact, policy.pairs, 1.0, 0.2, policy.prior)
    again, channel, dummies = quantised(exact, policy.channel.bits)
    assert np.array_equal(channel.values, policy.channel.values)  # rounding twice changes nothing
    assert dummies is None
    assert again.dummies == policy.dummies


# --- two doors -------------------------------------------------------------------------------------------


def test_release_takes_no_seed_and_never_repeats(policy):
    assert "seed" not in inspect.signature(Policy.release).parameters
    lat, lon = np.full(50, 40.75), np.full(50, -73.97)
    first, second = policy.release(lat, lon), policy.release(lat, lon)
    assert first.shape == (50, 4)
    assert first.dtype == np.uint16
    assert not np.array_equal(first, second)


def test_simulation_is_reproducible_stamped_and_honours_seed_0(policy):
    one, two = (policy.simulate([40.75] * 20, [-73.97] * 20, seed=0) for _ in range(2))
    assert one.simulated
    assert one.seed == 0
    assert np.array_equal(one.tuples, two.tuples)
    assert not np.array_equal(one.tuples, policy.simulate([40.75] * 20, [-73.97] * 20, seed=1).tuples)
    assert inspect.signature(Policy.simulate).parameters["seed"].default is inspect.Parameter.empty


def test_points_outside_are_refused_without_repeating_them(policy):
    with pytest.raises(OutsideError, match="row 1") as caught:
        policy.release([40.75, 41.9, 40.75], [-73.97, -73.1, -73.97])
    assert "41.9" not in str(caught.value)
    with pytest.raises(CoordinateError, match="row 0"):
        policy.release(math.nan, 0.0)
    assert make_policy(outside="nearest").release(41.9, -73.1).shape == (1, 4)
    with pytest.raises(ParameterError, match="outside"):
        make_policy(outside="drop")


def test_a_policy_without_replacement_releases_sets_and_is_certified_as_such(tmp_path):
    plain = make_policy(dummies=6)
    mechanism = Tupling(plain.mechanism.base, 6, replacement=False)
    policy = Policy.create(mechanism, plain.regions, plain.pairs, epsilon=1.0, delta=0.2, prior=plain.prior)
    policy.save(tmp_path / "a.policy")
    again = Policy.load(tmp_path / "a.policy")
    assert again.recertify() == policy.certificate
    assert policy.certificate.pairs[0].delta.upper < plain.certificate.pairs[0].delta.upper
    assert policy.certificate.loss < plain.certificate.loss
    drawn = again.release([40.75] * 500, [-73.97] * 500)
    assert (np.diff(drawn.astype(int), axis=1) > 0).all()


def test_no_rows_give_no_tuples_and_bad_regions_are_refused(policy):
    assert policy.release([], []).shape == (0, 4)
    assert policy.release_inputs(np.array([], dtype=np.int64)).shape == (0, 4)
    for bad in ([-1], [-3], [10**6]):
        with pytest.raises(OutsideError, match="row 0"):
            policy.release_inputs(np.array(bad))
    for bad in ([1.7], [[1]]):
        with pytest.raises(ParameterError, match="whole numbers"):
            policy.release_inputs(np.array(bad))
