"""The optimal channel beside plain ways to the same linear programme, in the same run: look at the ratios.

The plain ways only solve: the library also proves a lower bound, repairs, and asks the accountant.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, sparse

from distp import Space, optimal_channel

TARGET = {"epsilon": 0.5, "delta": 1e-3}
SIZES = {"small": (40, 50), "map": (230, 276)}


def task(size):
    """Return inputs (the first points), laws with many rare places, and the space, as on a map of a city."""
    inputs, outputs = SIZES[size]
    rng = np.random.default_rng(0)
    points = rng.random((outputs, 2)) * 10
    laws = []
    for centre in ((3.0, 3.0), (6.0, 7.0)):
        law = np.zeros(outputs)
        density = np.exp(-((points[:inputs] - centre) ** 2).sum(axis=1) / 8) + 0.02 * rng.random(inputs)
        law[:inputs] = np.round(1000 * density / density.sum()) + 1
        laws.append(law / law.sum())
    return *laws, Space(points)


def row_by_row(p, q, space):
    """Write every constraint as a dense row, as a modelling language would read it, and let HiGHS choose."""
    used = np.flatnonzero(p + q)
    n, m, t = used.size, len(space), math.exp(TARGET["epsilon"])
    cost = np.append((((p + q) / 2)[:, None] * space.distances())[used].ravel(), np.zeros(2 * m))
    above, limits = np.zeros((2 * m + 2, cost.size)), np.zeros(2 * m + 2)
    for o, (a, b) in enumerate(((p, q), (q, p))):
        for y in range(m):
            for i, x in enumerate(used):
                above[o * m + y, i * m + y] = a[x] - t * b[x]
            above[o * m + y, n * m + o * m + y] = -1
            above[2 * m + o, n * m + o * m + y] = 1
        limits[2 * m + o] = TARGET["delta"]
    sums = np.zeros((n, cost.size))
    for i in range(n):
        sums[i, i * m : (i + 1) * m] = 1
    return optimize.linprog(cost, above, limits, sums, np.ones(n), method="highs").fun


def interior_point(p, q, space):
    """Write it sparse and give it to interior point, as theory 7.4 did: harder to beat."""
    used = np.flatnonzero(p + q)
    n, m, t = used.size, len(space), math.exp(TARGET["epsilon"])
    signed = np.array([p - t * q, q - t * p])[:, used]
    slacks = -sparse.eye_array(2 * m)
    totals = sparse.kron(sparse.eye_array(2), np.ones((1, m)))
    above = sparse.block_array([[sparse.kron(signed, sparse.eye_array(m)), slacks], [None, totals]], format="csr")
    sums = sparse.hstack([sparse.kron(sparse.eye_array(n), np.ones((1, m))), sparse.csr_array((n, 2 * m))]).tocsr()
    cost = np.append((((p + q) / 2)[:, None] * space.distances())[used].ravel(), np.zeros(2 * m))
    limits = np.append(np.zeros(2 * m), np.full(2, TARGET["delta"]))
    return optimize.linprog(cost, above, limits, sums, np.ones(n), method="highs-ipm").fun


def cvxpy_model(p, q, space):
    """Write it in cvxpy, where that is installed."""
    cp = pytest.importorskip("cvxpy")
    used, t = np.flatnonzero(p + q), math.exp(TARGET["epsilon"])
    A = cp.Variable((used.size, len(space)), nonneg=True)
    P, Q = p[used] @ A, q[used] @ A
    told = [cp.sum(cp.pos(a - t * b)) <= TARGET["delta"] for a, b in ((P, Q), (Q, P))]
    cost = (((p + q) / 2)[:, None] * space.distances())[used]
    return cp.Problem(cp.Minimize(cp.sum(cp.multiply(cost, A))), [cp.sum(A, axis=1) == 1, *told]).solve(
        solver="HIGHS"
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ["optimal_channel", row_by_row, interior_point, cvxpy_model])
def test_one_pair(benchmark, size, way):
    p, q, space = task(size)
    found = optimal_channel(p, q, space, **TARGET)
    if way == "optimal_channel":
        benchmark.pedantic(lambda: optimal_channel(p, q, space, **TARGET), rounds=3)
        assert found.gap < 1e-6
    else:
        value = benchmark.pedantic(lambda: way(p, q, space), rounds=2)
        assert found.lower - 1e-6 <= value <= found.loss + 1e-6


@pytest.mark.parametrize("size", SIZES)
def test_one_pair_that_the_device_knows(benchmark, size):
    p, q, space = task(size)
    found = benchmark.pedantic(lambda: optimal_channel(p, q, space, **TARGET, aware=True), rounds=2)
    assert found.gap < 1e-6


@pytest.mark.parametrize("dilation", [1.1, 1.5])
def test_with_point_privacy(benchmark, dilation):
    p, q, space = task("small")
    found = benchmark.pedantic(
        lambda: optimal_channel(p, q, space, **TARGET, point_epsilon=0.7, dilation=dilation), rounds=1
    )
    benchmark.extra_info.update(loss=found.loss, lower=found.lower, stretch=found.stretch)
