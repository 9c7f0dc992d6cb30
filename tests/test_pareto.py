"""The Pareto front: every row keeps its promise, and exactly the unbeaten ones are called efficient."""

from __future__ import annotations

import csv
import importlib
import io
import itertools
import json
import math
import sys
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from distp import (
    Box,
    Bracket,
    Choice,
    Identity,
    Pair,
    Policy,
    Regions,
    RestrictedLaplace,
    Space,
    Tupling,
    attack_success,
    calibrate,
    delta,
    expected_loss,
    location_attack,
    optimal_tupling,
    pareto,
)
from distp.calibration import pareto as function
from distp.calibration.optimal_dummies import dummy_laws
from distp.calibration.pareto import DISTINCT, GAP, KINDS, LAPLACE, OPTIMAL, OPTIMAL_DUMMIES, TRUE, undominated
from distp.cli import pareto as front
from distp.cli.main import main
from distp.errors import DistributionError, InfeasibleError, ParameterError
from distp.report import figures

LINE = Space(np.arange(8.0))
EPSILONS, DUMMIES, DELTA = (0.3, 1.0), (0, 3, 7, 14), 0.01


def laws(seed: int, size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    p, q = np.random.default_rng(seed).dirichlet(np.full(size, 1.5), size=2)
    return p, q


P, Q = laws(3)
PAIRS = [Pair("a", P, Q), Pair("b", *laws(4))]
LAW = np.mean([law for pair in PAIRS for law in (pair.p, pair.q)], axis=0)


@pytest.fixture(scope="module")
def rows() -> list[Choice]:
    return pareto(PAIRS, LINE, EPSILONS, DELTA, DUMMIES)


def worst_delta(mechanism: Tupling, epsilon: float) -> float:
    return max(delta(mechanism, pair.p, pair.q, epsilon).upper for pair in PAIRS)


# --- dominance -------------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(arrays(np.int64, st.tuples(st.integers(1, 12), st.just(4)), elements=st.integers(0, 3)), st.randoms())
def test_undominated_is_what_comparing_every_two_rows_says(costs, shuffle):
    expected = []
    for i, mine in enumerate(costs.tolist()):
        others = [other for j, other in enumerate(costs.tolist()) if j != i]
        beaten = False
        for other in others:
            if all(b <= a for a, b in zip(mine, other, strict=True)) and other != mine:
                beaten = True
        expected.append(not beaten)
    found = undominated(costs)
    assert found.tolist() == expected
    assert found.any()
    order = list(range(len(costs)))
    shuffle.shuffle(order)
    assert undominated(costs[order]).tolist() == found[order].tolist()


def test_rows_are_efficient_by_all_four_and_by_the_cautious_end_of_the_location_error(rows):
    for row in rows:
        beaten = any(
            other.dummies <= row.dummies
            and other.loss <= row.loss
            and other.epsilon <= row.epsilon
            and other.location_error.lower >= row.location_error.lower
            and (
                other.dummies < row.dummies
                or other.loss < row.loss
                or other.epsilon < row.epsilon
                or other.location_error.lower > row.location_error.lower
            )
            for other in rows
        )
        assert row.efficient is not beaten
    assert 0 < sum(row.efficient for row in rows) < len(rows)


# --- rows ------------------------------------------------------------------------------------------------------


def test_every_kind_is_there_in_order_and_says_what_it_was_asked_for(rows):
    assert {row.mechanism for row in rows} == set(KINDS)
    assert all(isinstance(row, Choice) for row in rows)
    order = [(row.epsilon, row.dummies, KINDS.index(row.mechanism)) for row in rows]
    assert order == sorted(order)
    assert {row.epsilon for row in rows} == set(EPSILONS)
    assert {row.dummies for row in rows} == set(DUMMIES)
    assert {row.delta for row in rows} == {DELTA}
    assert all(row.realised.upper <= DELTA for row in rows)
    assert function is pareto


def test_true_regions_are_listed_exactly_where_they_meet_the_target(rows):
    listed = {(row.mechanism, row.epsilon, row.dummies): row for row in rows}
    for epsilon, k in itertools.product(EPSILONS, DUMMIES):
        for kind, distinct in ((TRUE, False), (DISTINCT, True)):
            if distinct and not 0 < k < 8:
                assert (kind, epsilon, k) not in listed
                continue
            mechanism = Tupling(Identity(LINE), k, replacement=not distinct)
            assert ((kind, epsilon, k) in listed) == (worst_delta(mechanism, epsilon) <= DELTA)
            if (kind, epsilon, k) in listed:
                checked(listed[kind, epsilon, k], mechanism)
        open_still = worst_delta(Tupling(Identity(LINE), k), epsilon) > DELTA
        assert ((OPTIMAL, epsilon, k) in listed) == open_still
        assert ((OPTIMAL_DUMMIES, epsilon, k) in listed) == (k > 0)


def checked(row: Choice, mechanism: Tupling) -> None:
    """Hold a row against its mechanism, made anew."""
    place = location_attack(mechanism, LAW)
    assert row.loss == pytest.approx(expected_loss(mechanism, LAW), rel=1e-9, abs=1e-12)
    assert row.realised.upper == pytest.approx(worst_delta(mechanism, row.epsilon), rel=1e-6)
    assert row.location_error.lower == pytest.approx(place.error.lower, rel=1e-6)
    assert row.location_error.upper == pytest.approx(place.error.upper, rel=1e-6)
    assert row.location_success.upper == pytest.approx(place.success.upper, rel=1e-6)
    assert row.blind_error.lower == pytest.approx(place.blind_error.lower, rel=1e-9)
    success = max(attack_success(mechanism, pair.p, pair.q).balanced.upper for pair in PAIRS)
    assert row.attack_success.upper == pytest.approx(success, rel=1e-6)


def test_optimal_rows_are_what_their_words_say(rows):
    tables = dummy_laws(PAIRS, Identity(LINE))
    optimal = [row for row in rows if row.mechanism in (OPTIMAL, OPTIMAL_DUMMIES)]
    chosen = [row for row in optimal if (row.epsilon, row.dummies) in ((0.3, 7), (1.0, 3))]
    assert {row.parameter.split()[0] for row in chosen} == {"uniform", "mixture", "difference"}
    for row in chosen:
        name = row.parameter.split()[0]
        assert (name == "uniform") == (row.mechanism == OPTIMAL)
        found = optimal_tupling(
            PAIRS,
            LINE,
            row.dummies,
            epsilon=row.epsilon,
            delta=DELTA,
            gap=GAP,
            dummy_distribution=tables[name],
        )
        checked(row, found.mechanism)
        assert row.parameter.endswith("no loss" if found.loss == 0 else f"within {found.gap:.1%} of the least loss")


def test_restricted_laplace_rows_are_what_their_words_say(rows):
    for row in (row for row in rows if row.mechanism == LAPLACE):
        words = row.parameter.split()
        assert (words[:2], words[-3]) == (["ε_A", "="], "r")
        base = RestrictedLaplace(LINE, float(words[2]), float(words[-1]))
        assert row.loss == pytest.approx(expected_loss(Tupling(base, row.dummies), LAW), rel=0.03)


def test_the_optimal_base_loses_no_more_than_the_restricted_laplace(rows):
    losses = {(row.mechanism, row.epsilon, row.dummies): row.loss for row in rows}
    compared = [key for key in losses if key[0] == LAPLACE]
    assert len(compared) >= 3
    for _, epsilon, k in compared:
        assert losses[OPTIMAL, epsilon, k] <= losses[LAPLACE, epsilon, k] / (1 - GAP)


def test_loss_falls_with_dummies_and_with_epsilon_for_every_kind(rows):
    least: dict[tuple[str, float, int], float] = defaultdict(lambda: math.inf)
    for row in rows:
        key = (f"{row.mechanism} {row.parameter.split()[0]}", row.epsilon, row.dummies)
        least[key] = min(least[key], row.loss)
    seen = 0
    for (one, e, k), (other, e2, k2) in itertools.permutations(list(least), 2):
        if one.split("ε")[0] == other.split("ε")[0] and e <= e2 and k <= k2:
            assert least[other, e2, k2] <= least[one, e, k] / (1 - GAP) + 1e-12
            seen += 1
    assert seen > 20


def test_names_of_places_and_the_order_of_both_laws_change_nothing(rows):
    order = np.random.default_rng(1).permutation(8)
    renamed = [Pair(pair.name, pair.q[order], pair.p[order]) for pair in reversed(PAIRS)]
    again = pareto(renamed, Space(np.arange(8.0)[order]), [1.0], DELTA, [7])
    before = [row for row in rows if row.epsilon == 1 and row.dummies == 7]
    assert [(row.mechanism, row.dummies) for row in again] == [(row.mechanism, row.dummies) for row in before]
    for one, other in zip(before, again, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=2 * GAP, abs=1e-9)
        assert other.blind_error.lower == pytest.approx(one.blind_error.lower)
        if one.mechanism in (TRUE, DISTINCT):
            assert other.realised.upper == pytest.approx(one.realised.upper, rel=1e-3)
            width = one.location_error.width + other.location_error.width
            assert other.location_error.lower == pytest.approx(one.location_error.lower, rel=1e-6, abs=width)


def test_a_prior_of_ones_own_is_that_of_the_loss_and_of_the_attacker():
    prior = np.array([1, 0, 0, 0, 0, 0, 1, 8]) / 10
    rows = pareto(PAIRS[:1], LINE, [0.3], DELTA, [2, 40], prior=prior)
    kept = {(row.mechanism, row.dummies): row for row in rows}
    place = location_attack(Tupling(Identity(LINE), 40), prior)
    assert (kept[TRUE, 40].location_error, kept[TRUE, 40].blind_error) == (place.error, place.blind_error)
    target = {"epsilon": 0.3, "delta": DELTA, "prior": prior}
    best = optimal_tupling(PAIRS[:1], LINE, 2, **target, gap=GAP)
    known = calibrate(PAIRS[:1], None, LINE, **target, max_dummies=2)
    assert 0 < best.loss == pytest.approx(kept[OPTIMAL, 2].loss, rel=1e-6)
    assert 0 < known.certificate.loss == pytest.approx(kept[LAPLACE, 2].loss, rel=1e-6)
    for name, mechanism in ((OPTIMAL, best.mechanism), (LAPLACE, known.mechanism)):
        found = delta(mechanism, P, Q, 0.3).upper
        assert DELTA >= found == pytest.approx(kept[name, 2].realised.upper, rel=1e-6)


def test_a_wide_bracket_of_the_location_error_counts_by_its_lower_end(monkeypatch):
    def told(mechanism, prior):
        k = mechanism.dummies
        found = location_attack(mechanism, prior)
        return replace(found, error=Bracket(1.0 - 0.1 * k, 1.0 + 0.1 * k))

    monkeypatch.setattr(importlib.import_module("distp.calibration.pareto"), "location_attack", told)
    rows = pareto([Pair("same", P, P)], LINE, [1.0], 0.1, [0, 2, 4])
    assert {row.dummies for row in rows if row.efficient} == {0}


def test_at_delta_0_the_optimal_kinds_are_left_out_and_an_unmet_target_is_said():
    same = [Pair("same", P, P)]
    kinds = {row.mechanism for row in pareto(same, LINE, [0.0], 0.0, [0, 2])}
    assert kinds == {TRUE, DISTINCT}
    point = [Pair("points", np.eye(8)[0], np.eye(8)[7])]
    with pytest.raises(InfeasibleError, match="was found to meet delta=0: ask for a larger delta"):
        pareto(point, LINE, [0.5], 0.0, [2])


def test_progress_reaches_its_end_and_bad_arguments_are_named():
    calls: list[tuple[int, int]] = []
    pareto(PAIRS[:1], LINE, [1, 1, 2], 0.3, [2, 2], progress=lambda done, most: calls.append((done, most)))
    assert calls == [(i + 1, 10) for i in range(10)]
    good = {"pairs": PAIRS, "space": LINE, "epsilons": [1], "delta": 0.1, "dummies": [1]}
    for name, bad, match in (
        ("epsilons", [-1], "epsilon"),
        ("epsilons", [], "at least one"),
        ("delta", 2, "delta"),
        ("dummies", [1.5], "dummies"),
        ("dummies", [], "at least one"),
    ):
        with pytest.raises(ParameterError, match=match):
            pareto(**{**good, name: bad})
    with pytest.raises(DistributionError, match="list of Pair"):
        pareto(**{**good, "pairs": []})
    with pytest.raises(DistributionError, match="prior"):
        pareto(**good, prior=[1.0])


# --- figure and command ----------------------------------------------------------------------------------------


def test_the_figure_has_a_column_for_each_of_at_most_four_epsilons(rows):
    assert set(figures.KINDS) == set(KINDS)
    figure = figures.pareto_figure(rows)
    assert [ax.get_title() for ax in figure.axes] == ["ε = 0.3", "ε = 1", "", ""]
    for ax, epsilon in zip(figure.axes[2:], EPSILONS, strict=True):
        mine = [row for row in rows if row.epsilon == epsilon]
        drawn = [line for line in ax.lines if line.get_marker() not in ("None", None, "")]
        points = sorted((float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in drawn)
        assert points == sorted((row.loss, row.location_error.lower) for row in mine)
        filled = [line for line in drawn if line.get_markerfacecolor() != "white"]
        assert len(filled) == sum(row.efficient for row in mine)
        texts = sorted(text.get_text() for text in ax.texts if text.get_text().isdigit())
        assert texts == sorted(str(row.dummies) for row in mine if row.efficient)
    many = [replace(row, epsilon=row.epsilon + i) for i in range(3) for row in rows]
    titles = [ax.get_title() for ax in figures.pareto_figure(many).axes[:4]]
    assert (titles[0], titles[-1], len(set(titles))) == ("ε = 0.3", "ε = 3", 4)
    lossless = [row for row in rows if row.loss == 0]
    figures.pareto_figure(lossless).savefig(io.BytesIO())
    alone = pareto([Pair("one place", np.ones(1), np.ones(1))], Space([0.0]), [1], 0.1, [1])
    figures.pareto_figure(alone).savefig(io.BytesIO())


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with a small policy: 9 inputs, 25 outputs."""
    folder = tmp_path_factory.mktemp("front")
    regions = Regions.grid(Box.around(40.75, -73.97, 5, 5), 1.0, ring_km=1.0)
    assert (len(regions), len(regions.inputs)) == (25, 9)
    p, q = laws(5, 9)
    mechanism = Tupling(RestrictedLaplace(regions.inputs, 1.0, 2.0, regions), 4)
    made = Policy.create(mechanism, regions, [Pair("a", p, q)], epsilon=0.7, delta=0.05, prior=(p + q) / 2)
    made.save(folder / "small.policy")
    return folder


@pytest.fixture
def distp(place, monkeypatch, capsys):
    """Return a function that runs the command line in that folder, as the installed script does."""

    def run(*words: str, code: int = 0):
        monkeypatch.chdir(place)
        monkeypatch.setattr(sys, "argv", ["distp", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        said = capsys.readouterr()
        assert stop.value.code == code, said
        return said

    return run


WORDS = ("compare", "--policy", "small.policy", "--pareto")
FEW = (*WORDS, "--epsilon", "0.5", "--epsilon", "1", "--dummies", "2", "--dummies", "6")


def test_the_command_shows_the_efficient_rows_and_writes_all(distp, place):
    said = distp(*FEW, "--out", "front/deep")
    with (place / "front/deep/pareto.csv").open(newline="") as stream:
        table = list(csv.DictReader(stream))
    assert (place / "front/deep/pareto.png").read_bytes().startswith(b"\x89PNG")
    efficient = [row for row in table if row["efficient"] == "true"]
    assert {row["efficient"] for row in table} == {"true", "false"}
    assert all(float(row["delta_realised_upper"]) <= 0.05 == float(row["delta"]) for row in table)
    lines = said.out.splitlines()
    assert len(lines) == 1 + len(efficient) + 4
    for line, row in zip(lines[1:], efficient, strict=False):
        assert line.split()[:2] == [f"{float(row['epsilon']):g}", row["dummies"]]
        assert row["mechanism"] in line
        assert row["parameter"] in line
        loss, error = map(float, line.split(row["mechanism"])[1].split()[:2])
        assert loss == pytest.approx(float(row["loss_km"]), abs=0.00051)
        assert 0 <= float(row["location_error_lower_km"]) - error < 0.01
    assert f"{len(table) - len(efficient)} more" in said.out
    assert said.err == ""
    both = json.loads(distp(*FEW, "--json").out)
    assert [row["mechanism"] for row in both] == [row["mechanism"] for row in table]
    for one, other in zip(both, table, strict=True):
        assert one["loss"] == float(other["loss_km"])
        assert one["location_error"] == {
            "lower": float(other["location_error_lower_km"]),
            "upper": float(other["location_error_upper_km"]),
        }
        assert one["location_success"]["upper"] == float(other["location_success_upper"])
        assert one["attack_success"]["upper"] == float(other["attack_success_upper"])
        assert str(one["efficient"]).lower() == other["efficient"]


def test_the_policys_own_numbers_are_among_the_defaults(distp, monkeypatch):
    assert (front.EPSILONS, front.DUMMIES) == ((0.2, 0.5, 1.0, 2.0), (2, 5, 10, 20, 50))
    monkeypatch.setattr(front, "EPSILONS", (2.0,))
    monkeypatch.setattr(front, "DUMMIES", (2,))
    rows = json.loads(distp(*WORDS, "--json").out)
    assert {row["epsilon"] for row in rows} == {0.7, 2.0}
    assert {row["dummies"] for row in rows} == {2, 4}
    assert {row["delta"] for row in rows} == {0.05}


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["compare", "--dummies", "3"], "--dummies goes with --pareto"),
        ([*WORDS, "--max-dummies", "3"], "--max-dummies does not go with --pareto"),
        ([*WORDS, "--dummies", "-1"], "dummies must be"),
        ([*WORDS, "--dummies", "10001"], "dummies must be at most 10,000"),
        ([*WORDS, "--dummies", "two"], "--dummies"),
        ([*WORDS, "--epsilon", "-1"], "epsilon"),
        ([*WORDS, "--delta", "2"], "delta"),
        ([*WORDS, "--out", "small.policy"], "it is a file"),
        ([*WORDS, "--delta", "0", "--epsilon", "0.5", "--dummies", "2"], "larger delta"),
    ],
    ids=lambda value: "-".join(value)[-40:] if isinstance(value, list) else None,
)
def test_wrong_input_is_one_line_and_exit_code_2_and_leaves_nothing(distp, place, words, match):
    before = sorted(place.rglob("*"))
    said = distp(*words, code=2)
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert match in said.err
    assert sorted(place.rglob("*")) == before
