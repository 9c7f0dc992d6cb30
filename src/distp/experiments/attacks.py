"""Success of an attacker who sees one report: the best one exactly, and one who learnt from the train people."""

from __future__ import annotations

from collections.abc import Iterator

from distp.experiments.calibrated import Design
from distp.experiments.curves import Varied
from distp.experiments.measure import epsilon_at, success
from distp.experiments.parts import Parts
from distp.experiments.records import DISTINCT, NONE, PARTS, AttackPoint
from distp.experiments.settings import Settings, derived
from distp.experiments.simulate import guess
from distp.experiments.tuples import plain_tuples
from distp.mechanisms import Mechanism
from distp.spaces import Regions


def attacks_on_curve(
    parts: Parts, city: str, points: list[Varied], regions: Regions, settings: Settings, known: dict[object, float]
) -> Iterator[list[AttackPoint]]:
    """Yield the attack without protection, then at each number of dummies.

    ``known`` holds epsilons by (mechanism, dummies, part), so that the curves' are not computed again.
    """
    yield _attack(parts, city, NONE, plain_tuples(regions, 0), 0, None, settings, {})
    for point in points:
        if point.curve == "dummies" and point.name != DISTINCT:
            yield _attack(parts, city, point.name, point.mechanism, point.mechanism.dummies, None, settings, known)


def attacks_on_designs(
    parts: Parts, city: str, designs: list[Design], settings: Settings, known: dict[object, float]
) -> list[AttackPoint]:
    """Return the attacks on mechanisms that were calibrated on the train people."""
    rows = []
    for design in designs:
        rows += _attack(
            parts,
            city,
            design.name,
            design.mechanism,
            design.dummies,
            design.target,
            settings,
            known,
            ("train", "test"),
        )
    return rows


def _attack(
    parts: Parts,
    city: str,
    name: str,
    mechanism: Mechanism,
    dummies: int,
    target: float | None,
    settings: Settings,
    known: dict[object, float],
    evaluated: tuple[str, ...] = PARTS,
) -> list[AttackPoint]:
    rows = []
    for part in evaluated:
        pair, trained = parts.pairs[part], "all" if part == "all" else "train"
        epsilon = known.get((name, dummies, target, part))
        if epsilon is None:
            epsilon = epsilon_at(mechanism, pair, settings.delta).upper
        balanced, recognised = success(mechanism, pair)
        assert recognised is not None  # no dummies without replacement here
        seed = derived(settings.seed, "attack", parts.name, name, dummies, target, part)
        seen = guess(mechanism, parts.pairs[trained], parts.samples[part], settings.reports, seed)
        rows.append(
            AttackPoint(
                city,
                parts.name,
                name,
                target,
                dummies,
                trained,
                part,
                epsilon,
                balanced,
                recognised,
                seen.reports,
                *seen.balanced,
                *seen.recognised,
            )
        )
    return rows
