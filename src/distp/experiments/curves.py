"""Epsilon against the number of dummies, eps_A and r, and against the loss of every mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from distp.calibration.families import families
from distp.calibration.feasibility import Target
from distp.distributions import Pair
from distp.errors import MechanismError
from distp.experiments.measure import (
    beta_of,
    epsilon_at,
    fewest,
    fewest_by_theorem3,
    losses,
)
from distp.experiments.parts import Parts
from distp.experiments.records import DISTINCT, HELD, IDENTITY, PARTS, RL, CurvePoint, DummiesNeeded, LossPoint
from distp.experiments.settings import CLAIMED_EPSILON, Settings, derived
from distp.experiments.simulate import sampled_epsilon
from distp.experiments.tuples import laplace_tuples, plain_tuples
from distp.mechanisms import Mechanism, Tupling
from distp.privacy import theorem3_epsilon
from distp.spaces import Regions


class Varied(NamedTuple):
    """One point of a curve over the tupling mechanism's parameters."""

    curve: str
    name: str
    parameter: float
    mechanism: Tupling
    eps_a: float | None
    radius: float | None


def varied(regions: Regions, settings: Settings) -> list[Varied]:
    """Return every mechanism of the curves; a radius that leaves an input without a report is left out."""
    s, points = settings, []
    for k in s.dummies_grid:
        made = laplace_tuples(regions, k, s.base_epsilon, s.radius)
        points.append(Varied("dummies", RL, k, made, s.base_epsilon, s.radius))
        points.append(Varied("dummies", IDENTITY, k, plain_tuples(regions, k), None, None))
    for k in s.distinct_grid:
        if k < len(regions):
            points.append(Varied("dummies", DISTINCT, k, plain_tuples(regions, k, False), None, None))
    for value in s.epsilon_grid:
        made = laplace_tuples(regions, s.dummies, value, s.radius)
        points.append(Varied("eps_A", RL, value, made, value, s.radius))
    for value in s.radius_grid:
        made = laplace_tuples(regions, s.dummies, s.base_epsilon, value)
        try:
            made.channel()
        except MechanismError:
            continue
        points.append(Varied("radius", RL, value, made, s.base_epsilon, value))
    return points


def curve_points(parts: Parts, city: str, points: list[Varied], settings: Settings) -> Iterator[list[CurvePoint]]:
    """Yield the points of one curve mechanism at a time on every part; the halves only along the dummies."""
    for point in points:
        rows = []
        for part, pair in parts.pairs.items():
            chance = part not in PARTS
            if chance and point.curve != "dummies":
                continue
            if point.name == DISTINCT and part not in HELD:  # slow to account for
                continue
            rows.append(_point(parts.name, city, point, part, pair, settings, simulated=part in HELD))
        yield rows


def _point(
    attribute: str, city: str, point: Varied, part: str, pair: Pair, settings: Settings, *, simulated: bool
) -> CurvePoint:
    made = point.mechanism
    exact = epsilon_at(made, pair, settings.delta)
    beta = beta_of(made, pair)
    words = (attribute, point.curve, point.name, point.parameter, part)
    seed = derived(settings.seed, *words)
    seen = sampled_epsilon(made, pair, settings.delta, settings.samples, seed) if simulated else None
    return CurvePoint(
        city=city,
        attribute=attribute,
        curve=point.curve,
        mechanism=point.name,
        parameter=float(point.parameter),
        dummies=made.dummies,
        base_epsilon=point.eps_a,
        radius=point.radius,
        evaluated=part,
        delta=settings.delta,
        epsilon_lower=exact.lower,
        epsilon=exact.upper,
        beta=beta,
        theorem3=theorem3_epsilon(made.dummies, len(made.outputs), beta, settings.delta),
        samples=seen.samples if seen else 0,
        quantile=seen.quantile if seen else None,
        empirical=seen.empirical if seen else None,
        loss=losses(made, pair)[0],
    )


def needed(
    parts: Parts, city: str, regions: Regions, settings: Settings, distinct: int | None
) -> Iterator[DummiesNeeded]:
    """Yield the least number of dummies for every target, exactly and by Theorem 3.

    Without replacement only for the paper's epsilon of 1: each look takes long there. ``distinct`` is what the
    calibration on the train people found.
    """
    s = settings
    for part in PARTS:
        pair = parts.pairs[part]
        plain: dict[float, int | None] = {}
        bases = {name: _tuples(name, regions, 1, s).base for name in (RL, IDENTITY, DISTINCT)}
        for name in (RL, IDENTITY, DISTINCT):
            if name == DISTINCT and part not in HELD:
                continue
            for target in s.targets if name != DISTINCT else (CLAIMED_EPSILON,):
                most = s.most_dummies if name != DISTINCT else len(regions) - 1
                known = name == DISTINCT and part == "train"
                found = (
                    distinct
                    if known
                    else fewest(
                        partial(_among, bases[name], name != DISTINCT),
                        Target([pair], target, s.delta),
                        most,
                        8 if name != DISTINCT else distinct_guess(plain[target], len(regions)),
                    )
                )
                if name == IDENTITY:
                    plain[target] = found
                beta = beta_of(bases[name], pair)
                # The theorem's bound holds for distinct dummies too, whose delta is never larger (theory 4.7).
                proven = fewest_by_theorem3(len(regions), beta, target, s.delta, s.most_dummies)
                if name == DISTINCT and proven is not None and proven > most:
                    proven = None
                yield DummiesNeeded(city, parts.name, name, part, target, s.delta, found, proven, most)


def _among(base: Mechanism, replacement: bool, dummies: int) -> Tupling:
    return Tupling(base, dummies, replacement=replacement)


def _tuples(name: str, regions: Regions, dummies: int, settings: Settings) -> Tupling:
    if name == RL:
        return laplace_tuples(regions, dummies, settings.base_epsilon, settings.radius)
    return plain_tuples(regions, dummies, replacement=name == IDENTITY)


def distinct_guess(independent: int | None, outputs: int) -> int:
    """Guess how many distinct dummies do what ``independent`` ones do: the variance of their sum shrinks alike."""
    if independent is None:
        return outputs - 1
    places = independent + 1
    return max(0, min(outputs - 1, round(places / (1 + places / outputs)) - 1))


def loss_points(
    parts: Parts, city: str, regions: Regions, settings: Settings, curves: list[CurvePoint]
) -> list[LossPoint]:
    """Return epsilon and loss over each mechanism's own parameter; tuples are those of the curves."""
    rows = []
    grids = {"RR": settings.response_grid, "PL": settings.laplace_grid, "PG": settings.gaussian_grid}
    for name, family in families(regions.inputs, regions).items():
        for value in grids[name]:
            made = family.make(value)
            for part in PARTS:
                pair = parts.pairs[part]
                found = epsilon_at(made, pair, settings.delta).upper
                loss = losses(made, pair)[0]
                rows.append(
                    LossPoint(city, parts.name, name, family.parameter, value, 0, part, settings.delta, found, loss)
                )
    words = {RL: ("eps_A", "ε_A per km"), IDENTITY: ("dummies", "dummies"), DISTINCT: ("dummies", "dummies")}
    for point in curves:
        curve, parameter = words[point.mechanism]
        if point.curve == curve and point.evaluated in PARTS:
            rows.append(
                LossPoint(
                    city,
                    parts.name,
                    point.mechanism,
                    parameter,
                    point.parameter,
                    point.dummies,
                    point.evaluated,
                    point.delta,
                    point.epsilon,
                    point.loss,
                )
            )
    return rows
