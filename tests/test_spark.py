"""Spark: the same rows, the same law, the same counts as the local engine, on a session of two cores."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from distp import Box, Pair, Policy, Regions, RestrictedLaplace, Tupling
from distp.data import attribute_sample, read_check_ins
from distp.distributions import People
from distp.errors import CoordinateError, DataError, ParameterError
from distp.release.columns import check_keep
from distp.spaces.projection import to_degrees
from distp.spark import cells, count, protect
from distp.spark.frames import blocks
from distp.spark.protecting import without_people
from helpers import shared

ALPHA = 1e-6
BOX = Box.around(40.75, -73.97, 6, 6)
LAT, LON = 40.75, -73.97
OFF = [41.91827, -73.10493]  # lies in no region: no error may repeat it
PAGE = Path(__file__).parents[1] / "docs/spark.md"


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """Start a session of two cores that no other machine can reach."""
    for name in ("pyspark", "pyarrow", "pandas"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'distp[spark]'")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("Java is not here")
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        # Most of the time of a short session is the compiler's: the quick one halves it.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2]").appName("distp tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


def make_policy(dummies: int = 3, outside: str = "refuse", expression: str = "kind = 'x'") -> Policy:
    regions = Regions.grid(BOX, 1.0)
    n = len(regions.inputs)
    law = np.random.default_rng(0).dirichlet(np.ones(n), size=2)
    mechanism = Tupling(RestrictedLaplace(regions.inputs, 1.2, 1.6, regions), dummies)
    pair = Pair("x", *law)
    given = {"epsilon": 1.0, "delta": 0.2, "prior": np.full(n, 1 / n), "expressions": [expression]}
    return Policy.create(mechanism, regions, [pair], outside=outside, **given)


@pytest.fixture(scope="module")
def policy() -> Policy:
    return make_policy()


def places(spark, rows: int, partitions: int):
    """Return a frame of one place."""
    return spark.range(0, rows, 1, partitions).selectExpr("id", f"{LAT}D AS lat", f"{LON}D AS lon")


def reports(frame) -> np.ndarray:
    return np.array(frame.toArrow().column("report").to_pylist())


# --- protect ---------------------------------------------------------------------------------------------


def test_rows_come_out_as_they_went_in(spark, policy):
    rng = np.random.default_rng(3)
    given = pl.DataFrame(
        {
            "lat": LAT + 0.003 * rng.standard_normal(5000),
            "note": [None if i % 7 == 0 else f"é{i}" for i in range(5000)],
            "lon": LON + 0.003 * rng.standard_normal(5000),
            "id": rng.permutation(5000),
        }
    )
    frame = spark.createDataFrame(given.to_arrow())
    done = protect(frame, policy, keep=["id", "note", "id"])
    assert done.columns == ["id", "note", "report"]
    assert done.schema["report"].dataType.simpleString() == "array<int>"
    assert done.rdd.getNumPartitions() == frame.rdd.getNumPartitions() == 2
    table = pl.DataFrame(pl.from_arrow(done.toArrow()))
    assert table.select("id", "note").equals(given.select("id", "note"))
    drawn = np.array(table["report"].to_list())
    assert drawn.shape == (5000, 4)
    assert drawn.min() >= 0
    assert drawn.max() < len(policy.regions)


def test_reports_follow_the_integer_weights_of_the_policy(spark):
    policy = make_policy(dummies=1)
    rows = 400_000
    drawn = protect(places(spark, rows, 3), policy).selectExpr("report[0] AS a", "report[1] AS b")
    found = drawn.groupBy("a", "b").count().toArrow()
    real = policy.channel.matrix().toarray()[int(policy.locate(LAT, LON)[0])]
    law = np.add.outer(real, real).ravel() / (2 * real.size)  # one of the two is real, the other uniform
    counts = np.zeros(law.size)
    where = real.size * found["a"].to_numpy() + found["b"].to_numpy()
    counts[where] = found["count"].to_numpy()
    assert counts.sum() == rows

    def accepted(counts, law):
        assert counts[law == 0].sum() == 0
        counts, law = counts[law > 0], law[law > 0]
        return stats.chisquare(counts, law * counts.sum() / law.sum()).pvalue > ALPHA

    size = real.size
    for each in (counts.reshape(size, size).sum(axis=0), counts.reshape(size, size).sum(axis=1)):
        one = (real + 1 / size) / 2
        assert accepted(each, one)
        for factor in (0.95, 1.05):
            wrong = one.copy()
            wrong[np.argmax(wrong)] *= factor
            assert not accepted(each, wrong)
    assert accepted(counts, law)


def test_no_two_partitions_and_no_two_runs_draw_alike(spark, policy):
    frame = places(spark, 8 * 30, 8)
    drawn = [reports(protect(frame, policy).drop("id")).reshape(8, 30, 4) for _ in range(2)]
    again = protect(frame, policy)
    drawn += [reports(again).reshape(8, 30, 4) for _ in range(2)]  # two actions on one frame are two draws
    streams = {part.tobytes() for run in drawn for part in run}
    assert len(streams) == 4 * 8


ROWS = [
    (1, LAT, LON),
    (2, *OFF),
    (3, None, LON),
    (4, float("nan"), LON),
    (5, 0.0, 0.0),
    (6, LAT, LON),
    (7, 123.4567, -73.97),
]


def test_rows_that_cannot_be_protected_stop_the_job_and_are_not_repeated(spark, policy):
    frame = spark.createDataFrame(ROWS, "id INT, lat DOUBLE, lon DOUBLE").coalesce(1)
    with pytest.raises(Exception, match="OutsideError: 5 of 7 rows of a batch cannot be protected") as caught:
        protect(frame, policy, keep=["id"]).collect()
    text, error = "", caught.value
    while error is not None:
        text += f"{error!s} {error!r} {getattr(error, 'desc', '')}"
        error = error.__cause__ or error.__context__
    assert "outside the policy's area" in text
    assert "latitude or longitude missing" in text
    for value in ("41.9", "73.1", "123.4", "40.75", "73.97"):
        assert value not in text


def test_with_empty_they_get_a_null_report(spark, policy):
    frame = spark.createDataFrame(ROWS, "id INT, lat DOUBLE, lon DOUBLE")
    done = {row["id"]: row["report"] for row in protect(frame, policy, keep=["id"], empty=True).collect()}
    assert sorted(i for i, report in done.items() if report is None) == [2, 3, 4, 5, 7]
    assert [len(done[i]) for i in (1, 6)] == [4, 4]
    moved = protect(frame, make_policy(outside="nearest"), keep=["id"], empty=True).collect()
    assert sorted(row["id"] for row in moved if row["report"] is None) == [3, 4, 5, 7]


def test_coordinates_may_be_text_or_short_numbers(spark, policy):
    frame = spark.createDataFrame([("40.75", -73.97), (" 40.751 ", -73.969), ("x", 1.0)], "y STRING, x FLOAT")
    done = protect(frame, policy, lat="y", lon="x", empty=True)
    assert sorted(row["report"] is None for row in done.collect()) == [False, False, True]
    with pytest.raises(DataError, match="holds boolean, not numbers"):
        protect(frame.selectExpr("y", "x > 1 AS x"), policy, lat="y", lon="x")


@pytest.mark.parametrize(
    ("keep", "expression"),
    [
        ("y", "kind = 'x'"),
        ("Longitude", "kind = 'x'"),
        ("kind", "kind = 'x'"),
        ("KIND", "kind = 'x'"),
        ("tags", "array_contains(tags, 'home')"),
        ("place", "place.kind RLIKE 'x'"),
        ("weekday", "hour < 12"),
        ("report", "kind = 'x'"),
        ("Report_1", "kind = 'x'"),
    ],
)
def test_what_would_give_it_away_is_not_kept(spark, keep, expression):
    frame = places(spark, 2, 1).selectExpr("lat AS y", "lon AS x", "id", f"id AS {keep if keep != 'y' else 'z'}")
    with pytest.raises(DataError, match="--keep"):
        protect(frame, make_policy(expression=expression), lat="y", lon="x", keep=["id", keep])


def test_a_column_is_kept_by_its_exact_name_only(spark, policy):
    frame = places(spark, 2, 1).selectExpr("lat AS y", "lon AS x", "id", "id AS `a.b`", "id AS `c``d`")
    for keep in ("ID", "nothing"):
        with pytest.raises(DataError, match=f"no column '{keep}'"):
            protect(frame, policy, lat="y", lon="x", keep=[keep])
    with pytest.raises(DataError, match="true coordinates"):
        protect(frame, policy, lat="y", lon="x", keep=["Y"])
    done = protect(frame, policy, lat="y", lon="x", keep=["a.b", "c`d"])
    assert [row[:2] for row in done.collect()] == [(0, 0), (1, 1)]
    twice = frame.selectExpr("*", "id + 1 AS id")
    with pytest.raises(DataError, match="two columns named 'id'"):
        protect(twice, policy, lat="y", lon="x", keep=["id"])


def test_the_rule_on_kept_columns_is_the_local_one():
    assert check_keep(["id", "id", "note"], make_policy(), ["y", "x"]) == ["id", "note"]
    for keep in ("Y", "LNG", "Kind", "REPORT"):
        with pytest.raises(DataError, match=f"--keep {keep}"):
            check_keep([keep], make_policy(), ["y", "x"])


def test_who_a_policy_was_fitted_to_does_not_travel(policy):
    from dataclasses import replace

    from scipy import sparse

    p, q = (sparse.csr_array(np.atleast_2d(law)) for law in (policy.pairs[0].p, policy.pairs[0].q))
    known = replace(policy, pairs=(replace(policy.pairs[0], people=People(p, q)),))
    assert b"People" in pickle.dumps(known)
    assert b"People" not in pickle.dumps(without_people(known))


def test_batches_are_gathered_and_cut_in_their_order():
    pa = pytest.importorskip("pyarrow")
    sizes, start, batches = [3, 0, 4, 11, 1], 0, []
    for size in sizes:
        batches.append(pa.RecordBatch.from_pydict({"a": list(range(start, start + size))}))
        start += size
    for most in (1, 2, 5, 100):
        found = [[value for batch in block for value in batch["a"].to_pylist()] for block in blocks(batches, most)]
        assert [value for block in found for value in block] == list(range(start))
        assert max(map(len, found)) <= most
    assert list(blocks([])) == []


# --- count -----------------------------------------------------------------------------------------------


def synthetic(rows: int = 6000) -> pl.DataFrame:
    """Return check-ins of 80 people with all kinds of dirt; some lie outside."""
    rng = np.random.default_rng(8)
    lat, lon = LAT + 0.02 * rng.standard_normal(rows), LON + 0.02 * rng.standard_normal(rows)
    who = rng.integers(0, 80, rows)
    frame = pl.DataFrame(
        {
            "lat": lat,
            "lon": lon,
            "user": [f"u{i}" for i in who],
            "kind": rng.choice(["home", "work", "é"], rows),
            "hour": rng.integers(0, 24, rows),
        }
    )
    dirty = pl.int_range(pl.len())
    return frame.with_columns(
        lat=pl.when(dirty % 97 == 0).then(None).when(dirty % 101 == 0).then(95.5).otherwise("lat"),
        lon=pl.when(dirty % 103 == 0).then(float("nan")).otherwise("lon"),
        user=pl.when(dirty % 107 == 0).then(None).when(dirty % 109 == 0).then(pl.lit(" ")).otherwise("user"),
        kind=pl.when(dirty % 11 == 0).then(None).otherwise("kind"),
    )


ATTRIBUTES = ["home: kind = 'home'", "hour < 12 AND kind <> 'work'"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "a.parquet"
    synthetic().write_parquet(path)
    return path


def agree(found: Pair, local: Pair, exact: bool) -> None:
    """Hold a pair that Spark counted against the local one."""
    assert (found.name, found.support_p, found.support_q) == (local.name, local.support_p, local.support_q)
    for mine, theirs in ((found.p, local.p), (found.q, local.q)):
        assert np.array_equal(mine, theirs) if exact else np.allclose(mine, theirs, rtol=1e-12, atol=0)


def agree_in_people(found: Pair, local: Pair) -> None:
    assert (found.people is None) == (local.people is None)
    if found.people is not None and local.people is not None:
        for mine, theirs in (
            (found.people.with_attribute, local.people.with_attribute),
            (found.people.without, local.people.without),
        ):
            assert np.allclose(mine.toarray(), theirs.toarray(), rtol=1e-12, atol=0)
        assert found.people.smoothing == local.people.smoothing


@pytest.mark.parametrize(
    ("user", "weight", "outside", "smoothing"),
    [
        (None, "check-ins", "refuse", 0.0),
        ("user", "check-ins", "nearest", 0.5),
        ("user", "users", "refuse", 0.25),
        ("user", "users", "nearest", 0.0),
    ],
)
def test_counts_are_the_local_ones(spark, written, user, weight, outside, smoothing):
    regions = Regions.grid(BOX, 1.0)
    check_ins = read_check_ins(written, user=user, max_bad=1.0)
    frame = spark.read.parquet(str(written)).repartition(3)
    given = {"user": user, "weight": weight, "smoothing": smoothing, "outside": outside, "max_bad": 1.0}
    found = count(frame, regions, ATTRIBUTES, **given)
    aside = {kind.reason: kind.rows for kind in check_ins.set_aside}
    for pair, text in zip(found.pairs, ATTRIBUTES, strict=True):
        sample, more = attribute_sample(check_ins, regions, text, nearest=outside == "nearest", weight=weight)
        aside |= {kind.reason: kind.rows for kind in more}
        agree(pair, sample.pair(smoothing), exact=weight == "check-ins")
        agree_in_people(pair, sample.pair(smoothing))
    assert found.set_aside == aside
    assert found.rows == check_ins.rows
    assert found.expressions == ["kind = 'home'", ATTRIBUTES[1]]
    if user is not None:
        numbers = [pair.people.numbers for pair in found.pairs]
        assert found.people == len(set(numbers[0]) | set(numbers[1])) == 80
        # With more people than wanted, none of them comes to the driver; the counts are what they were.
        without = count(frame, regions, ATTRIBUTES, max_people=79, **given)
        assert [pair.people for pair in without.pairs] == [None, None]
        assert without.people == 80
        for mine, theirs in zip(without.pairs, found.pairs, strict=True):
            agree(mine, theirs, exact=weight == "check-ins")


def test_real_check_ins_give_the_same_regions_and_the_same_counts(spark, tmp_path):
    check_ins = read_check_ins(shared("foursquare_nyc_193users/checkins.csv.gz"), user="user_id")
    box = Box(40.75, -73.97, west=-5, south=-5.5, width=11, height=10)
    check_ins.frame.write_parquet(tmp_path / "a.parquet")
    frame = spark.read.parquet(str(tmp_path / "a.parquet")).repartition(4)
    regions = Regions.quadtree(check_ins.lat, check_ins.lon, box=box, ring_km=0.5)
    drawn = cells(frame, box).quadtree(ring_km=0.5)
    assert np.array_equal(drawn.cells, regions.cells)
    assert len(drawn.inputs) == len(regions.inputs) == 230
    found = count(frame, drawn, "root_category == 'Residence'", user="user_id")
    sample, aside = attribute_sample(check_ins, regions, "root_category == 'Residence'")
    agree(found.pairs[0], sample.pair(), exact=True)
    agree_in_people(found.pairs[0], sample.pair())
    assert found.set_aside == {kind.reason: kind.rows for kind in aside}
    policy = make_policy()
    kept = protect(frame, policy, keep=["user_id"], empty=True)
    here = int((policy.locate(check_ins.lat, check_ins.lon) >= 0).sum())
    assert kept.filter("report IS NOT NULL").count() == here


@pytest.mark.parametrize(
    ("attribute", "match"),
    [
        ("nope = 1", "column 'nope' that the frame does not have"),
        ("kind = = 1", "not a condition in Spark's SQL"),
        ("hour", "does not give true or false"),
        ("count(*) > 5", "depends on other rows"),
        ("rank() OVER (ORDER BY hour) > 3", "depends on other rows"),
        ("social", "not made on Spark: make the column 'friends'"),
        ("at-home", "not made on Spark"),
        ("hour > 99", "no check-in with it"),
        ("CAST(kind AS INT) > 3", r"cannot be computed of some row \(CAST_INVALID_INPUT\)"),
        (["a: hour < 3", "a: hour < 4"], "same name"),
        ([], "at least one attribute"),
    ],
)
def test_conditions_that_are_none_are_refused(spark, written, attribute, match):
    with pytest.raises((DataError, ParameterError), match=match) as caught:
        count(spark.read.parquet(str(written)), Regions.grid(BOX, 1.0), attribute, max_bad=1.0)
    assert "é" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_other_wrong_questions_are_refused(spark, written):
    frame, regions = spark.read.parquet(str(written)), Regions.grid(BOX, 1.0)
    with pytest.raises(
        DataError, match=r"of the rows are unusable, more than the 1.00% allowed: \d+ rows: no user; "
    ):
        count(frame, regions, "morning", user="user")
    with pytest.raises(DataError, match="no rows"):
        count(frame.limit(0), regions, "morning")
    with pytest.raises(DataError, match="name the column with user"):
        count(frame, regions, "morning", weight="users")
    for given in ({"weight": "nobody"}, {"outside": "drop"}, {"smoothing": -1}, {"max_bad": 2}, {"max_people": -1}):
        with pytest.raises(ParameterError):
            count(frame, regions, "morning", **given)
    with pytest.raises(DataError, match="lists or records"):
        count(frame.selectExpr("lat", "lon", "hour", "array(user) AS user"), regions, "morning", user="user")
    with pytest.raises(DataError, match="both a coordinate and the person"):
        count(frame, regions, "morning", user="lat")
    with pytest.raises(DataError, match="the same column"):
        count(frame, regions, "morning", lat="lon")


# --- cells -----------------------------------------------------------------------------------------------


def crowd() -> tuple[Box, np.ndarray, np.ndarray]:
    """Return a box and places in and around it; some lie on edges of cells of every size."""
    rng = np.random.default_rng(4)
    box = Box(40.75, -73.97, west=-3.1, south=-2.9, width=6, height=6)
    east, north = rng.integers(0, 6 * 64, 3000) / 64 - 3.1, rng.integers(0, 6 * 64, 3000) / 64 - 2.9
    lat, lon = to_degrees(box.lat, box.lon, east, north)
    lat = np.concatenate([lat, LAT + 0.02 * rng.standard_normal(9000)])
    return box, lat, np.concatenate([lon, LON + 0.02 * rng.standard_normal(9000)])


def test_every_row_is_counted_in_its_cell_and_the_map_is_that_of_all_rows(spark):
    box, lat, lon = crowd()
    frame = spark.createDataFrame(pl.DataFrame({"lat": lat, "lon": lon}).to_arrow()).repartition(3)
    counted = cells(frame, box)
    assert counted.weights.sum() + counted.set_aside["outside the box"] == counted.rows == lat.size
    for options in ({"regions": 97}, {"cap": 200.0}, {"regions": 60, "ring_km": 0.0}):
        local, drawn = Regions.quadtree(lat, lon, box=box, **options), counted.quadtree(**options)
        assert np.array_equal(drawn.cells, local.cells)
        assert len(drawn.inputs) == len(local.inputs)
    grid = Regions.grid(box, 1 / 8, ring_km=0)
    where, few = grid.locate(lat, lon), cells(frame, box, max_depth=3)
    found = np.zeros(len(grid))
    found[grid.locate(few.lat, few.lon)] = few.weights
    assert np.array_equal(found, np.bincount(where[where >= 0], minlength=len(grid)))


def test_cells_refuse_what_the_local_map_refuses(spark):
    frame = spark.createDataFrame([(-73.97, 40.75), (-73.98, 40.76)], "lat DOUBLE, lon DOUBLE")
    with pytest.raises(CoordinateError, match="look swapped: exchanged, 2 of 2 rows"):
        cells(frame, BOX)
    with pytest.raises(CoordinateError, match="none of the 2 rows"):
        cells(frame, Box.around(10, 10, 5, 5))
    with pytest.raises(ParameterError, match="max_depth"):
        cells(frame, BOX, max_depth=17)
    with pytest.raises(DataError, match="no usable row"):
        cells(frame.selectExpr("NULL AS lat", "lon"), BOX)


# --- the extra -------------------------------------------------------------------------------------------


def test_without_the_extra_it_says_what_to_install(monkeypatch, policy):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    for call in (lambda: protect(None, policy), lambda: count(None, policy.regions, "a"), lambda: cells(None, BOX)):
        with pytest.raises(ParameterError, match=r"pip install 'distp\[spark\]'"):
            call()


def test_importing_the_room_does_not_import_spark():
    script = "import sys, distp.spark; print([m for m in ('pyspark', 'pyarrow', 'pandas') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_example_of_the_page_runs(spark, tmp_path):
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    frame = synthetic().filter(pl.col("lat").is_between(-90, 90), pl.col("lon").is_not_nan()).drop_nulls()
    frame.with_row_index("id").write_parquet(tmp_path / "check-ins.parquet")
    names = {"spark": spark, "folder": str(tmp_path)}
    for example in examples:
        exec(example, names)
    written = pl.read_parquet(tmp_path / "reports.parquet/*.parquet")
    assert written.columns == ["id", "report"]
    assert written.height == frame.height
