"""The optimal tupling mechanism beside the plain way, in one run: look at the ratios, not at the seconds.

The plain way is Kelley's: a linear programme over all |X||Y| entries that gains one row per ordered pair and round,
solved anew by HiGHS. It gets the same tests and the same time limit.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from distp import Pair, Space, calibrate
from distp.calibration.optimal_tests import TupleTests
from distp.calibration.optimal_tupling import optimal_tupling
from distp.utility import loss_matrix

DELTA, SECONDS = 0.001, 30.0


@pytest.fixture(scope="module")
def city():
    """Return a square city of 15 x 15 inputs and outputs, and a pair of distributions with clusters."""
    rng = np.random.default_rng(0)
    points = np.stack(np.meshgrid(np.arange(15.0), np.arange(15.0)), -1).reshape(-1, 2) * 0.8
    laws = []
    for _ in range(2):
        centres, widths = rng.uniform(0, 12, size=(6, 2)), rng.uniform(0.6, 2, size=6)
        far = ((points[:, None] - centres) ** 2).sum(axis=-1)
        law = np.exp(-far / (2 * widths**2)).sum(axis=1) + 0.02
        laws.append(law / law.sum())
    return Space(points), Pair("city", *laws)


def cutting_planes(space, pair, k, epsilon):
    """Return rounds, seconds, Kelley's lower bound and the violation of delta when the time was up."""
    distances = space.distances()
    n, m = distances.shape
    nu, t = np.full(m, 1 / m), np.exp(epsilon)
    cost = (((pair.p + pair.q) / 2)[:, None] * loss_matrix(distances, k, nu)).ravel()
    tests, rows = TupleTests(nu, k), []
    equal = sparse.kron(sparse.eye_array(n), np.ones((1, m)), format="csr")
    start, rounds, bound, worst = time.perf_counter(), 0, 0.0, np.inf
    while time.perf_counter() - start < SECONDS and worst > DELTA * 1.01:
        upper = {"A_ub": np.array(rows), "b_ub": np.full(len(rows), DELTA)} if rows else {}
        solved = linprog(cost, A_eq=equal, b_eq=np.ones(n), method="highs", **upper)
        A, bound, rounds = solved.x.reshape(n, m), solved.fun, rounds + 1
        worst = 0.0
        for a, b in ((pair.p, pair.q), (pair.q, pair.p)):
            excess = (a - t * b) @ A
            found = tests.at(excess, 1e-6, curved=False)
            worst = max(worst, found.value)
            rows.append(np.outer(a - t * b, found.weights).ravel())
    return rounds, time.perf_counter() - start, bound, worst


@pytest.mark.parametrize(("k", "epsilon"), [(3, 1.0), (20, 0.3)])
def test_optimal_tupling(benchmark, city, k, epsilon, capsys):
    space, pair = city
    found = benchmark.pedantic(
        lambda: optimal_tupling([pair], space, k, epsilon=epsilon, delta=DELTA), rounds=2, warmup_rounds=0
    )
    start = time.perf_counter()
    optimal_tupling([pair], space, k, epsilon=epsilon, delta=DELTA)
    ours = time.perf_counter() - start
    rounds, plain, bound, worst = cutting_planes(space, pair, k, epsilon)
    searched = calibrate([pair], None, space, epsilon=epsilon, delta=DELTA, max_dummies=k).certificate.loss
    figures = {
        "loss": found.loss, "lower": found.lower, "gap": found.gap, "seconds": ours, "plain_seconds": plain,
        "plain_rounds": rounds, "plain_bound": bound, "plain_delta": worst, "calibrated_loss": searched,
    }  # fmt: skip
    benchmark.extra_info.update(figures)
    with capsys.disabled():
        print(f"\nk={k}: " + ", ".join(f"{name} {value:.5g}" for name, value in figures.items()))  # noqa: T201
