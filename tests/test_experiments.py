"""The experiments: against direct evaluation, brute force and hand-made rows; the same seed, the same bytes."""

from __future__ import annotations

import csv
import itertools
import math
import re
import sys
from dataclasses import astuple, fields, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from distp.attacks import attack_success
from distp.calibration import compare
from distp.calibration.feasibility import Target
from distp.certificates.certificate import mean_law
from distp.data.samples import Sample
from distp.distributions import Pair
from distp.errors import DataError, ParameterError
from distp.experiments import Settings, claims, parts, reproduce
from distp.experiments.calibrated import Design, Designer
from distp.experiments.costs import costs
from distp.experiments.curves import distinct_guess
from distp.experiments.measure import beta_of, epsilon_at, fewest, fewest_by_theorem3
from distp.experiments.records import (
    DISTINCT,
    FAILS,
    HOLDS,
    IDENTITY,
    NONE,
    PARTLY,
    RL,
    TABLES,
    AttackPoint,
    Calibrated,
    Cost,
    DummiesNeeded,
    Matched,
    columns,
)
from distp.experiments.settings import derived
from distp.experiments.simulate import (
    Drawer,
    empirical_epsilon,
    guess,
    quantile_epsilon,
    sampled_epsilon,
)
from distp.experiments.tuples import laplace_tuples, plain_tuples
from distp.mechanisms import Channel, Identity, PlanarLaplace, RestrictedLaplace, Tupling
from distp.privacy import delta, epsilon, theorem3_epsilon
from distp.release.entropy import Seeded
from distp.report import experiments
from distp.report.experiments import number, write_experiments
from distp.spaces import Regions, Space
from distp.spaces.regions import Box
from distp.utility import expected_loss
from helpers import fractions, tuple_laws

CITY = "Łódź, <b>Nowhere</b>"
SETTINGS = Settings.quick(
    seed=7,
    dummies=3,
    dummies_grid=(1, 3, 10),
    distinct_grid=(2, 3),
    epsilon_grid=(0.3, 3.0),
    radius_grid=(1.0, 2.0),
    targets=(0.5, 1.0),
    samples=1_000,
    reports=1_000,
    timed_reports=2,
)


def make_regions() -> Regions:
    rng = np.random.default_rng(3)
    lat, lon = 40.75 + 0.008 * rng.standard_normal(500), -73.97 + 0.008 * rng.standard_normal(500)
    return Regions.quadtree(lat, lon, box=Box.around(40.75, -73.97, 5, 4), regions=26)


def make_sample(regions: Regions, name: str = "home", people: int = 60, seed: int = 1) -> Sample:
    """Draw people with a place of their own each: those with the attribute are in the west more often."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(people), 20)
    holds = rng.random(users.size) < 0.4
    size = len(regions.inputs)
    order = np.argsort(regions.inputs.points[:, 0])
    places = np.where(holds, rng.binomial(size - 1, 0.4, users.size), rng.binomial(size - 1, 0.55, users.size))
    return Sample(name, size, order[places], holds, users)


@pytest.fixture(scope="module")
def regions() -> Regions:
    return make_regions()


@pytest.fixture(scope="module")
def sample(regions: Regions) -> Sample:
    return make_sample(regions)


@pytest.fixture(scope="module")
def result(regions: Regions, sample: Sample):
    return reproduce([sample, make_sample(regions, "work", seed=2)], regions, CITY, SETTINGS)


def only(result, attribute):
    """Return the experiment with the rows of one attribute."""
    rows = {
        one.name: tuple(row for row in getattr(result, one.name) if getattr(row, "attribute", attribute) == attribute)
        for one in fields(result)
        if one.name not in ("city", "settings", "attributes", "inputs", "outputs")
    }
    return replace(result, attributes=(attribute,), **rows)


class TestParts:
    def test_train_and_test_share_no_person_and_lose_none(self, sample):
        made = parts.divide(sample, CITY, 5)
        train, test = made.samples["train"], made.samples["test"]
        assert not set(train.users) & set(test.users)
        assert len(train) + len(test) == len(sample)
        assert abs(np.unique(train.users).size - np.unique(test.users).size) <= 1

    def test_pairs_are_those_of_the_public_split_and_halves_with_the_settings_seed(self, sample):
        made = parts.divide(sample, CITY, 5)
        train, test = sample.split(5)
        for key, pair in (
            ("train", train.pair()),
            ("test", test.pair()),
            ("all", sample.pair()),
            ("halves with", sample.halves(True, 5)),
            ("halves without", sample.halves(False, 5)),
        ):
            assert np.array_equal(made.pairs[key].p, pair.p)
            assert np.array_equal(made.pairs[key].q, pair.q)

    def test_halves_are_of_one_class(self, regions):
        # Those with the attribute are all in input 0, the others all in input 1: any mixing would show.
        holds = np.arange(40) % 2 == 0
        made = parts.divide(
            Sample("x", len(regions.inputs), (~holds).astype(int), holds, np.arange(40) // 2), CITY, 1
        )
        for label, place in (("halves with", 0), ("halves without", 1)):
            assert made.pairs[label].p[place] == made.pairs[label].q[place] == 1
            one, two = made.pairs[label].support_p, made.pairs[label].support_q
            assert one is not None
            assert two is not None
            assert one.people == two.people == 10

    def test_without_people_check_ins_are_divided_and_the_table_says_so(self, sample):
        nobody = replace(sample, users=None)
        rows = parts.counted(parts.divide(nobody, CITY, 5), CITY)
        assert {row.split_by for row in rows} == {"check-ins"}
        assert {row.people_with for row in rows} == {None}
        assert rows[0].check_ins_with + rows[1].check_ins_with == rows[2].check_ins_with == int(sample.holds.sum())

    @pytest.mark.parametrize(
        ("holds", "users", "message"),
        [
            ([True, True, False, False], [0, 0, 1, 2], r"'x': 1 person with it .* at least 2"),
            ([True, False, False], [0, 1, 2], r"1 person with it"),
            ([False, False, False], [0, 1, 2], r"0 people with it"),
            ([True, True, False], [0, 1, 2], r"1 person without it"),
            ([True, False, False], None, r"1 check-in with it"),
        ],
    )
    def test_too_few_people_is_said_in_a_sentence(self, holds, users, message):
        small = Sample("x", 4, np.zeros(len(holds), int), np.array(holds), None if users is None else np.array(users))
        with pytest.raises(DataError, match=message) as caught:
            parts.divide(small, "Town", 1)
        assert "Town" in str(caught.value)

    def test_a_class_that_falls_into_one_part_is_said_with_the_part(self):
        holds = np.arange(20) < 2
        lonely = Sample("x", 4, np.zeros(20, int), holds, np.arange(20))
        messages = []
        for seed in range(12):
            try:
                parts.divide(lonely, CITY, seed)
            except DataError as error:
                messages.append(str(error))
        assert any("none of the 2 people with it fell into the test part" in text for text in messages)
        assert any("fell into the train part: take another seed" in text for text in messages)

    def test_samples_that_do_not_fit_are_refused(self, regions, sample):
        with pytest.raises(DataError, match="no attribute"):
            reproduce([], regions, CITY, SETTINGS)
        with pytest.raises(ParameterError, match="same name"):
            reproduce([sample, sample], regions, CITY, SETTINGS)
        with pytest.raises(DataError, match="'home' was counted over 3 input regions"):
            reproduce([Sample("home", 3, np.zeros(2, int), np.array([True, False]))], regions, CITY, SETTINGS)


class TestSettings:
    def test_there_is_no_default_seed(self):
        with pytest.raises(TypeError, match="seed"):
            Settings()
        with pytest.raises(TypeError, match="seed"):
            Settings.quick()

    @pytest.mark.parametrize(
        "wrong",
        [{"delta": 0.0}, {"delta": 1.0}, {"targets": (0.5,)}, {"dummies": 0}, {"samples": 5}, {"radius": -1.0}]
        + [{"dummies_grid": ()}, {"dummies_grid": (1, 1)}, {"epsilon_grid": (0.0,)}, {"seed": -1}, {"seed": 1.5}],
    )
    def test_bad_settings_are_refused_by_name(self, wrong):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            Settings(**{"seed": 1, **wrong})

    def test_seeds_differ_by_every_word(self):
        seeds = [
            derived(1),
            derived(2),
            derived(1, "a"),
            derived(1, "a", "b"),
            derived(1, "ab"),
            derived(1, "b", "a"),
        ]
        assert len(set(seeds)) == len(seeds)


class TestExact:
    def test_every_curve_point_is_the_accountants_value_on_its_own_pair(self, result, regions, sample):
        made = parts.divide(sample, CITY, SETTINGS.seed)
        mine = [row for row in result.curves if row.attribute == "home"]
        assert {row.evaluated for row in mine} == {"train", "test", "all", "halves with", "halves without"}
        for row in mine:
            pair = made.pairs[row.evaluated]
            mechanism = (
                laplace_tuples(regions, row.dummies, row.base_epsilon, row.radius)
                if row.mechanism == RL
                else plain_tuples(regions, row.dummies, row.mechanism == IDENTITY)
            )
            # Enough of the place on its grid for this to be a check of the parameter too.
            assert (
                row.parameter == {"dummies": row.dummies, "eps_A": row.base_epsilon, "radius": row.radius}[row.curve]
            )
            exact = epsilon(mechanism, pair.p, pair.q, SETTINGS.delta, rtol=1e-4)
            assert row.epsilon_lower <= exact.upper
            assert exact.lower <= row.epsilon
            if math.isfinite(exact.upper):
                width = 1.2e-2 if row.mechanism == DISTINCT else 2e-3
                assert row.epsilon <= exact.upper * (1 + width) + 1e-12
            beta = max(mechanism.lift(pair.p).max(), mechanism.lift(pair.q).max())
            assert row.theorem3 == theorem3_epsilon(row.dummies, len(regions), beta, SETTINGS.delta)
            assert row.theorem3 >= row.epsilon_lower
            assert row.loss == pytest.approx(expected_loss(mechanism, mean_law([pair])))

    def test_epsilon_falls_with_dummies_and_grows_with_the_bases_precision(self, result):
        for evaluated in ("train", "test", "all"):
            for attribute in ("home", "work"):
                for curve, name, sign in (
                    ("dummies", RL, 1),
                    ("dummies", IDENTITY, 1),
                    ("dummies", DISTINCT, 1),
                    ("eps_A", RL, -1),
                ):
                    values = [
                        row.epsilon
                        for row in result.curves
                        if (row.evaluated, row.attribute, row.curve, row.mechanism)
                        == (evaluated, attribute, curve, name)
                    ]
                    assert len(values) >= 2 or (name == DISTINCT and evaluated == "all")
                    falling = values[::sign]
                    assert all(a >= b * (1 - 0.011) for a, b in itertools.pairwise(falling))

    def test_distinct_dummies_never_show_more_than_independent_ones(self, result):
        found = {(row.attribute, row.evaluated, row.mechanism, row.dummies): row for row in result.curves}
        for key, row in found.items():
            other = found.get((*key[:2], IDENTITY, key[3]))
            if row.mechanism == DISTINCT and other:
                assert row.epsilon_lower <= other.epsilon

    @pytest.mark.parametrize("k", [2, 6])
    def test_the_short_way_to_distinct_epsilons_agrees_with_the_accountant(self, k):
        rng = np.random.default_rng(k)
        for weight in (0.05, 0.5, 1.0):
            p = rng.dirichlet(np.ones(30))
            q = (1 - weight) * p + weight * rng.dirichlet(np.ones(30))
            mechanism = Tupling(Identity(30), k, replacement=False)
            for p_, q_ in ((p, q), (q, p)):
                quick = epsilon_at(mechanism, Pair("x", p_, q_), 0.01)
                exact = epsilon(mechanism, p_, q_, 0.01)
                assert quick.lower <= exact.upper
                assert exact.lower <= quick.upper
                assert quick.width <= 0.011 * quick.upper
        far = np.eye(30)
        assert epsilon_at(mechanism, Pair("x", far[0], far[1]), 0.01).lower == math.inf

    def test_the_least_number_of_dummies_is_the_least(self, result, regions, sample):
        made = parts.divide(sample, CITY, SETTINGS.seed)
        mine = [row for row in result.dummies if row.attribute == "home"]
        assert {(row.mechanism, row.evaluated) for row in mine} >= {
            (RL, "test"),
            (IDENTITY, "all"),
            (DISTINCT, "test"),
        }
        for row in mine:
            pair = made.pairs[row.evaluated]
            assert row.exact is not None

            def told(k: int, row=row, pair=pair) -> float:
                mechanism = (
                    laplace_tuples(regions, k, SETTINGS.base_epsilon, SETTINGS.radius)
                    if row.mechanism == RL
                    else plain_tuples(regions, k, row.mechanism == IDENTITY)
                )
                return delta(mechanism, pair.p, pair.q, row.target).midpoint

            assert told(row.exact) <= row.delta * 1.001
            if row.exact:
                assert told(row.exact - 1) > row.delta * 0.999
            if row.theorem3 is not None:
                assert row.theorem3 >= row.exact

    @pytest.mark.parametrize("guessed", [0, 1, 7, 40, 999])
    def test_the_search_for_dummies_finds_the_same_from_every_guess(self, guessed):
        p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.1, 0.2, 0.3, 0.4])
        target = Target([Pair("x", p, q)], 0.5, 0.01)
        plain = next(
            k for k in range(99) if delta(Tupling(Identity(4), k), p, q, 0.5, rtol=1e-3, threshold=0.01).upper <= 0.01
        )
        assert plain > 5
        assert fewest(lambda k: Tupling(Identity(4), k), target, 60, guessed) == plain
        assert fewest(lambda k: Tupling(Identity(4), k), target, plain, guessed) == plain
        assert fewest(lambda k: Tupling(Identity(4), k), target, plain - 1, guessed) is None

    def test_theorem3s_dummies_against_a_plain_search_and_theory_v8(self):
        assert fewest_by_theorem3(276, 2 / 276, 1.0, 0.001, 1000) == 74  # theory 11, V8
        assert fewest_by_theorem3(276, 2 / 276, 1.0, 0.001, 73) is None
        for target in (0.3, 1.0):
            plain = next(k for k in range(1, 9999) if theorem3_epsilon(k, 50, 0.03, 0.01) <= target)
            assert fewest_by_theorem3(50, 0.03, target, 0.01, 9999) == plain

    def test_beta_is_the_largest_probability_under_either_law(self):
        pair = Pair("x", np.array([0.7, 0.2, 0.1]), np.array([0.1, 0.5, 0.4]))
        swapped = Pair("x", pair.q, pair.p)
        assert beta_of(Identity(3), pair) == beta_of(Identity(3), swapped) == 0.7

    def test_a_guess_for_distinct_dummies_stays_in_range(self):
        assert distinct_guess(None, 26) == 25
        assert distinct_guess(0, 26) == 0
        assert 0 <= distinct_guess(10_000, 26) <= 25

    def test_calibrated_rows_are_those_of_compare_and_held_out_ones_direct_evaluations(self, result, regions, sample):
        made = parts.divide(sample, CITY, SETTINGS.seed)
        train = [row for row in result.calibrated if (row.attribute, row.evaluated) == ("home", "train")]
        rows = compare([made.pairs["train"]], regions, SETTINGS.targets, SETTINGS.delta, SETTINGS.dummies)
        names = {"tupling": RL}
        for other in rows:
            (row,) = [
                r
                for r in train
                if (r.mechanism, r.target) == (names.get(other.mechanism, other.mechanism), other.epsilon)
            ]
            assert (row.parameter, row.dummies) == (other.parameter, other.dummies)
            assert row.loss == pytest.approx(other.loss, rel=1e-12)
            assert row.realised_delta == pytest.approx(other.realised.upper, rel=2e-3, abs=1e-12)
            assert row.balanced == pytest.approx(other.success.upper, rel=1e-6)
        designer = Designer.of(made.pairs["train"], regions, SETTINGS, held_out=True)
        designs = {one.name: one for one in designer.designs(1.0)}
        assert set(designs) == {"RR", "PL", "PG", "PL/W_inf", RL, IDENTITY, DISTINCT}
        held = {
            r.mechanism: r for r in result.calibrated if (r.attribute, r.evaluated, r.target) == ("home", "test", 1.0)
        }
        pair = made.pairs["test"]
        for name, design in designs.items():
            row = held[name]
            assert row.designed_on == "train"
            assert row.realised_delta == pytest.approx(delta(design.mechanism, pair.p, pair.q, 1.0).upper, rel=2e-3)
            width = 1.2e-2 if name == DISTINCT else 2e-3
            assert row.realised_epsilon == pytest.approx(
                epsilon(design.mechanism, pair.p, pair.q, SETTINGS.delta).upper, rel=width
            )
            assert row.loss == pytest.approx(expected_loss(design.mechanism, mean_law([pair])))
            success = attack_success(design.mechanism, pair.p, pair.q)
            assert row.balanced == pytest.approx(success.balanced.upper, rel=1e-3 if name == DISTINCT else 1e-12)
            assert row.recognised == (None if name == DISTINCT else success.recognised.upper)

    def test_the_coupling_is_accounted_for_by_its_own_channels(self, result, regions, sample):
        made = parts.divide(sample, CITY, SETTINGS.seed)
        coupling = Designer.of(made.pairs["train"], regions, SETTINGS, held_out=True).coupling
        between = regions.inputs.distances(regions)
        for part in ("train", "test"):
            pair = made.pairs[part]
            laws = [channel.lift(law) for channel, law in zip(coupling.channels, (pair.p, pair.q), strict=True)]
            (row,) = [
                r
                for r in result.calibrated
                if (r.attribute, r.mechanism, r.evaluated, r.target) == ("home", "coupling", part, 1.0)
            ]
            assert row.balanced == pytest.approx((1 + np.abs(laws[0] - laws[1]).sum() / 2) / 2, abs=1e-9)
            mean = [
                law @ (c.channel().toarray() * between).sum(axis=1)
                for c, law in zip(coupling.channels, (pair.p, pair.q), strict=True)
            ]
            assert row.loss == pytest.approx(sum(mean) / 2)
        assert row.realised_delta > 0  # on other people it does show something

    def test_matched_mechanisms_are_as_private_held_out_as_tupling(self, result, sample):
        made = parts.divide(sample, CITY, SETTINGS.seed)
        assert made.pairs["test"].p.sum() == pytest.approx(1)
        mine = [row for row in result.matched if row.attribute == "home"]
        assert {row.mechanism for row in mine} == {RL, "RR", "PL", "PG"}
        held = {
            row.target: row
            for row in result.calibrated
            if (row.attribute, row.mechanism, row.evaluated) == ("home", RL, "test")
        }
        for row in mine:
            assert row.held_out_epsilon == held[row.target].realised_epsilon
            if row.mechanism == RL:
                assert row.loss == held[row.target].loss
            elif row.mechanism == "PL" and math.isfinite(row.held_out_epsilon):
                rate = float(re.search(r"ε = (\S+)/km", row.parameter)[1])
                pair, regions = made.pairs["test"], make_regions()
                near = [
                    epsilon(PlanarLaplace(regions.inputs, rate * f, regions), pair.p, pair.q, SETTINGS.delta).upper
                    for f in (0.98, 1.02)
                ]
                assert near[0] <= row.held_out_epsilon * 1.001
                assert near[1] >= row.held_out_epsilon * 0.999


class TestSimulated:
    P, Q = np.array([0.55, 0.25, 0.15, 0.05]), np.array([0.1, 0.2, 0.3, 0.4])
    PAIR = Pair("x", P, Q)

    def laws(self, k: int):
        nu = np.full(4, 0.25)
        found = tuple_laws(*[fractions(law) for law in (self.P, self.Q, nu)], k)
        return np.array([[float(a), float(b)] for a, b in found.values()])

    def test_estimates_tend_to_the_exact_values_of_brute_force(self):
        laws = self.laws(2)
        mechanism, size, level = Tupling(Identity(4), 2), 200_000, 0.02
        seen = sampled_epsilon(mechanism, self.PAIR, level, size, 11)
        exact = epsilon(mechanism, self.P, self.Q, level).upper
        # Delta at the estimate is within four standard errors of the level: a test of the probabilities themselves.
        ratio = [laws[:, 0] / laws[:, 1], laws[:, 1] / laws[:, 0]]
        worst = max(
            float((law * np.maximum(0, 1 - math.exp(seen.empirical) / r)).sum())
            for law, r in zip(laws.T, ratio, strict=True)
        )
        assert worst == pytest.approx(level, abs=4 * math.sqrt(level / size))
        assert seen.empirical == pytest.approx(exact, rel=0.03)
        quantile = max(
            float(np.sort(np.log(r))[np.searchsorted(np.cumsum(law[np.argsort(r)]), 1 - level)])
            for law, r in zip(laws.T, ratio, strict=True)
        )
        assert seen.quantile == pytest.approx(quantile, abs=1e-9)  # an atom of the law, hit exactly
        assert seen.quantile > seen.empirical  # and not the same thing

    @pytest.mark.parametrize("replacement", [True, False])
    def test_drawn_reports_have_the_law_and_a_law_five_percent_off_is_rejected(self, replacement):
        mechanism = Tupling(RestrictedLaplace(Space([0.0, 1.0, 2.0, 3.0]), 1.0, 1.5), 1, replacement=replacement)
        drawer, size = Drawer.of(mechanism), 200_000
        inputs = np.random.default_rng(5).choice(4, size, p=self.P)
        one, two = drawer.evidence(inputs, self.PAIR, Seeded(9))
        real = mechanism.lift(self.P), mechanism.lift(self.Q)
        if replacement:
            truth = np.array(
                [
                    [(real[0][a] + real[0][b]) / 8, real[0][a] + real[0][b], real[1][a] + real[1][b]]
                    for a in range(4)
                    for b in range(4)
                ]
            )
        else:
            truth = np.array(
                [
                    [(real[0][a] + real[0][b]) / 3, real[0][a] + real[0][b], real[1][a] + real[1][b]]
                    for a in range(4)
                    for b in range(a)
                ]
            )
        assert truth[:, 0].sum() == pytest.approx(1)
        scale = 4  # the dummies' own probability, the same for all
        total = float((truth[:, 0] * np.log(truth[:, 1] / truth[:, 2])).sum())
        seen = np.log(one / two)
        error = float(seen.std()) / math.sqrt(size)
        assert float((one / scale).mean()) == pytest.approx(float((truth[:, 0] * truth[:, 1]).sum()), rel=0.01)
        assert abs(float(seen.mean()) - total) < 4 * error
        assert 0.05 * abs(total) > 4 * error  # so that 5 % more or less would have been seen
        assert (
            abs(float(seen.mean()) - 1.05 * total) > 4 * error or abs(float(seen.mean()) - 0.95 * total) > 4 * error
        )

    def test_a_sampler_with_five_percent_more_or_less_noise_is_told_apart(self):
        size, level = 400_000, 0.05
        exact = [epsilon(Channel(self.noisy(f)), self.P, self.Q, level).midpoint for f in (0.95, 1.0, 1.05)]
        seen = sampled_epsilon(Channel(self.noisy(1.0)), self.PAIR, level, size, 3).empirical
        assert abs(seen - exact[1]) < 0.5 * min(abs(exact[1] - exact[0]), abs(exact[1] - exact[2]))

    @staticmethod
    def noisy(factor: float) -> np.ndarray:
        lie = 0.4 * factor
        return (1 - lie) * np.eye(4) + lie / 4

    def test_estimators_on_lists_by_definition(self):
        rng = np.random.default_rng(1)
        ratios = rng.normal(1, 1, 501)
        ratios[:3] = math.inf
        for level in (0.007, 0.05, 0.3):
            found = empirical_epsilon(ratios, level)
            assert np.maximum(0, 1 - np.exp(found - ratios)).mean() == pytest.approx(level)
            quantile = quantile_epsilon(ratios, level)
            assert (ratios > quantile).mean() <= level
            assert quantile == 0 or (ratios >= quantile).mean() > level
        assert empirical_epsilon(ratios, 0.001) == quantile_epsilon(ratios, 0.001) == math.inf
        assert empirical_epsilon(np.zeros(5), 0.1) == quantile_epsilon(np.zeros(5), 0.1) == 0.0

    def test_the_attacker_is_as_good_as_exact_probabilities_say(self):
        rng = np.random.default_rng(2)
        holds = np.repeat([True, False], 500)
        inputs = np.concatenate(
            [rng.choice(4, 500, p=[0.4, 0.3, 0.2, 0.1]), rng.choice(4, 500, p=[0.2, 0.2, 0.2, 0.4])]
        )
        attacked = Sample("x", 4, inputs, holds, np.arange(1000) // 4)
        test = attacked.pair()
        mechanism = Tupling(Identity(4), 1)
        seen = guess(mechanism, self.PAIR, attacked, 200_000, 4)
        # What an attacker trained on other laws recognises, from all pairs of reports.
        right = [0.0, 0.0]
        for c, law in enumerate((test.p, test.q)):
            for real in range(4):
                for dummy in range(4):
                    a, b = self.P[real] + self.P[dummy], self.Q[real] + self.Q[dummy]
                    good = 0.5 if abs(a - b) < 1e-12 else float((a > b) == (c == 0))
                    right[c] += law[real] / 4 * good
        assert seen.reports == 400_000 // 500 * 500
        assert seen.recognised[0] == pytest.approx(right[0], abs=0.006)
        assert seen.balanced[0] == pytest.approx(sum(right) / 2, abs=0.004)
        assert abs(right[0] - sum(right) / 2) > 0.02  # the two are not the same number here
        for value, low, high in (seen.recognised, seen.balanced):
            assert 0 <= low < value < high <= 1
        assert guess(Tupling(Identity(4), 1), self.PAIR, replace(attacked, users=None), 1000, 4).recognised[0] > 0.5

    def test_intervals_are_over_people_and_ties_are_half(self):
        # Two people's check-ins all agree: as many check-ins as one likes are still two observations.
        holds = np.array([True] * 200 + [False] * 200)
        inputs = np.array([0] * 100 + [3] * 100 + [3] * 200)
        users = np.array([0] * 100 + [1] * 100 + [2] * 100 + [3] * 100)
        seen = guess(Identity(4), self.PAIR, Sample("x", 4, inputs, holds, users), 400, 1)
        assert seen.recognised == (0.5, 0.0, 1.0)
        free = guess(Identity(4), self.PAIR, Sample("x", 4, inputs, holds), 400, 1)
        assert free.recognised[2] - free.recognised[1] < 0.2
        flat = Pair("x", np.full(4, 0.25), np.full(4, 0.25))
        assert guess(Identity(4), flat, Sample("x", 4, inputs, holds, users), 400, 1).balanced[0] == 0.5

    def test_people_weigh_alike_if_the_sample_says_so(self):
        holds = np.array([True] * 11 + [False] * 2)
        inputs = np.array([0] * 10 + [3] + [3, 3])
        users = np.array([0] * 10 + [1] + [2, 3])
        each = Sample("x", 4, inputs, holds, users)
        assert guess(Identity(4), self.PAIR, each, 1, 1).recognised[0] == pytest.approx(10 / 11)
        assert guess(Identity(4), self.PAIR, replace(each, weight="users"), 1, 1).recognised[0] == pytest.approx(0.5)


class TestCost:
    def test_entries_and_bytes_are_those_of_the_matrices(self, regions):
        design = Design("PL", 1.0, PlanarLaplace(regions.inputs, 1.0, regions), "ε = 1/km", 0)
        held, times = costs("home", CITY, [design], regions, SETTINGS)
        n, m = len(regions.inputs), len(regions)
        rows = {row.mechanism: row for row in held}
        assert set(rows) == {"PL", RL, IDENTITY, DISTINCT}
        near = int((regions.inputs.distances(regions) <= SETTINGS.radius * (1 + 1e-9)).sum())
        assert (rows["PL"].entries, rows["PL"].nonzero, rows["PL"].bytes_held) == (n * m, n * m, 8 * n * m)
        assert (rows["PL"].stored, rows[RL].stored) == ("dense", "CSR")
        assert (rows[RL].nonzero, rows[IDENTITY].nonzero) == (near, n)
        assert n < near < n * m
        matrix = laplace_tuples(regions, 3, 1.0, 2.0).channel()
        assert rows[RL].bytes_held == matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
        assert rows[RL].bytes_release == 8 * (n + 1) + 16 * near
        assert [row.mechanism for row in times] == [row.mechanism for row in held]
        assert all(min(row.build_ms, row.prepare_ms, row.report_us, row.bulk_us) > 0 for row in times)


def blank(record, **known):
    """Return a record whose other fields do not matter."""
    return record(**{one.name: known.get(one.name, CITY if one.name == "city" else 0) for one in fields(record)})


def judged(key, calibrated=(), matched=(), attacks=(), dummies=(), costs_=()):
    checks, verdicts = claims.judge(CITY, SETTINGS, calibrated, matched, attacks, dummies, costs_)
    return [one for one in checks if one.claim == key], next(one for one in verdicts if one.claim == key)


class TestClaims:
    @staticmethod
    def rows(**losses):
        trained = [
            blank(Calibrated, attribute="home", mechanism=name, target=1.0, evaluated="train", loss=value)
            for name, value in losses.items()
        ]
        held = [
            blank(Matched, attribute="home", mechanism=name, target=1.0, held_out_epsilon=1.5, loss=value)
            for name, value in losses.items()
        ]
        return trained, held

    @pytest.mark.parametrize(
        ("tm", "verdict"), [(0.1, HOLDS), (9.0, FAILS), (2.5, PARTLY), (1.999, PARTLY), (1.98, HOLDS)]
    )
    def test_a_by_losses(self, tm, verdict):
        trained, held = self.rows(RR=4.0, PL=2.0, PG=3.0)
        trained.append(replace(trained[0], mechanism=RL, loss=tm))
        held.append(replace(held[0], mechanism=RL, loss=tm))
        checks, claim = judged("a", trained, held)
        assert len(checks) == 6
        assert claim.verdict == verdict
        if verdict == PARTLY:
            assert "home in-sample (TM(RL) against PL at 1" in claim.where
            assert "home held out (TM(RL) against PL at 1" in claim.where
            assert "1.5 held out" in claim.figures

    def test_a_needs_both_sides_and_looks_at_train_rows_only(self):
        trained, held = self.rows(**{"RR": 4.0, "PL": 2.0, "PG": 3.0, RL: 1.0})
        _, worse = self.rows(**{"RR": 0.1, "PL": 0.1, "PG": 0.1, RL: 1.0})
        checks, claim = judged("a", trained, worse)
        assert claim.verdict == PARTLY
        assert {one.evaluated for one in checks if not one.holds} == {"held out"}
        test_rows = [replace(row, evaluated="test", loss=99.0 if row.mechanism == RL else 0.0) for row in trained]
        assert judged("a", [*trained, *test_rows], held)[1].verdict == HOLDS

    @pytest.mark.parametrize(("pg", "verdict"), [(3.0, HOLDS), (1.0, FAILS), (2.001, FAILS)])
    def test_b_and_c(self, pg, verdict):
        trained, held = self.rows(PL=2.0, PG=pg, RR=pg)
        assert judged("b", trained, held)[1].verdict == verdict
        assert judged("c", trained, held)[1].verdict == verdict

    def test_nothing_to_compare_is_said(self):
        assert judged("b")[1].verdict == "not judged"

    @pytest.mark.parametrize(
        ("exact", "seen", "verdict"),
        [(0.52, 0.51, HOLDS), (0.6, 0.7, FAILS), (0.6, 0.5, PARTLY), (0.55, 0.45, HOLDS)],
    )
    def test_d_by_distance_from_a_half(self, exact, seen, verdict):
        row = blank(AttackPoint, attribute="home", mechanism=RL, target=1.0, evaluated="test", balanced=exact)
        row = replace(row, recognised=exact, seen_balanced=seen, seen_recognised=seen)
        bare = replace(row, mechanism=NONE, target=None, balanced=0.9, recognised=0.9, seen_balanced=0.8)
        others = [replace(row, target=None, balanced=1.0), replace(row, mechanism="PL", balanced=1.0), bare]
        checks, claim = judged("d", attacks=[row, *others])
        assert len(checks) == 4
        assert claim.verdict == verdict
        assert "unprotected 0.900" in checks[0].figures
        assert "95 %" in checks[2].figures

    @pytest.mark.parametrize(
        ("needed", "verdict"), [((5, 20), HOLDS), ((5, 21), PARTLY), ((100, 21), FAILS), ((5, None), PARTLY)]
    )
    def test_e_by_exact_numbers(self, needed, verdict):
        rows = [
            blank(
                DummiesNeeded,
                attribute="home",
                mechanism=name,
                evaluated="train",
                target=1.0,
                exact=k,
                theorem3=None,
                searched=50,
            )
            for name, k in zip((RL, IDENTITY), needed, strict=True)
        ]
        rows += [replace(rows[0], target=0.5, exact=None), replace(rows[0], mechanism=DISTINCT, exact=None)]
        checks, claim = judged("e", dummies=rows)
        assert claim.verdict == verdict
        assert "more than 50 (Theorem 3)" in checks[0].figures

    @pytest.mark.parametrize(("held", "verdict"), [((10, 20), HOLDS), ((10, 500), PARTLY), ((500, 100), FAILS)])
    def test_f_by_bytes_held(self, held, verdict):
        rows = [
            blank(Cost, attribute="home", mechanism=name, bytes_held=size)
            for name, size in zip(("PL", RL, f"{RL} at 1"), (100, *held), strict=True)
        ]
        assert judged("f", costs_=rows)[1].verdict == verdict

    def test_every_claim_of_a_run_follows_from_its_own_checks(self, result):
        assert [one.claim for one in result.claims] == list("abcdef")
        for claim in result.claims:
            mine = [one for one in result.checks if one.claim == claim.claim]
            assert len({one.attribute for one in mine}) == 2
            good = sum(one.holds for one in mine)
            assert claim.verdict == (HOLDS if good == len(mine) else FAILS if good == 0 else PARTLY)


class TestRun:
    def test_every_number_stands_for_train_test_and_all(self, result):
        for rows in (result.curves, result.attacks, result.losses, result.calibrated, result.dummies):
            for attribute in ("home", "work"):
                assert {row.evaluated for row in rows if row.attribute == attribute} >= {"train", "test", "all"}
        assert {row.designed_on for row in result.calibrated if row.evaluated == "test"} == {"train"}
        assert {row.designed_on for row in result.calibrated if row.evaluated == "all"} == {"all"}
        assert {row.trained_on for row in result.attacks if row.evaluated == "test"} == {"train"}

    def test_progress_ends_where_it_said(self, regions, sample):
        told = []
        quick = replace(SETTINGS, targets=(1.0,), samples=100, reports=10, dummies_grid=(2,), distinct_grid=(2,))
        reproduce(
            [sample],
            regions,
            CITY,
            replace(quick, epsilon_grid=(1.0,), radius_grid=(1.0,)),
            lambda a, b: told.append((a, b)),
        )
        assert told[-1][0] == told[-1][1]
        assert [a for a, _ in told] == sorted({a for a, _ in told})
        assert len({b for _, b in told}) == 1

    def test_the_noise_floor_is_between_halves_and_below_what_is_there(self, result, sample):
        bare = {row.halves: row for row in result.noise if row.attribute == "home" and row.mechanism == NONE}
        for label, holds in (("halves with", True), ("halves without", False)):
            pair = sample.halves(holds, SETTINGS.seed)
            assert bare[label].balanced == pytest.approx((1 + np.abs(pair.p - pair.q).sum() / 2) / 2)
        known = [row.balanced for row in result.attacks if row.attribute == "home" and row.mechanism == NONE]
        assert max(row.balanced for row in bare.values()) < min(known)

    def test_the_same_seed_gives_the_same_bytes(self, result, regions, sample, tmp_path):
        # Alone, and with the same numbers as beside another attribute.
        again = reproduce([sample], regions, CITY, SETTINGS)
        result = replace(only(result, "home"), claims=again.claims)
        read = {CITY: ["a <file>: 3 rows"]}
        for name, one in (("one", result), ("two", again)):
            write_experiments(tmp_path / name, [one], read, "Again <i>")
        files = sorted(path.name for path in (tmp_path / "one").iterdir())
        assert files == sorted(path.name for path in (tmp_path / "two").iterdir())
        assert len(files) == len(TABLES) + 2 + 2 * 6
        for name in files:
            if name != "times.csv":
                assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
        self.check_files(tmp_path / "one", result)

    def test_simulations_follow_the_seed_and_the_attacker_learnt_from_train(self, result, regions, sample):
        made = parts.divide(sample, CITY, SETTINGS.seed)
        tuples = laplace_tuples(regions, 3, SETTINGS.base_epsilon, SETTINGS.radius)
        for part in ("train", "test"):
            (row,) = [
                r
                for r in result.curves
                if (r.attribute, r.curve, r.mechanism, r.dummies, r.evaluated) == ("home", "dummies", RL, 3, part)
            ]
            found = [
                sampled_epsilon(tuples, made.pairs[part], SETTINGS.delta, SETTINGS.samples, derived(seed, *words))
                for seed in (SETTINGS.seed, SETTINGS.seed + 1)
                for words in [("home", "dummies", RL, 3, part)]
            ]
            assert (row.quantile, row.empirical) == (found[0].quantile, found[0].empirical)
            assert found[0].empirical != found[1].empirical
        for part, trained in (("train", "train"), ("test", "train"), ("all", "all")):
            (hit,) = [
                r
                for r in result.attacks
                if (r.attribute, r.mechanism, r.target, r.dummies, r.evaluated) == ("home", RL, None, 3, part)
            ]
            seed = derived(SETTINGS.seed, "attack", "home", RL, 3, None, part)
            seen = guess(tuples, made.pairs[trained], made.samples[part], SETTINGS.reports, seed)
            assert (hit.seen_balanced, hit.seen_recognised) == (seen.balanced[0], seen.recognised[0])
            assert hit.trained_on == trained

    def check_files(self, folder, result):
        page = (folder / "index.html").read_text(encoding="utf-8")
        assert "<b>Nowhere</b>" not in page
        assert "&lt;b&gt;Nowhere&lt;/b&gt;" in page
        assert "a &lt;file&gt;: 3 rows" in page
        assert page.index("claims</h2>") < page.index("<img")
        assert not re.search(r"(src|href)=\"(https?:)?//", page)
        for name, (field, record) in TABLES.items():
            with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
                header, *rows = list(csv.reader(stream))
            assert tuple(header) == columns(record)
            stored = getattr(result, field)
            assert len(rows) == len(stored) > 0
            assert rows[-1] == ["" if value is None else str(value) for value in astuple(stored[-1])]

    def test_tables_hold_aggregates_only(self, result):
        forbidden = re.compile(r"^(lat|lon|user|person|region|cell|x|y)")
        for name, (field, record) in TABLES.items():
            assert [one for one in columns(record) if forbidden.search(one)] == [], name
            # No table grows with the people or the check-ins: none has a row for each of them.
            assert len(getattr(result, field)) < 1200
            for row in getattr(result, field):
                assert all(isinstance(value, (str, int, float, type(None))) for value in astuple(row))

    def test_several_cities_stand_on_one_page(self, result, tmp_path, monkeypatch):
        monkeypatch.setattr(experiments, "KINDS", experiments.KINDS[2:3])  # drawing takes most of the time
        two = [replace(result, city="Aqaba"), replace(result, city="Über")]
        page = write_experiments(tmp_path, two, {}, "Two")
        text = page.read_text(encoding="utf-8")
        assert "<h2>Aqaba</h2>" in text
        assert "<h2>Über</h2>" in text
        assert (tmp_path / "loss-aqaba.png").exists()
        assert (tmp_path / "loss-ber.svg").exists()
        with pytest.raises(ParameterError, match="same city"):
            write_experiments(tmp_path, [result, result], {}, "Two")
        with pytest.raises(ParameterError, match="no experiment"):
            write_experiments(tmp_path, [], {}, "None")
        (tmp_path / "file").write_text("")
        with pytest.raises(DataError, match="cannot make the folder"):
            write_experiments(tmp_path / "file", [result], {}, "No")

    def test_numbers_on_the_page(self):
        assert [number(v) for v in (None, math.inf, 12_345, 0.000123456)] == ["–", "∞", "12,345", "0.000123"]


def test_the_tables_side_by_side_are_what_the_committed_results_make():
    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    import experiments_table

    assert (experiments_table.HERE / "results.md").read_text() == experiments_table.results()


def test_nothing_committed_holds_coordinates_or_a_path():
    place = Path(__file__).parents[1] / "docs/experiments"
    tables = list(place.rglob("*.csv"))
    assert len(tables) > 40
    for path in tables:
        names = set(pl.read_csv(path, n_rows=1).columns)
        assert not names & {"lat", "lon", "user", "venue", "time", "report", "input"}, path
