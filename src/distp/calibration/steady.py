"""A base mechanism and dummies that serve other people too: few parameters decide them, and no single place does.

To second order delta grows with ``chi = sum_y E(P[y] - t Q[y])^2 / nu[y]`` (theory 4.5), here with the mean over
*resamples* of the people (`distp.distributions.resampling`): what a resample moves counts as much as what the sample
shows. For given dummies, ``<cost, A> + price chi(A)`` is a convex quadratic function of the channel A; for a given
channel the best dummies are proportional to the root of each output's part of chi (Cauchy-Schwarz). `designs`
alternates the two for one price of privacy after the other; what each of them does is for the accountant to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from distp.checks import FloatArray
from distp.distributions import Pair, second_moments
from distp.distributions.resampling import astray
from distp.utility import loss_matrix

FLOOR = 0.15  # of the dummies are uniform: no output may be left without
_ROUNDS = 3  # of base, then dummies
_STEPS = 60  # per round: the next price starts where this one ended
_TOLERANCE = 1e-4
_LIGHTEST = 1e-9  # of the heaviest row's curvature
_TRIMMED = 1e-6  # entries below this become 0
_RAREST = 1e-6


@dataclass(eq=False)
class Designer:
    """The channel and the dummies for one price after the other, each starting from the last.

    Parameters
    ----------
    distances : ndarray, shape (|X|, |Y|)
    dummies : int
    prior : ndarray, shape (|X|,)
    moments : ndarray, shape (|X|, |X|)
        ``E c c'`` of the contrasts c, summed over pairs and orders.
    dummy_law : ndarray, shape (|Y|,), or None
        None: to be chosen.
    """

    distances: FloatArray
    dummies: int
    prior: FloatArray
    moments: FloatArray
    dummy_law: FloatArray | None
    channel: FloatArray | None = None
    nu: FloatArray | None = None

    def at(self, price: float) -> tuple[FloatArray, FloatArray]:
        """Return channel, shape (|X|, |Y|), and dummies, shape (|Y|,), for a price of chi in units of loss."""
        size = self.distances.shape[1]
        fixed = self.dummy_law is not None
        # An output that no dummy ever is would cost infinitely much: nearly so is enough to keep reports away.
        known = self.nu if self.dummy_law is None else np.maximum(self.dummy_law, _RAREST)
        nu = np.full(size, 1.0 / size) if known is None else known
        A = np.tile(nu, (self.prior.size, 1)) if self.channel is None else self.channel
        for turn in range(1 if fixed else _ROUNDS):
            cost = self.prior[:, None] * loss_matrix(self.distances, self.dummies, nu)
            A = _least(cost, self.moments, nu, price, A)
            if not fixed and turn < _ROUNDS - 1:
                nu = best_dummies(self.moments, A)
        self.channel, self.nu = A, nu
        kept = np.where(A < _TRIMMED, 0.0, A)
        return kept / kept.sum(axis=1, keepdims=True), nu if self.dummy_law is None else self.dummy_law


def wary_prior(prior: FloatArray, pairs: Sequence[Pair]) -> FloatArray:
    """Return the prior with as much of the uniform law as other people may be anywhere.

    A channel that is to serve the people of the sample best would serve nobody at places where none of them was.
    """
    share = float(np.mean([astray(pair) for pair in pairs]))
    mixed = (1 - share) * prior + share / prior.size
    return np.asarray(mixed / mixed.sum())


def best_dummies(moments: FloatArray, channel: FloatArray) -> FloatArray:
    """Return the dummies, shape (|Y|,), with which chi is least for a channel, but for a share of uniform ones."""
    part = np.sqrt(np.maximum(((moments @ channel) * channel).sum(axis=0), 0.0))
    uniform = np.full(part.size, 1.0 / part.size)
    nu = FLOOR * uniform + (1 - FLOOR) * (part / part.sum() if part.sum() > 0 else uniform)
    return np.asarray(nu / nu.sum())


def moments_of(pairs: Sequence[Pair], epsilon: float) -> FloatArray:
    """Return the second moments of all contrasts, shape (|X|, |X|)."""
    t = math.exp(min(epsilon, 300.0))
    return np.asarray(np.sum([both for pair in pairs for both in second_moments(pair, t)], axis=0))


def cheapest(met: Callable[[float], bool], start: float) -> float | None:
    """Return nearly the smallest price that meets the target; None where no price is enough."""
    low, high = 0.0, start
    while not met(high):
        low, high = high, 8 * high
        if high > 1e12 * start:
            return None
    while low == 0.0 and high > 1e-9 * start and met(high / 8):
        high /= 8
    low = max(low, high / 8)
    while high > 1.06 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if met(middle) else (middle, high)
    return high


def _least(cost: FloatArray, M: FloatArray, nu: FloatArray, price: float, A: FloatArray) -> FloatArray:
    """Minimise ``<cost, A> + price sum_y A_y' M A_y / nu_y`` over channels: accelerated projected gradients.

    Beck and Teboulle (2009), with a restart where the momentum points uphill (O'Donoghue and Candes 2015). Each row
    has its own step: rows of likely inputs curve a thousand times as much as others.
    """
    from distp.calibration.simplex import onto_simplex  # compiled: only whoever designs a channel waits for that

    curvature = 2 * price * np.abs(M).sum(axis=1)
    curvature = np.maximum(curvature, _LIGHTEST * curvature.max())[:, None]
    ahead, momentum, before = A, 1.0, math.inf
    for step in range(_STEPS):
        gradient = cost + 2 * price * (M @ ahead) / nu
        found = onto_simplex(ahead - gradient * nu / curvature, nu)
        if momentum > 1 and float(((ahead - found) * (found - A) / nu * curvature).sum()) > 0:
            ahead, momentum = A, 1.0
            continue
        after = (1 + math.sqrt(1 + 4 * momentum * momentum)) / 2
        ahead = found + (momentum - 1) / after * (found - A)
        momentum, A = after, found
        if step % 20 == 19:
            value = float((cost * A).sum()) + price * float(((M @ A) * A / nu).sum())
            if abs(before - value) < _TOLERANCE * value:
                break
            before = value
    return A
