"""Extended distribution privacy: the smallest epsilon per unit of distance between distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, distribution, numbers, positive, probability, real
from distp.errors import DistributionError, ParameterError, PrecisionError, SpaceError
from distp.mechanisms import Mechanism, Tupling
from distp.privacy.accountant import RTOL, Report, SingleReport, law_report, lifted_laws
from distp.privacy.bracket import Bracket
from distp.privacy.families import WorstPair
from distp.transport import wasserstein, wasserstein_inf

DistributionMetric: TypeAlias = str | ArrayLike | Callable[[FloatArray, FloatArray], float]
METRICS = ("W_inf", "W_1")


def xdistp(
    mechanism: Mechanism,
    distributions: Sequence[ArrayLike],
    metric: DistributionMetric = "W_inf",
    delta: float = 0.0,
    *,
    rtol: float = RTOL,
) -> WorstPair:
    """Return the smallest epsilon of extended distribution privacy, over every ordered pair of distributions.

    Parameters
    ----------
    mechanism : Mechanism
        With ``delta`` = 0 a tuple has its base's value (theory 4.1).
    distributions : sequence of array_like, each of shape (|X|,)
        At least two.
    metric : {"W_inf", "W_1"}, array_like of shape (n, n), or callable
        Distance between two of them: a Wasserstein distance over the mechanism's inputs, numbers, or a function
        of two arrays of shape (|X|,).
    delta : float
        In [0, 1]: the least epsilon such that every pair is (epsilon d, delta)-indistinguishable.
    rtol : float
        Relative width that the bracket must reach.

    Returns
    -------
    WorstPair
        ``value`` per unit of distance, in both orders; ``inf`` where two distributions at distance 0 have
        different lifted laws (or are further than ``delta`` apart).

    Raises
    ------
    ParameterError, DistributionError, SpaceError
        An unknown metric, bad distributions, distances that are negative or not finite.
    PrecisionError
        The bracket stays wider, for example because two laws at distance 0 differ by no more than rounding.

    Notes
    -----
    Theory, Definition 9. A distance that was computed counts with the end that makes epsilon larger.

    Examples
    --------
    >>> from distp.mechanisms import Exponential
    >>> mechanism = Exponential([0.0, 1.0, 2.0], 1.0)
    >>> found = xdistp(mechanism, [[.2, .3, .5], [.3, .5, .2], [1, 0, 0]])
    >>> found.pair, round(found.value.upper, 4)
    ((0, 2), 0.3467)
    """
    delta, rtol = probability(delta, "delta"), positive(rtol, "rtol")
    size = len(mechanism.inputs)
    if not isinstance(distributions, Sequence | np.ndarray) or len(distributions) < 2:
        raise DistributionError("a family needs a sequence of at least two distributions")
    laws = [distribution(law, size, f"distribution {i}") for i, law in enumerate(distributions)]
    shortest, longest = _distances(mechanism, laws, metric)
    lifted, slack, lost = lifted_laws(mechanism, laws)
    pairs = [
        (i, j) for i in range(len(laws)) for j in range(len(laws)) if i != j and not np.array_equal(laws[i], laws[j])
    ]

    def promise(pair: tuple[int, int]) -> float:
        i, j = pair
        apart = float(np.maximum(lifted[i] - lifted[j], 0.0).sum())
        return -apart / shortest[pair] if shortest[pair] > 0 else -math.inf

    best = WorstPair(Bracket(0.0, 0.0), (0, 1))
    for i, j in sorted(pairs, key=promise):
        one = _report(mechanism, lifted[i], lifted[j], slack, lost, delta)
        ahead = best.value.lower * float(shortest[i, j]) * (1 - 1e-15)
        if delta > 0 and ahead > 0 and one.at(ahead, rtol, delta).bracket.upper <= delta:
            continue
        found = _per_distance(one.epsilon(delta, rtol), float(shortest[i, j]), float(longest[i, j]))
        best = best.joined(found, (i, j))
        if math.isinf(best.value.lower):
            break
    value = best.value
    if value.lower < value.upper and (math.isinf(value.upper) or value.width > 1.2 * rtol * value.upper > 1e-13):
        raise PrecisionError(
            f"epsilon per distance lies in {value}, which could not be narrowed to rtol={rtol:g}: either the lifted "
            "laws or the distances are known to rounding only",
            value,
        )
    return best


def _report(mechanism: Mechanism, P: FloatArray, Q: FloatArray, slack: float, lost: float, delta: float) -> Report:
    if delta == 0 and not (isinstance(mechanism, Tupling) and not mechanism.replacement):
        return SingleReport(P, Q, slack, lost)
    return law_report(mechanism, P, Q, slack, lost)


def _per_distance(epsilon: Bracket, shortest: float, longest: float) -> Bracket:
    """Divide a bracket by a distance that lies between both ends."""
    lower, upper = _over(epsilon.lower, longest), _over(epsilon.upper, shortest)
    if 0 < lower < math.inf:
        lower = math.nextafter(lower, 0.0)
    return Bracket(lower, math.nextafter(upper, math.inf) if upper > 0 else 0.0)


def _over(epsilon: float, distance: float) -> float:
    if epsilon == 0 or math.isinf(epsilon):
        return epsilon
    # At distance 0 nothing may differ, whatever epsilon per distance.
    return float(np.float64(epsilon) / distance) if distance > 0 else math.inf


def _distances(
    mechanism: Mechanism, laws: list[FloatArray], metric: DistributionMetric
) -> tuple[FloatArray, FloatArray]:
    """Return a lower and an upper end of the distance of every ordered pair, each of shape (n, n)."""
    n = len(laws)
    if isinstance(metric, str):
        return _wasserstein(mechanism, laws, metric)
    if callable(metric):
        matrix = np.array(
            [[0.0 if i == j else real(metric(laws[i], laws[j]), "metric") for j in range(n)] for i in range(n)]
        )
    else:
        matrix = numbers(metric, "metric", SpaceError)
    if matrix.shape != (n, n):
        raise SpaceError(f"metric must have shape (distributions, distributions) = {(n, n)}, got {matrix.shape}")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        i, j = np.argwhere(~(np.isfinite(matrix) & (matrix >= 0)))[0]
        raise SpaceError(f"metric[{i}, {j}] is {matrix[i, j]}: distances are finite and >= 0")
    return matrix, matrix


def _wasserstein(mechanism: Mechanism, laws: list[FloatArray], metric: str) -> tuple[FloatArray, FloatArray]:
    if metric not in METRICS:
        raise ParameterError(f"metric {metric!r} is unknown: use one of {', '.join(METRICS)}, an array or a function")
    n, space = len(laws), mechanism.inputs
    shortest, longest = np.zeros((n, n)), np.zeros((n, n))
    furthest = float(space.distances().max())
    for i in range(n):
        for j in range(i):
            if np.array_equal(laws[i], laws[j]):
                continue
            if metric == "W_inf":
                found = wasserstein_inf(laws[i], laws[j], space)
                # A tail lighter than what floats may leave behind may have to move as far as anything can.
                light = min(float(law[law > 0].min()) for law in (laws[i], laws[j])) <= 2 * found.error
                ends = found.value, furthest if light else found.value
            else:
                found = wasserstein(laws[i], laws[j], space)
                # Masses in whole units differ from the floats by this much mass, which moves no further than that.
                edge = 2 * found.error * furthest
                ends = max(0.0, found.lower - edge), found.value * (1 + 1e-14) + edge
            shortest[i, j] = shortest[j, i] = ends[0]
            longest[i, j] = longest[j, i] = ends[1]
    return shortest, longest
