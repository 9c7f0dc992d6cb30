"""What comes through the door against all custom: nothing merged, nothing lost, nothing leaked, nothing crashes."""

from __future__ import annotations

import json
from datetime import datetime

import polars as pl
import pytest

import format_files as made
from distp import Box, Policy, Regions
from distp.cli.app import app
from distp.data import attribute_sample, read_check_ins, tables
from distp.data.attributes import evaluate
from distp.errors import DataError, DistpError, PolicyError
from distp.release import protect_file


def write(tmp_path, content, name="a.csv"):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_people_are_never_merged_by_making_numbers_of_their_names(tmp_path):
    ids = ["12345678901234567890", "12345678901234567891", "007", "7", "1e3", "1000", "+1000", "nan"]
    path = write(tmp_path, "lat,lon,who\n" + "".join(f"1,2,{who}\n" for who in ids))
    assert read_check_ins(path, user="who").user.to_list() == ids
    lines = [{"lat": 1, "lon": 2, "u": u} for u in (2**60 + 1, 2**60 + 2, 0.5)]
    rows = write(tmp_path, "\n".join(map(json.dumps, lines)), "a.jsonl")
    assert read_check_ins(rows, user="u").user.n_unique() == 3


def test_only_what_is_written_as_a_number_becomes_one(tmp_path):
    path = write(tmp_path, "lat,lon,zip,age,share\n1,2,00001,30,0.5\n1,2,10001,4,1\n")
    found = read_check_ins(path)
    assert found.frame["zip"].to_list() == ["00001", "10001"]
    assert evaluate(found, "age > 5 AND share < 1").to_list() == [True, False]


def test_columns_are_kept_as_they_are(tmp_path):
    regions = Regions.grid(Box.around(1, 2, 4, 4), 1.0, ring_km=0)
    path = write(tmp_path, "lat,lon,phone,price\n1.001,2.001,0044123,1.10\n")
    policy = small_policy(regions)
    protect_file(path, tmp_path / "o.csv", policy, keep=["phone", "price"])
    assert (tmp_path / "o.csv").read_text().splitlines()[1].startswith("0044123,1.10,")


def small_policy(regions, expression="kind = 'x'"):
    import numpy as np

    from distp import Identity, Pair, Tupling

    law = np.full(len(regions.inputs), 1 / len(regions.inputs))
    mechanism = Tupling(Identity(regions.inputs, regions), 1)
    return Policy.create(
        mechanism, regions, [Pair("x", law, law)], epsilon=1, delta=0.1, prior=law, expressions=[expression]
    )


@pytest.mark.parametrize(
    ("keep", "expression"),
    [
        ("root category", "\"root category\" = 'home'"),
        ("Lat", "kind = 'x'"),
        ("time", "hour < 12"),
        ("weekday", "hour < 12"),
    ],
)
def test_what_would_give_it_away_is_not_kept(tmp_path, keep, expression):
    regions = Regions.grid(Box.around(1, 2, 4, 4), 1.0, ring_km=0)
    path = write(tmp_path, f"y,x,{keep}\n1.001,2.001,a\n")
    with pytest.raises(DataError, match="--keep"):
        protect_file(path, tmp_path / "o.csv", small_policy(regions, expression), lat="y", lon="x", keep=[keep])
    assert not (tmp_path / "o.csv").exists()


def test_nested_columns_are_refused_before_anything_is_drawn(tmp_path):
    regions = Regions.grid(Box.around(1, 2, 4, 4), 1.0, ring_km=0)
    pl.DataFrame({"lat": [1.001], "lon": [2.001], "tags": [["a"]]}).write_parquet(tmp_path / "n.parquet")
    with pytest.raises(DataError, match=r"cannot be written as \.csv"):
        protect_file(tmp_path / "n.parquet", tmp_path / "o.csv", small_policy(regions), keep=["tags"])


@pytest.mark.parametrize("command", ["protect", "fit", "reproduce"])
def test_an_input_in_a_given_folder_is_not_written_over(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "lat,lon,kind\n1.001,2.001,x\n", "data/a.csv")
    small_policy(Regions.grid(Box.around(1, 2, 4, 4), 1.0, ring_km=0)).save("p.policy")
    words = {
        "protect": ["protect", "data", "--policy", "p.policy", "--out", "data/a.csv", "--empty"],
        "fit": ["fit", "data", "--attribute", "kind = 'x'", "--out", "data/a.csv"],
        "reproduce": ["reproduce", "data", "--attribute", "kind = 'x'", "--out", "data", "--seed", "1"],
    }[command]
    with pytest.raises(DistpError, match=r"input|where the check-ins are"):
        app(words, standalone_mode=False)
    assert (tmp_path / "data/a.csv").read_text().startswith("lat")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("51.5074,-0.1278,alice\n51.5,-0.12,bob\n", "does not look like column names"),
        ("alice;51.5074;-0.1278\nbob;51.5;-0.12\n", "does not look like column names"),
        ("lat,lon,lat\n51.5,-0.1,10\n", "two columns named 'lat'"),
        ("lat,lon,distp:row\n51.5,-0.1,10\n", "reserved"),
        ("\nlat,lon\n1,2\n", "no rows"),
        ("lat,lon" + ",a" * 2000 + "\n1,2\n", "columns, more than"),
        ("lat,lon," + "a" * 70_000 + "\n1,2\n", "first line is longer"),
    ],
)
@pytest.mark.parametrize("columns", [None, ()])
def test_odd_first_lines_are_one_error_that_shows_no_place(tmp_path, text, match, columns):
    with pytest.raises(DataError, match=match) as found:
        read_check_ins(write(tmp_path, text), columns=columns)
    assert "51.5" not in str(found.value)
    assert "alice" not in str(found.value)


def test_records_cannot_name_reasons_of_their_own(tmp_path):
    path = write(tmp_path, '{"lat": 1, "lon": 2, "distp:broken": "alice at 51.5"}\n{"lat": 1, "lon": 2}\n', "a.jsonl")
    with pytest.raises(DataError, match="reserved"):
        read_check_ins(path)


def test_files_of_one_set_must_mean_the_same(tmp_path):
    one = write(tmp_path, "lat,lon,t\n1,2,2012-04-03 18:00:00\n", "m/a.csv")
    two = write(tmp_path, "latitude,longitude,t\n3,4,2012-04-03 18:00:00\n", "m/b.csv")
    three = write(tmp_path, "lat,lon,t\n1,2,2012-04-03T18:00:00Z\n", "m/c.csv")
    with pytest.raises(DataError, match="names its coordinates otherwise"):
        read_check_ins([one, two])
    with pytest.raises(DataError, match="in UTC"):
        read_check_ins([one, three], time="t")
    assert read_check_ins([one, one, tmp_path / "m/../m/a.csv"]).rows == 1


def test_a_zone_that_is_written_is_not_converted_again(tmp_path):
    times = pl.Series([datetime(2012, 7, 3, 18)]).dt.replace_time_zone("America/New_York")
    pl.DataFrame({"lat": [1.0], "lon": [2.0], "t": times}).write_parquet(tmp_path / "x.parquet")
    for more in ({}, {"zone": "America/New_York"}):
        assert read_check_ins(tmp_path / "x.parquet", time="t", **more).frame["hour"].to_list() == [18]
    path = write(tmp_path, "lat,lon,t\n1,2,2012-07-03T18:00:00+00:30\n1,2,2012-07-03T18:00:00Z\n")
    found = read_check_ins(path, time="t", max_bad=1)
    assert found.frame["hour"].to_list() == [18]
    assert [kind.first for kind in found.set_aside] == [(2,)]  # beside offsets, Z says nothing about the clock
    gmt = pl.Series([datetime(2012, 7, 3, 18)]).dt.replace_time_zone("Etc/GMT")
    pl.DataFrame({"lat": [1.0], "lon": [2.0], "t": gmt}).write_parquet(tmp_path / "g.parquet")
    assert read_check_ins(tmp_path / "g.parquet", time="t").utc


def test_what_is_derived_of_people_does_not_depend_on_how_much_was_read(tmp_path):
    rows = [f"p{i},1.0,2.0,2012-04-0{day} 23:00:00\n" for i in range(6) for day in (1, 3)]
    rows += [f"p{i},{lat},2.0,2012-09-01 23:00:00\n" for i in range(0, 6, 2) for lat in (1.05, 30.0)]
    path = write(
        tmp_path, "who,lat,lon,t\n" + "".join(rows) + "q,1.0,2.0,2012-04-01 10:00:00\nq,1.0,2.0,2012-06-01 10:00:00\n"
    )
    regions = Regions.grid(Box.around(1, 2, 6, 6), 2.0, ring_km=0)  # 1.05 lies 5.5 km north: read, but not on the map
    found = [read_check_ins(path, user="who", time="t", area=area) for area in (None, regions.box)]
    samples = [attribute_sample(one, regions, "resident")[0] for one in found]
    assert [int(one.holds.sum()) for one in samples] == [2, 2]
    assert samples[0].condition == "days_here > 30"


def test_bad_bytes_in_one_of_two_venue_files_are_no_crash(tmp_path):
    files = made.tist2015(tmp_path, dirty=True).files
    more = write(tmp_path, "4f5e3a72e4b053fd6a4313aa\t40.7\t-74.0\tBar\tUS\n" * 3, "more_POIs.txt")
    assert read_check_ins([*files, more], max_bad=1.0).rows > 0


def test_a_named_file_that_is_none_of_the_set_is_refused_and_others_are_listed(tmp_path):
    one = write(tmp_path, "lat,lon\n1,2\n", "f/a.csv")
    two = write(tmp_path, "lat,lon\n3,4\n", "f/a.dat")
    with pytest.raises(DataError, match=r"cannot tell what .*a\.dat is"):
        read_check_ins([one, two])
    assert read_check_ins([one, two], format="csv").rows == 2
    assert read_check_ins(tmp_path / "f").unread == (str(two),)


def test_a_named_format_overrules_what_a_table_looks_like(tmp_path):
    path = write(tmp_path, "lat\tlon\n1\t2\n3\t4\n", "a.tsv")
    assert read_check_ins(path, format="tsv").lat.tolist() == [1, 3]
    for name, ending in (("gowalla", "tsv"), ("tsmc2014", "tsv"), ("tist2015", "csv")):
        made_set = made.FORMATS[name](tmp_path / name)
        moved = made_set.files[0].rename(made_set.files[0].with_suffix(f".{ending}"))
        assert read_check_ins([moved, *made_set.files[1:]]).rows == made_set.rows


def test_who_is_nobody_is_counted(tmp_path):
    text = "0\t2010-10-19T23:55:27Z\t30.1\t-97.1\t22\n0x\t2010-10-19T23:55:27Z\t30.1\t-97.1\t22\n"
    found = read_check_ins(write(tmp_path, text, "g.txt"), format="gowalla", max_bad=1.0)
    assert found.user.to_list() == [0]
    own = pl.DataFrame({"lat": [1.0] * 4, "lon": [2.0] * 4, "u": ["a", "", " ", None]})
    own.write_parquet(tmp_path / "u.parquet")
    assert read_check_ins(tmp_path / "u.parquet", user="u", max_bad=1.0).user.to_list() == ["a"]
    numbers = pl.DataFrame({"lat": [1.0] * 2, "lon": [2.0] * 2, "u": [1.0, float("nan")]})
    numbers.write_parquet(tmp_path / "n.parquet")
    assert read_check_ins(tmp_path / "n.parquet", user="u", max_bad=1.0).frame.height == 1


def test_citi_bike_keeps_its_time_and_refuses_what_it_lacks(tmp_path):
    files = made.citibike(tmp_path).files
    assert read_check_ins(files).frame["time"].dtype == pl.Datetime
    for column in ("start_lat", "start station latitude", "nothing"):
        with pytest.raises(DataError, match="no column"):
            read_check_ins(files, keep=[column])


def test_records_that_lack_a_column_for_long_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "JSON_ROWS", 2)
    rows = [{"lat": 1, "lon": 2, "u": "a"}] * 2 + [{"lat": 1, "lon": 2}] * 2 + [{"\ud800": 1}]
    path = write(tmp_path, "\n".join(map(json.dumps, rows)), "a.jsonl")
    found = read_check_ins(path, user="u", max_bad=1.0)
    assert (found.rows, found.frame.height) == (5, 2)


@pytest.mark.parametrize(
    ("read", "match"),
    [
        (lambda _: {"lat": "lat", "lon": "lat"}, "same column"),
        (lambda _: {"lat": "flag", "lon": "lon"}, "not numbers"),
        (lambda _: {"lat": "lat", "lon": "lon", "user": "tags"}, "not people"),
        (lambda _: {"lat": "lat", "lon": "lon", "time": "t"}, "a column 'hour' of its own"),
        (lambda _: {"lat": "lat", "lon": "lon", "zone": "posix/Europe/London"}, "unknown"),
        (lambda _: {"lat": "lat", "lon": "lon", "block": 0}, "block"),
    ],
)
def test_columns_that_cannot_be_what_they_are_named_are_refused(tmp_path, read, match):
    frame = pl.DataFrame(
        {"lat": [1.0], "lon": [2.0], "flag": [True], "tags": [["a"]], "t": [datetime(2012, 1, 1)], "hour": ["10h"]}
    )
    frame.write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DistpError, match=match):
        read_check_ins(tmp_path / "a.parquet", **read(tmp_path))


def test_own_columns_of_another_kind_are_refused_by_presets(tmp_path):
    path = write(tmp_path, "lat,lon,u,date,hour,weekday,friends\n1,2,a,x,10h,Monday,n/a\n")
    found = read_check_ins(path, user="u")
    regions = Regions.grid(Box.around(1, 2, 4, 4), 1.0, ring_km=0)
    for preset in ("resident", "at-home", "at-work", "north", "social"):
        with pytest.raises(DataError, match=r"another kind|needs numbers"):
            attribute_sample(found, regions, preset)


def test_files_that_do_not_fit_together_are_one_error(tmp_path):
    pl.DataFrame({"lat": [1.0], "lon": [2.0], "a": [["x"]]}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"lat": [1.0], "lon": [2.0], "a": ["x"]}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match="do not fit together"):
        read_check_ins([tmp_path / "a.parquet", tmp_path / "b.parquet"])


def test_a_set_of_the_world_counts_the_nearest_region_where_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made.tist2015(tmp_path / "set")
    words = ["--attribute", "morning", "--city", "New York", "--map", "grid", "--cell-km", "4", "--no-report"]
    app(
        ["fit", "set", *words, "--outside", "nearest", "--out", "n.policy", "--max-dummies", "3"],
        standalone_mode=False,
    )
    assert Policy.load("n.policy").outside == "nearest"
    app(["audit", "n.policy", "--data", "set"], standalone_mode=False)


def test_how_a_policy_counted_must_make_sense(tmp_path):
    from distp.release import policyfile

    policy = small_policy(Regions.grid(Box.around(1, 2, 4, 4), 1.0, ring_km=0))
    policy.save(tmp_path / "p.policy")
    body = policyfile.read(tmp_path / "p.policy")
    for counting in (
        {"weight": "check-ins", "smoothing": True},
        {"weight": 3, "smoothing": 0},
        {"weight": "users"},
        [],
    ):
        policyfile.write(tmp_path / "q.policy", body | {"counting": counting})
        with pytest.raises(PolicyError):
            Policy.load(tmp_path / "q.policy")
    del body["counting"]
    policyfile.write(tmp_path / "old.policy", body)
    assert Policy.load(tmp_path / "old.policy").weight == "check-ins"
