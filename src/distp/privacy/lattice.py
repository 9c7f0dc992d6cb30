"""Sums of independent losses on a lattice: the numerical core of `distp.privacy.composition`.

A list of ``(Atoms, n)`` stands for n independent reports of each pair. Laws are tilted: mass p at loss L becomes
``p e^(theta L - ln M)``, ``M = E_P[e^(theta L)]``. As ``e^epsilon Q`` at loss L is ``P e^(epsilon - L)``, all that
is summed at the end is a tilted mass times ``e^(-theta (L - epsilon))``, in units of ``e^(K - theta epsilon)``, where
K adds up the reports' ln M; that unit is Chernoff's bound of delta, so round-off stays small relative to delta.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import fft

from distp.checks import FloatArray, IntArray
from distp.privacy.fourier import ERROR_PER_LEVEL, TAIL, power
from distp.privacy.profiles import Atoms
from distp.privacy.single import UNIT

Reports = list[tuple[Atoms, int]]
_MAX_STEP = 100.0  # of the lattice; its exponential must be a number
_MAX_TILT = 300.0  # of exp(theta times a report's range of losses)
_DROPPED = 645.0  # powers below e^-645 would only pass through slow subnormal numbers


class Window(NamedTuple):
    """Where the tilted sum lies but for a probability of about ``e^-34``, on a lattice of ``points``.

    ``first`` and ``step`` place the lattice; ``up`` and ``down`` are the Chernoff exponents that proved it.
    """

    theta: float
    step: float
    first: int
    points: int
    up: float
    down: float


class Labels(NamedTuple):
    """A pair's atoms split between lattice neighbours: tilted masses of P, and of Q (tilted by theta + 1)."""

    place: IntArray
    P: FloatArray
    Q: FloatArray
    log_moment: float


@dataclass(frozen=True, eq=False)
class _Law:
    """A lattice law of sum 1 that ``n`` reports have."""

    index: IntArray
    mass: FloatArray
    n: int


def infinite_part(reports: Reports) -> float:
    """Return P's mass of at least one infinite loss."""
    finite = [math.fsum(np.exp(atoms.log_p)) for atoms, _ in reports]
    if min(finite) == 0:
        return math.prod((f + atoms.infinite) ** n for f, (atoms, n) in zip(finite, reports, strict=True))
    shares = [(atoms.infinite / f, n) for f, (atoms, n) in zip(finite, reports, strict=True)]
    all_finite = math.exp(sum(n * math.log(f) for f, (_, n) in zip(finite, reports, strict=True)))
    more = sum(n * math.log1p(share) for share, n in shares)
    if more <= 1:  # without cancellation
        return all_finite * math.expm1(more)
    total = sum(n * math.log(f + atoms.infinite) for f, (atoms, n) in zip(finite, reports, strict=True))
    return math.exp(total) - all_finite


def tilt(reports: Reports, epsilon: float) -> tuple[float, float]:
    """Return theta >= 0 that brings the mean of the tilted sum up to ``epsilon``, and the sum's variance."""
    reach = max((float(np.ptp(atoms.loss)) for atoms, _ in reports), default=0.0)
    low, high, theta = 0.0, _MAX_TILT / max(reach, 1e-6), 0.0
    for _ in range(60):
        mean, variance = 0.0, 0.0
        for atoms, n in reports:
            law = atoms.tilted(theta)[1]
            centre = float(law @ atoms.loss)
            mean += n * centre
            variance += n * float(law @ (atoms.loss - centre) ** 2)
        low, high = (low, theta) if mean >= epsilon else (theta, high)
        if variance == 0 or (theta == 0 and mean >= epsilon) or abs(mean - epsilon) <= 0.1 * math.sqrt(variance):
            break
        newton = theta + (epsilon - mean) / variance if variance > 0 else math.inf
        theta = newton if low < newton < high else (low + high) / 2
        if high - low <= 1e-3 * high:
            break
    return theta, variance


def window(reports: Reports, theta: float, points: int) -> Window:
    """Return the lattice of ``points`` that covers the tilted sum."""
    laws = [(atoms.tilted(theta)[1], atoms.loss, n) for atoms, n in reports]
    means = [float(law @ loss) for law, loss, _ in laws]
    mean = sum(n * m for m, (_, _, n) in zip(means, laws, strict=True))
    variance = sum(n * float(law @ (loss - m) ** 2) for m, (law, loss, n) in zip(means, laws, strict=True))
    reaches = []
    for sign in (1.0, -1.0):
        shifted = [(law, sign * (loss - m), n) for m, (law, loss, n) in zip(means, laws, strict=True)]
        furthest = max(max(float(x.max()) for _, x, _ in shifted), 1e-12)
        natural = math.sqrt(2 * TAIL / variance) if variance > 0 else 1 / furthest
        exponents = np.minimum(natural * 2.0 ** np.arange(-3.0, 5.0), 600 / furthest)
        moments = sum(n * np.log(np.exp(np.outer(exponents, x)) @ law) for law, x, n in shifted)
        distance = (moments + TAIL) / exponents
        best = int(np.argmin(distance))
        reaches.append((min(float(distance[best]), sum(n * float(x.max()) for _, x, n in shifted)), exponents[best]))
    (above, up), (below, down) = reaches
    room = points // 16  # splitting spreads the sum a little
    # Even a sum that is known needs a step that its size is a whole number of.
    least = 1e-7 * sum(n * float(np.abs(loss).max()) for _, loss, n in laws)
    step = max(above + below, least, 1e-9) / (points - 2 * room)
    return Window(theta, step, math.floor((mean - below) / step) - room, points, float(up), float(down))


def labels(atoms: Atoms, theta: float, step: float) -> Labels:
    """Split each atom between its neighbours on the lattice, keeping its masses under P and Q."""
    log_moment = atoms.tilted(theta)[0]
    low = np.floor(atoms.loss / step).astype(np.int64)
    x = np.clip(atoms.loss - low * step, 0.0, step)
    down = np.expm1(step - x) / math.expm1(step)
    up = -np.expm1(-x) / -math.expm1(-step)
    index = np.concatenate([low, low + 1])
    share = np.concatenate([down, up])
    log_p, loss = np.tile(atoms.log_p, 2), np.tile(atoms.loss, 2)
    tilted = share * np.exp(log_p + theta * step * index - log_moment)
    distinct, place = np.unique(index, return_inverse=True)
    P = np.bincount(place, weights=tilted).astype(np.float64)
    Q = np.bincount(place, weights=tilted * np.exp(step * index - loss)).astype(np.float64)
    return Labels(distinct, P, Q, log_moment)


def above(reports: Reports, epsilon: float, at: Window) -> float:
    """Return an upper end of ``E_P[(1 - e^(epsilon - L))_+]`` over finite losses, for any ``epsilon``."""
    if at.step > _MAX_STEP:
        return math.inf
    split = [(labels(atoms, at.theta, at.step), n) for atoms, n in reports]
    unit = _unit(split, at, epsilon, [float(one.P.sum()) for one, _ in split])
    unit += _slip(split, at, epsilon)
    if unit > 100:
        return math.inf
    sums, noise, outside = _convolve([_Law(one.place, one.P / one.P.sum(), n) for one, n in split], at)
    gap = (at.first + np.arange(at.points)) * at.step - epsilon
    beyond = gap > 0
    weight = np.exp(-at.theta * gap[beyond]) * -np.expm1(-gap[beyond])
    value = float(weight @ sums[beyond]) + noise * math.sqrt(float(weight @ weight)) + outside
    return math.exp(unit) * value * (1 + 4 * UNIT * at.points)


def below(reports: Reports, epsilon: float, rounding: float, at: Window) -> float:
    """Return the advantage of a test on finite losses; the masses are known up to ``e^(+-rounding)``."""
    if at.step > _MAX_STEP:
        return 0.0
    split = [(labels(atoms, at.theta, at.step), n) for atoms, n in reports]
    slip = _slip(split, at, epsilon) + rounding
    units = [
        _unit(split, at, epsilon, [float(total) for total in totals])
        for totals in ([one.P.sum() for one, _ in split], [one.Q.sum() for one, _ in split])
    ]
    if max(units) > 100:
        return 0.0
    P, P_noise, outside = _convolve([_Law(one.place, one.P / one.P.sum(), n) for one, n in split], at)
    Q, Q_noise, _ = _convolve([_Law(one.place, one.Q / one.Q.sum(), n) for one, n in split], at)
    gap = (at.first + np.arange(at.points)) * at.step - epsilon
    # Lower thresholds are no use: there the reports speak for Q.
    kept = gap >= -min(1.0, 1 / at.theta if at.theta > 0 else 1.0) - 4 * at.step
    if not kept.any():
        return 0.0
    weight = np.exp(-at.theta * gap[kept])
    P_unit, Q_unit = math.exp(units[0] - slip), math.exp(units[1] + slip)
    Q_weight = weight * np.exp(-gap[kept])
    gain = np.cumsum((P_unit * weight * P[kept] - Q_unit * Q_weight * Q[kept])[::-1])
    best = int(np.argmax(gain))
    chosen = slice(weight.size - 1 - best, None)
    weight, Q_weight = weight[chosen], Q_weight[chosen]
    summing = 4 * UNIT * at.points
    P_mass, Q_mass = float(weight @ P[kept][chosen]), float(Q_weight @ Q[kept][chosen])
    # Mass that wrapped round into the test is not there in truth.
    P_mass = P_mass * (1 - summing) - P_noise * math.sqrt(float(weight @ weight)) - outside * float(weight.max())
    Q_mass = Q_mass * (1 + summing) + Q_noise * math.sqrt(float(Q_weight @ Q_weight))
    return P_unit * P_mass - Q_unit * Q_mass


def _unit(split: list[tuple[Labels, int]], at: Window, epsilon: float, totals: list[float]) -> float:
    """Return ``K - theta epsilon`` with the split laws' own moments."""
    moments = (n * (one.log_moment + math.log(total)) for (one, n), total in zip(split, totals, strict=True))
    return math.fsum(moments) - at.theta * epsilon


def _slip(split: list[tuple[Labels, int]], at: Window, epsilon: float) -> float:
    """Bound how far, in its logarithm, a tilted mass of the sum is off by rounding."""
    terms = sum(n * (at.theta * at.step * float(np.abs(one.place).max()) + one.place.size + 64) for one, n in split)
    units = sum(n * abs(one.log_moment) for one, n in split) + (at.theta + 1) * abs(epsilon)
    furthest = (abs(at.first) + at.points) * at.step
    return 4 * UNIT * (terms + units + (at.theta + 1) * furthest)


def _convolve(laws: list[_Law], at: Window) -> tuple[FloatArray, float, float]:
    """Return the law of the sum on the window, its error in the 2-norm, and the mass that is outside."""
    levels = ERROR_PER_LEVEL * UNIT * math.log2(at.points)
    product = np.ones(at.points // 2 + 1, dtype=np.complex128)
    rest, relative = np.ones(product.size), np.zeros(product.size)
    for law in laws:
        spectrum = fft.rfft(np.bincount(law.index % at.points, weights=law.mass, minlength=at.points))
        modulus = np.abs(spectrum)
        least = math.exp(-_DROPPED / law.n)
        spectrum[modulus < least] = 0
        product *= power(spectrum, law.n)
        modulus = np.maximum(modulus + levels, least)
        rest *= power(modulus, law.n)
        relative += law.n * levels / modulus + UNIT * (8 * law.n + 64)
    sums = np.roll(fft.irfft(product, at.points), -(at.first % at.points))
    entry = rest * relative + 1e-280 * len(laws)
    # A half-spectrum stands for both halves: all but its first and last entry count twice.
    squared = 2 * float((entry * entry).sum()) - float(entry[0] ** 2 + entry[-1] ** 2)
    noise = math.sqrt(squared / at.points) + levels * math.sqrt(float((sums * sums).sum()))
    return np.maximum(sums, 0.0), noise, _outside(laws, at)


def _outside(laws: list[_Law], at: Window) -> float:
    """Bound the probability that the sum leaves the window (Chernoff)."""
    start, end = at.first, at.first + at.points
    result = 0.0
    for exponent, sign, edge in ((at.up, 1, end), (at.down, -1, 1 - start)):
        if edge > sum(law.n * int((sign * law.index).max()) for law in laws):
            continue  # out of reach
        moment = 0.0
        for law in laws:
            terms = exponent * at.step * (sign * law.index) + np.log(np.maximum(law.mass, 1e-300))
            largest = float(terms.max())
            moment += law.n * (largest + math.log(float(np.exp(terms - largest).sum())))
        result += math.exp(min(0.0, moment - exponent * at.step * edge)) * (1 + 1e-6)
    return min(result, 1.0)
