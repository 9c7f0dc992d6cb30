"""Does a mechanism meet the target for every pair? The one question that every search asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from distp.distributions import Pair
from distp.errors import PrecisionError
from distp.mechanisms import Mechanism
from distp.privacy import delta

SEARCH_RTOL = 1e-3


@dataclass(frozen=True, eq=False)
class Target:
    """(epsilon, delta)-DistP for every pair, both orders.

    ``order`` remembers which pair refused last: it is asked first next time.
    """

    pairs: Sequence[Pair]
    epsilon: float
    delta: float
    order: list[int] = field(default_factory=list)

    def met_by(self, mechanism: Mechanism) -> bool:
        """Say whether the upper end of delta is within the target for every pair."""
        order = self.order
        if not order:
            order.extend(range(len(self.pairs)))
        for place, index in enumerate(order):
            pair = self.pairs[index]
            try:
                found = delta(mechanism, pair.p, pair.q, self.epsilon, rtol=SEARCH_RTOL, threshold=self.delta)
            except PrecisionError as error:
                # Too small or too large to resolve further; its bracket is valid all the same.
                found = error.bracket
            if found.upper > self.delta:
                order.insert(0, order.pop(place))
                return False
        return True


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
