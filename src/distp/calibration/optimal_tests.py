"""Delta as an optimiser needs it: a smooth value from above, its gradient as a test, its curvature.

A *test* of a tuple says "p" with some probability that depends on the tuple's multiset alone. Averaged over the
dummies, it is a function ``w(y)`` of the real report, and ``sum_y w(y) (P[y] - t Q[y])`` is at most delta, for every
base mechanism at once. The tests here round each value's term at random to a grid, add binomial noise, and look
whether the sum, *modulo the grid's length*, falls into a fixed set: a test whatever the window, so that neither
grid nor window can make it too good; only round-off can, and `slip` bounds that. The same noise turns
``E(sum)_+`` into a smooth function that is never smaller (Jensen). Source: theory 4.2, 4.4, 4.12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from distp.checks import FloatArray, IntArray
from distp.privacy.fourier import ERROR_PER_LEVEL, power
from distp.privacy.single import UNIT

_TAIL = 27.0  # -ln of what may lie outside the window: the certified accountant has the last word
_TINY = 1e-120  # as the accountant: dummies rarer than this hide nothing
_NEGLIGIBLE = 1e-25  # of the largest curvature: smaller entries only slow the algebra down (subnormals)


class Weighed(NamedTuple):
    """One ordered pair at one base mechanism.

    ``weights`` is the test w(y), shape (|Y|,); ``value`` the smoothed delta, whose gradient in ``P - t Q`` it is;
    ``curvature`` its second derivative, shape (|Y|, |Y|), or None; ``slip`` bounds how far a weight is off.
    """

    weights: FloatArray
    value: float
    curvature: FloatArray | None
    slip: float


@dataclass(frozen=True, eq=False)
class TupleTests:
    """TupleTests of tuples with dummies from ``nu``; ``points`` is the length of the grid."""

    nu: FloatArray
    dummies: int
    points: int = 1 << 14

    def at(self, excess: FloatArray, noise: float, curved: bool = True) -> Weighed:
        """Return the test that is best, up to ``noise`` and grid, where ``P - t Q`` is ``excess``."""
        hidden = self.nu > _TINY if self.dummies > 0 else np.zeros(self.nu.size, dtype=bool)
        weights, curvature = np.zeros(self.nu.size), np.zeros((self.nu.size,) * 2) if curved else None
        value, slip = self._bare(excess, ~hidden, noise, weights, curvature)
        if hidden.any():
            more, error = self._hidden(excess, hidden, noise, weights, curvature)
            value, slip = value + more, slip + error
        if curvature is not None:
            curvature[curvature < _NEGLIGIBLE * curvature.max()] = 0.0
        return Weighed(np.clip(weights, 0.0, 1.0), value, curvature, slip)

    def spread(self, excess: FloatArray) -> float:
        """Return the standard deviation of the sum of all terms: the unit that noise is measured in."""
        hidden = self.nu > _TINY
        return math.sqrt(max(self.dummies, 1) * float((excess[hidden] ** 2 / self.nu[hidden]).sum()))

    def _bare(
        self,
        excess: FloatArray,
        bare: NDArray[np.bool_],
        noise: float,
        weights: FloatArray,
        curvature: FloatArray | None,
    ) -> tuple[float, float]:
        """Fill in outputs that no dummy takes: any w(y) in [0, 1] is a test, and softplus is smooth."""
        if not bare.any():
            return 0.0, 0.0
        width = noise / self.nu.size
        x = excess[bare] / width
        weights[bare] = hit = 1 / (1 + np.exp(-np.clip(x, -700, 700)))
        if curvature is not None:
            places = np.flatnonzero(bare)
            curvature[places, places] = hit * (1 - hit) / width
        return width * float(np.logaddexp(0.0, x).sum()), 0.0

    def _hidden(
        self,
        excess: FloatArray,
        hidden: NDArray[np.bool_],
        noise: float,
        weights: FloatArray,
        curvature: FloatArray | None,
    ) -> tuple[float, float]:
        """Fill in outputs that dummies take, by one transform."""
        k, n, nu = self.dummies, self.points, self.nu[hidden]
        g = excess[hidden] / nu
        step, end = self._grid(g, nu, noise)
        tosses = max(2, round(2 * (noise / step) ** 2))  # a binomial of n tosses a side has variance n / 2
        low = np.floor(g / step).astype(np.int64)
        up = np.clip(g / step - low, 0.0, 1.0)
        term = np.bincount(low % n, weights=nu * (1 - up), minlength=n)
        term += np.bincount((low + 1) % n, weights=nu * up, minlength=n)
        spectrum = fft.rfft(term)
        blur = np.cos(np.pi / n * np.arange(n // 2 + 1)) ** (2 * tosses)
        others = power(spectrum, k - 1) * blur
        sums = fft.irfft(others * spectrum, n)

        # Pr[the sum, modulo n, lies in 1..end]: a run of `end` residues that starts at 1 less one's own term.
        before = np.concatenate([[0.0], np.cumsum(np.concatenate([sums, sums]))])

        def hit(own: IntArray) -> FloatArray:
            start = (1 - own) % n
            return np.asarray(before[start + end] - before[start], dtype=np.float64)

        weights[hidden] = (1 - up) * hit(low) + up * hit(low + 1)
        whole = fft.irfft(others * spectrum * spectrum, n)
        value = step * float(whole[1 : end + 1] @ np.arange(1, end + 1)) / (k + 1)
        if curvature is not None:
            places = np.flatnonzero(hidden)
            rest = np.maximum(fft.irfft(others, n), 0.0) * (k / step)
            curvature[np.ix_(places, places)] = rest[np.rint(-(g[:, None] + g) / step).astype(np.int64) % n]
            own = np.maximum(sums, 0.0)[np.rint(-g / step).astype(np.int64) % n]
            curvature[places, places] += own / step / nu
        return value, self._slip(tosses)

    def _grid(self, g: FloatArray, nu: FloatArray, noise: float) -> tuple[float, int]:
        """Return the step, and the last residue that counts as a positive sum."""
        k = self.dummies
        centred = g - nu @ g
        variance = max(float(nu @ centred**2), 1e-300)
        reach = []
        for side in (centred, -centred):
            furthest = max(float(side.max()), 1e-300)
            exponents = np.minimum(
                math.sqrt(2 * _TAIL / (k * variance)) * 2.0 ** np.arange(-3.0, 4.0), 600 / furthest
            )
            moments = np.log(np.exp(np.outer(exponents, side)) @ nu)
            reach.append(min(float(((k * moments + _TAIL) / exponents).min()), k * furthest) + 8 * noise)
        mean = float((k + 1) * (nu @ g))
        above = max(mean + reach[0] + max(float(centred.max()), 0.0), 0.05 * math.sqrt(variance), noise)
        below = max(reach[1] - mean + max(float(-centred.min()), 0.0), noise)
        room = min(k, self.points // 8) + 8
        step = (above + below) / (self.points - 2 * room)
        return step, min(self.points - 1, math.ceil(above / step) + room)

    def _slip(self, tosses: int) -> float:
        """Bound the error of a weight: transforms, powers, sums, and dummies that do not sum to 1."""
        k, n = self.dummies, self.points
        levels = ERROR_PER_LEVEL * UNIT * math.log2(n)
        entry = k * levels + UNIT * (8 * k + 64 + 8 * tosses + self.nu.size)
        return math.sqrt(n) * (entry + 2 * levels) + 4 * n * UNIT + k * abs(math.fsum(self.nu) - 1)
