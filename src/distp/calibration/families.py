"""The known mechanisms, each by its one parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from distp.mechanisms import Mechanism, PlanarGaussian, PlanarLaplace, RandomizedResponse
from distp.privacy import metric_epsilon
from distp.spaces import Regions, Space

SINGLE = ("RR", "PL", "PG")


@dataclass(frozen=True, eq=False)
class Family:
    """Mechanisms that differ in one parameter.

    Attributes
    ----------
    name : str
    parameter : str
        What varies, with its unit.
    make : callable
        From the parameter to the mechanism.
    ordered : callable
        From a number that grows as the noise falls to the parameter.
    low, high : float
        The range of that number that a calibration searches.
    words : callable
        From the parameter to words.
    """

    name: str
    parameter: str
    make: Callable[[float], Mechanism]
    ordered: Callable[[float], float]
    low: float
    high: float
    words: Callable[[float], str]

    def weaker(self, number: float) -> Mechanism:
        """Return the mechanism of a number that grows as the noise falls."""
        return self.make(self.ordered(number))


def families(inputs: Space, outputs: Space) -> Mapping[str, Family]:
    """Return the known mechanisms that send one report."""
    unit, per = units(outputs)
    lengths = inputs.distances(outputs)
    positive = lengths[lengths > 0]
    # With one place only there is no distance to go by, and any range does.
    shortest, longest = float(positive.min(initial=1.0)), float(positive.max(initial=1.0))
    return {
        "RR": Family(
            "RR",
            "ε",
            lambda value: RandomizedResponse(inputs, value, outputs),
            lambda number: number,
            0.0,
            math.log(len(outputs)) + 40,
            lambda value: f"ε = {value:.3g}",
        ),
        "PL": Family(
            "PL",
            f"ε{per}",
            lambda value: PlanarLaplace(inputs, value, outputs),
            lambda number: number,
            0.0,
            60 / shortest,
            lambda value: f"ε = {value:.3g}{per}",
        ),
        "PG": Family(
            "PG",
            f"σ in{unit}",
            lambda value: PlanarGaussian(inputs, value, outputs),
            lambda number: 1 / number,  # the precision: larger means less noise, as for the others
            1e-3 / longest,
            60 / shortest,
            lambda value: f"σ = {value:.3g}{unit}",
        ),
    }


def scaled_laplace(inputs: Space, outputs: Space, epsilon: float, furthest: float) -> PlanarLaplace:
    """Return the planar Laplace of Theorem 2: its rate of extended DP times ``furthest`` is ``epsilon`` at most.

    The least noise that the theorem allows, within a thousandth.
    """
    asked = epsilon / furthest if furthest > 0 else 0.0
    rate = asked
    while True:
        made = PlanarLaplace(inputs, rate, outputs)
        realised = metric_epsilon(made).upper
        if realised == 0 or 0.999 * asked <= realised <= asked:
            return made
        rate *= asked / realised * (1 - 1e-4)  # nearly proportional to the parameter: two or three rounds


def units(space: Space) -> tuple[str, str]:
    """Return how to write a distance, and a quantity per distance, on this space."""
    return (" km", "/km") if isinstance(space, Regions) else ("", " per unit of distance")
