"""Limits for other people where they are easily lost: classes far apart, few people, huge epsilon."""

from __future__ import annotations

import json

import numpy as np
import pytest

from distp import Identity, Pair, Policy, Regions, RestrictedLaplace, Space, Tupling, calibrate, certify, delta
from distp.calibration.optimal_tupling import optimal_tupling
from distp.certificates import Certificate, population
from distp.certificates.population import limit
from distp.cli.app import app
from distp.data import Sample
from distp.distributions import Support, resampled
from distp.distributions.resampling import DRAWS, counted
from distp.errors import DistpError, DistributionError, ParameterError
from distp.privacy.accountant import best_delta
from distp.spaces import Box


def apart(size: int, seed: int, people: int, named: bool = True) -> tuple[Pair, np.ndarray, np.ndarray]:
    """Draw people of two classes that are never in the same place; return their pair, and the truth."""
    p = np.r_[np.full(size // 2, 2 / size), np.zeros(size - size // 2)]
    q = p[::-1].copy()
    rng = np.random.default_rng(seed)
    inputs = np.r_[rng.choice(size, people, p=p), rng.choice(size, people, p=q)]
    users = np.arange(2 * people) if named else None
    return Sample("a", size, inputs, np.repeat([True, False], people), users=users).pair(), p, q


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("people", [20])
def test_classes_that_are_far_apart_stay_so(named, people):
    """Moves bring classes closer: a limit from moved resamples alone lay below the truth nearly always here."""
    line = Space(np.arange(100.0))
    mechanism = Tupling(RestrictedLaplace(line, 0.05, 100, line), 3)
    for seed in range(4):
        pair, p, q = apart(100, seed, people, named)
        found = limit(mechanism, pair, 0.5, 0.95)
        assert found >= delta(mechanism, pair.p, pair.q, 0.5).lower
        assert found >= delta(mechanism, p, q, 0.5).lower


def test_places_where_nobody_of_the_sample_was_report_as_was_designed():
    """They reported themselves once, which told other people's class, and cost the others their loss."""
    space = Space(np.array([(x, y) for x in range(8) for y in range(5)], dtype=float))
    held = []
    for seed in range(3):
        pair, p, q = apart(40, seed, 60)
        found = optimal_tupling([pair], space, 3, epsilon=0.5, delta=0.01, confidence=0.95)
        channel = found.mechanism.channel().toarray()
        unseen = (pair.p + pair.q) == 0
        if unseen.any():
            assert channel[unseen].max() < 0.9
        held.append(delta(found.mechanism, p, q, 0.5).upper <= found.populations[0].delta)
    assert all(held)


def test_a_policy_says_nothing_of_people_whom_it_does_not_hold(tmp_path):
    regions = Regions.grid(Box.around(40, 10, 4, 4), 1.0, ring_km=0)
    pair, _, _ = apart(16, 1, 30)
    law = np.full(16, 1 / 16)
    more = {"epsilon": 1.0, "delta": 0.9, "prior": law}
    policy = Policy.create(Tupling(Identity(regions), 3), regions, [pair], **more, confidence=0.95)
    policy.save(tmp_path / "a.policy")
    again = Policy.load(tmp_path / "a.policy")
    assert again.certificate.pairs[0].population == policy.certificate.pairs[0].population
    with pytest.raises(DistributionError, match="not at hand"):
        again.recertify(confidence=0.95)
    assert again.recertify([pair], confidence=0.95).pairs[0].population is not None
    with pytest.raises(DistributionError, match="does not say how many"):
        limit(policy.mechanism, Pair("b", law, law, Support(0), Support(0)), 1.0, 0.95)


@pytest.mark.parametrize("named", [True, False])
def test_limits_are_probabilities_and_come_back_from_a_file(named):
    space = Space(np.arange(6.0))
    pair, _, _ = apart(6, 2, 40, named)
    made = certify(Tupling(Identity(space), 0), [pair], 0.0, 0.001, np.full(6, 1 / 6), confidence=0.95)
    known = made.pairs[0].population
    assert known.delta == 1.0
    assert known.class_delta is None or 0 <= known.class_delta <= 1.0
    assert Certificate.from_dict(json.loads(json.dumps(made.to_dict()))) == made


@pytest.mark.parametrize(("epsilon", "dummies"), [(19.0, 20), (30.0, 20), (650.0, 5), (3.0, 50)])
def test_where_approximations_are_rounding_everything_is_certified(epsilon, dummies):
    space = Space(np.arange(10.0))
    law = np.r_[np.full(9, 0.99 / 9), 0.01]
    pair = Pair.from_counts("a", np.round(1000 * law), np.round(1000 * law[::-1]))
    mechanism = Tupling(Identity(space), dummies)
    found = limit(mechanism, pair, epsilon, 0.95)
    exact = 0.0
    for moved in (True, False):
        P, Q = resampled(pair, DRAWS, moved=moved)
        values = [best_delta(mechanism, p, q, epsilon, rtol=1e-3).upper for p, q in zip(P, Q, strict=True)]
        exact = max(exact, sorted(values)[380])
    assert found == pytest.approx(exact, rel=0.02)


def test_a_class_of_one_person_takes_no_more_people_than_it_must():
    """Whole crowds were added until that one person turned up."""
    users = np.arange(900)
    inputs, holds = users % 5, users == 17
    pair = Sample("a", 5, inputs, holds, users=users).pair()
    _, Q = resampled(pair, 100, moved=False)
    # 300 of 900 people: the variance of a share of 1/5 is 0.16 / 300.
    assert Q[:, 0].var() == pytest.approx(0.16 / 300, rel=0.4)


@pytest.mark.parametrize("named", [True, False])
def test_smoothing_hides_nothing_from_the_limit(named):
    sample = Sample("a", 4, np.r_[np.zeros(30, int), np.ones(30, int)], np.repeat([True, False], 30))
    if named:
        sample = Sample("a", 4, sample.inputs, sample.holds, users=np.arange(60))
    plain, smooth = sample.pair(), sample.pair(1000.0)
    mechanism = Tupling(Identity(Space(np.arange(4.0))), 2)
    assert np.abs(smooth.p - smooth.q).sum() < 0.1
    for one, two in zip(counted(plain), counted(smooth), strict=True):
        np.testing.assert_allclose(one, two)
    first, second = (population(mechanism, pair, 0.5, 0.95) for pair in (plain, smooth))
    assert second.delta > 0.5 * first.delta
    assert second.class_delta == pytest.approx(first.class_delta)
    assert second.delta > 10 * delta(mechanism, smooth.p, smooth.q, 0.5).upper


def test_every_confidence_that_resamples_can_give_is_given():
    space = Space(np.arange(6.0))
    pair, _, _ = apart(6, 3, 60)
    for base in ("laplace", "optimal"):
        found = calibrate([pair], None, space, epsilon=1, delta=0.2, max_dummies=3, confidence=0.9975, base=base)
        assert found.certificate.holds
    for level in (0.0, 0.999, 1.0):
        with pytest.raises(ParameterError, match=r"confidence"):
            calibrate([pair], None, space, epsilon=1, delta=0.2, max_dummies=3, confidence=level)


def test_a_given_law_of_dummies_may_leave_outputs_out():
    space = Space(np.arange(6.0))
    pair, _, _ = apart(6, 3, 60)
    found = calibrate(
        [pair],
        None,
        space,
        epsilon=1,
        delta=0.3,
        max_dummies=5,
        confidence=0.95,
        dummy_distribution=[0.5, 0.5, 0, 0, 0, 0],
    )
    assert found.certificate.holds
    assert found.mechanism.dummy_distribution.tolist() == [0.5, 0.5, 0, 0, 0, 0]


def test_resamples_cannot_be_written_to():
    pair, _, _ = apart(6, 4, 30)
    P, Q = resampled(pair)
    assert resampled(pair, DRAWS)[0] is P
    for array in (P, Q):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0


def test_in_sample_and_a_confidence_exclude_each_other(tmp_path):
    (tmp_path / "a.csv").write_text("lat,lon,kind\n40,10,x\n40,10,y\n")
    words = ["fit", str(tmp_path / "a.csv"), "--attribute", "kind = 'x'", "--out", str(tmp_path / "a.policy")]
    with pytest.raises(DistpError, match="exclude each other"):
        app([*words, "--in-sample", "--confidence", "0.9"], standalone_mode=False)
