"""Rows protected and counted by Spark on two cores, beside the local engine in the same run: look at the ratios.

Both read the same Parquet file and write one (Spark a folder of them). The session is started, and its workers have
compiled and imported what they need, before any clock starts; what that takes is said once. DISTP_BENCH_ROWS makes
the file larger or smaller.
"""

from __future__ import annotations

import os
import shutil
import sys
import time

import numpy as np
import polars as pl
import pytest

from distp import Box, Pair, Policy, Regions, RestrictedLaplace, Tupling
from distp.data import attribute_sample, read_check_ins
from distp.release import protect_file
from distp.spark import cells, count, protect

ROWS = int(os.environ.get("DISTP_BENCH_ROWS", 3_000_000))
PEOPLE = 20_000
BOX = Box.around(40.75, -73.97, 12, 11)
ATTRIBUTE = "kind = 'home'"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    who, place = rng.integers(0, PEOPLE, ROWS), rng.integers(0, 6, ROWS)  # everybody has six places
    middle = 0.02 * rng.standard_normal((2, PEOPLE, 6)) + np.array([40.75, -73.97])[:, None, None]
    near = 0.001 * rng.standard_normal((2, ROWS))
    frame = pl.DataFrame(
        {
            "id": np.arange(ROWS),
            "user": who,
            "lat": middle[0, who, place] + near[0],
            "lon": middle[1, who, place] + near[1],
            "kind": rng.choice(["home", "work", "other"], ROWS),
        }
    )
    folder = tmp_path_factory.mktemp("rows")
    frame.write_parquet(folder / "a.parquet", row_group_size=250_000)
    frame.head(40_000).write_parquet(folder / "few.parquet", row_group_size=10_000)
    return folder / "a.parquet"


@pytest.fixture(scope="module")
def regions(path):
    few = pl.read_parquet(path, n_rows=50_000)
    return Regions.quadtree(few["lat"], few["lon"], box=BOX)


@pytest.fixture(scope="module")
def policy(regions):
    n = len(regions.inputs)
    law = np.full(n, 1 / n)
    mechanism = Tupling(RestrictedLaplace(regions.inputs, 1.2, 1.6, regions), 10)
    given = {"epsilon": 1.0, "delta": 0.2, "prior": law, "expressions": [ATTRIBUTE], "outside": "nearest"}
    return Policy.create(mechanism, regions, [Pair("home", law, law)], **given)


@pytest.fixture(scope="module")
def spark(tmp_path_factory, path, policy, regions):
    sql = pytest.importorskip("pyspark.sql", reason="pip install 'distp[spark]'")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("Java is not here")
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.files.maxPartitionBytes": "16m",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = sql.SparkSession.builder.master("local[2]").appName("distp benchmarks")
        for name, value in settings.items():
            builder = builder.config(name, value)
        start = time.perf_counter()
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        began = time.perf_counter() - start
        few = session.read.parquet(str(path.with_name("few.parquet"))).repartition(4)
        for _ in range(2):
            protect(few, policy, keep=["id"]).write.mode("overwrite").parquet(str(folder / "few"))
            count(few, regions, ATTRIBUTE, user="user")
        sys.stderr.write(f"session {began:.1f} s, first jobs {time.perf_counter() - start - began:.1f} s\n")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def seconds():
    return {}


def show(capsys, seconds, benchmark, job, way):
    """Print the rate of a way, and its time over the local engine's."""
    spent = seconds[job, way] = benchmark.stats.stats.min if benchmark.stats else float("nan")
    ratio = spent / seconds.get((job, "local"), float("nan"))
    benchmark.extra_info.update(rows_per_second=ROWS / spent, over_local=ratio)
    with capsys.disabled():
        sys.stdout.write(f"\n{job + ', ' + way:<30}{spent:8.1f} s{ROWS / spent:14,.0f} rows/s{ratio:8.2f} x local\n")


def test_protect_local(benchmark, capsys, path, policy, seconds, tmp_path):
    few = path.with_name("few.parquet")
    protect_file(few, tmp_path / "few.parquet", policy, keep=["id"])  # compiled before the clock starts
    done = benchmark.pedantic(
        lambda: protect_file(path, tmp_path / "o.parquet", policy, keep=["id"]), rounds=2, iterations=1
    )
    assert done.rows == ROWS
    show(capsys, seconds, benchmark, "protect", "local")


def test_protect_spark(benchmark, capsys, path, policy, seconds, spark, tmp_path):
    def once():
        frame = spark.read.parquet(str(path))
        protect(frame, policy, keep=["id"]).write.mode("overwrite").parquet(str(tmp_path / "o.parquet"))

    benchmark.pedantic(once, rounds=2, iterations=1)
    written = pl.read_parquet(tmp_path / "o.parquet/*.parquet")
    assert written.height == written["id"].n_unique() == ROWS
    show(capsys, seconds, benchmark, "protect", "Spark")


@pytest.mark.parametrize("user", [None, "user"])
def test_count_local(benchmark, capsys, path, regions, seconds, user):
    def once():
        read = read_check_ins(path, user=user, columns=["kind"])
        return attribute_sample(read, regions, ATTRIBUTE)[0].pair()

    pair = benchmark.pedantic(once, rounds=2, iterations=1)
    seconds["pair", user] = pair
    show(capsys, seconds, benchmark, f"count, user={user}", "local")


@pytest.mark.parametrize("user", [None, "user"])
def test_count_spark(benchmark, capsys, path, regions, seconds, spark, user):
    frame = spark.read.parquet(str(path))
    found = benchmark.pedantic(lambda: count(frame, regions, ATTRIBUTE, user=user), rounds=2, iterations=1)
    local = seconds["pair", user]
    assert (found.pairs[0].support_p, found.pairs[0].support_q) == (local.support_p, local.support_q)
    show(capsys, seconds, benchmark, f"count, user={user}", "Spark")


def test_cells_local(benchmark, capsys, path, seconds):
    def once():
        read = read_check_ins(path, columns=[])
        return Regions.quadtree(read.lat, read.lon, box=BOX)

    seconds["cells"] = benchmark.pedantic(once, rounds=2, iterations=1)
    show(capsys, seconds, benchmark, "quadtree", "local")


def test_cells_spark(benchmark, capsys, path, seconds, spark):
    frame = spark.read.parquet(str(path))
    drawn = benchmark.pedantic(lambda: cells(frame, BOX).quadtree(), rounds=2, iterations=1)
    assert np.array_equal(drawn.cells, seconds["cells"].cells)
    show(capsys, seconds, benchmark, "quadtree", "Spark")
