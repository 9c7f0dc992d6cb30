"""Transport beside the straightforward ways in the same run: look at the ratios."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import ot
import pytest
from scipy import sparse
from scipy.sparse import csgraph

from distp import PlanarLaplace, Space, metric_epsilon, wasserstein, wasserstein_inf

LARGE = """
import resource, sys, time
import numpy as np
from distp import Space, wasserstein_inf
wasserstein_inf([1, 1], [1, 1], Space([[0.0, 0], [1, 1]]))  # compiled before the clock starts
rng = np.random.default_rng(0)
n = 20_000
clouds = {
    "uniform": (rng.random((n, 2)), rng.random((n, 2))),
    "apart": (rng.beta(1, 3, (n, 2)), rng.beta(3, 1, (n, 2))),
}
a, b = clouds[sys.argv[1]]
p, q = np.zeros(2 * n, int), np.zeros(2 * n, int)
p[:n], q[n:] = rng.integers(1, 1000, (2, n)) if sys.argv[2] == "weights" else np.ones((2, n), int)
start = time.perf_counter()
value = wasserstein_inf(p, q, Space(np.vstack([a, b]))).value
print(value, time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


def clouds(n, kind):
    """Return a space of two clouds of ``n`` points, and counts on either."""
    rng = np.random.default_rng(0)
    points = rng.random((2 * n, 2))
    if kind == "apart":
        points = np.vstack([rng.beta(1, 3, (n, 2)), rng.beta(3, 1, (n, 2))])
    p, q = np.zeros(2 * n, int), np.zeros(2 * n, int)
    p[:n] = rng.integers(1, 100, n)
    q[n:] = rng.permutation(p[:n])
    return Space(points), p, q


def flow_from_matrix(p, q, within):
    """Return the largest flow, its arcs given as a dense matrix: the straightforward way."""
    n, m = within.shape
    arcs = np.zeros((n + m + 2, n + m + 2), dtype=np.int32)
    arcs[0, 1 : n + 1] = p
    arcs[1 : n + 1, n + 1 : n + m + 1] = np.where(within, p.sum(), 0)
    arcs[n + 1 : n + m + 1, -1] = q
    return csgraph.maximum_flow(sparse.csr_array(arcs), 0, n + m + 1).flow_value


def flow_from_list(p, q, within):
    """Return the same with only the arcs there are, listed: harder to beat."""
    n, m = within.shape
    i, j = np.nonzero(within)
    rows = np.concatenate([np.zeros(n, int), 1 + i, 1 + n + np.arange(m)])
    columns = np.concatenate([1 + np.arange(n), 1 + n + j, np.full(m, n + m + 1)])
    room = np.concatenate([p, np.full(i.size, p.sum()), q]).astype(np.int32)
    graph = sparse.csr_array((room, (rows, columns)), shape=(n + m + 2, n + m + 2))
    return csgraph.maximum_flow(graph, 0, n + m + 1).flow_value


def bisection(p, q, distances, largest_flow):
    """Find W_inf the plain way: a maximum flow over all pairs within each threshold of a bisection."""
    values = np.unique(distances)
    low, high = 0, values.size - 1
    while low < high:
        middle = (low + high) // 2
        enough = largest_flow(p, q, distances <= values[middle]) == p.sum()
        low, high = (low, middle) if enough else (middle + 1, high)
    return values[low]


@pytest.fixture(scope="module", params=["uniform", "apart"])
def thousand(request):
    space, p, q = clouds(1000, request.param)
    wasserstein_inf(p, q, space)  # compiled before any clock starts
    return space, p, q, space.distances()[:1000, 1000:]


def test_w_inf_of_1000_points(benchmark, thousand):
    space, p, q, _ = thousand
    benchmark(lambda: wasserstein_inf(p, q, space))


@pytest.mark.parametrize("way", [flow_from_matrix, flow_from_list])
def test_w_inf_of_1000_points_by_bisection(benchmark, thousand, way):
    space, p, q, distances = thousand
    value = benchmark.pedantic(lambda: bisection(p[:1000], q[1000:], distances, way), rounds=3)
    assert value == wasserstein_inf(p, q, space).value


def test_w_1_of_1000_points(benchmark, thousand):
    space, p, q, _ = thousand
    benchmark.pedantic(lambda: wasserstein(p, q, space), rounds=5)


def test_w_1_of_1000_points_by_pot_alone(benchmark, thousand):
    _, p, q, distances = thousand
    a, b = p[:1000] / p.sum(), q[1000:] / q.sum()
    benchmark.pedantic(lambda: ot.emd(a, b, distances, numItermax=10**8), rounds=5)


def test_a_million_points_on_a_line(benchmark):
    rng = np.random.default_rng(0)
    n = 1_000_000
    space = Space(np.concatenate([rng.random(n), 0.25 + rng.random(n)]))
    p, q = np.zeros(2 * n, int), np.zeros(2 * n, int)
    p[:n], q[n:] = 1, 1
    benchmark.pedantic(lambda: wasserstein_inf(p, q, space), rounds=3)


@pytest.mark.parametrize("masses", ["ones", "weights"])
@pytest.mark.parametrize("cloud", ["uniform", "apart"])
def test_20000_against_20000_points_in_the_plane(benchmark, cloud, masses):
    def once():
        done = subprocess.run(
            [sys.executable, "-c", LARGE, cloud, masses], capture_output=True, text=True, check=True
        )
        value, seconds, gigabytes = (float(part) for part in done.stdout.split())
        benchmark.extra_info.update(value=value, seconds=seconds, gigabytes=gigabytes)
        assert gigabytes < 4

    benchmark.pedantic(once, rounds=1)


@pytest.mark.parametrize(("inputs", "outputs"), [(228, 276), (3000, 3000)])
def test_metric_epsilon(benchmark, inputs, outputs):
    rng = np.random.default_rng(0)
    space = Space(rng.random((max(inputs, outputs), 2)) * 10)
    mechanism = PlanarLaplace(space.subset(np.arange(inputs)), 1.0, space)
    mechanism.channel()
    benchmark.pedantic(lambda: metric_epsilon(mechanism), rounds=2)
