"""Every set that the readers know: its true form, its dirty twin, and any bytes at all."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import format_files as made
from distp import Box
from distp.data import read_check_ins
from distp.data.cities import find_city
from distp.data.presets import resolve
from distp.errors import DataError, ParameterError

KINDS = {
    "short line": "line ends early",
    "long line": "line with too many fields",
    "no such venue": "venue not among the venues",
    "zero coordinates": "latitude and longitude both exactly 0",
    "out of range": "latitude beyond 90 or longitude beyond 180 degrees",
    "swapped": "latitude beyond 90 or longitude beyond 180 degrees",
    "not a number": "latitude or longitude not a finite number",
    "missing coordinates": "latitude or longitude missing",
    "no user": "no user",
    "blank line": "line blank",
}
OWN = ("csv", "tsv", "parquet", "jsonl", "geojson")  # tables of one's own, whose columns are named


def read(made_set, **more):
    named = {}
    if made_set.format in OWN:
        named = {"user": "user", "time": "time"}
    return read_check_ins(made_set.files, **named, max_bad=1.0, **more)


def kind_of(kind, made_set, names):
    if kind == "bad time":
        return next(name for name in names if name.endswith("not a date and time"))
    if kind == "short line" and made_set.format == "jsonl":
        return "not a JSON record"
    if kind == "short line" and (
        made_set.format in (*OWN, "citibike", "gowalla", "brightkite") or made_set.files[0].suffix == ".csv"
    ):
        return "latitude or longitude missing"  # columns may be empty there, and so an early end is an empty column
    return KINDS.get(kind, kind)


def assert_same(made_set, found, *, categories=True):
    assert found.rows == made_set.rows
    assert found.row_numbers.tolist() == [row["row"] for row in made_set.good]
    frame = found.frame
    assert found.lat.tolist() == [row["lat"] for row in made_set.good]
    assert found.lon.tolist() == [row["lon"] for row in made_set.good]
    if found.user is not None:
        assert found.user.cast(pl.String).to_list() == [row["user"] for row in made_set.good]
    if made_set.good[0]["time"] is None:
        assert frame["time_utc"].to_list() == [row["utc"] for row in made_set.good]
        return
    assert frame["hour"].to_list() == [row["time"].hour for row in made_set.good]
    assert frame["weekday"].to_list() == [row["time"].isoweekday() for row in made_set.good]
    if "time" in frame.columns and frame["time"].dtype == pl.Datetime:
        assert frame["time"].to_list() == [row["time"] for row in made_set.good]
    for name in ("venue", "country", "gender", *(["category"] if categories else [])):
        if name in made_set.good[0] and name in frame.columns:
            assert frame[name].cast(pl.String).to_list() == [row[name] for row in made_set.good], name


@pytest.mark.parametrize("name", made.FORMATS)
def test_every_set_is_recognised_and_read_as_it_is(tmp_path, name):
    made_set = made.FORMATS[name](tmp_path)
    found = read(made_set)
    expected = {"gowalla": "snap", "brightkite": "snap"}.get(made_set.format, made_set.format)
    assert found.format == expected
    assert found.set_aside == ()
    assert_same(made_set, found)


@pytest.mark.parametrize("name", made.FORMATS)
def test_dirt_is_counted_by_kind_and_the_good_rows_stay_as_they_were(tmp_path, name):
    made_set = made.FORMATS[name](tmp_path, dirty=True)
    found = read(made_set)
    assert_same(made_set, found, categories=made_set.format not in ("csv", "tsv", "jsonl"))
    names = [kind.reason for kind in found.set_aside]
    expected: dict[str, list[int]] = {}
    for kind, rows in made_set.bad.items():
        expected.setdefault(kind_of(kind, made_set, names), []).extend(rows)
    assert {kind.reason: kind.rows for kind in found.set_aside} == {
        kind: len(rows) for kind, rows in expected.items()
    }
    for kind in found.set_aside:
        assert list(kind.first) == sorted(expected[kind.reason])[:3], kind.reason


@pytest.mark.parametrize("name", ["tist2015", "gowalla", "citibike 2015", "csv", "jsonl", "geojson"])
@pytest.mark.parametrize(
    "pack", [made.gzipped, made.zipped, lambda files: made.zipped(files, folder="x/", extras=True)]
)
def test_packed_files_give_the_same(tmp_path, name, pack):
    made_set = pack(made.FORMATS[name](tmp_path, dirty=True))
    assert_same(made_set, read(made_set), categories=made_set.format not in ("csv", "jsonl"))


@pytest.mark.parametrize("name", ["tist2015", "tsmc2014", "citibike 2015", "csv", "jsonl"])
@pytest.mark.parametrize("block", [64, 333, 5000])
def test_the_size_of_a_block_changes_nothing(tmp_path, name, block):
    made_set = made.FORMATS[name](tmp_path, dirty=True)
    whole, cut = read(made_set), read(made_set, block=block)
    assert cut.frame.equals(whole.frame)
    assert cut.row_numbers.tolist() == whole.row_numbers.tolist()
    assert sorted(map(str, cut.set_aside)) == sorted(map(str, whole.set_aside))


def test_bad_bytes_never_stop_a_reader_and_cafe_is_mended_where_it_is_certain(tmp_path):
    made_set = made.tist2015(tmp_path, dirty=True)
    found = read(made_set)
    said = [str(kind) for kind in found.remarks]
    assert any("read as Café" in text for text in said)
    assert any("UTF-8 in the category, kept" in text for text in said)
    table = made.comma_table(tmp_path / "own", dirty=True)
    own = read(table)
    assert [kind.first for kind in own.remarks] == [tuple(table.bad_bytes[:3])]
    assert "Caf\ufffd" in own.frame["category"].to_list()


def test_local_time_is_utc_plus_the_files_offset_on_both_sides_of_daylight_saving(tmp_path):
    found = read(made.tist2015(tmp_path))
    late = found.frame.filter(pl.col("hour") == 23)
    assert late.height >= 2
    assert (late["time"].dt.minute() == 30).sum() >= 2
    zoned = read(made.gowalla(tmp_path / "g"), zone="America/New_York")
    unknown = read_check_ins(made.gowalla(tmp_path / "h").files)
    assert unknown.utc
    assert "hour" not in unknown.frame.columns
    # The offset is not in this set: the zone gives it, and it is not the same all year.
    assert len(set((zoned.frame["time"] - unknown.frame["time_utc"]).to_list())) > 1
    with pytest.raises(DataError, match="name the --zone"):
        resolve(unknown, "morning")
    with pytest.raises(ParameterError, match="America/New_York"):
        read_check_ins(made.gowalla(tmp_path / "i").files, zone="New York")


def test_an_area_keeps_what_lies_in_it_and_counts_the_rest(tmp_path):
    made_set = made.tist2015(tmp_path, dirty=True)
    everything = read(made_set)
    new_york = Box.around(40.75, -73.97, 30, 30)
    part = read(made_set, area=new_york)
    inside = [row for row in made_set.good if abs(row["lat"] - 40.75) < 0.2 and abs(row["lon"] + 73.97) < 0.3]
    assert part.row_numbers.tolist() == [row["row"] for row in inside]
    assert part.frame.height + part.elsewhere + sum(kind.rows for kind in part.set_aside) == part.rows
    assert 0 < part.frame.height < everything.frame.height
    # Swapped, the point would be in Antarctica: with an area that is certain.
    swapped = [kind for kind in part.set_aside if "look swapped" in kind.reason]
    assert [kind.first for kind in swapped] == [tuple(made_set.misplaced[:3])]


def test_friends_come_from_the_later_snapshot(tmp_path):
    found = read(made.www2019(tmp_path))
    each = dict(found.frame.select("user", "friends").unique().iter_rows())
    assert each[50756] == 1
    assert each[8] == 1
    old = read_check_ins([path for path in made.www2019(tmp_path / "b").files if "new" not in path.name], max_bad=1.0)
    assert dict(old.frame.select("user", "friends").unique().iter_rows())[8] is None


@pytest.mark.parametrize(
    ("choose", "match"),
    [
        (
            lambda p: [made.tsmc2014(p / "a").files[0], made.tsmc2014(p / "b", city="TKY").files[0]],
            "name one of them",
        ),
        (lambda p: [*made.www2019(p).files, *made.www2019(p / "b", filtered=True).files], "name one of them"),
        (lambda p: made.tist2015(p).files[:1], "add the file of POIs"),
        (lambda p: made.tist2015(p).files[1:2], "venues or people only"),
        (lambda p: [made.gowalla(p).files[0], made.comma_table(p / "b").files[0]], "different sets"),
        (lambda _: [], "no file"),
    ],
)
def test_sets_that_do_not_go_together_are_refused(tmp_path, choose, match):
    with pytest.raises(DataError, match=match):
        read_check_ins(choose(tmp_path))


def test_several_files_of_one_set_are_one_set_and_say_which_file(tmp_path):
    one, two = made.citibike(tmp_path / "a", dirty=True), made.citibike_2021(tmp_path / "b", dirty=True)
    found = read_check_ins([*one.files, *two.files], max_bad=1.0)
    assert found.rows == one.rows + two.rows
    assert found.frame.height == len(one.good) + len(two.good)
    assert all(len(kind.files) == len(kind.first) for kind in found.set_aside)
    assert " of 2022" in " ".join(map(str, found.set_aside))
    assert set(found.frame["user_type"].drop_nulls()) <= {"member", "casual"}


def test_a_format_can_be_named_and_an_unknown_one_is_refused(tmp_path):
    path = tmp_path / "table.txt"
    path.write_bytes(made.comma_table(tmp_path).files[0].read_bytes())
    with pytest.raises(DataError, match="name the --format"):
        read_check_ins(path)
    assert read_check_ins(path, format="csv").rows > 0
    with pytest.raises(DataError, match="format 'excel' is unknown"):
        read_check_ins(path, format="excel")


def test_a_named_format_is_not_that_of_what_else_lies_in_a_folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("lat,lon\n1,2\n")
    (tmp_path / "in/README").write_text("what this is")
    assert read_check_ins(tmp_path / "in", format="csv").rows == 1


def test_cities_come_from_the_set_or_are_known(tmp_path):
    files = made.tist2015(tmp_path).files
    assert find_city("Suva", files).lon == pytest.approx(178.4419)
    assert find_city("st. john's, CA", files).lat == pytest.approx(47.5615)
    assert find_city("new york", files).zone == "America/New_York"
    assert find_city("São Paulo").country == "BR"
    with pytest.raises(DataError, match="--center"):
        find_city("Atlantis", files)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(made.FORMATS)), st.binary(max_size=120), st.integers(0, 2000), st.integers(0, 60))
def test_any_bytes_in_any_set_give_rows_or_a_counted_rejection(tmp_path_factory, name, noise, place, cut):
    made_set = made.FORMATS[name](tmp_path_factory.mktemp("set"))
    path = made_set.files[0]
    content = path.read_bytes()
    place %= len(content) + 1
    path.write_bytes(content[:place] + noise + content[place + cut :])
    try:
        found = read(made_set)
    except DataError:
        return
    assert found.frame.height + sum(kind.rows for kind in found.set_aside) == found.rows
    assert found.frame.height == found.lat.size == found.row_numbers.size
    assert (abs(found.lat) <= 90).all()
    assert (abs(found.lon) <= 180).all()


def test_lines_with_marks_out_of_place_are_counted_and_no_line_swallows_others(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('lat,lon,note\n40.1,-73.1,a\n40.2,-73.2,"open\n40.3,-73.3,5" pipe\n40.4,-73.4,"b, ""c"""\n')
    found = read_check_ins(path, max_bad=1.0)
    assert found.rows == 4
    assert found.lat.tolist() == [40.1, 40.3, 40.4]
    assert [str(kind) for kind in found.set_aside] == ["1 row: line with a quotation mark out of place (row 2)"]
    path.write_text('lat,lon,note\n40.1,-73.1,"two\nlines"\n40.2,-73.2,b\n')
    assert read_check_ins(path).frame["note"].to_list() == ["two\nlines", "b"]


def test_times_of_many_forms_and_what_an_offset_means(tmp_path):
    def hours(texts, **more):
        path = tmp_path / "t.csv"
        path.write_text("lat,lon,when\n" + "".join(f"40.1,-73.1,{text}\n" for text in texts))
        return read_check_ins(path, time="when", max_bad=1.0, **more).frame

    assert hours(["2012-04-03 18:00:06", "2012-04-03 19:00:06.5"])["hour"].to_list() == [18, 19]
    assert hours(["2012-04-03T18:00", "x"])["hour"].to_list() == [18]
    assert hours(["2012-04-03T18:00:06+09:00"])["hour"].to_list() == [18]  # the clock on the wall is what is written
    assert "hour" not in hours(["2012-04-03T18:00:06Z"]).columns
    assert hours(["2012-04-03T18:00:06Z"], zone="Asia/Tokyo")["hour"].to_list() == [3]
    assert hours(["Tue Apr 03 18:00:06 +0000 2012"], zone="America/New_York")["hour"].to_list() == [14]
    both = hours(
        ["2012-11-04T05:30:00Z", "2012-11-04T06:30:00Z"], zone="America/New_York"
    )  # the hour that comes twice
    assert both["hour"].to_list() == [1, 1]


def test_minutes_ahead_of_utc_in_a_column(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("lat,lon,when,ahead\n40.1,-73.1,2012-04-03 02:00:00,-240\n40.1,-73.1,2012-04-03 02:00:00,x\n")
    found = read_check_ins(path, time="when", utc_offset="ahead", max_bad=1.0)
    assert found.frame["hour"].to_list() == [22]
    assert found.frame["date"].to_list()[0].day == 2
    assert [kind.first for kind in found.set_aside] == [(2,)]


def test_the_antimeridian_is_inside_an_area_that_crosses_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("lat,lon\n-17,179.99\n-17,-179.99\n-17,180\n-17,-180\n-17,178\n40,-73\n")
    found = read_check_ins(path, area=Box.around(-17, 180, 20, 20))
    assert found.lon.tolist() == [179.99, -179.99, 180, -180]
    assert found.elsewhere == 2


@pytest.mark.parametrize("block", [1, 7, 16, 25, 40, 1 << 20])
def test_a_block_never_ends_inside_quotation_marks(tmp_path, block):
    path = tmp_path / "a.csv"
    path.write_text("lat,lon,note\n" + "".join(f'4{i}.5,-73.5,"two\nlines, and ""{i}"""\n' for i in range(6)))
    found = read_check_ins(path, block=block)
    assert found.rows == 6
    assert found.frame["note"].to_list() == [f'two\nlines, and "{i}"' for i in range(6)]
