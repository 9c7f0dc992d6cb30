"""One report's privacy profile between two discrete pairs: what `distp.privacy.composition` adds up.

The profile of a pair is ``H(t) = sum_y (P[y] - t Q[y])_+``: convex, falling, and known at any t as a bracket. The
two pairs have profiles

* above H: chords between upper ends; each kink of their convex hull is an atom of the pair;
* below H: between two grid points, the larger of the chords extended from both neighbouring intervals. By
  convexity such a chord stays below H; it does so also with the lower end at its near point and the upper end at
  its far one. Of all that, the convex hull.

A single report is such a pair itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from distp.checks import FloatArray
from distp.privacy.accountant import SingleReport, TupleReport
from distp.privacy.bracket import Bracket
from distp.privacy.single import UNIT, exp

_GRID, _MAX_GRID = 48, 1200  # points of a profile, at first and at most
_ROUGH, _FAR = 1e-2, 1e-12  # precision of a profile at first where it is below this
_CUT = 1e-40  # a profile below this is not followed further


@dataclass(frozen=True, eq=False)
class Atoms:
    """A discrete pair: P-mass ``e^log_p`` at each finite ``loss``, ``infinite`` where Q has none.

    The true masses differ by a factor within ``e^(+-rounding)``.
    """

    loss: FloatArray
    log_p: FloatArray
    infinite: float
    rounding: float

    def profile(self, at: FloatArray) -> FloatArray:
        """Return the profile at ``t = e^at``."""
        gain = -np.expm1(np.minimum(at[:, None] - self.loss, 0.0))
        result: FloatArray = gain @ np.exp(self.log_p) + self.infinite
        return result

    def tilted(self, theta: float) -> tuple[float, FloatArray]:
        """Return ``ln E_P[e^(theta loss)]`` over finite losses, and the tilted law."""
        terms = self.log_p + theta * self.loss
        most = float(terms.max(initial=-math.inf))
        if most == -math.inf:
            return -math.inf, np.zeros(0)
        law = np.exp(terms - most)
        total = float(law.sum())
        return most + math.log(total), law / total


class Exact:
    """A single report: one pair is both above and below."""

    def __init__(self, seen: SingleReport) -> None:
        self.sides = []
        for P, Q in ((seen.P, seen.Q), (seen.Q, seen.P)):
            both = (P > 0) & (Q > 0)
            log_p = np.log(P[both])
            loss = log_p - np.log(Q[both])
            atoms = Atoms(loss, log_p, math.fsum(P[(P > 0) & (Q == 0)]), seen.slack + _rounding(loss, log_p))
            self.sides.append((atoms, atoms))

    def refine(self, side: int, theta: float) -> bool:  # noqa: ARG002 - one signature
        """Return whether anything could be made finer."""
        return False


class Profile:
    """A tuple: brackets of both orders' profiles on a grid of epsilon >= 0, and the pairs that follow from them."""

    def __init__(self, seen: TupleReport, rtol: float) -> None:
        self.orders = (seen, seen.swapped())
        self.masses = seen.masses
        self.edge = 16 * UNIT + 4 * seen.terms.slack + seen.terms.dummies_mass[1]
        self.limits = [self._at(order, math.inf, 1e-6) for order in (0, 1)]
        end = 0.25
        while end < 600 and any(
            self._at(o, end, 0.1).upper > self.limits[o].upper * (1 + 1e-9) + _CUT for o in (0, 1)
        ):
            end *= 1.25
        # Quadratic: denser near 0, where most of the loss is.
        self.points: dict[float, tuple[tuple[Bracket, Bracket], float]] = {}
        for epsilon in end * np.linspace(0, 1, _GRID) ** 2:
            # Far out, precision costs most and is rarely needed: `refine` asks for it.
            self._add(float(epsilon), _ROUGH)
            if max(end.upper for end in self.points[float(epsilon)][0]) > _FAR:
                self._add(float(epsilon), rtol)
        self._build()

    def _at(self, order: int, epsilon: float, rtol: float) -> Bracket:
        return self.orders[order].delta(exp(epsilon), rtol).bracket

    def _add(self, epsilon: float, rtol: float) -> None:
        self.points[epsilon] = ((self._at(0, epsilon, rtol), self._at(1, epsilon, rtol)), rtol)

    def _build(self) -> None:
        self.grid = np.array(sorted(self.points))
        self.sides = [self._side(0), self._side(1)]

    def _side(self, order: int) -> tuple[Atoms, Atoms]:
        here = [self.points[e][0][order] for e in self.grid]
        there = [self.points[e][0][1 - order] for e in self.grid[:0:-1]]
        # Below t = 1 the other order says the same: H(t) = |P| - t |Q| + t H'(1/t).
        minus = -self.grid[:0:-1]
        left, mass, other = np.exp(minus), self.masses[order], self.masses[1 - order]
        base = (mass - other) - other * np.expm1(minus)
        ends = []
        for name, edge in (("lower", -self.edge), ("upper", self.edge)):
            below = base + left * [getattr(b, name) for b in there] + edge
            ends.append(np.concatenate([[mass + edge], below, [getattr(b, name) for b in here]]))
        at = np.concatenate([-self.grid[:0:-1], self.grid])
        # H falls: an upper end holds to its right, a lower end to its left.
        upper = np.minimum.accumulate(ends[1])
        lower = np.maximum.accumulate(np.maximum(ends[0], self.limits[order].lower)[::-1])[::-1]
        lower = np.minimum(lower, upper)
        x, y = _below(np.exp(at), lower, upper, other + self.edge, self.limits[order].lower)
        above = _atoms(at, upper, above=True)
        return above, _atoms(np.log(x[1:]), y, above=False)

    def refine(self, side: int, theta: float) -> bool:
        """Add points where the two pairs of an order differ most, as a law tilted by ``theta`` sees it."""
        above, below = self.sides[side]
        widest = 0.0
        tasks: list[tuple[float, float, float]] = []
        for sign in (1.0, -1.0):
            middle = sign * (self.grid[1:] + self.grid[:-1]) / 2
            gap = above.profile(middle) - below.profile(middle)
            weight = np.exp(np.clip(theta * middle, -600, 600)) * np.diff(self.grid)
            order = side if sign > 0 else 1 - side
            for i, (g, w) in enumerate(zip(gap, weight, strict=True)):
                ends = (float(self.grid[i]), float(self.grid[i + 1]))
                shrink = 1.0 if sign > 0 else math.exp(middle[i])
                width, worst = max((self.points[e][0][order].width * shrink, e) for e in ends)
                tight = width > 0.25 * g and self.points[worst][1] > 1e-9
                tasks.append(
                    (g * w, worst if tight else sum(ends) / 2, self.points[worst][1] * (0.05 if tight else 1))
                )
                widest += g * w
        tasks.sort(reverse=True)
        done, room = 0.0, len(self.points) < _MAX_GRID
        chosen: dict[float, float] = {}
        for score, epsilon, rtol in tasks:
            if done > 0.9 * widest or score <= 0:
                break
            done += score
            if room or epsilon in self.points:
                chosen[epsilon] = min(rtol, chosen.get(epsilon, 1.0))
        for epsilon, rtol in chosen.items():
            self._add(epsilon, rtol)
        self._build()
        return bool(chosen)


def _rounding(loss: FloatArray, log_p: FloatArray) -> float:
    """Bound the error of losses and of masses that were, or will be, logarithms."""
    return UNIT * (64 + 4 * float(np.abs(loss).max(initial=0.0)) + 4 * float(np.abs(log_p).max(initial=0.0)))


def _below(
    t: FloatArray, lower: FloatArray, upper: FloatArray, steepest: float, limit: float
) -> tuple[FloatArray, FloatArray]:
    """Return the corners of a function below a convex, falling H, bracketed at 0 and at ``t``.

    ``lower`` and ``upper`` have one entry more than ``t``: the first is at 0, where H falls by at most
    ``steepest``.
    """
    t = np.concatenate([[0.0], t])
    rise = np.diff(t)
    into = np.concatenate([[-steepest], (lower[1:-1] - upper[:-2]) / rise[:-1]])  # extended to the right
    out = np.concatenate([np.minimum((upper[2:] - lower[1:-1]) / rise[1:], 0.0), [0.0]])  # and to the left
    drop = lower[:-1] - lower[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        step = (drop + out * rise) / (out - into)
    inside = (out > into) & (step > 0) & (step < rise)  # otherwise the chord itself is below one of the two
    start, high, low, steep = (v[inside] for v in (t[:-1], lower[:-1], lower[1:], into))
    x = start + step[inside]
    y = high + steep * step[inside] - 16 * UNIT * (high - steep * x)
    # Where rounding would leave y below what H is known to stay above, the corner is where that level is met.
    flat = y < low
    x[flat] = np.maximum(start + (high - low) / -steep * (1 - 16 * UNIT), start)[flat] * (1 - 4 * UNIT)
    y[flat] = low[flat]
    x, y = np.concatenate([t, x]), np.concatenate([lower, y])
    fall = (upper[-2] - lower[-1]) / rise[-1]
    if lower[-1] > limit and fall > 0:
        x, y = np.append(x, t[-1] + (lower[-1] - limit) / fall * (1 - 1e-12)), np.append(y, limit)
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    first = np.append(True, x[1:] > x[:-1])  # of corners at one place, the lowest
    return x[first], y[first]


def _atoms(at: FloatArray, values: FloatArray, above: bool) -> Atoms:
    """Return the pair whose profile is the convex hull of ``values`` at 0 and at ``t = e^at``.

    The sums that define its profile are then compared with ``values`` and scaled, so that rounding has a
    direction: above the corners it uses, or below all values.
    """
    t = np.concatenate([[0.0], np.exp(at)])
    kept = [0]
    for i in range(1, t.size):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (values[b] - values[a]) / (t[b] - t[a]) < (values[i] - values[b]) / (t[i] - t[b]):
                break
            kept.pop()
        if t[i] > t[kept[-1]]:
            kept.append(i)
    corner = np.array(kept)
    slope = np.append(np.maximum(-np.diff(values[corner]) / np.diff(t[corner]), 0.0), 0.0)
    mass = np.maximum(slope[:-1] - slope[1:], 0.0) * t[corner[1:]]
    live = mass > 0
    loss, log_p = at[corner[1:] - 1][live], np.log(mass[live])
    result = Atoms(loss, log_p, float(values[corner[-1]]), _rounding(loss, log_p))
    checked = corner if above else np.arange(t.size)
    where = np.concatenate([[-np.inf], at])[checked]
    found, wanted = result.profile(where), values[checked]
    positive_ = found > 0
    with np.errstate(over="ignore"):
        ratio = wanted[positive_] / found[positive_]
    margin = 4 * UNIT * (t.size + 8)
    scale = (
        max(1.0, float(ratio.max(initial=1.0))) + margin
        if above
        else min(1.0, float(ratio.min(initial=1.0))) - margin
    )
    log_scale = math.log(scale) if scale > 0 else -math.inf
    return Atoms(result.loss, result.log_p + log_scale, result.infinite * scale, result.rounding + margin)
