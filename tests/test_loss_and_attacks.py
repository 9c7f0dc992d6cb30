"""Quality loss and the Bayes attacker against enumeration of every tuple."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distp import (
    AttackSuccess,
    Bracket,
    Channel,
    Identity,
    RandomizedResponse,
    RestrictedLaplace,
    Space,
    Tupling,
    attack_success,
    delta,
    expected_loss,
    real_report_loss,
    success_limit,
    theorem3,
    theorem3_epsilon,
    worst_loss,
)
from distp.errors import ParameterError, SpaceError
from helpers import distributions, fractions, tuple_laws


def brute_loss(matrix, nu, k, prior, d):
    """Follow Definition 10: every input, every tuple, the distance to the nearest element."""
    total = 0.0
    for x, weight in enumerate(prior):
        for values, (probability, _) in tuple_laws(
            fractions(matrix[x]), fractions(matrix[x]), fractions(nu), k
        ).items():
            total += weight * float(probability) * min(d[x][y] for y in values)
    return total


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_closed_form_equals_the_sum_over_all_tuples(data):
    inputs, outputs, k = (
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(1, 4)),
        data.draw(st.integers(0, 3)),
    )
    matrix = np.array([data.draw(distributions(outputs)) for _ in range(inputs)])
    nu, prior = data.draw(distributions(outputs)), data.draw(distributions(inputs))
    d = np.array(
        data.draw(
            st.lists(
                st.lists(st.integers(0, 4), min_size=outputs, max_size=outputs),
                min_size=inputs,
                max_size=inputs,
            )
        ),
        float,
    )
    mechanism = Tupling(Channel(matrix, Space.discrete(inputs), Space.discrete(outputs)), k, nu)
    assert expected_loss(mechanism, prior, d) == pytest.approx(brute_loss(matrix, nu, k, prior, d), abs=1e-12)


def test_vector_v3_losses():
    base = RestrictedLaplace([0.0, 1.0, 2.0, 3.0], 1.0, 1.0)
    prior = [0.4, 0.3, 0.2, 0.1]
    for k, printed in ((0, 0.3464122683), (1, 0.2598092012), (2, 0.1948569009), (5, 0.0822052551)):
        assert expected_loss(Tupling(base, k), prior) == pytest.approx(printed, abs=1e-10)
        assert real_report_loss(Tupling(base, k), prior) == pytest.approx(0.3464122683, abs=1e-10)
    assert expected_loss(base, prior) == pytest.approx(0.3464122683, abs=1e-10)
    assert worst_loss(Tupling(base, 5)) == 1.0


def test_sparse_and_dense_channels_lose_the_same():
    base = RestrictedLaplace(np.arange(8.0), 0.4, 2.5)
    prior = np.random.default_rng(0).dirichlet(np.ones(8))
    dense = Channel(base.channel().toarray(), base.inputs, base.outputs)
    assert expected_loss(Tupling(base, 3), prior) == pytest.approx(expected_loss(Tupling(dense, 3), prior))
    assert worst_loss(base) == worst_loss(dense) == 2.0


def test_loss_of_the_identity_is_zero_and_falls_with_dummies():
    space = Space(np.arange(6.0))
    prior = np.full(6, 1 / 6)
    assert expected_loss(Tupling(Identity(space), 2), prior) == 0
    losses = [expected_loss(Tupling(RandomizedResponse(space, 0.5), k), prior) for k in (0, 1, 3, 10, 100)]
    assert all(a > b for a, b in itertools.pairwise(losses))


def test_bad_distances_are_named():
    with pytest.raises(SpaceError, match="shape"):
        expected_loss(Identity(2), [0.5, 0.5], [[0.0]])
    with pytest.raises(SpaceError, match="finite"):
        expected_loss(Identity(2), [0.5, 0.5], [[0.0, math.nan], [1, 0]])


def brute_attack(P, Q, nu, k, prior):
    """Return success and recognised share of the attacker who guesses by the larger posterior."""
    success = recognised = 0.0
    for a, b in tuple_laws(fractions(P), fractions(Q), fractions(nu), k).values():
        success += float(max(Fraction(prior) * a, (1 - Fraction(prior)) * b))
        gap = Fraction(prior) * a - (1 - Fraction(prior)) * b
        share = 0.5 if gap == 0 else float(gap > 0)
        recognised += share * float(a)
    return success, recognised


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_attack_success_equals_the_best_guess_over_all_tuples(data):
    n, k = data.draw(st.integers(2, 4)), data.draw(st.integers(0, 3))
    p, q, nu = (data.draw(distributions(n)) for _ in range(3))
    prior = data.draw(st.sampled_from([0.5, 0.125, 0.75]))
    found = attack_success(Tupling(Identity(n), k, nu), p, q, prior)
    success, recognised = brute_attack(p, q, nu, k, prior)
    assert found.success.lower - 1e-12 <= success <= found.success.upper + 1e-12
    assert found.recognised.lower - 1e-12 <= recognised <= found.recognised.upper + 1e-12


def test_large_tuples_are_attacked_as_simulation_says():
    rng = np.random.default_rng(8)
    p, q = rng.dirichlet(np.full(276, 0.5), size=2)
    k, draws = 10, 400_000
    for prior in (0.5, 0.3):
        found = attack_success(Tupling(Identity(276), k), p, q, prior)
        rates = []
        for law in (p, q):
            tuples = rng.integers(276, size=(draws, k + 1))
            tuples[:, 0] = rng.choice(276, size=draws, p=law)
            rates.append((prior * p[tuples].sum(1) > (1 - prior) * q[tuples].sum(1)).mean())
        error = 5 * 0.5 / math.sqrt(draws)
        assert found.recognised.lower - error <= rates[0] <= found.recognised.upper + error
        success = prior * rates[0] + (1 - prior) * (1 - rates[1])
        assert found.success.lower - error <= success <= found.success.upper + error
        assert found.recognised.width < 0.01


def test_balanced_success_is_half_of_one_plus_total_variation_and_within_the_limit():
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(50), size=2)
    for k in (0, 3, 20):
        mechanism = Tupling(Identity(50), k)
        found = attack_success(mechanism, p, q).balanced
        assert found.upper == pytest.approx((1 + delta(mechanism, p, q, 0.0).upper) / 2, rel=1e-6)
        for eps in (0.1, 1.0):
            assert found.upper <= success_limit(eps, delta(mechanism, p, q, eps).upper) + 1e-9
    assert success_limit(1.0, 0.001) == pytest.approx(0.7313, abs=5e-5)
    assert success_limit(0.1, 0.001) == pytest.approx(0.5255, abs=5e-5)


def test_identical_distributions_leave_only_guessing():
    p = np.full(6, 1 / 6)
    found = attack_success(Tupling(Identity(6), 4), p, p)
    assert isinstance(found, AttackSuccess)
    assert isinstance(found.balanced, Bracket)
    assert found.balanced.upper == pytest.approx(0.5)
    assert found.recognised.midpoint == pytest.approx(0.5)
    for bad in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ParameterError, match="prior"):
            attack_success(Identity(6), p, p, bad)


def test_vector_v2_theorem_3():
    for arguments, epsilon, bound in (
        ((100, 276, 0.01, 0.2), 1.2601336970, 6.709252558e-4),
        ((1000, 276, 0.01, 0.5), 0.2801947153, 0.013475894),
        ((50, 100, 0.02, 0.3), 1.4109869737, 2.468196082e-4),
    ):
        found = theorem3(*arguments)
        assert found.epsilon == pytest.approx(epsilon, abs=1e-9)
        assert found.delta == pytest.approx(bound, rel=1e-7)


def test_vector_v8_and_the_table_of_3_6():
    assert theorem3_epsilon(74, 276, 2 / 276, 0.001) == pytest.approx(0.99598, abs=5e-6)
    assert theorem3_epsilon(73, 276, 2 / 276, 0.001) == pytest.approx(1.00399, abs=5e-6)
    for k, b, printed in (
        (10, 1, 1.499),
        (20, 2, 2.733),
        (100, 4, 2.112),
        (1000, 8, 1.086),
        (5, 2, math.inf),
    ):
        assert theorem3_epsilon(k, 276, b / 276, 0.001) == pytest.approx(printed, abs=5e-4)


def test_theorem_3_bounds_the_exact_value_at_eta_0():
    rng = np.random.default_rng(3)
    p, q = rng.dirichlet(np.full(40, 8.0), size=2)
    beta = float(max(p.max(), q.max()))
    for k in (20, 80, 300):
        bound = theorem3_epsilon(k, 40, beta, 0.001)
        if math.isfinite(bound):
            assert delta(Tupling(Identity(40), k), p, q, bound).upper < 0.001


@pytest.mark.parametrize(
    "arguments",
    [(0, 10, 0.1, 0.1), (5, 10, 0.0, 0.1), (5, 10, 0.1, 0.5), (5, 10, 2.0, 0.1), (5.5, 10, 0.1, 0.1)],
)
def test_bad_theorem_3_arguments_are_refused(arguments):
    with pytest.raises(ParameterError):
        theorem3(*arguments)
