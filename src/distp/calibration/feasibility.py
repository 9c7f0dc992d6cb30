"""Does a mechanism meet the target for every pair? The one question that every search asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from distp.attacks import location_attack
from distp.certificates import mean_law
from distp.certificates.population import limit, rank, roughly
from distp.checks import FloatArray
from distp.distributions import Pair
from distp.distributions.resampling import DRAWS
from distp.mechanisms import Mechanism
from distp.privacy.accountant import best_delta

SEARCH_RTOL = 1e-3
_FEW_TUPLES = 4_000

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Target:
    """What a mechanism must meet: (epsilon, delta)-DistP for every pair, both orders, and whatever else is asked.

    Attributes
    ----------
    pairs : sequence of Pair
    epsilon, delta : float
    confidence : float, optional
        Then delta must also hold for this share of each pair's resamples (`distp.certificates.population`).
    min_location_error : float
        What the best attacker's guess of the input must be off by on average; 0 asks nothing.
    given_prior : ndarray, shape (|X|,), optional
        Law of the input, for location errors and losses. Default: the mean of all distributions.
    resamples : int
    order : list of int
        Remembers which pair refused last: it is asked first next time.
    """

    pairs: Sequence[Pair]
    epsilon: float
    delta: float
    confidence: float | None = None
    min_location_error: float = 0.0
    given_prior: FloatArray | None = None
    resamples: int = DRAWS
    order: list[int] = field(default_factory=list)

    @property
    def prior(self) -> FloatArray:
        """Law of the input, shape (|X|,)."""
        return mean_law(self.pairs) if self.given_prior is None else self.given_prior

    def with_resamples(self, resamples: int) -> Target:
        """Return the same target, looked at through so many resamples."""
        return replace(self, resamples=resamples, order=[])

    def met_by(self, mechanism: Mechanism) -> bool:
        """Say whether the mechanism meets the target, as far as a search needs to know.

        In-sample by the certified accountant; the limit for the population roughly, and the location error from few
        tuples, as a search asks hundreds of times: see `surely_met_by`.
        """
        order = self.order
        if not order:
            order.extend(range(len(self.pairs)))
        for place, index in enumerate(order):
            pair = self.pairs[index]
            if not (self._holds_for(mechanism, pair) and self.limit(mechanism, pair) <= self.delta):
                order.insert(0, order.pop(place))
                return False
        return self._hides_place(mechanism, _FEW_TUPLES)

    def surely_met_by(self, mechanism: Mechanism) -> bool:
        """Say the same by what a certificate will state."""
        return (
            self.met_by(mechanism)
            and (
                self.confidence is None
                or all(limit(mechanism, pair, self.epsilon, self.confidence) <= self.delta for pair in self.pairs)
            )
            and self._hides_place(mechanism, None)
        )

    def limit(self, mechanism: Mechanism, pair: Pair) -> float:
        """Return roughly what delta is at most for the asked share of resamples; 0 where no confidence is asked."""
        if self.confidence is None:
            return 0.0
        place = rank(self.confidence, self.resamples) - 1
        found = roughly(mechanism, pair, self.epsilon, self.resamples)
        return max(float(np.partition(rough, place)[place]) for _, _, rough in found)

    def _holds_for(self, mechanism: Mechanism, pair: Pair) -> bool:
        found = best_delta(mechanism, pair.p, pair.q, self.epsilon, rtol=SEARCH_RTOL, threshold=self.delta)
        return found.upper <= self.delta

    def _hides_place(self, mechanism: Mechanism, tuples: int | None) -> bool:
        if self.min_location_error == 0:
            return True
        return location_attack(mechanism, self.prior, samples=tuples).error.lower >= self.min_location_error


def weakest(
    make: Callable[[float], Mechanism], target: Target, low: float, high: float, tolerance: float = 1e-3
) -> tuple[float, Mechanism] | None:
    """Return the largest parameter found to meet the target, and its mechanism.

    ``make(parameter)`` must perturb less as the parameter grows. Delta need not be monotone in it: what is
    returned was itself checked. ``None`` if not even ``low`` meets the target.
    """
    best = make(low)
    if not target.met_by(best):
        return None
    top = make(high)
    if target.met_by(top):
        return high, top
    while high - low > tolerance * max(low, tolerance):
        # Halve in the logarithm once the scale is known.
        middle = math.sqrt(low * high) if low > 0 else high / 8
        if low == 0 and high < tolerance:
            break
        trial = make(middle)
        if target.met_by(trial):
            low, best = middle, trial
        else:
            high = middle
    return low, best
