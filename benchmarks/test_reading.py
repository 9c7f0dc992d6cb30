"""Reading 33 million check-ins beside pandas, in the same run: look at the ratios.

A set of the size and format of dataset_TIST2015 is made once, in a temporary folder (2.5 GB). DISTP_BENCH_ROWS makes
it smaller, its venues and people with it; DISTP_BENCH_FOLDER names one that is there already. Every job runs in a
process of its own, so that its peak memory is its own. The file is read once before any clock starts; the
seconds that a job tells begin after its imports.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FULL = {"checkins": 33_278_683, "venues": 3_680_126, "users": 266_909}
# South, west, north, east: the paper's 12 x 11 km, but for a few metres; a little more would add a column of cells.
BOX = (40.7005, -74.0510, 40.7995, -73.9090)
CHECK_INS = "dataset_TIST2015_Checkins.txt"

DISTP = """
import json, resource, sys, time
import numpy as np
from distp.data import read_check_ins
from distp.spaces import Box, Regions
steps = {}
def step(name, since):
    steps[name] = round(time.perf_counter() - since, 2)
    return time.perf_counter()
start = time.perf_counter()
box = Box.from_degrees(*map(float, sys.argv[2].split(",")))
found = read_check_ins([sys.argv[1]], area=box)
now = step("read, join, keep the box", start)
regions = Regions.quadtree(found.lat, found.lon, box=box)
where = regions.locate(found.lat, found.lon)
morning = found.frame["hour"].to_numpy() < 12
inside = where >= 0
counts = [np.bincount(where[inside & m], minlength=len(regions)) for m in (morning, ~morning)]
step("regions, count", now)
seconds = time.perf_counter() - start
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "seconds": round(seconds, 2),
    "cpu seconds": round(usage.ru_utime + usage.ru_stime, 2),
    "gigabytes": round(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9, 3),
    "steps": steps,
    "rows in the box": int(sum(c.sum() for c in counts)),
    "morning": int(counts[0].sum()),
    "cells": len(regions),
}))
"""

PANDAS = [sys.executable, str(ROOT / "tools/count_with_pandas.py")]
WAYS = {
    "distp": [sys.executable, "-c", DISTP],
    "pandas": PANDAS,
    "pandas, fast": [*PANDAS, "--fast"],
    "pandas, in chunks": [*PANDAS, "--chunks"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    named = os.environ.get("DISTP_BENCH_FOLDER")
    made = Path(named) if named else tmp_path_factory.mktemp("tist2015")
    if not named:
        share = int(os.environ.get("DISTP_BENCH_ROWS", FULL["checkins"])) / FULL["checkins"]
        sizes = [f"--{name}={max(1, round(size * share))}" for name, size in FULL.items()]
        tool = [sys.executable, str(ROOT / "tools/make_tist2015.py")]
        subprocess.run([*tool, str(made), "--seed=1", "--dirt=0.001", *sizes], capture_output=True, check=True)
    with (made / CHECK_INS).open("rb") as file:  # nobody pays for the disk alone
        while file.read(1 << 24):
            pass
    yield made
    if not named:
        for path in made.iterdir():
            path.unlink()


@pytest.fixture(scope="module")
def results():
    return {}


def show(results, way):
    """Return what the job just done says of itself, beside the first one."""
    said, first = results[way], next(iter(results.values()))
    head = (
        f"\n{'':20}{'seconds':>10}{'CPU':>10}{'GB':>8}{'rows':>12}{'morning':>10}{'time/first':>12}{'GB/first':>10}\n"
    )
    return (
        (head if said is first else "\n")
        + f"{way:20}{said['seconds']:>10.1f}{said['cpu seconds']:>10.1f}{said['gigabytes']:>8.2f}"
        + f"{said['rows in the box']:>12,}{said['morning']:>10,}{said['seconds'] / first['seconds']:>12.2f}"
        + f"{said['gigabytes'] / first['gigabytes']:>10.2f}\n"
        + f"{'':20}{', '.join(f'{name} {seconds:.1f}' for name, seconds in said['steps'].items())}\n"
    )


@pytest.mark.parametrize("way", WAYS)
def test_counting_by_region_and_morning(benchmark, capsys, folder, results, way):
    if way != "distp":
        pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")

    def once():
        command = [*WAYS[way], str(folder), ",".join(map(str, BOX))]
        if way != "distp":
            command[-1:] = ["--box", command[-1]]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        results[way] = json.loads(done.stdout.splitlines()[-1])
        benchmark.extra_info.update(results[way])

    benchmark.pedantic(once, rounds=1)
    with capsys.disabled():
        sys.stdout.write(show(results, way))
    assert results[way]["rows in the box"] > 0
    others = [said["rows in the box"] for said in results.values()]
    # Our box is a rectangle on the ground, theirs between parallels: they part at the corners.
    assert max(others) - min(others) < 0.01 * max(others)
