"""What a mechanism costs: entries and bytes, which repeat exactly, and measured times, which do not."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from distp.calibration.families import SINGLE
from distp.experiments.calibrated import Design
from distp.experiments.records import DISTINCT, IDENTITY, RL, Cost, Time
from distp.experiments.settings import CLAIMED_EPSILON, Settings
from distp.experiments.simulate import Drawer
from distp.experiments.tuples import laplace_tuples, plain_tuples
from distp.mechanisms import Mechanism, Tupling
from distp.release.entropy import SystemEntropy
from distp.release.weights import Weights
from distp.spaces import Regions

NUMBER = 8  # bytes of a double, and of a release weight
Built = tuple[str, str, Callable[[], Mechanism]]


def costs(
    attribute: str, city: str, designs: Sequence[Design], regions: Regions, settings: Settings
) -> tuple[list[Cost], list[Time]]:
    """Return both tables: for PL, RR and PG calibrated to epsilon = 1, for tuples by default and so calibrated."""
    rows, times = [], []
    for name, words, build in _built(designs, regions, settings):
        made = build()
        rows.append(_cost(attribute, city, name, words, made))
        times.append(_time(attribute, city, name, words, build, settings))
    return rows, times


def _built(designs: Sequence[Design], regions: Regions, settings: Settings) -> list[Built]:
    s = settings
    found: list[Built] = []
    ready = {one.name: one for one in designs if one.target == CLAIMED_EPSILON}
    for name in SINGLE:
        if name in ready:
            found.append((name, ready[name].words, _again(ready[name].mechanism)))
    found.append(
        (
            RL,
            f"ε_A = {s.base_epsilon:g}/km, r = {s.radius:g} km, {s.dummies} dummies",
            lambda: laplace_tuples(regions, s.dummies, s.base_epsilon, s.radius),
        )
    )
    if RL in ready:
        found.append((f"{RL} at 1", ready[RL].words, _again(ready[RL].mechanism)))
    found.append((IDENTITY, f"{s.dummies} dummies", lambda: plain_tuples(regions, s.dummies)))
    distinct = min(s.dummies, len(regions) - 1)
    found.append((DISTINCT, f"{distinct} dummies", lambda: plain_tuples(regions, distinct, False)))
    return found


def _again(made: Mechanism) -> Callable[[], Mechanism]:
    """Return how to build the mechanism anew: a matrix that was made once is kept, but does not travel to a copy."""
    if isinstance(made, Tupling):
        return lambda: Tupling(copy.copy(made.base), made.dummies, replacement=made.replacement)
    return lambda: copy.copy(made)


def _cost(attribute: str, city: str, name: str, words: str, made: Mechanism) -> Cost:
    matrix = made.channel()
    table = sparse.csr_array(matrix)
    kept = isinstance(matrix, sparse.csr_array)
    csr = int(table.data.nbytes + table.indices.nbytes + table.indptr.nbytes)
    entries = len(made.inputs) * len(made.outputs)
    weights = Weights.of(matrix)
    return Cost(
        city,
        attribute,
        name,
        words,
        len(made.inputs),
        len(made.outputs),
        entries,
        int(table.nnz),
        "CSR" if kept else "dense",
        NUMBER * entries,
        csr,
        csr if kept else int(np.asarray(matrix).nbytes),
        int(weights.starts.nbytes + weights.columns.nbytes + weights.values.nbytes),
    )


def _time(
    attribute: str, city: str, name: str, words: str, build: Callable[[], Mechanism], settings: Settings
) -> Time:
    drawer, source = Drawer.of(build()), SystemEntropy()
    inputs = np.arange(settings.timed_reports, dtype=np.int64) % len(drawer.mechanism.inputs)
    many = np.resize(inputs, 20 * inputs.size)

    def one_by_one() -> None:
        for place in range(inputs.size):
            drawer.draw(inputs[place : place + 1], source)

    runs = settings.runs
    return Time(
        city,
        attribute,
        name,
        words,
        runs,
        1e3 * _median(lambda: build().channel(), runs),
        1e3 * _median(lambda: Drawer.of(drawer.mechanism), runs),
        1e6 * _median(one_by_one, runs) / inputs.size,
        1e6 * _median(lambda: drawer.draw(many, source), runs) / many.size,
    )


def _median(work: Callable[[], object], runs: int) -> float:
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
