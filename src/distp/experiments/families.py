"""The mechanisms that are compared, each by its one parameter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from distp.mechanisms import (
    Identity,
    Mechanism,
    PlanarGaussian,
    PlanarLaplace,
    RandomizedResponse,
    RestrictedLaplace,
    Tupling,
)
from distp.privacy import metric_epsilon
from distp.spaces import Regions

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


def families(regions: Regions) -> Mapping[str, Family]:
    """Return the mechanisms that send one report; ranges as in `distp.calibration.compare`."""
    inputs = regions.inputs
    lengths = inputs.distances(regions)
    positive = lengths[lengths > 0]
    shortest, longest = float(positive.min(initial=1.0)), float(positive.max(initial=1.0))
    return {
        "RR": Family(
            "RR",
            "ε",
            lambda value: RandomizedResponse(inputs, value, regions),
            lambda number: number,
            0.0,
            math.log(len(regions)) + 40,
            lambda value: f"ε = {value:.3g}",
        ),
        "PL": Family(
            "PL",
            "ε per km",
            lambda value: PlanarLaplace(inputs, value, regions),
            lambda number: number,
            0.0,
            60 / shortest,
            lambda value: f"ε = {value:.3g}/km",
        ),
        "PG": Family(
            "PG",
            "σ in km",
            lambda value: PlanarGaussian(inputs, value, regions),
            lambda number: 1 / number,
            1e-3 / longest,
            60 / shortest,
            lambda value: f"σ = {value:.3g} km",
        ),
    }


def laplace_tuples(regions: Regions, dummies: int, eps_a: float, radius: float) -> Tupling:
    """Return the paper's mechanism: a restricted Laplace report among uniform dummies."""
    return Tupling(RestrictedLaplace(regions.inputs, eps_a, radius, regions), dummies)


def plain_tuples(regions: Regions, dummies: int, replacement: bool = True) -> Tupling:
    """Return the true region among dummies; without replacement as many as there are other regions at most."""
    most = dummies if replacement else min(dummies, len(regions) - 1)
    return Tupling(Identity(regions.inputs, regions), most, replacement=replacement)


def scaled_laplace(regions: Regions, epsilon: float, furthest: float) -> PlanarLaplace:
    """Return the planar Laplace of Theorem 2: its rate of extended DP times ``furthest`` (km) is ``epsilon`` at most.

    The least noise that the theorem allows, within a thousandth; as in `distp.calibration.compare`.
    """
    asked = epsilon / furthest if furthest > 0 else 0.0
    rate = asked
    while True:
        made = PlanarLaplace(regions.inputs, rate, regions)
        realised = metric_epsilon(made).upper
        if realised == 0 or 0.999 * asked <= realised <= asked:
            return made
        rate *= asked / realised * (1 - 1e-4)  # nearly proportional to the parameter: two or three rounds
