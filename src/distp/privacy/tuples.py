"""The exact privacy of tuples: ``delta = E[(sum of k+1 i.i.d. terms)_+] / (k+1)``, as a bracket.

For dummies drawn from ``nu`` and laws ``P``, ``Q`` of the real report, the hockey-stick divergence between
the two laws of the *whole tuple* at ``t = e^epsilon`` is (theory 4.2)

    delta(t) = E[(g(y_1) + ... + g(y_m))_+] / m,    g(y) = (P[y] - t Q[y]) / nu[y],    y_i ~ nu,    m = k+1,

plus ``sum (P - t Q)_+`` over outputs that no dummy can take. Two ways to evaluate it live here:

* `as_single_report`: where few distinct terms exist, list all multisets of m of them. The tuple is then
  one report with that many values, and the linear scans of `distp.privacy.single` are exact.
* `TupleSum.delta`: otherwise, one Fourier transform. By exchangeability the expectation equals
  ``E[g(y_m) 1{S + g(y_m) > 0}]`` with ``S`` the sum of the other k terms. Splitting every term at random
  between its two neighbours on a grid, with its mean kept, can only raise ``E(.)_+`` (Jensen): that is the
  upper end. The event "the split terms sum to more than 0" is also a test that an attacker may run, and
  every test gives a lower end. Both come from the same tail function ``Pr[S > -x]`` and differ by O(h^2).

Small probabilities keep their relative precision because the terms are tilted exponentially first, so that
the sum is centred where it matters. The bracket covers the grid, the window (Chernoff), the transform's
round-off (entrywise bound c u log2 N), the power, and the rounding of the inputs (theory 4.14).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import fft

from distp.checks import FloatArray, IntArray
from distp.privacy.bracket import Bracket
from distp.privacy.fourier import ERROR_PER_LEVEL, TAIL, power
from distp.privacy.single import LEAST, UNIT, hockey_stick, scaled

MAX_PLACES = 200
MAX_LISTED = 20_000  # multisets; listing more costs longer than a transform
_FIRST, MAX_POINTS = 1 << 12, 1 << 22  # grid points
_CONDENSED = 1 << 12  # terms that choose a window
_TINY = 1e-120
_MAX_TILT = 300.0  # of exp(theta * largest term): its square stays in range


class Found(NamedTuple):
    """A bracket of delta, its slope ``-d delta/d t`` roughly, and whether it is as narrow as asked for."""

    bracket: Bracket
    slope: float
    resolved: bool


class _OnGrid(NamedTuple):
    """What one transform tells; ``floor`` is what the rounding of P and Q alone leaves open."""

    bracket: Bracket
    slope: float
    floor: float


@dataclass(frozen=True, eq=False)
class TupleSum:
    """What `delta` needs of a pair and its dummies: the distinct terms, and what no dummy hides.

    ``a = P/nu`` and ``b = Q/nu`` with their probability ``weight`` under nu, for distinct (a, b); ``bare_p``
    and ``bare_q`` are the entries of P and Q where nu is 0, or so small (below 1e-120, ``hidden`` in sum) that
    P/nu would leave the range of a double; ``slack`` bounds the relative error of P and Q, and ``lost``
    what they lost to underflow. ``masses`` are the
    sums of P, Q and nu: 1 up to rounding, and what they miss is accounted for.
    """

    a: FloatArray
    b: FloatArray
    weight: FloatArray
    bare_p: FloatArray
    bare_q: FloatArray
    places: int
    slack: float
    masses: tuple[float, float, float]
    hidden: float = 0.0
    lost: float = 0.0

    @classmethod
    def of(
        cls, P: FloatArray, Q: FloatArray, nu: FloatArray, places: int, slack: float, lost: float = 0.0
    ) -> TupleSum:
        """Collect the distinct terms of ``P``, ``Q``, ``nu``, each of shape (|Y|,)."""
        covered = nu > _TINY
        weight = nu[covered]
        terms = P[covered] / weight + 1j * (Q[covered] / weight)
        terms, group, members = np.unique(terms, return_inverse=True, return_counts=True)
        # Adding up the weights of equal terms rounds at most once per member; m factors carry it.
        merged = slack + UNIT * (2 + places * float(members.max(initial=1) - 1))
        return cls(
            terms.real.copy(),
            terms.imag.copy(),
            np.bincount(group, weights=weight, minlength=terms.size).astype(np.float64),
            P[~covered],
            Q[~covered],
            places,
            merged,
            (math.fsum(P), math.fsum(Q), math.fsum(nu)),
            float(nu[~covered].sum()),
            lost,
        )

    @property
    def dummies_mass(self) -> tuple[float, float]:
        """The probability of all tuples of k dummies, 1 up to the rounding of nu, and its relative error."""
        k = self.places - 1
        return self.masses[2] ** k, UNIT * (2 * k + 4)

    def swapped(self) -> TupleSum:
        """Return the same with P and Q exchanged."""
        p, q, nu = self.masses
        return replace(self, a=self.b, b=self.a, bare_p=self.bare_q, bare_q=self.bare_p, masses=(q, p, nu))

    def delta(self, t: float, rtol: float, atol: float = 0.0, threshold: float | None = None) -> Found:
        """Return delta at ``t = e^epsilon`` >= 1, its slope, and whether it is as narrow as asked for.

        Narrow enough is a width of ``rtol`` times the value, of ``atol``, or of what the rounding of P and Q
        accounts for; with a ``threshold``, also any bracket that lies on one side of it.
        """
        mass, error = self.dummies_mass
        bare = hockey_stick(self.bare_p, self.bare_q, t, self.slack + error)
        # Calling a tiny nu 0 adds at most this, and takes from what is bare at most t times as much more.
        blur = 4 * self.places * self.hidden
        gone = t * self.lost if self.lost else 0.0
        # Dummies only help (theory 4.1): the bound without them always holds.
        alone = math.inf if threshold is not None else self._alone(t)
        bare_lower = max(0.0, bare.lower * mass - blur * (1 + t)) if blur else bare.lower * mass
        points = _FIRST if threshold is None else _FIRST >> 2
        while True:
            on_grid = self._on_grid(t, points)
            upper = min(on_grid.bracket.upper + bare.upper * mass + blur, alone) + self.lost
            lower = min(max(0.0, on_grid.bracket.lower + bare_lower - gone), upper)
            allowed = max(rtol * upper, atol, 4 * (on_grid.floor + self.slack * bare.upper))
            decided = threshold is not None and not lower <= threshold < upper
            if threshold is not None and not decided and math.isinf(alone):
                alone = self._alone(t)  # a look at it only where it may settle the matter
                upper = min(upper, alone + self.lost)
                lower = min(lower, upper)
                decided = not lower <= threshold < upper
            resolved = upper - lower <= allowed or upper <= LEAST or decided
            if resolved or points == MAX_POINTS:
                bare_slope = float(self.bare_q[self.bare_p > scaled(t, self.bare_q)].sum())
                return Found(Bracket(lower, upper), on_grid.slope + bare_slope, resolved)
            # The width falls with the square of the grid step.
            factor = math.sqrt((upper - lower) / (0.5 * allowed))
            points = min(MAX_POINTS, points << max(1, math.ceil(math.log2(min(factor, 64.0)))))

    def _alone(self, t: float) -> float:
        """Return an upper bound on the real report's own delta, times the mass of all dummies."""
        mass, error = self.dummies_mass
        P, Q = (np.concatenate([x * self.weight, y]) for x, y in ((self.a, self.bare_p), (self.b, self.bare_q)))
        return hockey_stick(P, Q, t, self.slack + error).upper * mass

    def _on_grid(self, t: float, points: int) -> _OnGrid:
        """Evaluate delta with one transform of ``points`` points."""
        m, k = self.places, self.places - 1
        tb = scaled(t, self.b)
        rounding = 2 * self.slack + 10 * UNIT
        # The upper end is that of terms raised by all that rounding may have taken from them.
        finite = np.where(np.isfinite(tb), tb, 0.0)
        raised = np.where(tb == finite, self.a - finite + rounding * np.maximum(self.a, finite), -np.inf)
        top = float(raised.max(initial=-np.inf))
        if top <= LEAST:  # and so is the mean of the positive parts
            return _OnGrid(Bracket(0.0, 2 * max(top, 0.0)), 0.0, 0.0)
        # One term below -k * top outweighs all others: such tuples add nothing to the positive part.
        alive = raised > -k * top * (1 + 1e-9)
        g, weight, a, b = raised[alive], self.weight[alive], self.a[alive], self.b[alive]
        window = _window(*_condensed(g, weight), k, top)
        theta = window.theta
        step, first = window.grid(points, k)

        # Split each term between its neighbours on the grid, keeping its mean.
        low = np.floor(g / step).astype(np.int64)
        up_share = np.clip(g / step - low, 0.0, 1.0)
        low_weight, up_weight = weight * (1 - up_share), weight * up_share
        base = int(low.min())
        split = np.bincount(low - base, weights=low_weight, minlength=int(low.max()) - base + 2)
        split += np.bincount(low - base + 1, weights=up_weight, minlength=split.size)
        grid = base + np.arange(split.size)
        if theta * step * (grid[-1] + 1) > _MAX_TILT + 40:
            return _OnGrid(
                Bracket(0.0, math.inf), 0.0, 0.0
            )  # steps longer than the terms: only a finer grid can tell
        tilted = split * np.exp(theta * step * grid)
        total = float(tilted.sum())
        tilted /= total

        sums, error = _self_convolve(tilted, grid, k, points, first)
        outside = window.outside(tilted, np.asarray(grid * step, dtype=np.float64), k, first * step, points * step)

        # tail[i] = sum over s >= start + i of e^(-theta s) Pr[S = s]; only s > -max(grid) can matter, and what
        # the untilting makes smaller than e^-_MAX_TILT cannot.
        reach = math.ceil(_MAX_TILT / (theta * step)) if theta > 0 else first + points
        start = max(first, -int(grid[-1]))
        stop = max(start, min(first + points, reach))
        untilt = np.exp((-theta * step) * np.arange(start, stop))
        tail = _from_above(untilt * sums[start - first : stop - first])
        noise = error * np.sqrt(_from_above(untilt * untilt))

        def beyond(values: FloatArray, x: IntArray) -> FloatArray:
            """Look up the values of a tail function at the sums s > -x."""
            result: FloatArray = values[np.clip(1 - x - start, 0, values.size - 1)]
            return result

        low_tail, up_tail = beyond(tail, low), beyond(tail, low + 1)
        hit = low_weight * low_tail + up_weight * up_tail  # weight times Pr[the split sum exceeds 0]
        lower = float((a - finite[alive]) @ hit)
        upper = step * float((low * low_weight) @ low_tail + ((low + 1) * up_weight) @ up_tail)
        size = np.abs(g) + step
        weight_noise = low_weight * beyond(noise, low) + up_weight * beyond(noise, low + 1)
        # Wrapped or lost mass moves a tail by at most Pr[outside] e^(theta x) (in units of the tilted law).
        strayed = 2 * outside * float(np.abs(grid * step) @ tilted) * total
        strayed += 2 * math.exp(-_MAX_TILT) * float(size @ weight)  # what `reach` leaves out
        widest = max(theta * top, min(theta * -float(g.min()), 700.0))
        crowd = int(np.bincount(low - base).max())  # terms added up in one bin; m factors carry their rounding
        relative = UNIT * (2 * points + 2 * g.size + m * (4 * widest + 20 + 2 * crowd) + 4 * k * abs(math.log(total)))
        inputs = rounding * float((a + finite[alive]) @ hit)
        slip = float(size @ weight_noise) + strayed + (relative + 64 * UNIT) * float(size @ hit)
        return _rescale(k * math.log(total), lower - slip - inputs, upper + slip, float(b @ hit), inputs)


def as_single_report(terms: TupleSum) -> tuple[FloatArray, FloatArray, float, float] | None:
    """List all multisets of terms: the tuple as one report, or None if they are too many.

    Returns both laws, their relative error, and what they may have lost to underflow.

    A tuple's law depends on its multiset alone (theory 3.4): multiset ``c`` has probability
    ``mult(c) prod nu^c * (sum_i c_i a_i) / m``.
    """
    m, n = terms.places, terms.a.size
    mass, error = terms.dummies_mass
    if n == 0:
        return terms.bare_p * mass, terms.bare_q * mass, terms.slack + error, terms.lost
    if m > MAX_PLACES or math.comb(n + m - 1, m) > MAX_LISTED or terms.hidden:
        return None
    counts = _multisets(n, m)
    probability = np.ones(counts.shape[0])
    left = np.full(counts.shape[0], m)
    choose = np.array([[math.comb(i, j) for j in range(m + 1)] for i in range(m + 1)], dtype=np.float64)
    for column in range(n):
        c = counts[:, column]
        probability *= choose[left, c] * terms.weight[column] ** c
        left = left - c
    P = np.concatenate([probability * (counts @ terms.a) / m, terms.bare_p * mass])
    Q = np.concatenate([probability * (counts @ terms.b) / m, terms.bare_q * mass])
    # Below this a product of weights may have lost digits, or itself; each density multiplies what is lost.
    lost = LEAST * counts.shape[0] * max(1.0, float(terms.a.max()), float(terms.b.max()))
    return (
        P,
        Q,
        terms.slack + error + UNIT * (2 * m + 4 * n + 8),
        terms.lost + (lost if probability.min() < LEAST else 0.0),
    )


@lru_cache(maxsize=32)
def _multisets(n: int, m: int) -> IntArray:
    """Return the counts of every multiset of ``m`` out of ``n``, shape (n+m-1 choose m, n)."""
    bars = np.array(list(combinations(range(n + m - 1), n - 1)), dtype=np.int64)
    bars = bars.reshape(math.comb(n + m - 1, m), n - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n + m - 1)])
    return np.diff(edges, axis=1) - 1


def _condensed(g: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return few terms that stand for many: good enough to choose a window by, not to bound anything."""
    if g.size <= 2 * _CONDENSED:
        return g, weight
    low, high = float(g.min()), float(g.max())
    place = np.minimum((g - low) * (_CONDENSED / (high - low)), _CONDENSED - 1).astype(np.int64)
    mass, moment = (
        np.bincount(place, weights=w, minlength=_CONDENSED).astype(np.float64) for w in (weight, weight * g)
    )
    full = mass > 0
    return moment[full] / mass[full], mass[full]


def _from_above(values: FloatArray) -> FloatArray:
    """Return the sums of ``values[i:]`` for every i, and 0 at the end."""
    result = np.zeros(values.size + 1)
    np.cumsum(values[::-1], out=result[-2::-1])
    return result


@dataclass(frozen=True)
class _Window:
    """The tilt, and where the tilted sum of k terms lies but for a probability of about ``e^-TAIL``.

    ``up`` and ``down`` are the Chernoff exponents that place its ends; `outside` bounds with them, whatever
    they are, the probability that the sum leaves the window.
    """

    theta: float
    start: float
    end: float
    top: float
    up: float
    down: float

    def grid(self, points: int, k: int) -> tuple[float, int]:
        """Return the step and the first index of a grid of ``points`` that covers the window."""
        # Splitting moves a term by up to one step; some room keeps the spread sum inside.
        room = min(k, points // 8) + 4
        step = max(self.end - self.start, self.top * 1e-3) / (points - 2 * room)
        return step, math.floor(self.start / step) - room

    def outside(self, pmf: FloatArray, values: FloatArray, k: int, start: float, length: float) -> float:
        """Bound the probability that the sum of ``k`` draws from ``pmf`` leaves [start, start + length)."""
        live = pmf > 0
        values, log_pmf = values[live], np.log(pmf[live])
        low, high = k * float(values[0]), k * float(values[-1])
        above = (
            0.0
            if start + length > high + 1e-9 * abs(high)
            else _chernoff(values, log_pmf, k, self.up, start + length)
        )
        below = 0.0 if start <= low else _chernoff(-values, log_pmf, k, self.down, -start)
        return min(1.0, above + below)


def _chernoff(values: FloatArray, log_pmf: FloatArray, k: int, exponent: float, end: float) -> float:
    """Bound the probability that ``k`` draws sum to ``end`` or more."""
    terms = exponent * values + log_pmf
    largest = float(terms.max())
    log_moment = largest + math.log(float(np.exp(terms - largest).sum()))
    return math.exp(min(0.0, k * log_moment - exponent * end)) * (1 + 1e-9)


def _window(g: FloatArray, weight: FloatArray, k: int, top: float) -> _Window:
    theta, tilted = _tilt(g, weight, k, top)
    mean = float(tilted @ g)
    variance = float(tilted @ (g - mean) ** 2)
    reaches = []
    for sign in (1.0, -1.0):
        x = sign * (g - mean)
        furthest = max(float(x.max()), 1e-300)
        natural = math.sqrt(2 * TAIL / (k * variance)) if variance > 0 else 1 / furthest
        exponents = np.minimum(natural * 2.0 ** np.arange(-4.0, 5.0), 600 / furthest)
        moments = np.log(np.exp(np.outer(exponents, x)) @ tilted)
        distance = (k * moments + TAIL) / exponents
        best = int(np.argmin(distance))
        reaches.append((min(float(distance[best]), k * furthest), float(exponents[best])))
    (above, up), (below, down) = reaches
    return _Window(theta, k * mean - below, k * mean + above, top, up, down)


def _tilt(g: FloatArray, weight: FloatArray, k: int, top: float) -> tuple[float, FloatArray]:
    """Return theta >= 0 near the minimum of ``log E e^(theta g)``, and the tilted law: its sum has mean about 0."""
    low, high, theta = 0.0, _MAX_TILT / top, 0.0
    for _ in range(60):
        tilted = weight * np.exp(np.maximum(theta * g, -700.0))
        tilted /= tilted.sum()
        mean = float(tilted @ g)
        variance = float(tilted @ (g - mean) ** 2)
        low, high = (low, theta) if mean >= 0 else (theta, high)
        if (theta == 0 and mean >= 0) or abs(mean) <= 0.1 * math.sqrt(variance / k) or high - low <= 1e-3 * high:
            break
        newton = theta - mean / variance if variance > 0 else high
        theta = newton if low < newton < high else (low + high) / 2
    return theta, tilted


def _self_convolve(pmf: FloatArray, grid: IntArray, k: int, points: int, first: int) -> tuple[FloatArray, float]:
    """Return the law of the sum of ``k`` draws on the window, and a bound on its error in the 2-norm."""
    cyclic = np.bincount(grid % points, weights=pmf, minlength=points)
    spectrum = fft.rfft(cyclic)
    modulus = np.abs(spectrum)
    # Powers below 1e-280 are dropped: they would only pass through slow subnormal numbers.
    spectrum[modulus < math.exp(-645 / k)] = 0
    sums = np.roll(fft.irfft(power(spectrum, k), points), -(first % points))
    levels = ERROR_PER_LEVEL * UNIT * math.log2(points)
    rest = power(np.maximum(modulus + levels, math.exp(-645 / k)), k - 1)
    entry = rest * (k * levels + UNIT * (8 * k + 64)) + 1e-280
    # A half-spectrum stands for both halves: all but its first and last entry count twice.
    squared = 2 * float((entry * entry).sum()) - float(entry[0] ** 2 + entry[-1] ** 2)
    # Plain sums: a threaded dot product of this size waits longer for its threads than it computes.
    error = math.sqrt(squared / points) + levels * math.sqrt(float((sums * sums).sum()))
    return np.maximum(sums, 0.0), error


def _rescale(log_scale: float, lower: float, upper: float, slope: float, floor: float) -> _OnGrid:
    """Multiply by ``e^log_scale`` without losing the direction of either end."""
    if log_scale + math.log(max(upper, 1e-300)) < math.log(LEAST):
        return _OnGrid(Bracket(0.0, LEAST), 0.0, 0.0)
    # Split the factor in two so that neither half leaves the range of a double.
    half = math.exp(log_scale / 2)
    low, high = (max(0.0, end * half * half) for end in (lower * (1 - 1e-13), upper * (1 + 1e-13)))
    return _OnGrid(Bracket(min(low, high), high), slope * half * half, floor * half * half)
