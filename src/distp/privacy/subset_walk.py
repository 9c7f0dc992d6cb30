"""The law of the sum of g over a random subset, on a grid: one pass over the outputs, nothing subtracted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from distp.checks import FloatArray

_BLOCK = 64  # grid points that are judged together when a row is trimmed
_TRIMS = 48  # about how often a walk trims its rows

Row = tuple[int, FloatArray]  # first grid index, probabilities from there on
_EMPTY: Row = (0, np.empty(0))


def top_sum(values: FloatArray, m: int) -> float:
    """Return the sum of the ``m`` largest values."""
    return math.fsum(np.sort(values)[-m:]) if m else 0.0


def tilt(g: FloatArray, m: int, reached: Callable[[float, float], bool]) -> tuple[float, FloatArray]:
    """Return the least theta >= 0 with ``reached(theta, mean)``, roughly, and each output's chance to be in T.

    The chances are those of the law of T weighted by ``e^(theta G)``, in saddle-point approximation:
    ``1 / (1 + e^(-theta g - c))`` with c such that they sum to m; ``mean`` is their mean of G.
    """
    centred = g - float(np.median(g))
    if m == g.size:
        return 1 / float(g.sum()), np.ones(m)

    def chances(theta: float) -> FloatArray:
        x = theta * centred
        low, high, c = -float(x.max()) - 40.0, -float(x.min()) + 40.0, math.log(m / (g.size - m))
        for _ in range(80):
            pi: FloatArray = expit(x + c)
            excess, slope = float(pi.sum()) - m, float((pi * (1 - pi)).sum())
            low, high = (low, c) if excess > 0 else (c, high)
            if abs(excess) < 1e-7 * m:
                break
            c = c - excess / slope if slope > 0 else math.inf
            if not low < c < high:
                c = (low + high) / 2
        return pi

    low, theta = 0.0, 1 / (float(np.abs(centred).max()) * m)
    most = 1e30 * theta
    while theta < most and not reached(theta, float(chances(theta) @ g)):
        low, theta = theta, 4 * theta
    high = theta
    while high - low > 0.02 * high:
        theta = math.sqrt(low * high) if low > 0 else high / 2
        if reached(theta, float(chances(theta) @ g)):
            high = theta
        else:
            low = theta
        if high < 1e-280:
            break
    return high, chances(high)


@dataclass(frozen=True, eq=False)
class Sums:
    """What a walk finds: ``E[S_+]``, ``Pr[S > 0]``, ``E[j; S in {0, h}]``, and ``E[e^(theta S)]`` of what it dropped.

    The last also bounds the dropped ``Pr[S >= 0]``.
    """

    mean: float
    positive: float
    edge: float
    dropped: float


@dataclass(frozen=True, eq=False)
class SubsetWalk:
    """The values g in the order of a walk, ``nulls`` more that are 0, and the tilt at which they matter.

    ``theta`` roughly minimises ``E[e^(theta S)] / theta``, which bounds ``e E[S_+]``.
    """

    g: FloatArray
    nulls: int
    places: int
    theta: float
    log_moment: float
    reach: float

    @classmethod
    def of(cls, g: FloatArray, null: NDArray[np.bool_], m: int) -> SubsetWalk:
        """Choose the tilt and the order for subsets of ``m`` out of ``g``, of which ``null`` count as 0."""
        theta, pi = tilt(g, m, lambda theta, mean: theta * mean >= 1)
        spread = pi * (1 - pi)
        middle = float(spread @ g) / max(float(spread.sum()), 1e-300)
        sigma = math.sqrt(float(spread @ (g - middle) ** 2))
        # No partial sum that can still become positive is further than the best sum of all from the largest.
        reach = min(16 * sigma + 4 / theta, top_sum(g, m))
        rest = g[~null]
        # Small values first: while many counts are open, the sums are still close together.
        rest = rest[np.argsort(np.abs(rest - middle), kind="stable")]
        first = cls(rest, g.size - rest.size, m, theta, 0.0, reach)
        log_factor = theta * rest
        _, log_moment = first._levels(log_factor, frozenset())
        return cls(rest, first.nulls, m, theta, log_moment, reach)

    @property
    def least_step(self) -> float:
        """The least step whose grid indices, and their sums, fit into 64 bits."""
        return float(np.abs(self.g).max()) * self.places * 2.0**-60

    def cells(self, step: float) -> float:
        """Estimate the number of additions of a walk."""
        n = self.g.size + self.nulls
        i = np.arange(1, self.g.size + 1)
        rows = np.minimum(i, self.places) - np.maximum(0, self.places - n + i) + 1
        return float(rows.sum()) * (self.reach / step + 8)

    def _levels(self, log_factor: FloatArray, at: frozenset[int]) -> tuple[dict[int, FloatArray], float]:
        """Return ln E[e^(theta R)] of what is still to be added, by outputs seen (``at``) and places filled."""
        m, n = self.places, self.g.size + self.nulls
        open_places = m - np.arange(m + 1)
        with np.errstate(divide="ignore"):
            level = np.log((open_places <= self.nulls).astype(np.float64))
            found = {}
            for i in range(self.g.size - 1, -1, -1):
                if i + 1 in at:
                    found[i + 1] = level
                take = open_places / (n - i)
                more = np.append(level[1:], -np.inf)
                stay = np.log(np.maximum(1 - take, 0.0))
                level = np.logaddexp(stay + level, np.log(np.minimum(take, 1.0)) + log_factor[i] + more)
        return found, float(level[0])

    def sums(self, step: float, tolerance: float) -> Sums:
        """Go through the outputs once on the grid of ``step``, dropping at most about ``tolerance``."""
        m, n = self.places, self.g.size + self.nulls
        x = self.g / step
        low = np.floor(x).astype(np.int64)
        up = np.clip(x - low, 0.0, 1.0)
        high = low + (up > 0)
        rate = self.theta * step
        with np.errstate(divide="ignore"):
            log_factor = np.asarray(rate * low + np.logaddexp(np.log(1 - up), np.log(up) + rate), np.float64)
        grown = np.cumsum(np.abs(x))
        marks = np.floor(grown * (_TRIMS / grown[-1]))
        trims = frozenset((np.flatnonzero(np.diff(marks)) + 1).tolist())
        levels, log_moment = self._levels(log_factor, trims)
        budget, dropped = tolerance / (2 * (len(trims) + 1) * (m + 1)), 0.0

        rest = np.sort(np.concatenate([-high, np.zeros(self.nulls, dtype=np.int64)]))
        rows: list[Row] = [_EMPTY] * (m + 2)
        rows[0] = (0, np.ones(1))
        for i in range(self.g.size):
            rest = np.delete(rest, np.searchsorted(rest, -high[i]))
            # A partial sum below this cannot reach 0 any more, whatever fills the places left.
            least = np.append(0, np.cumsum(rest[:m])).tolist()
            lo, share = int(low[i]), float(up[i])
            fewest, most = max(0, m - (n - i - 1)), min(i + 1, m)
            for j in range(most, fewest - 1, -1):
                stay, take = (n - i - m + j) / (n - i), (m - j + 1) / (n - i)
                parts = [(rows[j], 0, stay)]
                if j:
                    parts += [(rows[j - 1], lo, take * (1 - share)), (rows[j - 1], lo + 1, take * share)]
                row = _added(parts, least[m - j])
                if i + 1 in trims:
                    row, lost = _trimmed(row, rate, levels[i + 1][j] - log_moment, budget)
                    dropped += lost
                rows[j] = row
            for j in range(fewest):
                rows[j] = _EMPTY

        mean = positive = edge = 0.0
        for j, (start, values) in enumerate(rows):
            at = max(0, 1 - start)  # the first sum above 0
            mean += float((np.arange(start + at, start + values.size) * values[at:]).sum())
            positive += float(values[at:].sum())
            edge += j * float(values[max(0, -start) : max(0, 2 - start)].sum())
        # On a grid coarser than the tilt the moment may leave the range of a double.
        bound = dropped * math.exp(min(log_moment, 700.0)) if log_moment < 700 or not dropped else math.inf
        return Sums(mean * step, positive, edge, bound)


def _added(parts: list[tuple[Row, int, float]], least: int) -> Row:
    """Return the sum of rows, each moved and scaled, from the grid index ``least`` on."""
    placed = [(start + move, row, factor) for (start, row), move, factor in parts if row.size and factor > 0]
    if not placed:
        return _EMPTY
    first = max(least, min(start for start, _, _ in placed))
    last = max(start + row.size for start, row, _ in placed)
    if last <= first:
        return _EMPTY
    total = np.zeros(last - first)
    for start, row, factor in placed:
        skip = max(0, first - start)
        if skip < row.size:
            at = start + skip - first
            total[at : at + row.size - skip] += factor * row[skip:]
    return first, total


def _trimmed(row: Row, rate: float, level: float, budget: float) -> tuple[Row, float]:
    """Drop both ends of a row while their ``E[e^(theta S)]``, relative to that of all, stays within ``budget``."""
    start, values = row
    if values.size < 4 * _BLOCK:
        return row, 0.0
    edges = np.arange(0, values.size, _BLOCK)
    mass = np.add.reduceat(values, edges)
    weight = mass * np.exp(np.minimum(rate * (start + edges + _BLOCK) + level, 700.0)) * (1 + 1e-9)
    below, above = np.cumsum(weight), np.cumsum(weight[::-1])
    left = int(np.searchsorted(below, budget, side="right"))
    right = min(int(np.searchsorted(above, budget, side="right")), edges.size - left)
    lost = float(below[left - 1] if left else 0.0) + float(above[right - 1] if right else 0.0)
    end = values.size if right == 0 else int(edges[edges.size - right])
    return (start + left * _BLOCK, values[left * _BLOCK : end]), lost
