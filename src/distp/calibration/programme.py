"""The linear programme of the optimal channel: built sparse, solved by HiGHS, bounded from below by its dual."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize, sparse

from distp.calibration.blocks import Blocks
from distp.checks import FloatArray, IntArray
from distp.errors import PrecisionError
from distp.privacy.single import UNIT

LARGEST_FACTOR = 1e6  # of a probability: beyond it the solver's tolerances would eat the smaller term
_FEASIBILITY = 1e-10  # the least that HiGHS takes
MOST_ROWS = 20_000  # of edges and outputs: with more, HiGHS takes minutes and then hours
Way = tuple[str, bool]
_WAYS: tuple[Way, ...] = (("highs-ds", False), ("highs-ipm", True), ("highs-ds", True))  # solver, presolve
_BLOCKS: Way = ("blocks", False)
_NO_EDGES: IntArray = np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Solution:
    """What the solver returned: the rows as they are, and the multipliers of the inequalities.

    Attributes
    ----------
    rows : ndarray, shape (rows, outputs)
    of_orders : ndarray, shape (orders, outputs)
    of_edges : ndarray, shape (edges, outputs)
    """

    rows: FloatArray
    of_orders: FloatArray
    of_edges: FloatArray


@dataclass(frozen=True, eq=False)
class Programme:
    """Least ``sum cost A`` over stochastic rows ``A`` with every order's hockey-stick divergence at most ``delta``.

    Attributes
    ----------
    cost : ndarray, shape (rows, outputs)
        Weight of a row times distance to an output.
    plus, minus : ndarray, shape (orders, rows)
        ``plus @ A`` is the law of the reports that may exceed ``t`` times ``minus @ A``.
    t : float
        e^epsilon.
    delta : float
    weights : ndarray, shape (rows,)
        > 0; the solver works with ``weights * A``, whose costs and constraints are of the size of distances and 1.
    edges : ndarray of int, shape (edges, 2)
        Pairs of rows (i, j) with ``A[i] <= factors A[j]`` and the same the other way round.
    factors : ndarray, shape (edges,)

    Notes
    -----
    Source: theory 7.4.
    """

    cost: FloatArray
    plus: FloatArray
    minus: FloatArray
    t: float
    delta: float
    weights: FloatArray
    edges: IntArray = field(default_factory=lambda: _NO_EDGES)
    factors: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def large(self) -> bool:
        """Whether only the interior point that goes output by output is quick enough."""
        return 2 * len(self.edges) * int(self.cost.shape[1]) > MOST_ROWS

    @property
    def ways(self) -> tuple[Way, ...]:
        """How to solve it, the quickest first; now and then, degenerate as it is, the first one fails.

        Dual simplex without presolve is fastest for the two orders of one pair; for more orders, or with edges,
        it is slow where interior point with crossover is not.
        """
        if self.large:
            return (_BLOCKS,)
        simple = self.plus.shape[0] <= 2 and not self.edges.size
        return _WAYS if simple else (_WAYS[1], _WAYS[0], _WAYS[2])

    def solve(self, way: Way, delta: float, t: float, factors: FloatArray) -> Solution:
        """Solve it with these ``delta``, ``t`` and ``factors``, which may be other ones than its own.

        Raises
        ------
        PrecisionError
            The solver gave up.
        """
        if way == _BLOCKS:
            return self._by_blocks(delta, t, factors)
        rows, outputs = self.cost.shape
        orders = self.plus.shape[0]
        cost = self.cost / self.weights[:, None]
        unit = float(cost.max()) or 1.0  # the solver's tolerances are absolute
        slacks = orders * outputs if delta > 0 else 0
        ones = np.ones((1, outputs))
        each = sparse.eye_array(outputs, format="csr")
        signed = sparse.csr_array((self.plus - t * self.minus) / self.weights)
        above = [[sparse.kron(signed, each), -sparse.eye_array(slacks) if slacks else None]]
        if slacks:
            above.append([None, sparse.kron(sparse.eye_array(orders), ones)])
        if self.edges.size:
            above.append([sparse.kron(self._incidence(factors) / self.weights, each), None])
        matrix = sparse.block_array(above, format="csr")
        limits = np.zeros(matrix.shape[0])
        if slacks:
            limits[slacks : slacks + orders] = delta
        sums = sparse.hstack([sparse.kron(sparse.eye_array(rows), ones), sparse.csr_array((rows, slacks))])
        found = optimize.linprog(
            np.concatenate([(cost / unit).ravel(), np.zeros(slacks)]),
            A_ub=matrix,
            b_ub=limits,
            A_eq=sums.tocsr(),
            b_eq=self.weights,
            method=way[0],
            options={"presolve": way[1], "primal_feasibility_tolerance": _FEASIBILITY},
        )
        if found.x is None or found.ineqlin.marginals is None:
            raise PrecisionError(f"the linear programme of the channel was not solved: {found.message}", None)
        prices = -found.ineqlin.marginals * unit
        return Solution(
            found.x[: rows * outputs].reshape(rows, outputs) / self.weights[:, None],
            prices[: orders * outputs].reshape(orders, outputs),
            prices[prices.size - 2 * len(self.edges) * outputs :].reshape(-1, outputs),
        )

    def _by_blocks(self, delta: float, t: float, factors: FloatArray) -> Solution:
        """Solve it output by output."""
        unit = float(self.cost.max()) or 1.0
        signed = self.plus - t * self.minus
        blocks = Blocks.of(self.cost / unit, signed, delta, self._incidence(factors), self.edges, factors)
        point = blocks.solve()
        first = 2 * len(self.edges)
        prices = point.prices * unit
        return Solution(point.x[: len(self.cost)], prices[first : first + len(signed)], prices[:first])

    def bound(self, solution: Solution) -> float:
        """Return what no feasible channel's cost is below, proven by the multipliers of a solution.

        Notes
        -----
        For any multipliers ``w >= 0`` (orders, outputs) and ``v >= 0`` (edges, outputs) and feasible A, with excess
        ``s = (plus A - t minus A)_+``, ``sum_y s[o, y] <= delta``::

            cost(A) >= cost(A) + sum w (plus A - t minus A - s) + sum v (A[i] - f A[j])
                    >= sum_r min_y R[r, y] - delta sum_o max_y w[o, y]

        ``R`` is the coefficient of ``A[r, y]``; rows of A sum to 1. So the solver's multipliers, negative ones set
        to 0, prove the bound whatever its tolerances. Multipliers of factors too large to compute with are left
        out, which is another choice of them. Every rounding is subtracted.
        """
        w = np.maximum(solution.of_orders, 0.0) if self.t <= LARGEST_FACTOR else np.zeros_like(solution.of_orders)
        t = min(self.t, LARGEST_FACTOR)
        more, less = self.cost + self.plus.T @ w, t * (self.minus.T @ w)
        reduced, size = more - less, more + less
        terms = 2 * w.shape[0] + 24
        if self.edges.size:
            usable = np.tile(self.factors <= LARGEST_FACTOR, 2)
            v = np.maximum(solution.of_edges, 0.0) * usable[:, None]
            incidence = self._incidence(np.minimum(self.factors, LARGEST_FACTOR))
            reduced += incidence.T @ v
            size += abs(incidence).T @ v
            terms += 2 * int(np.bincount(self.edges.ravel()).max())
        least = math.fsum(reduced.min(axis=1)) - self.delta * math.fsum(w.max(axis=1))
        rounding = terms * UNIT * math.fsum(size.max(axis=1)) + 8 * UNIT * self.delta * math.fsum(w.max(axis=1))
        return max(0.0, float(least - 2 * rounding) * (1 - 4 * UNIT))

    def _incidence(self, factors: FloatArray) -> sparse.csr_array:
        """Return the rows ``A[i] - f A[j]`` of the edges, then ``A[j] - f A[i]``, as a matrix over A's rows."""
        count, rows = len(self.edges), self.cost.shape[0]
        first = np.concatenate([self.edges[:, 0], self.edges[:, 1]])
        second = np.concatenate([self.edges[:, 1], self.edges[:, 0]])
        at = np.arange(2 * count)
        entries = np.concatenate([np.ones(2 * count), -np.tile(factors, 2)])
        return sparse.csr_array(
            (entries, (np.tile(at, 2), np.concatenate([first, second]))), shape=(2 * count, rows), dtype=np.float64
        )
