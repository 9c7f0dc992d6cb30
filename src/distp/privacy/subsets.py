"""The exact privacy of tuples whose dummies are drawn without replacement: a random subset, as a bracket.

The tuple is then a set T of ``m = k+1`` distinct outputs, sent with probability ``p(T) / C(n-1, k)``, where
``p(T)`` adds up the real report's law over T (theory 4.7). At ``t = e^epsilon``

    delta(t) = (n/m) E[(G)_+],    G = sum of g(y) over y in T,    g = P - t Q,    T uniform among all m-subsets.

* `SubsetSum.listed`: where few subsets exist, the tuple is one report with that many values, and the linear
  scans of `distp.privacy.single` are exact.
* `SubsetSum.delta`: otherwise every g(y) is split at random between its two neighbours on a grid of step h,
  with its mean kept, and the law of the split sum S is computed by going through the outputs once: the next
  one joins T with probability (places left) / (outputs left). Nothing is subtracted and nothing transformed,
  so every probability, however small, keeps its relative precision.

Upper end: ``E[S_+]``, as splitting can only raise it (Jensen, given T). Lower end: "S > 0" is a test that an
attacker may run, so ``E[G 1{S>0}]`` is reachable. The two differ by ``E[(S-G) 1{S>0}]``. Given T, let output
y in T be split into lo and lo+h with probabilities w and v, and R be S without y. Then

    E[(x_y - g(y)) 1{S>0}] = w v h (Pr[R > -lo-h] - Pr[R > -lo]) = w v h Pr[R = -lo]
                           = w v h (Pr[x_y = lo, S = 0] + Pr[x_y = lo+h, S = h]),

by independence. As w v <= 1/4, summing over T gives at most ``(h/4) E[j; S = 0 or S = h]``, where j <= m counts
the outputs in T whose g is not exactly 0: second order in h, and read off the same law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations

import numpy as np

from distp.checks import FloatArray, IntArray
from distp.privacy.bracket import Bracket
from distp.privacy.single import LEAST, UNIT, hockey_stick, scaled
from distp.privacy.subset_walk import SubsetWalk, tilt, top_sum
from distp.privacy.tuples import Found

MAX_LISTED = 20_000  # subsets
_MAX_CELLS = 4e9  # additions of a walk, about ten seconds


@dataclass(frozen=True, eq=False)
class SubsetSum:
    """Two laws of the real report, sent among ``places - 1`` distinct dummies uniform over the other outputs.

    Parameters
    ----------
    P, Q : ndarray, shape (n,)
        Laws of the real report.
    places : int
        m = k + 1, at most n.
    slack : float
        Bounds the relative error of each entry of P and Q.
    lost : float
        Bounds what each of the laws may have lost to underflow in all.
    """

    P: FloatArray
    Q: FloatArray
    places: int
    slack: float
    lost: float = 0.0

    def swapped(self) -> SubsetSum:
        """Return the same with P and Q exchanged."""
        return replace(self, P=self.Q, Q=self.P)

    def listed(self) -> tuple[FloatArray, FloatArray, float, float] | None:
        """List all subsets: the tuple as one report, or None if they are too many.

        Returns both laws, their relative error, and what they may have lost to underflow.
        """
        n, m = self.P.size, self.places
        if m == n:
            return np.ones(1), np.ones(1), 0.0, 0.0  # always the same set
        subsets = math.comb(n, m)
        if subsets > MAX_LISTED or subsets * m > 100 * MAX_LISTED:
            return None
        members = np.fromiter(chain.from_iterable(combinations(range(n), m)), dtype=np.int64, count=subsets * m)
        members = members.reshape(subsets, m)
        ways = float(math.comb(n - 1, m - 1))
        P, Q = (law[members].sum(axis=1) / ways for law in (self.P, self.Q))
        small = any((law[law > 0] < 1e-280).any() for law in (self.P, self.Q))
        return P, Q, self.slack + UNIT * (m + 4), self.lost + (LEAST if small else 0.0)

    def pure(self) -> Bracket:
        """Return the least epsilon at delta = 0: ``ln max P(T)/Q(T)`` over all subsets T of m outputs.

        Notes
        -----
        Dinkelbach's iteration: the best T at ratio c holds the m largest values of ``P - c Q``, and its own
        ratio is the next c. The upper end is a ratio that is proven to leave no T above it.
        """
        if self.lost:
            ends = (replace(self, Q=self.Q + self.lost, lost=0.0), replace(self, P=self.P + self.lost, lost=0.0))
            return Bracket(ends[0].pure().lower, ends[1].pure().upper)
        # A power of two leaves the ratio as it is, and no product below the range of full precision.
        P, Q, m = self.P * 2.0**200, self.Q * 2.0**200, self.places
        if m == P.size:
            return Bracket(0.0, 0.0)
        free = Q == 0
        if int(free.sum()) >= m and bool((P[free] > 0).any()):
            return Bracket(math.inf, math.inf)
        edge = self.slack + 8 * UNIT
        ratio, step = 1.0, 2 * edge
        while True:
            # A little above the ratio, so that an output of equal ratio does not hide what the rest can do.
            above = ratio * (1 + step)
            values = P * (1 + edge) - scaled(above, Q) * (1 - edge)
            best = np.argsort(-values, kind="stable")[:m]
            if math.fsum(values[best]) <= 0:
                break
            over, under = math.fsum(P[best]), math.fsum(Q[best])
            if over > ratio * under * (1 + edge):
                ratio, step = over / under, 2 * edge
            else:
                step *= 2
            if math.isinf(ratio):
                return Bracket(709.0, math.inf)
        lower = math.log(ratio) - 4 * edge if ratio > 1 else 0.0
        return Bracket(max(0.0, lower * (1 - 4 * UNIT)), math.log(above) * (1 + 4 * UNIT) + 4 * UNIT)

    @property
    def masses(self) -> tuple[float, float, float]:
        """The sums of P, of Q, and of the law of the dummies."""
        return math.fsum(self.P), math.fsum(self.Q), 1.0

    @property
    def dummies_mass(self) -> tuple[float, float]:
        """The probability of all sets of dummies and its relative error: counted, not added up."""
        return 1.0, 0.0

    def delta(self, t: float, rtol: float, atol: float = 0.0, threshold: float | None = None) -> Found:
        """Return delta at ``t = e^epsilon`` >= 1, its slope, and whether it is as narrow as asked for.

        Parameters
        ----------
        t : float
            ``inf`` asks for what only P can produce.
        rtol, atol : float
            Narrow enough is a width of ``rtol`` times the value, of ``atol``, or of what the rounding of P and Q
            accounts for.
        threshold : float, optional
            A bracket that lies on one side of this is narrow enough too.

        Returns
        -------
        Found
            Unresolved, but right, where that width would take more than about 4e9 additions. The slope is an
            estimate (by the saddle point) of Q's probability that ``P(T) > t Q(T)``.
        """
        if self.lost:
            bracket, slope, resolved = replace(self, lost=0.0).delta(t, rtol, atol)
            bracket = Bracket(max(0.0, bracket.lower - t * self.lost), bracket.upper + self.lost)
            return Found(bracket, slope, resolved)
        n, m = self.P.size, self.places
        # Dummies only help (theory 4.1): the bound without them always holds.
        alone = hockey_stick(self.P, self.Q, t, self.slack).upper
        # The largest values that P - t Q can have: delta only grows with them, so the upper end is safe even
        # where rounding alone decides a sign. Adding to the slack leaves room for the operations themselves.
        edge = self.slack + 10 * UNIT
        tQ = scaled(t, self.Q)
        g = self.P * (1 + edge) - tQ * (1 - edge)
        blur = 2 * (edge + 4 * UNIT)  # the relative distance to the smallest values
        tiny = LEAST if any((law[law > 0] < 1e-300).any() for law in (self.P, tQ)) else 0.0  # rounds absolutely
        live = _can_help(g, m)
        g, Q = g[live], self.Q[live]
        top, top_P = top_sum(g, m), top_sum(self.P, m)
        if g.size < m:
            return Found(Bracket(0.0, tiny), 0.0, True)
        if top <= 4 * blur * top_P:
            return Found(Bracket(0.0, min(alone, n / m * max(0.0, top) * (1 + 1e-9) + tiny)), 0.0, True)
        # T must avoid all others; given that, it is uniform among the subsets of these.
        avoids = math.prod((g.size - i) / (n - i) for i in range(m))
        near = 1 + UNIT * (4 * m + 64)
        if top_sum(-g, m) <= 0:  # every subset counts: no positive part to take
            share = avoids * n / g.size
            upper = share * math.fsum(g) * near + tiny
            lost = blur * share * (math.fsum(self.P[live]) + math.fsum(tQ[live])) * near + 2 * tiny
            return Found(_within(upper / near / near - lost, upper, alone), share * math.fsum(Q), True)

        # g is exactly 0 for these, rounded or not: they need no place on the grid.
        null = (self.P[live] == 0) & (Q == 0)
        if t == 1 and self.slack == 0:
            null |= self.P[live] == Q
        scale = avoids * n / m
        walk = SubsetWalk.of(g, null, m)
        ceiling = walk.log_moment - 1 - math.log(walk.theta) + math.log(max(scale, 1e-320))
        if ceiling < math.log(LEAST):
            return Found(Bracket(0.0, LEAST), 0.0, True)
        wanted = max(rtol, min(1.0, atol / math.exp(min(ceiling, 0.0))), 0.0 if threshold is None else 1e-2)
        # Near 0 the law of S looks like e^(-theta s), which makes the relative width about m (theta h)^2 / 2.
        step = max(math.sqrt(wanted / m) / walk.theta, walk.least_step)
        while True:
            last = step <= walk.least_step
            if walk.cells(step) > _MAX_CELLS:
                last = True
                step *= 16 * walk.cells(step) / _MAX_CELLS
            sums = walk.sums(step, 1e-6 * rtol)
            exact = UNIT * (8 * g.size + 8 * m + 64)
            missed = sums.dropped / (math.e * walk.theta)
            upper = scale * (sums.mean * (1 + exact) + missed) + LEAST
            # Where S > 0, G > -m h, so that t Q(T) < P(T) + m h.
            floor = scale * blur * (2 * top_P + m * step) * (sums.positive + sums.dropped) * near
            gap = 0.25 * step * (sums.edge * (1 + exact) + m * sums.dropped)
            result = _within(scale * (sums.mean * (1 - exact) - gap) - floor, upper, alone)
            allowed = max(rtol * result.upper, atol, 4 * floor)
            resolved = result.width <= allowed or result.upper <= 2 * LEAST
            if threshold is not None:
                resolved |= not result.lower <= threshold < result.upper
            if resolved or last:
                # The saddle point at which the mean of S is the one found given S > 0.
                chances = tilt(g, m, partial(_beyond, sums.mean / max(sums.positive, 1e-300)))[1]
                return Found(result, scale * sums.positive * float(chances @ Q), resolved)
            step = max(step / min(64.0, math.sqrt(result.width / (0.5 * allowed))), walk.least_step)


def _beyond(goal: float, _theta: float, mean: float) -> bool:
    return mean >= goal


def _can_help(g: FloatArray, m: int) -> IntArray:
    """Return the outputs that some m-subset with a positive sum holds (and perhaps a few more)."""
    live = np.arange(g.size)
    while True:
        values = g[live]
        others = top_sum(values, m - 1)
        if others == -math.inf:
            return live[:0]
        kept = live[values > -others - 4 * UNIT * abs(others)]
        if kept.size == live.size or kept.size < m:
            return kept
        live = kept


def _within(lower: float, upper: float, alone: float) -> Bracket:
    upper = min(upper, alone)
    return Bracket(min(max(lower, 0.0), upper), upper)
