"""Each constant and each term of what is said of other people: a number that only enters a search is easily lost."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import distp
from distp import Identity, Pair, RestrictedLaplace, Tupling
from distp.calibration.feasibility import Target
from distp.calibration.steady import Designer, _least, best_dummies, moments_of, wary_prior
from distp.certificates import halves, population
from distp.certificates.population import _chernoff, _class_limit, rank
from distp.distributions import People, resampled, second_moments
from distp.distributions.resampling import DRAWS, _Blocks, _Moves, _moves, astray, sizes
from distp.errors import DistributionError
from distp.privacy import class_delta
from distp.privacy.rough import rough_deltas
from distp.utility import loss_matrix
from test_population import GRID, SIZE, crowd, nameless, pair_of


def pair_with(with_attribute, without, **more):
    """Return the pair of these weights, people in rows."""
    who = People(
        sparse.csr_array(np.array(with_attribute, float)), sparse.csr_array(np.array(without, float)), **more
    )
    return Pair("a", *who.laws(), people=who)


def lower_attendance(weight="users"):
    """Return a sample of 300 people of whom only a third ever has the attribute."""
    sample = crowd(11, 300)
    return replace(sample, holds=sample.holds & (sample.users < 100), weight=weight)


def test_the_class_limit_is_that_of_the_larger_cap_with_its_own_people_at_half_the_risk_for_each_input():
    pair = lower_attendance().pair()
    for one, people in ((pair, (100, 300)), (swapped(pair), (300, 100))):
        uppers = [_chernoff(law, n, 0.05 / (2 * SIZE)).max() for law, n in zip((one.p, one.q), people, strict=True)]
        cap = SIZE * max(uppers)  # of the identity each output is one input
        expected = class_delta(4, 0.5, cap, rtol=1e-2).upper
        assert _class_limit(Tupling(Identity(GRID), 4), one, 0.5, 0.95) == pytest.approx(expected, rel=1e-6)


def swapped(pair):
    who = People(pair.people.without, pair.people.with_attribute, pair.people.smoothing, pair.people.numbers)
    return Pair(pair.name, pair.q, pair.p, people=who)


def test_there_is_no_class_limit_where_either_class_weighs_or_an_output_has_no_dummy():
    alike, differ = np.tile(np.eye(SIZE), (5, 1)), np.tile(np.eye(SIZE), (5, 1)) * np.arange(1, 5 * SIZE + 1)[:, None]
    for one in (pair_with(alike, differ), pair_with(differ, alike)):
        assert _class_limit(Tupling(Identity(GRID), 4), one, 0.5, 0.95) is None
    pair = pair_with(alike, alike)
    nu = np.append(np.full(SIZE - 1, 1 / (SIZE - 1)), 0.0)
    assert _class_limit(Tupling(Identity(GRID), 4, nu), pair, 0.5, 0.95) is None
    nobody = np.vstack([np.eye(SIZE)[:-1], np.eye(SIZE)[:1]])  # the last output is never reported
    reached = Tupling(distp.Channel(nobody, GRID, GRID), 4, nu)
    assert 0 < _class_limit(reached, pair, 0.5, 0.95) <= 1
    assert _class_limit(Tupling(Identity(GRID), 4, replacement=False), pair, 0.5, 0.95) is None


def test_the_limit_is_the_largest_of_those_that_the_rough_deltas_cannot_tell_apart(monkeypatch):
    pair, mechanism = pair_of(10), Tupling(RestrictedLaplace(GRID, 1.0, 2.0), 3)
    module = sys.modules["distp.certificates.population"]
    expected = module.limit(mechanism, pair, 0.5, 0.9)

    def blurred(*given):
        found = rough_deltas(*given)
        last, other = np.argsort(found)[rank(0.9, DRAWS) - 1], np.argsort(found)[rank(0.9, DRAWS) - 3]
        found[[last, other]] = found[[other, last]]
        return found

    monkeypatch.setattr(module, "rough_deltas", blurred)
    assert module.limit(mechanism, pair, 0.5, 0.9) == expected


def test_people_without_numbers_are_parted_in_each_pair_by_themselves():
    pair = pair_with(np.eye(16), np.eye(16))
    first, second = halves([pair, pair])
    assert len(first[0].people) + len(second[0].people) == len(first[1].people) + len(second[1].people) == 16
    assert not np.array_equal(first[0].p, first[1].p)


# Columns: people with, people without; who was where; then the share moved and the share astray of either class
@pytest.mark.parametrize(
    ("a", "b", "moved", "astray_shares"),
    [
        (np.tile(np.eye(4), (225, 1)), np.tile(np.eye(4), (225, 1)), 0.25, (1 / 30, 1 / 30)),
        (
            np.tile(np.eye(4), (144, 1)) * (np.arange(576) < 144)[:, None],
            np.tile(np.eye(4), (144, 1)),
            0.5,
            (1 / 12, 1 / 24),
        ),
        (
            np.tile(np.eye(4), (36, 1)),
            np.tile(np.eye(4), (36, 1)) * (np.arange(144) < 100)[:, None],
            0.6,
            (1 / 12, 0.1),
        ),
        (np.eye(4)[[0] * 3], np.eye(4)[[0, 1, 0]], 1.0, (3**-0.5, 3**-0.5)),
        # Alone: 30 % and 0; two people at one place are not alone.
        (
            np.eye(402)[np.r_[0:300, np.full(700, 400)]],
            np.eye(402)[np.r_[np.arange(0, 400).repeat(2), np.full(200, 401)]],
            0.3,
            (0.3, 1000**-0.5),
        ),
        (
            np.eye(402)[np.r_[np.arange(0, 400).repeat(2), np.full(200, 401)]],
            np.eye(402)[np.r_[0:300, np.full(700, 400)]],
            0.3,
            (1000**-0.5, 0.3),
        ),
    ],
)
def test_how_much_is_moved_and_to_where(a, b, moved, astray_shares):
    pair = pair_with(a, b)
    assert sizes(pair) == tuple(int((np.array(w).sum(axis=1) > 0).sum()) for w in (a, b))
    assert astray(pair) == pytest.approx(astray_shares)
    found = _moves(pair)
    assert found.share == pytest.approx(moved)
    for law, share, target in zip((pair.p, pair.q), astray_shares, found.targets, strict=True):
        np.testing.assert_allclose(target, (1 - share) * law + share / law.size, atol=1e-15)


def test_how_much_is_moved_of_records():
    counts = [1] * 120 + [40, 40, 2, 98]
    pair = Pair.from_counts("r", counts, [4, 4] * 62)
    assert astray(pair) == pytest.approx((0.4, 496**-0.5))
    assert _moves(pair).share == pytest.approx(0.4)


def test_second_moments_of_many_people_written_out():
    pair, t = lower_attendance("check-ins").pair(), 1.5
    moves = _moves(pair)
    assert 0.5 < moves.share < 0.7
    target = moves.targets.mean(axis=0)
    laws = [weights.toarray() / weights.sum() for weights in (pair.people.with_attribute, pair.people.without)]
    for place, found in enumerate(second_moments(pair, t)):
        (a, p), (b, q) = [(laws[i], (pair.p, pair.q)[i]) for i in (place, 1 - place)]
        stay = 1 - moves.share
        mean = stay * (a - np.outer(a.sum(axis=1), p) - t * (b - np.outer(b.sum(axis=1), q)))
        expected = np.outer(p - t * q, p - t * q) + 3 * mean.T @ mean
        for x, weight in enumerate(((a - t * b) ** 2).sum(axis=0)):
            law = stay * np.eye(SIZE)[x] + moves.share * target
            expected += 3 * weight * (np.diag(law) - np.outer(law, law))
        np.testing.assert_allclose(found, expected, atol=1e-14)


def test_second_moments_of_records_written_out():
    pair, t = Pair.from_counts("r", [30, 50, 20, 0], [90, 100, 110, 100]), 1.5
    share = 6 / math.sqrt(100)
    noise = []
    for law, records in ((pair.p, 100), (pair.q, 400)):
        stray = 1 / math.sqrt(records)
        law = (1 - share) * law + share * ((1 - stray) * law + stray / 4)
        noise.append(3 * (np.diag(law) - np.outer(law, law)) / records)
    found = second_moments(pair, t)
    for one, (c, n, m) in zip(
        found, ((pair.p - t * pair.q, *noise), (pair.q - t * pair.p, *noise[::-1])), strict=True
    ):
        np.testing.assert_allclose(one, np.outer(c, c) + n + t * t * m, atol=1e-15)


def test_a_resample_draws_a_third_of_the_people_and_nothing_of_the_smoothing():
    people = 90
    pair = pair_with(np.eye(SIZE)[np.arange(people) % 4], np.eye(SIZE)[np.arange(people) % 3], smoothing=0.5)
    for moved in (True, False):
        for law in resampled(pair, 100, moved=moved):
            whole = law * 30
            np.testing.assert_allclose(whole, np.round(whole), atol=1e-9)
            assert (law.max(axis=1) < 1).all()
            if not moved:
                assert law[:, 4:].max() == 0  # where nobody was
    records = Pair.from_counts("r", [30] * SIZE, [60] * SIZE)
    for law, third in zip(resampled(records, 20), (160, 320), strict=True):
        np.testing.assert_allclose(law * third, np.round(law * third), atol=1e-9)
        assert ((law * third).round() % 2 == 1).any()


def blocks_of(pair):
    both = (pair.people.with_attribute + pair.people.without).tocoo()
    each = [np.asarray(w[both.row, both.col]).ravel() for w in (pair.people.with_attribute, pair.people.without)]
    return _Blocks(both.row, both.col, *each, pair.p.size)


def test_people_are_drawn_with_replacement_and_each_copy_moves_by_itself():
    pair, rng = pair_with(np.eye(30), np.eye(30)), np.random.default_rng(1)
    stay = _Moves(0.0, np.array([pair.p, pair.q]))
    drawn = [blocks_of(pair).drawn(rng, 30, 30, stay)[0] for _ in range(20)]
    assert max(weights.max() for weights in drawn) >= 3
    assert {weights.sum() for weights in drawn} == {30.0}
    one = pair_with([[1.0, 0.0]], [[1.0, 0.0]])
    half = blocks_of(one)._moved(rng, np.array([1000]), _Moves(0.5, np.array([[0.0, 1.0], [0.0, 1.0]])))
    assert (np.abs(half - 500) < 80).all()


def test_what_is_moved_has_the_law_of_its_class_and_both_classes_move_together():
    weights = np.random.default_rng(3).uniform(0.5, 2, (40, SIZE))
    P, Q = resampled(pair_with(weights, weights), 20)
    np.testing.assert_allclose(P, Q, atol=1e-12)
    targets = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])
    moved = blocks_of(pair_with([[1.0, 0, 0]], [[1.0, 0, 0]]))._moved(
        np.random.default_rng(4), np.array([20_000]), _Moves(1.0, targets)
    )
    np.testing.assert_allclose(moved / 20_000, targets, atol=0.015)


# The designer's parts


def test_moments_are_added_over_pairs_and_orders():
    one, two = pair_of(27), pair_of(28, 90)
    parts = [both for pair in (one, two) for both in second_moments(pair, math.exp(0.3))]
    np.testing.assert_allclose(moments_of([one, two], 0.3), np.sum(parts, axis=0), rtol=1e-12)


def test_dummies_go_with_the_root_of_chi_and_some_are_uniform():
    M, A = moments_of([pair_of(14)], 0.3), RestrictedLaplace(GRID, 1.0, 2.0).channel().toarray()
    root = np.sqrt([A[:, y] @ M @ A[:, y] for y in range(SIZE)])
    np.testing.assert_allclose(best_dummies(M, A), 0.15 / SIZE + 0.85 * root / root.sum(), rtol=1e-9)
    np.testing.assert_allclose(best_dummies(0 * M, A), 1 / SIZE)


def test_a_wary_prior_is_of_all_pairs_and_classes():
    few, many = pair_of(15, 20), lower_attendance().pair()
    law = np.eye(SIZE)[0]
    share = np.mean([*astray(few), *astray(many)])
    np.testing.assert_allclose(wary_prior(law, [few, many])[1:], share / SIZE)


def designer_of(pair, nu=None, **more):
    prior = np.arange(1.0, SIZE + 1)
    return Designer(GRID.distances(), 3, prior / prior.sum(), moments_of([pair], 0.3), nu, **more)


@pytest.fixture
def asked(monkeypatch):
    """Record what each call of `_least` was given and what it found."""
    calls = []

    def recorded(*given):
        calls.append((*given, _least(*given)))
        return calls[-1][-1]

    monkeypatch.setattr("distp.calibration.steady._least", recorded)
    return calls


def test_a_designer_prices_each_dummy_law_by_its_own_loss_and_starts_where_it_was(asked):
    designer, pair = designer_of(pair_of(13)), pair_of(13)
    channel, nu = designer.at(0.5)
    for cost, M, law, price, _, _ in asked:
        weights = loss_matrix(GRID.distances(), 3, law)
        np.testing.assert_allclose(cost, np.arange(1.0, SIZE + 1)[:, None] / 136 * weights)
        np.testing.assert_array_equal(M, moments_of([pair], 0.3))
        assert price == 0.5
    laws = [law for _, _, law, *_ in asked]
    assert len(asked) == 3
    np.testing.assert_allclose(laws[0], 1 / SIZE)
    np.testing.assert_allclose(laws[1], best_dummies(asked[0][1], asked[0][-1]))
    np.testing.assert_array_equal(nu, laws[2])  # the dummies that the channel was fitted to
    assert np.abs(channel.sum(axis=1) - 1).max() < 1e-12
    last = asked[-1][-1]
    designer.at(0.25)
    np.testing.assert_array_equal(asked[3][-2], last)
    np.testing.assert_array_equal(asked[3][2], nu)


def test_a_designer_keeps_dummies_that_are_given(asked):
    nu = np.random.default_rng(1).dirichlet(np.full(SIZE, 5.0))
    found = designer_of(pair_of(13), nu).at(0.5)[1]
    np.testing.assert_array_equal(found, nu)
    assert len(asked) == 1
    np.testing.assert_array_equal(asked[0][2], nu)


def test_some_people_keep_their_share_of_the_smoothing_and_their_numbers():
    people = crowd(3).pair(0.6).people
    some = people.only(np.arange(60) % 3 == 0)
    assert some.smoothing == pytest.approx(0.2)
    np.testing.assert_array_equal(some.numbers, people.numbers[::3])
    rare = lower_attendance().pair().people
    assert rare.only(np.arange(300) >= 100) is None  # of one class nobody
    for bad in (math.nan, math.inf, -1.0, 0.0):
        wrong = sparse.csr_array(([bad], ([0], [0])), shape=(1, 2))
        for one in ((wrong, sparse.csr_array([[1.0, 0.0]])), (sparse.csr_array([[1.0, 0.0]]), wrong)):
            with pytest.raises(DistributionError, match="finite and > 0"):
                People(*one)


def test_a_designer_drops_what_is_next_to_nothing_and_hands_out_a_channel(monkeypatch):
    nearly = np.where(np.eye(SIZE) > 0, 1 - 5e-7 * (SIZE - 1), 5e-7)
    monkeypatch.setattr("distp.calibration.steady._least", lambda *_: nearly)
    np.testing.assert_array_equal(designer_of(pair_of(13)).at(0.5)[0], np.eye(SIZE))


def test_the_momentum_restarts_where_it_points_uphill():
    M, nu = moments_of([pair_of(13)], 0.3), np.random.default_rng(1).dirichlet(np.full(SIZE, 5.0))
    cost = loss_matrix(GRID.distances(), 3, nu) / SIZE

    def value(A):
        return float((cost * A).sum() + 0.05 * ((M @ A) * A / nu).sum())

    once = least = _least(cost, M, nu, 0.05, np.tile(nu, (SIZE, 1)))
    for _ in range(40):
        least = _least(cost, M, nu, 0.05, least)
    assert value(once) < value(least) * (1 + 1e-7)  # without restarts it is 1.5e-6 above


def test_a_target_must_surely_be_met_for_every_pair(monkeypatch):
    equal = Pair.from_counts("e", [30] * SIZE, [30] * SIZE)
    pair, mechanism = pair_of(10), Tupling(RestrictedLaplace(GRID, 1.0, 2.0), 3)
    limits = [population(mechanism, one, 0.5, 0.9).delta for one in (equal, pair)]
    between = sum(limits) / 2
    assert limits[0] < between < limits[1]
    assert Target([equal], 0.5, between, 0.9).surely_met_by(mechanism)
    assert not Target([equal, pair], 0.5, between, 0.9).met_by(mechanism)
    monkeypatch.setattr(Target, "met_by", lambda *_: True)  # which is rough
    for both in ([equal, pair], [pair, equal]):
        assert not Target(both, 0.5, between, 0.9).surely_met_by(mechanism)
    for one in (nameless(pair), pair):
        rough = [
            sorted(rough_deltas(mechanism, *resampled(one, moved=moved), math.exp(0.5)))[rank(0.9, DRAWS) - 1]
            for moved in (True, False)
        ]
        assert Target([one], 0.5, 0.1, 0.9).limit(mechanism, one) == max(rough)
        assert Target([one], 0.5, 0.1).limit(mechanism, one) == 0
