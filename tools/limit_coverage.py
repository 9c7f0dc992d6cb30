"""Does the limit that a certificate states for the population hold? On known populations, and on held-out people.

Usage: python tools/limit_coverage.py SHARED_FOLDER [--out FOLDER] [--only synthetic|real] [--draws 200]

Each draw goes the whole way: people are drawn, a mechanism is searched that meets its target at the limit for the
population, and delta for the population (or for the other half of real people) is held against the stated limit.
Only aggregates are written.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import beta

from distp import delta
from distp.calibration.calibrate import FEWEST_PEOPLE
from distp.calibration.feasibility import Target
from distp.calibration.laplace import least_laplace
from distp.calibration.optimal_tupling import optimal
from distp.calibration.steady import wary_prior
from distp.certificates import population
from distp.checks import FloatArray
from distp.data import Sample
from distp.distributions import Pair
from distp.distributions.resampling import sizes
from distp.errors import InfeasibleError
from distp.mechanisms import Tupling
from distp.spaces import Regions, Space
from distp.utility import expected_loss
from experiments import Study, new_york_193, new_york_1083, read_sample
from known_population import Known, known_population

SEED = 20261130
CONFIDENCE = 0.95
DRAWS, SPLITS = 200, 20
SIZES = (50, 200, 1000)
SIZE = 200  # people, and records, where another way of counting is tried
BASES = ("laplace", "optimal", "fit")


@dataclass(frozen=True)
class Setting:
    """What a mechanism is asked for."""

    epsilon: float
    dummies: int
    delta: float


@dataclass(frozen=True)
class Outcome:
    """One mechanism: the limit and the loss it states, and what both are for people it never saw."""

    base: str
    limit: float
    stated_loss: float
    delta: float
    loss: float


SYNTHETIC = Setting(0.5, 5, 0.01)
REAL: tuple[tuple[Callable[[Path, Path], Study], str, Setting], ...] = (
    (new_york_193, "home", Setting(1.0, 20, 0.001)),
    (new_york_193, "workplace", Setting(1.0, 20, 0.001)),
    (new_york_1083, "morning", Setting(0.2, 10, 0.001)),
    (new_york_1083, "weekday", Setting(0.2, 10, 0.001)),
)


def outcomes(pair: Pair, others: tuple[FloatArray, FloatArray], space: Space, setting: Setting) -> list[Outcome]:
    """Return the outcome of each base, and of the one that ``distp fit`` takes (see `calibrate`).

    ``others`` are the distributions of the population, or of people held out: delta and loss are theirs.
    """
    inputs = space.inputs if isinstance(space, Regions) else space
    target = Target([pair], setting.epsilon, setting.delta, CONFIDENCE)
    found: dict[str, Tupling] = {}
    laplace = least_laplace(target, inputs, space, setting.dummies, None)
    if laplace is not None:
        found["laplace"] = laplace
    with suppress(InfeasibleError):  # then nothing is stated: the table counts what was
        found["optimal"] = optimal(target, space, setting.dummies, None).mechanism
    law = (others[0] + others[1]) / 2
    made = {
        base: Outcome(
            base,
            population(mechanism, pair, setting.epsilon, CONFIDENCE).delta,
            expected_loss(mechanism, target.prior),
            delta(mechanism, *others, setting.epsilon, rtol=1e-3).upper,
            expected_loss(mechanism, law),
        )
        for base, mechanism in found.items()
    }
    if len(made) == 2:
        chosen = "laplace"
        if min(sizes(pair)) >= FEWEST_PEOPLE:
            prior = wary_prior(target.prior, [pair])
            chosen = min(found, key=lambda base: expected_loss(found[base], prior))
        made["fit"] = replace(made[chosen], base="fit")
    return list(made.values())


def row(found: Sequence[Outcome], asked: int) -> dict[str, float | int]:
    """Return the aggregates of a table's row: ``asked`` is how many mechanisms were searched."""
    limits, deltas = np.array([one.limit for one in found]), np.array([one.delta for one in found])
    held = int((deltas <= limits).sum())
    return {
        "draws": asked,
        "found": len(found),
        "share_within": held / len(found),
        # Clopper and Pearson (1934): 95 % sure, if the draws are independent
        "share_at_least": float(beta.ppf(0.05, held, len(found) - held + 1)) if held else 0.0,
        "mean_limit": float(limits.mean()),
        "mean_delta": float(deltas.mean()),
        "median_delta": float(np.median(deltas)),
        "p95_delta": float(np.quantile(deltas, 0.95)),
        "max_delta": float(deltas.max()),
        "mean_stated_loss": float(np.mean([one.stated_loss for one in found])),
        "mean_loss": float(np.mean([one.loss for one in found])),
    }


def table(found: Sequence[list[Outcome]], **about: object) -> Iterator[dict[str, object]]:
    """Yield a row for each base."""
    for base in BASES:
        some = [one for draw in found for one in draw if one.base == base]
        if some:
            yield {**about, "base": base, **row(some, len(found))}


def synthetic(draws: int) -> Iterator[dict[str, object]]:
    """Yield the rows of samples from a population that is known: by size, and by how people are counted."""
    known = known_population(SEED)
    kinds = [("people by check-ins", size, draws) for size in SIZES]
    kinds += [("people alike", SIZE, draws // 4), ("records", SIZE * 20, draws // 4)]
    for counted, size, several in kinds:
        seeds = np.random.SeedSequence([SEED, size, len(counted)]).spawn(several)
        found = []
        for seed in seeds:
            sample = _drawn(known, counted, size, np.random.default_rng(seed))
            truth = known.laws(alike=counted == "people alike")
            found.append(outcomes(sample.pair(), truth, known.space, SYNTHETIC))
        yield from table(found, counted=counted, size=size)


def _drawn(known: Known, counted: str, size: int, rng: np.random.Generator) -> Sample:
    if counted == "records":
        return known.records(size, rng)
    return known.sample(size, rng, "users" if counted == "people alike" else "check-ins")


def real(shared: Path, splits: int) -> Iterator[dict[str, object]]:
    """Yield the rows of real people, halved by person many times over."""
    for make, attribute, setting in REAL:
        sample, regions = read_sample(make, shared, attribute)
        found = []
        for seed in range(SEED, SEED + splits):
            first, second = (half.pair() for half in sample.split(seed))
            found.append(outcomes(first, (second.p, second.q), regions, setting))
        known = make.__name__.replace("_", "-")
        asked = {"epsilon": setting.epsilon, "dummies": setting.dummies, "delta": setting.delta}
        yield from table(found, study=known, attribute=attribute, **asked)


def write(rows: Iterator[dict[str, object]], path: Path) -> None:
    """Write rows as they come: what is done so far can be read while the rest runs."""
    kept: list[dict[str, object]] = []
    for one in rows:
        kept.append({key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in one.items()})
        print(kept[-1], flush=True)
        pl.DataFrame(kept).write_csv(path)


def main() -> None:
    """Write synthetic.csv and real.csv."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shared", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/population"))
    parser.add_argument("--only", choices=("synthetic", "real"))
    parser.add_argument("--draws", type=int, default=DRAWS, help="of each synthetic row")
    parser.add_argument("--splits", type=int, default=SPLITS, help="of real people")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.only != "synthetic":
        write(real(given.shared, given.splits), given.out / "real.csv")
    if given.only != "real":
        write(synthetic(given.draws), given.out / "synthetic.csv")


if __name__ == "__main__":
    main()
