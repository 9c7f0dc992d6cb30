"""Extended DP: the smallest epsilon per unit of distance, over all pairs of inputs."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, IntArray, numbers
from distp.errors import SpaceError
from distp.mechanisms import Mechanism
from distp.privacy.bracket import Bracket
from distp.privacy.families import rows
from distp.privacy.single import UNIT

_DIRECT = 1 << 26  # pairs times outputs that are simply all computed
_BLOCK = 1 << 15  # numbers of a work array that stays in the cache
_NEAREST = 8
_FEW = 2  # pairs an input whose scan costs no more than two scans of its row and column
_LOOSE = 1e-11  # relative: a pair that is surely no worse than the best by more than this is not computed
_REFINED = 1 << 12  # pairs that are computed a second time, by division


def metric_epsilon(mechanism: Mechanism, distances: ArrayLike | None = None) -> Bracket:
    """Return the smallest epsilon of extended DP: ``A(x)[y] <= e^(epsilon d(x, x')) A(x')[y]`` for all x, x', y.

    Parameters
    ----------
    mechanism : Mechanism
        Of a tuple this is its base's: the tuple that repeats the worst output is possible (theory 4.1).
    distances : array_like, shape (|X|, |X|), optional
        Default: between the mechanism's inputs. Finite and >= 0; nothing else is asked of them.

    Returns
    -------
    Bracket
        Per unit of distance; ``inf`` where an output is possible for one input only, or inputs at distance 0
        have different laws.

    Raises
    ------
    SpaceError
        Distances of another shape, negative or not finite.

    Notes
    -----
    Theory, Definition 4 with delta = 0. The nominal epsilon of a mechanism on a bounded map is not this number.
    ``g(x, x') = max_y ln A(x)[y] / A(x')[y]`` is at most ``g(x, r) + g(r, x')`` for any row r, which spares most
    pairs their scan of the outputs.

    Examples
    --------
    >>> from distp.mechanisms import Exponential
    >>> metric_epsilon(Exponential([0.0, 1.0, 2.0], 1.0)).upper <= 1.0
    True
    """
    laws = rows(mechanism)
    n = laws.shape[0]
    between = mechanism.inputs.distances() if distances is None else numbers(distances, "distances", SpaceError)
    if between.shape != (n, n):
        raise SpaceError(f"distances must have shape (inputs, inputs) = {(n, n)}, got {between.shape}")
    if not np.isfinite(between).all() or (between < 0).any():
        raise SpaceError("distances must be finite and >= 0")
    possible = (laws > 0).any(axis=0)
    laws = np.ascontiguousarray(laws[:, possible])
    if (laws == 0).any():
        return Bracket(math.inf, math.inf)
    known: dict[bytes, int] = {}
    kind = np.array([known.setdefault(row.tobytes(), len(known)) for row in laws])
    i, j = np.nonzero(between == 0)
    if (kind[i] != kind[j]).any():
        return Bracket(math.inf, math.inf)
    return _Search(laws, kind, between).run()


@dataclass(eq=False)
class _Search:
    """The largest ``g(x, x') / d(x, x')`` so far.

    ``lower`` is proven by ``pair``; ``left_out`` bounds the pairs that were passed over although they might be
    worse by a rounding; ``open`` holds those that were computed and might be, with their own upper ends.
    """

    laws: FloatArray
    kind: IntArray  # inputs of one kind have equal laws, and nothing between them to find
    between: FloatArray
    lower: float = 0.0
    left_out: float = 0.0
    open: list[tuple[IntArray, IntArray, FloatArray]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.logs = np.log(self.laws)
        # Of a difference of two logarithms; of a sum of two such differences it is twice this and a bit.
        self.error = 8 * UNIT * max(1.0, float(np.abs(self.logs).max()))
        self.work = np.empty(max(_BLOCK, self.logs.shape[1]))

    def run(self) -> Bracket:
        n, m = self.logs.shape
        if n * n * m <= _DIRECT:
            for x in range(n):
                self.take(np.full(n, x), np.arange(n), self.forward(x))
            return self.refine()
        nearest = min(_NEAREST, n - 1)
        near = np.argpartition(self.between + np.where(np.eye(n, dtype=bool), np.inf, 0), nearest, axis=1)
        self.compute(np.repeat(np.arange(n), nearest), near[:, :nearest].ravel())
        i, j, limit = self.far()
        while i.size > 2 * _FEW * n:
            # The input in most pairs: its two scans settle them all, and give a way round for the others.
            c = int(np.argmax(np.bincount(i, minlength=n) + np.bincount(j, minlength=n)))
            ahead, back = self.forward(c), self.backward(c)
            self.take(np.full(n, c), np.arange(n), ahead)
            self.take(np.arange(n), np.full(n, c), back)
            keep = (i != c) & (j != c)
            i, j, limit = i[keep], j[keep], limit[keep]
            np.minimum(limit, (back[i] + ahead[j] + 3 * self.error) / self.between[i, j], out=limit)
            before = keep.size
            i, j, limit = self.drop(i, j, limit)
            if before - i.size < _FEW * n:
                break  # computing the pairs one by one is no slower now
        self.finish(i, j, limit)
        return self.refine()

    def forward(self, x: int) -> FloatArray:
        """Return ``g(x, .)``, shape (n,), to within ``error``."""
        return self._scan(self.logs[x], 1)

    def backward(self, x: int) -> FloatArray:
        """Return ``g(., x)``, shape (n,), to within ``error``."""
        return self._scan(self.logs[x], -1)

    def _scan(self, row: FloatArray, sign: int) -> FloatArray:
        n, m = self.logs.shape
        rows = max(1, self.work.size // m)
        found = np.empty(n)
        for start in range(0, n, rows):
            part = self.logs[start : start + rows]
            gap = self.work[: part.size].reshape(part.shape)
            np.subtract(row, part, out=gap) if sign > 0 else np.subtract(part, row, out=gap)
            gap.max(axis=1, out=found[start : start + rows])
        return found

    def compute(self, i: IntArray, j: IntArray) -> None:
        """Compute the pairs one by one."""
        m = self.logs.shape[1]
        rows = max(1, self.work.size // m)
        left, right = np.empty((rows, m)), self.work[: rows * m].reshape(rows, m)
        found = np.empty(i.size)
        for start in range(0, i.size, rows):
            x, z = i[start : start + rows], j[start : start + rows]
            # "clip" lets numpy write into the work arrays directly; every index is in range.
            P = np.take(self.logs, x, axis=0, out=left[: x.size], mode="clip")
            Q = np.take(self.logs, z, axis=0, out=right[: x.size], mode="clip")
            np.subtract(P, Q, out=P).max(axis=1, out=found[start : start + rows])
        self.take(i, j, found)

    def take(self, i: IntArray, j: IntArray, gap: FloatArray) -> None:
        """Learn ``g(i, j)`` of pairs, known to within ``error``."""
        apart = self.kind[i] != self.kind[j]
        i, j, gap = i[apart], j[apart], gap[apart]
        if not i.size:
            return
        d = self.between[i, j]
        with np.errstate(over="ignore"):
            self.raise_to(float(((gap - self.error) / d).max()) * (1 - 2 * UNIT))
            upper = (gap + self.error) / d * (1 + 4 * UNIT)
        chosen = upper > self.lower
        self.open.append((i[chosen], j[chosen], upper[chosen]))
        if sum(part[0].size for part in self.open) > 16 * _REFINED:
            self._tidy()

    def raise_to(self, value: float) -> None:
        """Learn a lower end; one beyond the doubles is not infinite for that."""
        self.lower = max(self.lower, min(value, sys.float_info.max))

    def _tidy(self) -> None:
        """Keep the open pairs that may still be the worst, the likeliest of them if they are many."""
        i, j, upper = (np.concatenate(parts) for parts in zip(*self.open, strict=True))
        chosen = np.flatnonzero(upper > self.lower)
        if chosen.size > _REFINED:
            order = np.argpartition(-upper[chosen], _REFINED)
            self.left_out = max(self.left_out, float(upper[chosen[order[_REFINED:]]].max()))
            chosen = chosen[order[:_REFINED]]
        self.open = [(i[chosen], j[chosen], upper[chosen])]

    def far(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the pairs that the columns' least, middle and largest entries do not settle, with their limits."""
        n = self.logs.shape[0]
        middles = [self.logs.min(axis=0), self.logs.mean(axis=0), self.logs.max(axis=0)]
        ways = [(self._scan(row, -1), self._scan(row, 1)) for row in middles]
        parts = []
        step = max(1, (1 << 22) // n)
        for start in range(0, n, step):
            limit = np.full((min(step, n - start), n), np.inf)
            for back, ahead in ways:
                np.minimum(limit, np.add.outer(back[start : start + step], ahead), out=limit)
            d = self.between[start : start + step]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                limit = (limit + 3 * self.error) / d
            i, j = np.nonzero(self.kind[start : start + step, None] != self.kind)
            parts.append(self.drop(i + start, j, limit[i, j]))
        i, j, limit = (np.concatenate(column) for column in zip(*parts, strict=True))
        return i, j, limit

    def drop(self, i: IntArray, j: IntArray, limit: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the pairs whose limit leaves room for more than the largest so far."""
        keep = limit > self.lower * (1 + _LOOSE)
        gone = limit[~keep]
        self.left_out = max(self.left_out, float(gone.max(initial=0.0)) * (1 + 4 * UNIT))
        return i[keep], j[keep], limit[keep]

    def finish(self, i: IntArray, j: IntArray, limit: FloatArray) -> None:
        """Compute what is left, the most promising first."""
        order = np.argsort(-limit)
        i, j, limit = i[order], j[order], limit[order]
        while i.size:
            step = min(i.size, 1 << 14)
            self.compute(i[:step], j[:step])
            i, j, limit = self.drop(i[step:], j[step:], limit[step:])

    def refine(self) -> Bracket:
        """Return the bracket, after computing the worst pairs from quotients: exact to their own size."""
        if not self.open:
            return Bracket(self.lower, max(self.lower, self.left_out))
        self._tidy()
        i, j, _ = self.open[0]
        upper = self.left_out
        rows = max(1, self.work.size // self.laws.shape[1])
        for start in range(0, i.size, rows):
            x, z = i[start : start + rows], j[start : start + rows]
            P, Q, d = self.laws[x], self.laws[z], self.between[x, z]
            with np.errstate(over="ignore", under="ignore"):
                quotient = (P - Q) / Q
            # Below 1/2 the difference is exact or rounded once; elsewhere logarithms are far from 0.
            close = np.abs(quotient) < 0.5
            logs = np.where(close, np.log1p(np.where(close, quotient, 0.0)), self.logs[x] - self.logs[z])
            wrong = np.where(close, 8 * UNIT * np.abs(logs), self.error)
            with np.errstate(over="ignore"):
                self.raise_to(float(((logs - wrong).max(axis=1) / d).max()) * (1 - 4 * UNIT))
                upper = max(upper, float(((logs + wrong).max(axis=1) / d).max()) * (1 + 4 * UNIT))
        return Bracket(self.lower, max(self.lower, upper))
