"""Exact numbers of one mechanism on one pair, and the least number of dummies for a target."""

from __future__ import annotations

import math
from collections.abc import Callable

from distp.attacks import attack_success
from distp.calibration.feasibility import Target
from distp.certificates.certificate import mean_law
from distp.distributions import Pair
from distp.errors import PrecisionError
from distp.mechanisms import Mechanism, Tupling
from distp.privacy import Bracket, epsilon, theorem3_epsilon
from distp.privacy.accountant import Report, best_delta, report
from distp.privacy.tuples import Found
from distp.utility import expected_loss, real_report_loss

RTOL = 1e-3
_LOOK, _WIDTH, _MOST_LOOKS = 1e-3, 1e-2, 40


def epsilon_at(mechanism: Mechanism, pair: Pair, least_delta: float) -> Bracket:
    """Return epsilon at a delta, both orders; a bracket that could not be narrowed is valid all the same."""
    if isinstance(mechanism, Tupling) and not mechanism.replacement:
        return _distinct_epsilon(mechanism, pair, least_delta)
    try:
        return epsilon(mechanism, pair.p, pair.q, least_delta, rtol=RTOL)
    except PrecisionError as error:
        found: Bracket = error.bracket
        return found


def delta_at(mechanism: Mechanism, pair: Pair, least_epsilon: float) -> Bracket:
    """Return delta at an epsilon, both orders; likewise."""
    return best_delta(mechanism, pair.p, pair.q, least_epsilon, rtol=RTOL)


def _distinct_epsilon(mechanism: Mechanism, pair: Pair, least_delta: float) -> Bracket:
    """Return epsilon of dummies without replacement within a hundredth, in as few looks as possible: each is slow.

    Newton's method on ``ln delta``, one order after the other. Both ends are proven by a look of their own.
    """
    seen = report(mechanism, pair.p, pair.q)
    low = high = 0.0
    for order in (seen, seen.swapped()):
        found = order.at(high, _LOOK)
        if found.bracket.upper <= least_delta:
            continue  # the other order is the worse one
        if order.at(math.inf, _LOOK).bracket.upper > least_delta:
            return Bracket(high if order.at(math.inf, _LOOK).bracket.lower <= least_delta else math.inf, math.inf)
        low, high = _newton(order, found, high, least_delta)
    return Bracket(low, high)


def _newton(order: Report, found: Found, start: float, least_delta: float) -> tuple[float, float]:
    low, high, point = start, math.inf, start
    for _ in range(_MOST_LOOKS):
        upper = found.bracket.upper
        if upper <= least_delta:
            high = point
        elif found.bracket.lower > least_delta:
            low = point
        if math.isfinite(high) and high - low <= _WIDTH * high:
            break
        steepness = found.slope * math.exp(point) / upper if upper > 0 else 0.0
        step = math.log(upper / least_delta) / steepness if steepness > 0 else math.nan
        # A little beyond the root on the side that is still open, so that the next look closes it.
        goal = point + step + (_WIDTH / 3) * (point + step) * (1 if math.isinf(high) or upper > least_delta else -1)
        inside = low < goal < high
        point = goal if inside else (low + high) / 2 if math.isfinite(high) else 2 * low + 1
        found = order.at(point, _LOOK)
    return low, high


def success(mechanism: Mechanism, pair: Pair) -> tuple[float, float | None]:
    """Return the best attacker's balanced success, and the share of those with the attribute it recognises.

    The latter is None for dummies without replacement: it would take several more looks, and each is slow.
    """
    if isinstance(mechanism, Tupling) and not mechanism.replacement:
        # Half of one plus total variation, which is the same in both orders (theory 4.8).
        return (1 + report(mechanism, pair.p, pair.q).at(0.0, RTOL).bracket.upper) / 2, None
    found = attack_success(mechanism, pair.p, pair.q)
    return found.balanced.upper, found.recognised.upper


def losses(mechanism: Mechanism, pair: Pair) -> tuple[float, float]:
    """Return the expected loss to the nearest of the report and to the real one, at the mean of both laws."""
    law = mean_law([pair])
    return expected_loss(mechanism, law), real_report_loss(mechanism, law)


def beta_of(mechanism: Mechanism, pair: Pair) -> float:
    """Return the largest probability of a real report under either distribution: Theorem 3's beta."""
    return float(max(mechanism.lift(pair.p).max(), mechanism.lift(pair.q).max()))


def fewest(make: Callable[[int], Tupling], target: Target, most: int, guess: int = 8) -> int | None:
    """Return the least number of dummies that meets the target, None if ``most`` do not.

    Delta never grows with their number (theory 4.1). The search starts at ``guess`` and doubles its steps away from
    it: a good guess saves most of a bisection, where one look takes long.
    """
    low, high, step = -1, most + 1, max(1, guess // 8)
    trial = min(max(guess, 0), most)
    while high - low > 1:
        if target.met_by(make(trial)):
            high = trial
            trial = high - step
        else:
            low = trial
            trial = low + step
        step *= 2
        if not low < trial < high:
            trial = (low + high) // 2
    return high if high <= most else None


def fewest_by_theorem3(outputs: int, beta: float, target: float, delta: float, most: int) -> int | None:
    """Return the least number of dummies for which the paper's Theorem 3 gives ``target``, None beyond ``most``."""
    if not math.isfinite(theorem3_epsilon(most, outputs, beta, delta)):
        return None
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        enough = theorem3_epsilon(middle, outputs, beta, delta) <= target
        low, high = (low, middle) if enough else (middle, high)
    return high if high <= most else None
