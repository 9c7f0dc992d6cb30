"""The noise floor: the same mechanisms between two random halves of the people of one class."""

from __future__ import annotations

from distp.experiments.calibrated import Design
from distp.experiments.measure import epsilon_at, success
from distp.experiments.parts import HALVES, Parts
from distp.experiments.records import DISTINCT, IDENTITY, NONE, RL, NoiseFloor
from distp.experiments.settings import Settings
from distp.experiments.tuples import laplace_tuples, plain_tuples
from distp.mechanisms import Mechanism
from distp.spaces import Regions


def noise_floor(
    parts: Parts, city: str, designs: list[Design], regions: Regions, settings: Settings
) -> list[NoiseFloor]:
    """Return what no protection, the default tuples and the calibrated mechanisms show where there is nothing to see.

    Dummies without replacement are left out: they never show more than TM(identity) with as many.
    """
    s = settings
    asked: list[tuple[str, float | None, int, Mechanism]] = [
        (NONE, None, 0, plain_tuples(regions, 0)),
        (RL, None, s.dummies, laplace_tuples(regions, s.dummies, s.base_epsilon, s.radius)),
        (IDENTITY, None, s.dummies, plain_tuples(regions, s.dummies)),
    ]
    asked += [(one.name, one.target, one.dummies, one.mechanism) for one in designs if one.name != DISTINCT]
    rows = []
    for halves in HALVES:
        pair = parts.pairs[halves]
        one, two = pair.support_p, pair.support_q
        people = None if one is None or two is None or one.people is None else one.people + (two.people or 0)
        for name, target, dummies, mechanism in asked:
            rows.append(
                NoiseFloor(
                    city,
                    parts.name,
                    halves,
                    people,
                    name,
                    target,
                    dummies,
                    s.delta,
                    epsilon_at(mechanism, pair, s.delta).upper,
                    success(mechanism, pair)[0],
                )
            )
    return rows
