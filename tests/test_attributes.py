"""Presets, what is inferred of people, and samples: each rule against a plain count of its own."""

from __future__ import annotations

import collections
import statistics
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distp import Box, Pair, Regions
from distp.data import Sample, attribute_sample, evaluate, read_check_ins
from distp.data.attributes import columns_of
from distp.data.formats import ALIASES, FORMATS, GENERIC
from distp.data.people import RULES, with_people
from distp.data.presets import PRESETS, resolve
from distp.distributions import Support
from distp.errors import DataError, DistributionError, ParameterError

HOME, WORK, PUB = (40.7501, -73.9701), (40.7701, -73.9501), (40.7301, -73.9901)


def visits(tmp_path, rows, extra="", names=""):
    text = f"who,lat,lon,when{names}\n"
    for who, (lat, lon), when, *more in rows:
        text += ",".join(map(str, (who, lat, lon, when, *more))) + extra + "\n"
    path = tmp_path / "visits.csv"
    path.write_text(text)
    return read_check_ins(path, user="who", time="when")


def people(tmp_path):
    rows = [("ann", HOME, f"2012-04-0{day} 23:30:00") for day in (2, 3, 4)]
    rows += [("ann", WORK, f"2012-04-0{day} 11:00:00") for day in (2, 3, 4, 5)]
    rows += [("ann", HOME, f"2012-04-0{day} 12:00:00") for day in (2, 3, 4, 5, 6, 9)]  # at home by day: not her work
    rows += [("ann", PUB, "2012-04-07 21:00:00"), ("ann", PUB, "2012-06-07 21:00:00")]
    rows += [("bob", PUB, "2012-04-02 20:00:00"), ("bob", PUB, "2012-04-03 05:59:00")]
    rows += [("bob", WORK, "2012-04-07 11:00:00"), ("bob", WORK, "2012-04-08 11:00:00")]  # a weekend is no work
    rows += [("cyd", WORK, "2012-04-02 23:00:00")]  # one night says nothing
    return visits(tmp_path, rows)


def test_home_is_the_most_frequent_night_cell_and_work_the_most_frequent_other_one(tmp_path):
    found = people(tmp_path)
    frame = with_people(found, set(RULES))
    each = {row["who"]: row for row in frame.unique("who").iter_rows(named=True)}
    assert abs(each["ann"]["home_lat"] - HOME[0]) < 0.005
    assert abs(each["ann"]["home_lon"] - HOME[1]) < 0.005
    assert abs(each["ann"]["work_lat"] - WORK[0]) < 0.005
    assert abs(each["bob"]["home_lat"] - PUB[0]) < 0.005
    assert each["bob"]["work_lat"] is None
    assert each["cyd"]["home_lat"] is None
    assert (each["ann"]["days_here"], each["bob"]["days_here"], each["cyd"]["days_here"]) == (66, 6, 0)
    ann = frame.filter(pl.col("who") == "ann")
    assert (ann["at_home"].sum(), ann["at_work"].sum()) == (9, 4)
    assert frame.filter(pl.col("who") == "cyd")["at_home"].to_list() == [None]


def test_the_cells_of_people_do_not_depend_on_the_file(tmp_path):
    found = people(tmp_path)
    ann = found.frame.filter(pl.col("who") == "ann")
    path = tmp_path / "ann.csv"
    ann.drop("hour", "weekday", "date").write_csv(path)
    alone = with_people(read_check_ins(path, user="who", time="when"), {"home_lat"})
    assert set(alone["home_lat"]) == set(with_people(found, {"home_lat"}).filter(pl.col("who") == "ann")["home_lat"])


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_a_rule_in_words_and_needs_what_it_names(preset):
    rule = PRESETS[preset]
    assert len(rule.rule) > 15
    assert columns_of(preset) == {rule.needs, preset}  # a column of the preset's own name may be the condition
    assert rule.needs in rule.condition


def test_presets_mean_what_they_say(tmp_path):
    rows = [
        ("a", HOME, "2012-04-02 11:59:59", "Home (private)", "male", 1, 5, "member"),
        ("a", PUB, "2012-04-07 12:00:00", "Bar", "male", 1, 5, "casual"),
        ("b", WORK, "2012-04-06 00:00:00", "Office", "female", 3, 4, "member"),
        ("c", WORK, "2012-04-08 23:59:59", "Office", "", 9, 3, ""),
    ]
    found = visits(tmp_path, rows, names=",category,gender,friends,followers,user_type")
    truth = {
        "home": [True, False, False, False],
        "workplace": [False, False, True, True],
        "gender": [True, True, False, None],
        "morning": [True, False, True, False],
        "weekday": [True, False, True, False],
        "social": [False, False, False, True],  # the median person has 3 friends
        "followed": [True, True, False, False],
        "member": [True, False, True, None],
        "resident": [False, False, False, False],
    }
    for preset, right in truth.items():
        assert evaluate(found, resolve(found, preset)).to_list() == right, preset
    assert resolve(found, "social") == "friends > 3"  # the number is in the rule: it holds for other data as it is
    assert resolve(found, "kind = 'x'") == "kind = 'x'"


def test_north_is_north_of_the_median_home(tmp_path):
    rows = []
    for number in range(7):
        place = (40.70 + 0.02 * number, -73.97)
        rows += [(f"p{number}", place, f"2012-04-0{day} 23:00:00") for day in (2, 3)]
        rows += [(f"p{number}", PUB, "2012-04-04 13:00:00")]
    found = visits(tmp_path, rows)
    condition = resolve(found, "north")
    median = float(condition.removeprefix("home_lat > "))
    homes = with_people(found, {"home_lat"}).unique("who")["home_lat"].to_list()
    assert median == pytest.approx(statistics.median(homes), abs=1e-6)
    holds = evaluate(found, condition)
    assert found.frame.filter(holds)["who"].unique().sort().to_list() == ["p4", "p5", "p6"]


@pytest.mark.parametrize(
    ("attribute", "match"),
    [
        ("gender", "needs a column 'gender'"),
        ("north", "with --user"),
        ("resident", "with --user"),
        ("at-home", "with --user"),
        ("hour < 12", "with --time"),
        ("at_home", "with --user"),
    ],
)
def test_what_a_preset_lacks_is_said(tmp_path, attribute, match):
    path = tmp_path / "a.csv"
    path.write_text("lat,lon,who,when\n40.75,-73.97,a,2012-04-02 23:00:00\n")
    found = read_check_ins(path)
    with pytest.raises(DataError, match=match):
        evaluate(found, resolve(found, attribute))
    named = read_check_ins(path, user="who")
    if attribute in ("north", "resident"):
        with pytest.raises(DataError, match="--time"):
            resolve(named, attribute)


def sample(seed, weight="check-ins", people_too=True):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 200))
    users = rng.integers(0, 12, n) if people_too else None
    holds = rng.random(n) < 0.4
    holds[:2] = [True, False]
    return Sample("x", 6, rng.integers(0, 6, n), holds, users, weight)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_weights_by_check_ins_and_by_users_against_a_plain_count(seed):
    one = sample(seed)
    pair = one.pair()
    for law, support, member in ((pair.p, pair.support_p, one.holds), (pair.q, pair.support_q, ~one.holds)):
        counts = collections.Counter(one.inputs[member].tolist())
        assert support.counts == tuple(counts[i] for i in range(6))
        assert law.tolist() == pytest.approx([counts[i] / member.sum() for i in range(6)])
        assert (support.records, support.people) == (member.sum(), len(set(one.users[member].tolist())))
    by_user = sample(seed, "users").pair()
    each = collections.defaultdict(list)
    for user, place, holds in zip(one.users.tolist(), one.inputs.tolist(), one.holds.tolist(), strict=True):
        if holds:
            each[user].append(place)
    right = np.zeros(6)
    for places in each.values():
        for place in places:
            right[place] += 1 / len(places) / len(each)
    assert by_user.p.tolist() == pytest.approx(right.tolist())
    assert by_user.support_p == pair.support_p  # the counts are kept, whatever the weight


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_a_split_parts_people_and_halves_are_of_one_class(seed, named):
    one = sample(seed, people_too=named)
    first, second = one.split(seed)
    assert len(first) + len(second) == len(one)
    if named:
        assert not set(first.users.tolist()) & set(second.users.tolist())
        assert abs(len(set(first.users.tolist())) - len(set(second.users.tolist()))) <= 1
    assert first.inputs.tolist() == one.split(seed)[0].inputs.tolist()
    if named and len(set(one.users[one.holds].tolist())) < 2:
        return
    for holds in (True, False):
        if (one.holds == holds).sum() < 2 or (named and len(set(one.users[one.holds == holds].tolist())) < 2):
            continue
        halves = one.halves(holds, seed)
        together = np.array(halves.support_p.counts) + halves.support_q.counts
        assert together.tolist() == np.bincount(one.inputs[one.holds == holds], minlength=6).tolist()
        if named:
            assert abs(halves.support_p.people - halves.support_q.people) <= 1


def test_smoothing_only_when_asked_for():
    one = Sample("x", 3, np.array([0, 0, 1]), np.array([True, True, False]))
    assert one.pair().p.tolist() == [1, 0, 0]
    assert one.pair(0.5).p.tolist() == pytest.approx([2.5 / 3.5, 0.5 / 3.5, 0.5 / 3.5])
    assert one.pair(0.5).support_p == Support(2, None, (2, 0, 0))


def test_what_is_wrong_with_a_sample_is_named():
    inputs, holds = np.array([0, 1]), np.array([True, True])
    with pytest.raises(ParameterError, match="weight must be one of"):
        Sample("x", 2, inputs, holds, None, "people")
    with pytest.raises(DataError, match="--user"):
        Sample("x", 2, inputs, holds, None, "users")
    with pytest.raises(DataError, match="no check-in without"):
        Sample("x", 2, inputs, holds).pair()
    with pytest.raises(ParameterError, match="smoothing"):
        Sample("x", 2, inputs, holds).pair(-1)
    with pytest.raises(DistributionError, match="counts sum to 3"):
        Support(2, None, (1, 2))
    with pytest.raises(DistributionError, match="3 counts of 'x', but 2 inputs"):
        Pair("x", [0.5, 0.5], [1, 0], Support(2, None, (1, 1, 0)))


def test_counts_by_users_reach_a_sample_from_a_file(tmp_path):
    found = people(tmp_path)
    regions = Regions.quadtree(
        found.lat, found.lon, box=Box.around(40.75, -73.97, 8, 8), cell_km=2, regions=16, ring_km=0
    )
    one, _ = attribute_sample(found, regions, "night: hour >= 20 OR hour < 6", weight="users")
    assert one.pair().support_p.people == 3
    assert one.pair().p.sum() == pytest.approx(1)
    # Ann's five nights weigh as much as the one of Cyd.
    where = regions.locate_inputs(*WORK)[0]
    assert one.pair().p[where] == pytest.approx(1 / 3)


def test_the_page_about_data_names_every_preset_format_and_column():
    page = (Path(__file__).parents[1] / "docs/data.md").read_text()
    for preset in PRESETS.values():
        condition = preset.condition.format(median="m")
        assert f"| `{preset.name}` |" in page
        assert f"| `{condition}` |" in page
    for name in (*FORMATS, *ALIASES, *GENERIC, *RULES):
        assert f"`{name}`" in page, name
