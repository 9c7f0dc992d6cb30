"""The whole experimental section: one call, one object with every number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distp.data.samples import Sample
from distp.experiments.attacks import attacks_on_curve, attacks_on_designs
from distp.experiments.calibrated import Design, Designer, calibrated_rows, matched
from distp.experiments.claims import judge
from distp.experiments.costs import costs
from distp.experiments.curves import curve_points, loss_points, needed, varied
from distp.experiments.noise import noise_floor
from distp.experiments.parts import Parts, check_samples, counted, divide
from distp.experiments.records import (
    DISTINCT,
    AttackPoint,
    Calibrated,
    Cost,
    Counted,
    CurvePoint,
    DummiesNeeded,
    Experiment,
    LossPoint,
    Matched,
    NoiseFloor,
    Time,
)
from distp.experiments.settings import CLAIMED_EPSILON, Settings
from distp.spaces import Regions

Progress = Callable[[int, int], None]
_NEEDED_STEPS, _LAST_STEPS = 3, 3


def reproduce(
    samples: Sequence[Sample],
    regions: Regions,
    city: str,
    settings: Settings,
    progress: Progress | None = None,
) -> Experiment:
    """Run the paper's experiments for the attributes of one city.

    Parameters
    ----------
    samples : sequence of Sample
        One for each attribute, all over the inputs of ``regions``.
    regions : Regions
    city : str
        What to call it.
    settings : Settings
        Grids, targets, sample sizes and the seed.
    progress : callable, optional
        Called with (steps done, steps in all).

    Returns
    -------
    Experiment
        Every number three times: on the train people, on test people (none of them in train), and on all. The same
        seed gives the same numbers, measured times apart.

    Raises
    ------
    DataError
        No attribute, one over other regions, or a class with too few people to divide; the message names it.
    ParameterError
        Two attributes of the same name.

    Notes
    -----
    Source: Kawamoto and Murakami, ESORICS 2019, section 6 and appendix A; theory 6.1 to 6.5.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> lat, lon = 40.75 + 0.01 * rng.standard_normal(400), -73.97 + 0.01 * rng.standard_normal(400)
    >>> from distp.spaces.regions import Box
    >>> regions = Regions.quadtree(lat, lon, box=Box.around(40.75, -73.97, 4, 4), regions=16)
    >>> inputs = regions.locate_inputs(lat, lon)
    >>> inside = inputs >= 0
    >>> home = Sample("home", len(regions.inputs), inputs[inside], lat[inside] > 40.75, np.arange(inside.sum()) % 40)
    >>> result = reproduce([home], regions, "Nowhere", Settings.quick(seed=7, dummies=3))
    >>> [claim.claim for claim in result.claims]
    ['a', 'b', 'c', 'd', 'e', 'f']
    """
    check_samples(samples, regions)
    everybody = [divide(sample, city, settings.seed) for sample in samples]
    points = varied(regions, settings)
    attacked = 1 + sum(point.curve == "dummies" and point.name != DISTINCT for point in points)
    each = len(points) + attacked + 2 * len(settings.targets) + _NEEDED_STEPS + _LAST_STEPS
    done, total = 0, each * len(everybody)

    def step(number: int = 1) -> None:
        nonlocal done
        done += number
        if progress:
            progress(done, total)

    tables = _Tables()
    for parts in everybody:
        _attribute(parts, city, regions, settings, tables, step)
    checks, claims = judge(
        city, settings, tables.calibrated, tables.matched, tables.attacks, tables.dummies, tables.costs
    )
    return Experiment(
        city=city,
        settings=settings,
        attributes=tuple(parts.name for parts in everybody),
        inputs=len(regions.inputs),
        outputs=len(regions),
        counted=tuple(tables.counted),
        curves=tuple(tables.curves),
        dummies=tuple(tables.dummies),
        attacks=tuple(tables.attacks),
        losses=tuple(tables.losses),
        calibrated=tuple(tables.calibrated),
        matched=tuple(tables.matched),
        noise=tuple(tables.noise),
        costs=tuple(tables.costs),
        times=tuple(tables.times),
        checks=tuple(checks),
        claims=tuple(claims),
    )


class _Tables:
    """The tables while they grow, attribute by attribute."""

    def __init__(self) -> None:
        self.counted: list[Counted] = []
        self.curves: list[CurvePoint] = []
        self.dummies: list[DummiesNeeded] = []
        self.attacks: list[AttackPoint] = []
        self.losses: list[LossPoint] = []
        self.calibrated: list[Calibrated] = []
        self.matched: list[Matched] = []
        self.noise: list[NoiseFloor] = []
        self.costs: list[Cost] = []
        self.times: list[Time] = []


def _attribute(
    parts: Parts,
    city: str,
    regions: Regions,
    settings: Settings,
    tables: _Tables,
    step: Callable[..., None],
) -> None:
    tables.counted += counted(parts, city)
    points = varied(regions, settings)  # anew for each attribute: their matrices are then let go
    curves: list[CurvePoint] = []
    for rows in curve_points(parts, city, points, settings):
        curves += rows
        step()
    known: dict[object, float] = {
        (row.mechanism, row.dummies, None, row.evaluated): row.epsilon for row in curves if row.curve == "dummies"
    }
    for some in attacks_on_curve(parts, city, points, regions, settings, known):
        tables.attacks += some
        step()
    designs, calibrated = _calibrated(parts, city, regions, settings, step)
    known |= {
        (row.mechanism, row.dummies, row.target, row.evaluated): row.realised_epsilon
        for row in calibrated
        if row.designed_on == "train"
    }
    at_one = [one for one in designs if one.target == CLAIMED_EPSILON and one.name != DISTINCT]
    distinct = next((one.dummies for one in designs if one.name == DISTINCT), None)
    tables.attacks += attacks_on_designs(parts, city, at_one, settings, known)
    tables.dummies += needed(parts, city, regions, settings, distinct)
    step(_NEEDED_STEPS)
    tables.curves += curves
    tables.calibrated += calibrated
    tables.losses += loss_points(parts, city, regions, settings, curves)
    tables.matched += matched(calibrated, parts, city, regions, settings)
    tables.noise += noise_floor(parts, city, designs, regions, settings)
    step(_LAST_STEPS - 1)
    held, measured = costs(parts.name, city, designs, regions, settings)
    tables.costs += held
    tables.times += measured
    step()


def _calibrated(
    parts: Parts, city: str, regions: Regions, settings: Settings, step: Callable[..., None]
) -> tuple[list[Design], list[Calibrated]]:
    """Design on the train people, evaluate on train and test; design and evaluate on all people, as `fit` does."""
    kept: list[Design] = []
    rows: list[Calibrated] = []
    for origin, evaluated in (("train", ("train", "test")), ("all", ("all",))):
        designer = Designer.of(parts.pairs[origin], regions, settings, held_out=origin == "train")
        for target in settings.targets:
            designs = designer.designs(target)
            rows += calibrated_rows(designer, designs, parts, city, target, dict.fromkeys(evaluated, origin))
            kept += designs if origin == "train" else []
            step()
    return kept, rows
