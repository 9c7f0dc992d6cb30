"""Readers and attributes: every row is used or counted, nothing is guessed."""

from __future__ import annotations

import gzip

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from distp import Box, Regions
from distp.data import attribute_sample, evaluate, load_example, read_check_ins
from distp.data.attributes import split_name
from distp.errors import DataError, DistpError
from helpers import shared

CLEAN = """user,lat,lon,when,kind
1,40.7501,-73.9701,2012-04-03 18:00:06,home
1,40.7601,-73.9801,2012-04-04 09:30:00,work
2,40.7502,-73.9702,2012-04-07 23:59:59,home
3,40.7402,-73.9602,2012-04-08 00:00:00,other
"""
DIRTY = """user,lat,lon,when,kind
1,40.7501,-73.9701,2012-04-03 18:00:06,home
1,,-73.9801,2012-04-04 09:30:00,work
2,abc,-73.9702,2012-04-07 23:59:59,home
3,95.0,-73.9602,2012-04-08 00:00:00,other
3,0,0,2012-04-08 00:00:00,other
3,nan,-73.9602,2012-04-08 00:00:00,other
,40.7402,-73.9602,2012-04-08 00:00:00,other
3,40.7402,-73.9602,yesterday,other
3,40.7402,-73.9602,2012-04-08 12:00:00,
"""


def write(tmp_path, name: str, text: str):
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    elif name.endswith(".parquet"):
        pl.read_csv(text.encode()).write_parquet(path)
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.tsv", "a.tsv.gz"])
def test_every_format_gives_the_same_check_ins(tmp_path, name):
    text = CLEAN.replace(",", "\t") if "tsv" in name else CLEAN
    found = read_check_ins(write(tmp_path, name, text), lat="lat", lon="lon", user="user", time="when")
    assert found.rows == 4
    assert found.set_aside == ()
    assert found.lat.tolist() == [40.7501, 40.7601, 40.7502, 40.7402]
    assert found.frame["hour"].to_list() == [18, 9, 23, 0]
    assert found.frame["weekday"].to_list() == [2, 3, 6, 7]
    assert found.row_numbers.tolist() == [1, 2, 3, 4]


def test_dirt_is_counted_by_kind_with_its_rows(tmp_path):
    path = write(tmp_path, "a.csv", DIRTY)
    found = read_check_ins(path, lat="lat", lon="lon", user="user", time="when", max_bad=1.0)
    kinds = {kind.reason: kind.first for kind in found.set_aside}
    assert kinds == {
        "latitude or longitude missing": (2,),
        "latitude or longitude not a finite number": (3, 6),
        "latitude beyond 90 or longitude beyond 180 degrees": (4,),
        "latitude and longitude both exactly 0": (5,),
        "no user": (7,),
        "when not a date and time": (8,),
    }
    assert found.frame.height + sum(kind.rows for kind in found.set_aside) == found.rows == 9
    assert found.row_numbers.tolist() == [1, 9]


def test_too_much_dirt_stops_with_the_counts(tmp_path):
    with pytest.raises(DataError, match=r"77\.78% .*missing"):
        read_check_ins(write(tmp_path, "a.csv", DIRTY), lat="lat", lon="lon", user="user", time="when")


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("a.csv", "lat,lng\n1,2\n", "no column 'lon'; its columns are: lat, lng"),
        ("a.csv", "lat,lon\n", "no rows"),
        ("a.csv", "lat,lon\nx,y\n", "no usable row"),
        ("a.csv", "", "has no rows"),
        ("a.xls", "x", "name the --format"),
        ("a.pq", "lat,lon\n1,2\n", "damaged, or not Parquet"),
        ("a.geojson", "{", "damaged, or not JSON"),
        ("a.geojson", '{"type": "Feature"}', "neither a GeoJSON"),
        ("a.csv", "lat,lat,lon\n1,2,3\n", "two columns named 'lat'"),
    ],
)
def test_unreadable_files_are_one_clear_error(tmp_path, name, text, match):
    with pytest.raises(DataError, match=match):
        read_check_ins(write(tmp_path, name, text), lat="lat", lon="lon")


def test_missing_and_broken_files_are_one_clear_error(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        read_check_ins(tmp_path / "none.csv", lat="lat", lon="lon")
    for name in ("a.parquet", "a.csv.gz"):
        path = tmp_path / name
        path.write_bytes(b"\x1f\x8bnot what it says")
        with pytest.raises(DataError, match="cannot read"):
            read_check_ins(path, lat="lat", lon="lon")


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_give_rows_or_a_counted_rejection(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "a.csv"
    path.write_bytes(b"lat,lon\n40.7,-73.9\n" + content)
    try:
        found = read_check_ins(path, lat="lat", lon="lon", max_bad=1.0)
    except DataError:
        return
    assert found.frame.height + sum(kind.rows for kind in found.set_aside) == found.rows


def read(tmp_path, text=CLEAN, **more):
    return read_check_ins(write(tmp_path, "a.csv", text), lat="lat", lon="lon", time="when", max_bad=1.0, **more)


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("kind == 'home'", [True, False, True, False]),
        ("kind = 'home' AND hour >= 20", [False, False, True, False]),
        ("hour < 12", [False, True, False, True]),
        ("weekday > 5", [False, False, True, True]),
        ("kind IN ('work', 'other')", [False, True, False, True]),
    ],
)
def test_conditions_are_sql_on_the_columns(tmp_path, condition, rows):
    assert evaluate(read(tmp_path), condition).to_list() == rows


@pytest.mark.parametrize(
    "condition",
    ["kind", "COUNT(*) > 1", "nothing == 1", "kind ==", "", "read_csv('x')", "(SELECT 1)", "hour + 1"],
)
def test_what_is_not_a_condition_is_refused(tmp_path, condition):
    with pytest.raises(DataError, match="attribute"):
        evaluate(read(tmp_path), condition)


def test_a_pair_counts_what_lies_in_the_regions(tmp_path):
    check_ins = read(
        tmp_path,
        CLEAN + "4,41.9,-73.9,2012-04-08 00:00:00,home\n4,40.75,-73.97,2012-04-08 00:00:00,\n",
        user="user",
    )
    regions = Regions.quadtree(check_ins.lat, check_ins.lon, box=Box.around(40.75, -73.97, 6, 6), regions=36)
    sample, aside = attribute_sample(check_ins, regions, "home: kind == 'home'")
    pair = sample.pair()
    assert pair.name == "home"
    assert (pair.support_p.records, pair.support_p.people) == (2, 2)
    assert (pair.support_q.records, pair.support_q.people) == (2, 2)
    assert [(kind.reason, kind.first) for kind in aside] == [
        ("attribute 'home' unknown", (6,)),
        ("outside the input regions", (5,)),
    ]
    where = regions.locate([40.7501, 40.7502], [-73.9701, -73.9702])
    assert pair.p[where[0]] == 1.0
    near, _ = attribute_sample(check_ins, regions, "home: kind == 'home'", nearest=True)
    assert near.pair().support_p.records == 3


def test_an_absent_class_is_an_error_that_counts(tmp_path):
    check_ins = read(tmp_path)
    regions = Regions.quadtree(check_ins.lat, check_ins.lon, box=Box.around(40.75, -73.97, 6, 6), regions=36)
    with pytest.raises(DataError, match=r"no check-in with .*0 of 4 rows"):
        attribute_sample(check_ins, regions, "kind == 'nowhere'")
    with pytest.raises(DataError, match="no check-in without"):
        attribute_sample(check_ins, regions, "hour >= 0")


def test_names_of_attributes():
    assert split_name("late night: hour > 22") == ("late night", "hour > 22")
    assert split_name("time = '12:30: x'") == ("time = '12:30: x'", "time = '12:30: x'")


def test_embedded_example_is_what_its_script_makes():
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
    import build_example

    lots = shared("councilcount_manhattan_lots/manhattan_lots_2023.csv.gz")
    rebuilt = build_example.build(str(lots))
    assert rebuilt.equals(pl.read_csv(build_example.TARGET))


def test_embedded_example_covers_the_island():
    example = load_example()
    regions = example.regions()
    pair = example.pair(regions)
    assert (len(regions), len(regions.inputs)) == (399, 335)
    assert pair.support_p.records + pair.support_q.records > 0.99 * (example.residential.sum() + example.other.sum())
    assert 0.3 < np.abs(pair.p - pair.q).sum() / 2 < 0.5
    assert 1_600_000 < example.population.sum() < 1_800_000


def test_every_error_on_purpose_is_a_distp_error():
    import distp.errors

    kinds = [kind for kind in vars(distp.errors).values() if isinstance(kind, type)]
    own = [kind for kind in kinds if kind.__module__ == "distp.errors"]
    assert len(own) > 8
    assert all(issubclass(kind, DistpError) for kind in own)
