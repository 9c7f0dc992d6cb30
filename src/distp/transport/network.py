"""A flow that is kept from one threshold to the next, over the pairs of inputs and outputs within it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distp.checks import FloatArray, IntArray
from distp.spaces import Space

_NONE = np.empty((0, 0))
LEAF = 8  # points in a leaf of a tree, about
LISTED = 1 << 21  # pairs that are listed, both ways; more are found in trees, each time anew
TABLE = 1 << 21  # distances that are kept as a matrix
METRICS = {"euclidean": 0, "cityblock": 1, "chebyshev": 2}


class Cloud(NamedTuple):
    """Points in the order of a tree of boxes over them; without the tree where a matrix stands for them.

    Node 1 is the root, nodes 2a and 2a + 1 are the halves of a; ``best`` is room for a label per node.
    """

    points: FloatArray
    low: FloatArray
    high: FloatArray
    best: NDArray[np.int32]
    leaf_start: IntArray
    leaf_of: IntArray

    @classmethod
    def none(cls, points: FloatArray) -> Cloud:
        """Return points (or none at all) without a tree."""
        nothing = np.zeros(1, np.int64)
        return cls(points.copy(), _NONE, _NONE, np.zeros(1, np.int32), nothing, nothing.copy())

    @classmethod
    def of(cls, given: FloatArray) -> tuple[Cloud, IntArray]:
        """Build the tree, shape (n, d); also return the points' numbers as given, in the tree's order."""
        n = given.shape[0]
        order = np.arange(n)
        levels = [np.array([0, n])]
        for _ in range(max(0, math.ceil(math.log2(n / LEAF)))):
            edges = levels[-1]
            middles = (edges[:-1] + edges[1:]) // 2
            for start, middle, end in zip(edges[:-1], middles, edges[1:], strict=True):
                part = given[order[start:end]]
                axis = int(np.argmax(part.max(axis=0) - part.min(axis=0)))
                order[start:end] = order[start:end][np.argpartition(part[:, axis], middle - start)]
            levels.append(np.sort(np.concatenate([edges, middles])))
        points = np.ascontiguousarray(given[order])
        leaves = levels[-1]
        low, high = (np.empty((2 * leaves.size - 2, points.shape[1])) for _ in range(2))
        for depth, edges in enumerate(levels):
            nodes = slice(1 << depth, 2 << depth)
            low[nodes] = np.minimum.reduceat(points, edges[:-1])
            high[nodes] = np.maximum.reduceat(points, edges[:-1])
        leaf_of = np.repeat(np.arange(leaves.size - 1), np.diff(leaves))
        return cls(points, low, high, np.zeros(low.shape[0], np.int32), leaves, leaf_of), order


class Near(NamedTuple):
    """For each point the points within some distance, ``other[first[i]:first[i + 1]]``; empty: ask the tree."""

    first: IntArray
    other: NDArray[np.int32]
    length: FloatArray


class Reach(NamedTuple):
    """The pairs within ``radius``, listed from either side, or none listed and any radius."""

    radius: float
    outputs: Near
    inputs: Near

    def within(self, r: float) -> Reach:
        """Return the pairs within a smaller radius."""
        if math.isinf(self.radius):
            return self
        return Reach(r, *(Near(*_nearness().shorter(near, r)) for near in (self.outputs, self.inputs)))


@dataclass(frozen=True, eq=False)
class Ground:
    """Where inputs and outputs lie: two clouds of points, a matrix of distances of shape (n, m), or both.

    ``transposed`` is empty where there is no matrix; ``rows`` and ``columns`` are the numbers as given, in the order
    used here.
    """

    matrix: FloatArray | None
    transposed: FloatArray
    inputs: Cloud
    outputs: Cloud
    metric: int
    rows: IntArray
    columns: IntArray

    @classmethod
    def of_matrix(cls, matrix: FloatArray, inputs: Cloud | None = None, outputs: Cloud | None = None) -> Ground:
        """Take distances as they are, shape (n, m); points may come with them, for their shadows."""
        clouds = inputs or Cloud.none(_NONE), outputs or Cloud.none(_NONE)
        rows, columns = (np.arange(size) for size in matrix.shape)
        return cls(matrix.copy(order="C"), matrix.T.copy(order="C"), *clouds, 0, rows, columns)

    @classmethod
    def of(cls, inputs: Space, outputs: Space) -> Ground:
        """Take the points of two spaces, with the distances if they are few, or those alone."""
        if inputs.points is None or outputs.points is None:
            return cls.of_matrix(inputs.distances(outputs))
        if len(inputs) * len(outputs) <= TABLE:
            left, right = Cloud.none(inputs.points), Cloud.none(outputs.points)
            return cls.of_matrix(inputs.distances(outputs), left, right)
        left, rows = Cloud.of(inputs.points)
        right, columns = Cloud.of(outputs.points)
        return cls(None, _NONE, left, right, METRICS[inputs.metric], rows, columns)

    def reach(self, r: float) -> Reach:
        """Return the pairs at most ``r`` apart, listed unless they are points and too many."""
        n, m = self.rows.size, self.columns.size
        if self.matrix is not None:
            nearness = _nearness()
            return Reach(r, Near(*nearness.listed(self.matrix, r)), Near(*nearness.listed(self.transposed, r)))
        nearness, first = _nearness(), np.empty(n + 1, np.int64)
        where = self.inputs, self.outputs, r, self.metric, LISTED, first
        count = nearness.neighbours(*where, np.empty(0, np.int32), np.empty(0))
        if count > LISTED:
            nothing = Near(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0))
            return Reach(math.inf, nothing, nothing)
        other, length = np.empty(count + 1, np.int32), np.empty(count + 1)  # never empty: that means counting
        nearness.neighbours(*where, other, length)
        return _both_ways(r, Near(first, other[:-1], length[:-1]), m)

    def lengths(self, i: IntArray, j: IntArray) -> FloatArray:
        """Return the distance of each pair, shape (arcs,)."""
        if self.matrix is not None:
            return np.asarray(self.matrix[i, j], dtype=np.float64)
        found: FloatArray = _nearness().lengths(self.inputs, self.outputs, self.metric, i, j)
        return found

    def nearest(
        self, inputs: NDArray[np.bool_], outputs: NDArray[np.bool_], bound: float = math.inf
    ) -> tuple[float, FloatArray]:
        """Return the least distance between the two sets if below ``bound``; with an infinite one, each input's."""
        found = np.full(inputs.size, np.inf)
        if self.matrix is not None:
            _nearness().nearest_in(self.matrix, inputs, outputs, found)
            return min(bound, float(found.min())), found
        label = np.where(outputs, 1, -1).astype(np.int32)
        return float(_nearness().nearest(self.inputs, inputs, self.outputs, label, bound, self.metric, found)), found


def _both_ways(r: float, forward: Near, outputs: int) -> Reach:
    first = np.zeros(outputs + 1, np.int64)
    other, length = np.empty_like(forward.other), np.empty_like(forward.length)
    _nearness().transpose(forward, first, other, length)
    return Reach(r, forward, Near(first, other, length))


class Flow:
    """Units on their way from inputs to outputs, over pairs within the last threshold.

    Inputs and outputs are taken as given and kept in the order of the ground.

    Attributes
    ----------
    supply, demand : ndarray of int64
        Units that are not placed yet.
    source, target, units : ndarray of int64
        The flow, sorted by target.
    """

    def __init__(self, ground: Ground, supply: IntArray, demand: IntArray) -> None:
        self.ground = ground
        self.supply, self.demand = supply[ground.rows], demand[ground.columns]
        self.source = self.target = self.units = np.zeros(0, np.int64)

    def copy(self) -> Flow:
        """Return an independent copy."""
        twin = object.__new__(Flow)
        twin.ground, twin.supply, twin.demand = self.ground, self.supply.copy(), self.demand.copy()
        twin.source, twin.target, twin.units = self.source, self.target, self.units
        return twin

    @property
    def missing(self) -> int:
        """Units that are not placed yet."""
        return int(self.supply.sum())

    def within(self, r: float) -> Flow:
        """Return the part of this flow over pairs at most ``r`` apart."""
        part = self.copy()
        cut = self.ground.lengths(self.source, self.target) > r
        np.add.at(part.supply, self.source[cut], self.units[cut])
        np.add.at(part.demand, self.target[cut], self.units[cut])
        part.source, part.target, part.units = self.source[~cut], self.target[~cut], self.units[~cut]
        return part

    def fill(self, r: float, allowed: int, near: Reach) -> tuple[NDArray[np.bool_], NDArray[np.bool_]] | None:
        """Augment over pairs at most ``r`` apart until no more than ``allowed`` units are missing.

        ``near`` knows all pairs at most ``r`` apart. Returns None, or as soon as that cannot be: the inputs that
        reach no output with demand left, and the outputs that do or have it. The former have nowhere to go with
        the supply they have left: it is what they hold in excess of all outputs within their reach.
        """
        from distp.transport import flow

        g = self.ground
        where = (near.outputs, near.inputs), g.transposed, g.inputs, g.outputs, g.metric
        arcs = self.source, self.target, self.units.copy()
        *found, enough, level, level_out = flow.fill(r, allowed, *where, self.supply, self.demand, *arcs)
        self.source, self.target, self.units = found
        return None if enough else (level < 0, level_out >= 0)

    def complete(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the flow with what is missing placed anywhere, as arcs (i, j, units)."""
        i, j, units = corner(self.supply, self.demand)
        return np.concatenate([self.source, i]), np.concatenate([self.target, j]), np.concatenate([self.units, units])


def _nearness() -> ModuleType:
    from distp.transport import nearness  # numba takes half a second to load

    return nearness


def corner(supply: IntArray, demand: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Match equal totals in order: on a line sorted alike, the monotone coupling."""
    left, right = np.cumsum(supply), np.cumsum(demand)
    cuts = np.sort(np.concatenate([left, right]), kind="stable")  # two sorted runs: a merge
    cuts = cuts[np.diff(cuts, prepend=0) > 0]
    return np.searchsorted(left, cuts), np.searchsorted(right, cuts), np.diff(cuts, prepend=0)
