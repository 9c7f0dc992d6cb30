"""Reports per second of every sampler beside numpy and the peers, and check-ins per second end to end.

Look at the ratios; all of one table are of one run. Peers are used where they are installed (extra ``peers``).
DISTP_BENCH_ROWS makes the end-to-end file larger or smaller (100,000,000 for the record in docs/release.md). Each
end-to-end job runs in a process of its own, so that its peak memory is its own; its clock starts after a small one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

from distp import ContinuousGaussian, ContinuousLaplace, Identity, Pair, Policy, Regions, RestrictedLaplace, Tupling
from distp.release import Memory, release_points
from distp.release.entropy import SystemEntropy
from distp.release.sampling import Sampler
from distp.spaces import Box

ROWS = int(os.environ.get("DISTP_BENCH_ROWS", 10_000_000))
TUPLES, DUMMIES, RUNS = 1_000_000, 10, 5


def quickest(work: Callable[[], object], runs: int = RUNS) -> float:
    """Return the seconds of the quickest of a few runs, the first of which compiles and is not counted."""
    work()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


@pytest.fixture(scope="module")
def regions() -> Regions:
    rng = np.random.default_rng(0)
    lat, lon = 40.75 + 0.02 * rng.standard_normal(4000), -73.97 + 0.02 * rng.standard_normal(4000)
    return Regions.quadtree(lat, lon, box=Box.around(40.75, -73.97, 12, 11))


@pytest.fixture(scope="module")
def law(regions) -> np.ndarray:
    return np.random.default_rng(1).dirichlet(np.ones(len(regions)))


def peers(size: int) -> dict[str, tuple[Callable[[], object], int]]:
    """Return a job and its number of draws for each peer that is here."""
    found: dict[str, tuple[Callable[[], object], int]] = {}
    try:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        respond = dp.m.make_randomized_response(list(range(size)), prob=0.5)
        found["opendp: randomized response"] = (lambda: [respond(3) for _ in range(20_000)], 20_000)
    except ImportError:
        pass
    try:
        import qif

        point = qif.mechanism.geo_ind.planar_laplace_sample
        found["qif: planar Laplace"] = (lambda: [point(1.0) for _ in range(20_000)], 20_000)
    except ImportError:
        pass
    try:
        import pandas as pd
        from trasgodp.categorical import dp_randomized_response_kary_array as kary

        column = pd.Series(np.arange(20_000) % size).astype(str).to_numpy(dtype=object)
        found["trasgoDP: randomized response"] = (lambda: kary(column, 1.0), 20_000)
    except ImportError:
        pass
    return found


def test_reports_per_second(benchmark, capsys, regions, law):
    inputs = np.random.default_rng(2).integers(0, len(regions.inputs), TUPLES)
    base = RestrictedLaplace(regions.inputs, 1.0, 1.5, regions)
    own, entropy, numpy = Sampler.of(Tupling(base, 0)).channel, SystemEntropy(), np.random.default_rng(3)
    uniform = np.full(len(regions), 1 / len(regions))
    indices = TUPLES * (DUMMIES + 1)
    some = inputs[:20_000]

    def tuples(dummies: Sampler) -> Callable[[], object]:
        return lambda: dummies.draw(inputs, entropy)

    few = 20_000
    memory, people = Memory(bytes(32)), [str(number) for number in range(few)]
    policy = plain_policy(regions)
    lat, lon = np.full(100_000, 40.75), np.full(100_000, -73.97)
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "numpy: Generator.choice, same law": (lambda: numpy.choice(len(regions), 2_000_000, p=uniform), 2_000_000),
        "numpy: Generator.choice, dummies' law": (lambda: numpy.choice(len(regions), 2_000_000, p=law), 2_000_000),
        "AES-256 keystream, words": (lambda: entropy.words(indices), indices),
        "tuples, uniform dummies": (tuples(Sampler(own, None, DUMMIES)), indices),
        "tuples, 50 uniform dummies": (tuples(Sampler(own, None, 50)), TUPLES * 51),
        "tuples, dummies by weight": (tuples(Sampler.of(Tupling(base, DUMMIES, law))), indices),
        "tuples, distinct dummies": (tuples(Sampler(own, None, DUMMIES, replacement=False)), indices),
        "one report, any channel": (tuples(Sampler(own, None, 0)), TUPLES),
        "remembered tuples": (lambda: memory.release(policy, people, some), few * (DUMMIES + 1)),
        "points: planar Laplace": (lambda: release_points(ContinuousLaplace(1.0), lat, lon), lat.size),
        "points: planar Gaussian": (lambda: release_points(ContinuousGaussian(1.0), lat, lon), lat.size),
        **peers(len(regions)),
    }

    def measured() -> dict[str, float]:
        return {name: draws / quickest(work) / 1e6 for name, (work, draws) in ways.items()}

    rates = benchmark.pedantic(measured, rounds=1, iterations=1)
    first = rates["numpy: Generator.choice, same law"]
    lines = [f"{name:<40}{rate:10.2f} million/s{rate / first:9.2f} x choice" for name, rate in rates.items()]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")


def test_time_does_not_tell_the_draw(benchmark, capsys, regions):
    """Batches that differ in where people are, and in how far their noise throws them, take the same time."""
    base = RestrictedLaplace(regions.inputs, 1.0, 1.5, regions)
    entropy, size = SystemEntropy(), 100_000
    rows = np.argsort(np.diff(csr_array(base.channel()).indptr))
    batches = {"few likely reports": rows[0], "many": rows[-1]}
    samplers = {f"tuples of {k}": Sampler.of(Tupling(base, k)) for k in (0, 10)}
    samplers["distinct dummies"] = Sampler.of(Tupling(base, DUMMIES, replacement=False))
    jobs: dict[str, list[Callable[[], object]]] = {
        name: [partial(sampler.draw, np.full(size, row), entropy) for row in batches.values()]
        for name, sampler in samplers.items()
    }
    lat, lon = np.full(20_000, 40.75), np.full(20_000, -73.97)
    jobs["points, noise of 2 m and of 2,000 km"] = [
        partial(release_points, ContinuousLaplace(per_km), lat, lon) for per_km in (1000.0, 0.001)
    ]

    def measured() -> list[str]:
        lines = []
        for name, pair in jobs.items():
            seconds: tuple[list[float], list[float]] = ([], [])
            for turn in range(122):
                start = time.perf_counter()
                pair[turn % 2]()
                seconds[turn % 2].append(time.perf_counter() - start)
            first, second = (np.median(one[1:]) for one in seconds)
            lines.append(f"{name:<40}{1e3 * first:9.3f} ms{1e3 * second:9.3f} ms   ratio {second / first:.3f}")
        return lines

    lines = benchmark.pedantic(measured, rounds=1, iterations=1)
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(lines) + "\n")


def plain_policy(regions: Regions) -> Policy:
    n = len(regions.inputs)
    pair = Pair("a", *np.random.default_rng(4).dirichlet(np.ones(n), size=2))
    return Policy.create(
        Tupling(Identity(regions.inputs, regions), DUMMIES),
        regions,
        [pair],
        epsilon=1.0,
        delta=0.1,
        prior=np.full(n, 1 / n),
        outside="nearest",
    )


JOB = r"""
import json, os, re, resource, sys, time
from distp.release import Policy, protect_file
policy = Policy.load(sys.argv[1])
protect_file(sys.argv[2], sys.argv[3] + "few.parquet", policy, keep=["user"])
start = time.perf_counter()
done = protect_file(sys.argv[4], sys.argv[3] + sys.argv[5], policy, keep=["user"])
seconds = time.perf_counter() - start
if os.path.exists("/proc/self/status"):  # what getrusage says there begins with the process that started this one
    peak = 1024 * int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(json.dumps([done.rows, seconds, peak]))
"""


def made(path: Path, rows: int) -> Path:
    """Write check-ins of a city, block by block, so that any number fits."""
    rng = np.random.default_rng(5)
    blocks = []
    for number, start in enumerate(range(0, rows, 10_000_000)):
        size = min(10_000_000, rows - start)
        block = pl.DataFrame(
            {
                "user": rng.integers(0, 1_000_000, size).astype(np.int32),
                "lat": 40.75 + 0.02 * rng.standard_normal(size),
                "lon": -73.97 + 0.02 * rng.standard_normal(size),
            }
        )
        blocks.append(path.with_name(f"{path.name}.{number}"))
        block.write_parquet(blocks[-1], row_group_size=1_000_000)
    if path.suffix == ".csv":
        pl.scan_parquet(blocks).sink_csv(path)
        for one in blocks:
            one.unlink()
        return path
    path.mkdir()
    for number, one in enumerate(blocks):
        one.rename(path / f"{number}.parquet")
    return path


def job(words: list[object]) -> tuple[int, float, float]:
    command = [sys.executable, "-c", JOB, *map(str, words)]
    return tuple(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


@pytest.mark.parametrize("source", ["rows", "rows.csv"])
def test_check_ins_per_second(benchmark, capsys, tmp_path, regions, source):
    plain_policy(regions).save(tmp_path / "p.policy")
    rows = ROWS if source == "rows" else max(1, ROWS // 5)
    path = made(tmp_path / source, rows)
    made(tmp_path / "few", 2000)
    benchmark.pedantic(lambda: None, rounds=1, iterations=1)  # what counts is timed in the jobs themselves
    for name in ("out", "out.arrow", "out.parquet", "out.csv"):
        words = [tmp_path / "p.policy", tmp_path / "few", f"{tmp_path}/", path, name]
        count, seconds, memory = job(words)
        assert count == rows
        said = f"{source} to {name}: {count:,} rows in {seconds:.1f} s"
        with capsys.disabled():
            sys.stdout.write(f"\n{said:<52}{count / seconds / 1e6:8.2f} million/s{memory / 2**20:8.0f} MiB")
        subprocess.run(["rm", "-rf", tmp_path / name], check=True)
