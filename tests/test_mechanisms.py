"""Mechanisms: rows that are laws whatever the parameter, vectors, and what they must refuse."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from distp import (
    Channel,
    Exponential,
    Identity,
    Mechanism,
    PlanarGaussian,
    PlanarLaplace,
    RandomizedResponse,
    RestrictedLaplace,
    Space,
    Tupling,
)
from distp.errors import DistributionError, MechanismError, ParameterError

GRIDS = [(11, 10), (10, 11), (1, 9), (9, 1)]


def dense(mechanism):
    matrix = mechanism.channel()
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def grid(columns: int, rows: int) -> Space:
    return Space([(x, y) for y in range(rows) for x in range(columns)])


FAMILIES = {
    "RR": lambda s, e: RandomizedResponse(s, e),
    "exponential": lambda s, e: Exponential(s, e),
    "PL": lambda s, e: PlanarLaplace(s, e),
    "PG": lambda s, e: PlanarGaussian(s, 1 / e if e > 0 else 1e300),
    "RL": lambda s, e: RestrictedLaplace(s, e, 2.0),
    "identity": lambda s, _: Identity(s),
    "tupling": lambda s, e: Tupling(RestrictedLaplace(s, e, 1.5), 3),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-12, 0.5, 30.0, 710.0, 1e4, 1e300])
def test_rows_are_laws_for_every_finite_epsilon(family, epsilon):
    matrix = dense(FAMILIES[family](grid(5, 4), epsilon))
    assert np.isfinite(matrix).all()
    assert (matrix >= 0).all()
    assert np.abs(matrix.sum(axis=1) - 1).max() <= 1e-12


@pytest.mark.parametrize("shape", GRIDS)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_probe_grids_wider_than_high_and_back_are_private_as_stated(shape, epsilon):
    """A public library's grid matrices lose mass and privacy on 11 x 10; ours hold (probes, C.1 14)."""
    space = grid(*shape)
    d = space.distances()
    matrix = dense(Exponential(space, epsilon))
    assert (matrix > 0).all()
    logs = np.log(matrix)
    ratio = np.abs(logs[:, None, :] - logs[None, :, :]).max(axis=2)
    assert (ratio <= epsilon * d * (1 + 1e-9) + 1e-12).all()


def test_planar_laplace_on_a_bounded_map_is_not_its_nominal_epsilon():
    space = grid(5, 1)
    logs = np.log(dense(PlanarLaplace(space, 1.0)))
    realised = max(
        abs(logs[i, y] - logs[j, y]) / abs(i - j) for i in range(5) for j in range(5) if i != j for y in range(5)
    )
    assert 1.01 < realised <= 2.0


def test_vector_v3_restricted_laplace():
    matrix = dense(RestrictedLaplace([0.0, 1.0, 2.0, 3.0], 1.0, 1.0))
    assert matrix[0] == pytest.approx([0.7310585786, 0.2689414214, 0, 0], abs=1e-10)
    assert matrix[1] == pytest.approx([0.2119415576, 0.5761168848, 0.2119415576, 0], abs=1e-10)
    assert matrix[::-1, ::-1] == pytest.approx(matrix)


def test_restricted_laplace_stores_only_the_entries_within_reach():
    space = grid(20, 20)
    matrix = RestrictedLaplace(space, 1.0, 1.0).channel()
    assert matrix.nnz == int((space.distances() <= 1.0).sum())
    wide = RestrictedLaplace(space, 1.0, math.inf)
    assert dense(wide) == pytest.approx(dense(PlanarLaplace(space, 1.0)))
    # 3 * 0.1 > 0.3 in floating point: a point at exactly the radius still counts.
    assert RestrictedLaplace(np.array([0.0, 3 * 0.1]), 1.0, 0.3).channel().nnz == 4


@pytest.mark.parametrize("k", [2, 4, 276])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 3.0])
def test_randomised_response_matches_its_formula(k, epsilon):
    matrix = dense(RandomizedResponse(k, epsilon))
    keep = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    assert np.diagonal(matrix) == pytest.approx(np.full(k, keep), rel=1e-14)
    assert matrix[0, 1] == pytest.approx((1 - keep) / (k - 1), rel=1e-12)
    # The ratio that makes it epsilon-private (probes, C.2 24).
    assert matrix[0, 0] / matrix[1, 0] == pytest.approx(math.exp(epsilon), rel=1e-12)


def test_planar_gaussian_falls_with_the_square_of_distance():
    matrix = dense(PlanarGaussian([0.0, 1.0, 2.0], 0.8))
    ratio = np.log(matrix[0, 0] / matrix[0, 1]), np.log(matrix[0, 0] / matrix[0, 2])
    assert ratio == pytest.approx((1 / (2 * 0.64), 4 / (2 * 0.64)))


def test_inputs_may_be_part_of_the_outputs():
    space = grid(4, 4)
    inner = space.subset([5, 6, 9, 10])
    assert dense(Identity(inner, space))[2].argmax() == 9
    rr = dense(RandomizedResponse(inner, 2.0, space))
    assert rr.shape == (4, 16)
    assert rr.argmax(axis=1).tolist() == [5, 6, 9, 10]


def test_lifting_is_the_vector_times_the_matrix():
    space = grid(3, 3)
    p = np.random.default_rng(0).dirichlet(np.ones(9))
    for family in FAMILIES.values():
        mechanism = family(space, 0.7)
        assert mechanism.lift(p) == pytest.approx(p @ dense(mechanism))


def test_mechanisms_pickle_and_are_frozen():
    for family in FAMILIES.values():
        mechanism = family(grid(3, 2), 0.7)
        assert isinstance(mechanism, Mechanism)
        mechanism.channel()
        again = pickle.loads(pickle.dumps(mechanism))
        assert dense(again) == pytest.approx(dense(mechanism))
        with pytest.raises(AttributeError):
            mechanism.inputs = None
        matrix = mechanism.channel()
        data = matrix.data if sparse.issparse(matrix) else matrix
        with pytest.raises(ValueError, match="read-only"):
            data[0] = 0


def test_mechanisms_leave_the_global_random_state_alone():
    before = np.random.get_state()[1].tolist()  # noqa: NPY002 - the state that must not move
    for family in FAMILIES.values():
        family(grid(3, 2), 0.7).channel()
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, "1", None])
def test_bad_epsilon_names_the_parameter(bad):
    for make in (RandomizedResponse, PlanarLaplace, Exponential):
        with pytest.raises(ParameterError, match="epsilon"):
            make(grid(2, 2), bad)
    with pytest.raises(ParameterError, match="sigma"):
        PlanarGaussian(grid(2, 2), bad if bad != -1.0 else 0.0)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Channel([[0.5, 0.6]]), "row 0 .*sums"),
        (lambda: Channel([[1.5, -0.5]]), ">= 0"),
        (lambda: Channel([[math.nan, 1.0]]), "finite"),
        (lambda: Channel([0.5, 0.5]), "shape"),
        (lambda: Channel(np.eye(2), Space.discrete(3), Space.discrete(2)), "3 inputs"),
        (lambda: Identity(Space([0.0, 9.0]), Space([0.0, 1.0])).channel(), "input 1"),
        (lambda: RestrictedLaplace(Space([0.0]), 1.0, 0.5, Space([2.0])).channel(), "radius"),
        (lambda: Tupling(Tupling(Identity(2), 1), 1), "one report"),
        (lambda: Tupling(Identity(2), 1, [0.3, 0.7], replacement=False), "replacement"),
    ],
)
def test_bad_mechanisms_are_named(make, match):
    with pytest.raises(MechanismError, match=match):
        make()


def test_bad_tuples_are_named():
    with pytest.raises(ParameterError, match="dummies"):
        Tupling(Identity(2), -1)
    with pytest.raises(ParameterError, match="whole number"):
        Tupling(Identity(2), 2.5)
    with pytest.raises(DistributionError, match="dummy_distribution"):
        Tupling(Identity(2), 1, [0.5, 0.4])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.floats(0, 50), st.floats(0.1, 20), st.integers(0, 2**32 - 1))
def test_restricted_laplace_equals_planar_laplace_cut_and_renormalised(n, epsilon, radius, seed):
    points = np.random.default_rng(seed).uniform(0, 10, (n, 2))
    d = Space(points).distances()
    kernel = np.where(d <= radius, np.exp(-epsilon * d), 0)
    expected = kernel / kernel.sum(axis=1, keepdims=True)
    assert dense(RestrictedLaplace(points, epsilon, radius)) == pytest.approx(expected, abs=1e-12)
