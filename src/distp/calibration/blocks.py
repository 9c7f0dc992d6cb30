"""The programme of the optimal channel at the size of a map: an interior point that goes output by output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, lapack

from distp.checks import FloatArray, IntArray
from distp.errors import PrecisionError

_GAP = 1e-5  # of the cost: the spanner's stretch costs far more
_ITERATIONS = 200
_CORRECTORS = 2
_WIDE = 10.0  # a product within this factor of the aimed-at one needs no corrector
_SHORT_OF = 0.995  # of the way to the boundary
_WORTH = 0.02  # so much longer steps are worth a corrector
_START = 2.0  # beside costs of at most 1: large enough for the start to be near the central path

Direction = tuple[FloatArray, FloatArray, FloatArray, FloatArray]  # of x, of room, of prices; and the new price


@dataclass(frozen=True, eq=False)
class Blocks:
    """Least ``sum cost x`` with ``kept x_y >= 0`` for every output y, and ``sum_y x_y = totals``.

    ``x_y`` is column y of the channel and, for delta > 0, below it the excess of every order at y.

    Attributes
    ----------
    cost : ndarray, shape (size, outputs)
        The largest is 1.
    kept : sparse array, shape (constraints, size)
        Both ways of every edge, then the orders, then x itself: the same for all outputs.
    totals : ndarray, shape (size,)
    edges : ndarray of int, shape (edges, 2)
        The smaller number first.
    factors : ndarray, shape (edges,)
    orders : int

    Notes
    -----
    Theory 7.4. Only the totals join the outputs. So a step of Newton's takes one Cholesky factor per output, of the
    size of the inputs, and one of the sum of the inverses, however many edges there are; a general solver's factor
    of all rows is beyond reach. Predictor and corrector after Mehrotra (1992), with more correctors after
    Gondzio, Multiple centrality corrections in a primal-dual method for linear programming (1996).
    """

    cost: FloatArray
    kept: sparse.csr_array
    totals: FloatArray
    edges: IntArray
    factors: FloatArray
    orders: int

    @classmethod
    def of(
        cls,
        cost: FloatArray,
        signed: FloatArray,
        delta: float,
        incidence: sparse.csr_array,
        edges: IntArray,
        factors: FloatArray,
    ) -> Blocks:
        """Return the programme ``incidence A <= 0``, ``sum_y (signed A)_+ <= delta`` over stochastic rows A."""
        rows, outputs = cost.shape
        orders = signed.shape[0]
        slacks = orders if delta > 0 else 0
        above = sparse.vstack([incidence, sparse.csr_array(signed)])
        excess = sparse.eye_array(above.shape[0], slacks, k=-incidence.shape[0])
        kept = sparse.vstack([sparse.hstack([-above, excess]), sparse.eye_array(rows + slacks)])
        return cls(
            np.vstack([cost, np.zeros((slacks, outputs))]),
            kept.tocsr(),
            np.concatenate([np.ones(rows), np.full(slacks, delta)]),
            edges,
            factors,
            orders,
        )

    def start(self) -> Point:
        """Return a point inside: reports that ignore the input, with prices that are dual feasible.

        Raises
        ------
        PrecisionError
            There is no inside, as for epsilon 0 and delta 0.
        """
        outputs = self.cost.shape[1]
        x = np.repeat(self.totals[:, None] / outputs, outputs, axis=1)
        room = self.kept @ x
        if not room.min() > 0:
            raise PrecisionError("the linear programme of the channel has no inside", None)
        prices = _START / outputs / room
        size = self.totals.size
        left = self.cost - self.kept[:-size].T @ prices[:-size]
        price = left.mean(axis=1) - _START / self.totals
        prices[-size:] = left - price[:, None]
        return Point(x, room, prices, price)

    def solve(self) -> Point:
        """Return the last point inside: as near the optimum as asked, or as rounding allows."""
        point = self.start()
        for _ in range(_ITERATIONS):
            if point.gap <= _GAP * float((self.cost * point.x).sum()):
                break
            try:
                following = _Newton(self, point).step()
            except (np.linalg.LinAlgError, ValueError):  # ValueError: no number any more
                break
            if not following.inside:
                break
            point = following
        return point


@dataclass(frozen=True, eq=False)
class Point:
    """``room`` is ``kept x``, ``prices`` its multipliers, ``price`` the multiplier of the totals."""

    x: FloatArray
    room: FloatArray
    prices: FloatArray
    price: FloatArray

    @property
    def gap(self) -> float:
        """Of the cost, to the dual's, where the totals are met and the prices dual feasible."""
        return float((self.room * self.prices).sum())

    @property
    def inside(self) -> bool:
        """Whether all is positive, and a number."""
        return bool(self.room.min() > 0 and self.prices.min() > 0)


class _Newton:
    """The linear system at a point, factored once for all its right-hand sides.

    Raises
    ------
    LinAlgError
        Rounding has eaten the curvature: the point is as near as it gets.
    """

    def __init__(self, blocks: Blocks, point: Point) -> None:
        self.blocks, self.point = blocks, point
        self.back = blocks.kept.T.tocsr()
        self.ratio = point.prices / point.room
        self.uppers: list[FloatArray] = []
        self.joint = cho_factor(self._factor(), lower=False)
        self.missing = blocks.totals - point.x.sum(axis=1)

    def _factor(self) -> FloatArray:
        """Factor ``kept' diag(ratio_y) kept`` of every output y and return the sum of the inverses, upper half."""
        blocks, ratio = self.blocks, self.ratio
        size, count = blocks.totals.size, len(blocks.edges)
        told = slice(2 * count, 2 * count + blocks.orders)
        orders = blocks.kept[told].toarray()
        # The orders fill the whole block; all else is on the diagonal or at an edge.
        others = np.r_[0 : told.start, told.stop : len(ratio)]
        diagonal = blocks.kept[others].power(2).T @ ratio[others]
        beside = -blocks.factors[:, None] * (ratio[:count] + ratio[count : 2 * count])
        first, second = blocks.edges.T
        each = np.arange(size)
        joint = np.zeros((size, size), order="F")
        for y in range(ratio.shape[1]):
            block = np.asfortranarray((orders.T * ratio[told, y]) @ orders)
            block[each, each] += diagonal[:, y]
            block[first, second] += beside[:, y]
            upper, failed = lapack.dpotrf(block, lower=0, overwrite_a=1)
            if failed:
                raise np.linalg.LinAlgError
            self.uppers.append(upper)
            joint += lapack.dpotri(upper, lower=0)[0]
        return joint

    def _divided(self, sides: FloatArray) -> FloatArray:
        """Solve with every output's block."""
        columns = [lapack.dpotrs(upper, side, lower=0)[0] for upper, side in zip(self.uppers, sides.T, strict=True)]
        return np.column_stack(columns)

    def _direction(self, aim: FloatArray) -> Direction:
        """Return the way to where ``room * prices`` is ``aim``, to first order."""
        point = self.point
        side = self.back @ (aim / point.room) - self.blocks.cost
        alone = self._divided(side)
        price = cho_solve(self.joint, self.missing - alone.sum(axis=1))
        x = self._divided(side + price[:, None])
        room = self.blocks.kept @ x
        return x, room, aim / point.room - point.prices - self.ratio * room, price

    def _reach(self, way: Direction) -> tuple[float, float]:
        """How far x and the prices can go."""
        return _longest(self.point.room, way[1]), _longest(self.point.prices, way[2])

    def step(self) -> Point:
        """Return the point that predictor and correctors lead to."""
        point = self.point
        mean = point.gap / point.room.size
        way = self._direction(np.zeros_like(point.room))
        near, far = self._reach(way)
        left = float(((point.room + near * way[1]) * (point.prices + far * way[2])).mean())
        target = min(1.0, left / mean) ** 3 * mean
        aim = target - way[1] * way[2]
        way = self._direction(aim)
        near, far = self._reach(way)
        for _ in range(_CORRECTORS):
            ahead, beyond = min(1.0, 1.5 * near + 0.1), min(1.0, 1.5 * far + 0.1)
            product = (point.room + ahead * way[1]) * (point.prices + beyond * way[2])
            shift = np.clip(product, target / _WIDE, target * _WIDE) - product
            aim = aim + np.maximum(shift, -_WIDE * target)
            other = self._direction(aim)
            reach = self._reach(other)
            if sum(reach) < near + far + _WORTH:
                break
            way, (near, far) = other, reach
        near, far = min(1.0, _SHORT_OF * near), min(1.0, _SHORT_OF * far)
        x = point.x + near * way[0]
        return Point(x, self.blocks.kept @ x, point.prices + far * way[2], point.price + far * (way[3] - point.price))


def _longest(values: FloatArray, change: FloatArray) -> float:
    """Return the share of the change, at most 1, up to which all values stay positive."""
    falling = change < 0
    return min(1.0, float((-values[falling] / change[falling]).min(initial=1.0)))
