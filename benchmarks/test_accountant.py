"""The accountant beside what one would do without it, in one run: look at the ratios, not at the seconds.

Every figure is in the JSON (``extra_info``) too; the table after the last benchmark shows them side by side.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time

import numpy as np
import pytest

from distp import (
    Identity,
    PlanarLaplace,
    Space,
    Tupling,
    delta,
    epsilon,
    family_delta,
    family_epsilon,
    point_delta,
    point_epsilon,
    theorem3_epsilon,
    tuple_bounds,
)

OUTPUTS, DUMMIES, EPSILON, DELTA = 276, 100, 0.5, 0.001
RTOL = 1e-4  # relative width of the library's brackets
MOST = 1 << 40  # dummies: more than that is "never"


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.full(OUTPUTS, 0.5)), rng.dirichlet(np.full(OUTPUTS, 0.5))


@pytest.fixture(scope="module")
def exact(pair):
    """Return the guarantee to match: what 100 dummies give at epsilon 0.5."""
    return delta(Tupling(Identity(OUTPUTS), DUMMIES), *pair, EPSILON)


@pytest.fixture(scope="module")
def family():
    return list(np.random.default_rng(1).dirichlet(np.full(OUTPUTS, 0.5), size=24))


@pytest.fixture(scope="module")
def table(request):
    """Collect lines; write them when all is done, past pytest's capture."""
    lines: list[tuple[str, str]] = []
    yield lines
    plugins = request.config.pluginmanager
    reporter = plugins.getplugin("terminalreporter")
    with plugins.getplugin("capturemanager").global_and_fixture_disabled():
        reporter.write_line("")
        reporter.section("figures of this run")
        for name, value in lines:
            reporter.write_line(f"{name:<62} {value}")


@pytest.fixture
def round_trip():
    """Return the least seconds of a round trip of 2^16 points, anew for every ratio: the machine's pace drifts."""
    signal = np.random.default_rng(0).random(1 << 16)
    return min(seconds(lambda: np.fft.irfft(np.fft.rfft(signal), 1 << 16)) for _ in range(300))


def seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def best(benchmark) -> float:
    """Return the least time of a benchmark; not a number where benchmarks are disabled."""
    return benchmark.stats.stats.min if benchmark.stats else math.nan


def least(enough) -> int | None:
    """Return the least number of dummies that is enough, by bisection; None if none is."""
    high = 1
    while not enough(high):
        high *= 2
        if high > MOST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def needed(dummies: int | None) -> str:
    return "never" if dummies is None else f"{dummies:,} dummies"


def test_fourier_round_trip_of_2_16_points(benchmark, table, round_trip):
    signal = np.random.default_rng(0).random(1 << 16)
    benchmark(lambda: np.fft.irfft(np.fft.rfft(signal), 1 << 16))
    table.append(("numpy real FFT round trip, 2^16 points", f"{1e3 * round_trip:.3f} ms"))


@pytest.mark.parametrize("dummies", [10, 100])
def test_delta(benchmark, pair, table, round_trip, dummies):
    mechanism = Tupling(Identity(OUTPUTS), dummies)
    found = benchmark(lambda: delta(mechanism, *pair, EPSILON))
    ratio = best(benchmark) / round_trip
    benchmark.extra_info.update(lower=found.lower, upper=found.upper, round_trips=ratio, target=8)
    table.append((f"delta, k={dummies}, {found}", f"{1e3 * best(benchmark):.2f} ms = {ratio:.1f} round trips (<= 8)"))


@pytest.mark.parametrize("dummies", [10, 100])
def test_epsilon(benchmark, pair, table, round_trip, dummies):
    mechanism = Tupling(Identity(OUTPUTS), dummies)
    found = benchmark(lambda: epsilon(mechanism, *pair, DELTA))
    ratio = best(benchmark) / round_trip
    benchmark.extra_info.update(lower=found.lower, upper=found.upper, round_trips=ratio, target=40)
    table.append(
        (f"epsilon, k={dummies}, {found}", f"{1e3 * best(benchmark):.2f} ms = {ratio:.1f} round trips (<= 40)")
    )


def test_sampled_tuples_as_the_paper_did(benchmark, pair, table, exact):
    """Estimate delta from tuples drawn under p; how many would make an interval as narrow as the bracket?"""
    rng = np.random.default_rng(2)
    (p, q), draws = max((pair, pair[::-1]), key=lambda laws: delta_of(*laws)), 20_000
    ratio, moments = math.exp(EPSILON), np.zeros(3)

    def sample():
        values = rng.integers(OUTPUTS, size=(draws, DUMMIES + 1))
        values[:, 0] = rng.choice(OUTPUTS, size=draws, p=p)
        gain = np.maximum(0.0, 1 - ratio * q[values].sum(axis=1) / p[values].sum(axis=1))
        moments[:] += draws, gain.sum(), (gain**2).sum()

    benchmark.pedantic(sample, rounds=60)
    mean, square = moments[1:] / moments[0]
    spread = math.sqrt(square - mean**2)
    tuples = (2 * 1.96 * spread / (RTOL * mean)) ** 2  # a 95% interval is this narrow in all
    rate = draws / best(benchmark)
    error = spread / math.sqrt(moments[0])
    assert abs(mean - exact.midpoint) < 5 * error
    benchmark.extra_info.update(
        mean=mean, standard_error=error, tuples_needed=tuples, tuples_per_second=rate, seconds_needed=tuples / rate
    )
    table.append(
        (f"sampling, k={DUMMIES}: {moments[0]:,.0f} tuples", f"{mean:.4g} ± {1.96 * error:.2g}, exact {exact}")
    )
    table.append((f"  for a 95% interval of relative width {RTOL:g}", f"{tuples:.3g} tuples, {tuples / rate:,.0f} s"))


def delta_of(p, q) -> float:
    return delta(Tupling(Identity(OUTPUTS), DUMMIES), p, q, EPSILON, ordered=True).upper


def test_theorem_3_for_the_same_guarantee(benchmark, pair, table, exact):
    beta = float(max(law.max() for law in pair))

    def enough(dummies):
        return theorem3_epsilon(dummies, OUTPUTS, beta, exact.upper) <= EPSILON

    dummies = benchmark(lambda: least(enough))
    benchmark.extra_info.update(dummies=dummies, exact_dummies=DUMMIES)
    here = theorem3_epsilon(DUMMIES, OUTPUTS, beta, exact.upper)
    table.append((f"Theorem 3 at k={DUMMIES}, delta={exact.upper:.4g}", f"epsilon {here:.4g} (exact {EPSILON})"))
    table.append((f"  for epsilon {EPSILON} there", f"{needed(dummies)} (exact {DUMMIES})"))


def test_closed_bounds_for_the_same_guarantee(benchmark, pair, table, exact):
    base = Identity(OUTPUTS)

    def bounds(dummies):
        return tuple_bounds(Tupling(base, dummies), *pair, EPSILON)

    mechanism = Tupling(base, DUMMIES)
    found = benchmark(lambda: tuple_bounds(mechanism, *pair, EPSILON))
    table.append((f"closed bounds, k={DUMMIES}, all four", f"{1e3 * best(benchmark):.2f} ms"))
    for name in found._fields:
        dummies = least(lambda k, name=name: getattr(bounds(k), name) <= exact.upper)
        value = getattr(found, name)
        benchmark.extra_info[name] = {"delta": value, "dummies": dummies}
        note = ", no bound" if name == "normal" else ""
        table.append(
            (f"  {name}{note}: {value:.4g} (exact {exact.upper:.4g})", f"{needed(dummies)} (exact {DUMMIES})")
        )


LARGE = """
import json, resource, time
import numpy as np
from distp import Identity, Tupling, delta

def peak():  # of this program alone: the resource module counts the parent's memory at the fork
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

p, q = np.random.default_rng(0).dirichlet(np.full(1_000_000, 0.5), size=2)
mechanism = Tupling(Identity(np.arange(1e6)), 10_000)
before, start = peak(), time.perf_counter()
found = delta(mechanism, p, q, 0.05)
print(json.dumps(dict(seconds=time.perf_counter() - start, lower=found.lower, upper=found.upper,
                      peak_mb=peak(), before_mb=before)))
"""


def test_a_million_outputs_and_ten_thousand_dummies(benchmark, table):
    """One round in a process of its own: its peak memory is the figure."""
    run = [sys.executable, "-c", LARGE]
    done = benchmark.pedantic(lambda: subprocess.run(run, check=True, capture_output=True, text=True), rounds=1)
    figures = json.loads(done.stdout)
    assert 1e-12 < figures["lower"] <= figures["upper"] < 1e-2
    benchmark.extra_info.update(figures)
    table.append(
        (
            f"|Y|=1,000,000, k=10,000, epsilon 0.05: {figures['upper']:.4g}",
            f"{figures['seconds']:.2f} s, peak {figures['peak_mb']:.0f} MB ({figures['before_mb']:.0f} before)",
        )
    )


QUESTIONS = {"delta": (family_delta, delta, EPSILON), "epsilon": (family_epsilon, epsilon, DELTA)}


@pytest.mark.parametrize("question", QUESTIONS)
def test_family_of_24_beside_the_loop_over_552_pairs(benchmark, family, table, question):
    of_family, of_pair, at = QUESTIONS[question]
    mechanism = Tupling(Identity(OUTPUTS), 20)
    found = benchmark.pedantic(lambda: of_family(mechanism, family, at), rounds=3, warmup_rounds=1)
    values = []

    def loop():
        values.extend(of_pair(mechanism, p, q, at, ordered=True).upper for p in family for q in family if p is not q)

    plain = seconds(loop)
    assert found.value.lower <= max(values) <= found.value.upper * (1 + RTOL)
    gain = plain / best(benchmark)
    benchmark.extra_info.update(pairs=len(values), loop_seconds=plain, gain=gain, upper=found.value.upper)
    table.append(
        (
            f"family_{question}, 24 laws, k=20: {found.value}",
            f"{best(benchmark):.3f} s, plain loop {plain:.2f} s ({gain:.1f}x)",
        )
    )


@pytest.fixture(scope="module")
def city():
    """Return planar Laplace noise of 1 per km and 20 dummies: 12 x 19 inputs, 12 x 23 outputs, 500 m apart."""
    inputs, outputs = (Space([[x / 2, y / 2] for x in range(12) for y in range(rows)]) for rows in (19, 23))
    mechanism = Tupling(PlanarLaplace(inputs, 1.0, outputs), 20)
    mechanism.channel()
    return mechanism


@pytest.mark.parametrize("question", ["delta", "epsilon"])
def test_point_privacy_of_228_inputs(benchmark, city, table, question):
    ask, at = (point_delta, 1.0) if question == "delta" else (point_epsilon, DELTA)
    found = benchmark.pedantic(lambda: ask(city, at), rounds=2)
    pairs = len(city.inputs) * (len(city.inputs) - 1)
    benchmark.extra_info.update(lower=found.lower, upper=found.upper, pairs=pairs)
    table.append((f"point_{question}, {pairs:,} pairs, k=20: {found}", f"{best(benchmark):.3f} s"))
