"""The loss of mechanisms at the same delta for people they were not designed on.

Usage: python tools/equal_held_out.py SHARED_FOLDER [--out docs/experiments/population] [--splits 3]

People are halved many times; each half designs, the other judges, both ways. Held-out deltas are rough ones (within a
hundredth), the loss is that of the held-out people too. Only aggregates are written.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from distp.calibration.optimal_dummies import dummy_laws
from distp.calibration.optimal_tupling import optimal_tupling
from distp.calibration.steady import Designer, moments_of
from distp.checks import FloatArray
from distp.distributions import Pair
from distp.mechanisms import Channel, Identity, Mechanism, RestrictedLaplace, Tupling
from distp.privacy.rough import rough_deltas
from distp.spaces import Regions
from distp.utility import loss_matrix, mean_loss
from experiments import SEED, new_york_1083, read_sample
from held_out_figure import figure

ATTRIBUTES = ("morning", "weekday")
DUMMIES = (10, 20)
EPSILON, DELTA = 0.2, 0.001
SPLITS = 3
PRICES = np.geomspace(0.03, 12.0, 12)  # of privacy, times the loss of a report that tells nothing
PARAMETERS = np.geomspace(0.1, 6.0, 40)  # epsilon_A per km
RADII = np.geomspace(0.7, 8.0, 20)  # km
IN_SAMPLE = (1e-2, 1e-3, 1e-5)
GAP = 0.05  # of the in-sample optimum, in loss
RL, CHOSEN = "RL, uniform dummies", "found with confidence, chosen dummies"


@dataclass(frozen=True)
class Point:
    """One parameter of a method: loss and held-out delta of every half, shape (halves,) each."""

    method: str
    parameter: str
    losses: FloatArray
    deltas: FloatArray


@dataclass(frozen=True, eq=False)
class Trial:
    """Designed on one of the pairs, judged on the other."""

    pair: Pair
    other: Pair
    regions: Regions
    dummies: int
    _weights: dict[bytes, FloatArray] = field(default_factory=dict)

    def judged(self, mechanism: Tupling) -> tuple[float, float]:
        """Return loss and delta for the held-out people."""
        nu = mechanism.dummy_distribution
        if nu.tobytes() not in self._weights:
            distances = self.regions.inputs.distances(self.regions)
            self._weights[nu.tobytes()] = loss_matrix(distances, self.dummies, nu)
        loss = mean_loss(mechanism, (self.other.p + self.other.q) / 2, self._weights[nu.tobytes()])
        found = rough_deltas(mechanism, self.other.p[None], self.other.q[None], math.exp(EPSILON))
        return loss, float(found[0])

    def tuples(self, base: Mechanism, nu: FloatArray | None = None) -> Tupling:
        """Return a base among dummies."""
        return Tupling(base, self.dummies, nu)


Judged = Iterator[tuple[str, str, float, float]]  # method, parameter, loss, delta


def designed(trial: Trial) -> Judged:
    """Yield what `optimal_tupling` with a confidence tries, for one price after the other."""
    regions, prior = trial.regions, (trial.pair.p + trial.pair.q) / 2
    distances, uniform = regions.inputs.distances(regions), np.full(len(regions), 1.0 / len(regions))
    scale = float((prior @ loss_matrix(distances, trial.dummies, uniform)).mean())
    moments = moments_of([trial.pair], EPSILON)
    for name, law in ((CHOSEN, None), ("found with confidence, uniform dummies", uniform)):
        designer = Designer(distances, trial.dummies, prior, moments, law)
        for price in PRICES[::-1]:
            channel, nu = designer.at(scale * price)
            made = trial.tuples(Channel(channel, regions.inputs, regions), nu)
            yield name, f"price {price:.4g}", *trial.judged(made)


def in_sample(trial: Trial) -> Judged:
    """Yield the least loss for the pair as it was counted, at several deltas."""
    for asked in IN_SAMPLE:
        found = optimal_tupling([trial.pair], trial.regions, trial.dummies, epsilon=EPSILON, delta=asked, gap=GAP)
        yield "optimal in-sample", f"delta {asked:g}", *trial.judged(found.mechanism)


def known(trial: Trial) -> Judged:
    """Yield the mixture of restricted Laplace with dummies like the people, and the identity."""
    identity = Identity(trial.regions.inputs, trial.regions)
    yield "identity, uniform dummies", "", *trial.judged(trial.tuples(identity))
    mixture = dummy_laws([trial.pair], identity)["mixture"]
    for base in _laplace(trial.regions):
        yield "RL, mixture dummies", _parameters(base), *trial.judged(trial.tuples(base, mixture))
    for base in _laplace(trial.regions):
        yield RL, _parameters(base), *trial.judged(trial.tuples(base))


_bases: dict[int, list[RestrictedLaplace]] = {}


def _laplace(regions: Regions) -> list[RestrictedLaplace]:
    """Return the bases of the whole grid, made once: a mechanism keeps its matrix."""
    if id(regions) not in _bases:
        _bases[id(regions)] = [
            RestrictedLaplace(regions.inputs, float(parameter), float(radius), regions)
            for radius in RADII
            for parameter in PARAMETERS
        ]
    return _bases[id(regions)]


def _parameters(base: RestrictedLaplace) -> str:
    return f"{base.epsilon:.3g}/km within {base.radius:.3g} km"


def points(trials: Sequence[Trial]) -> list[Point]:
    """Return every parameter of every method, with the numbers of all trials."""
    kept: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for trial in trials:
        for judged in (designed, known, in_sample):
            for method, parameter, loss, delta in judged(trial):
                kept.setdefault((method, parameter), []).append((loss, delta))
    return [Point(*key, *np.array(values).T) for key, values in kept.items() if len(values) == len(trials)]


def frontier(losses: FloatArray, deltas: FloatArray) -> list[int]:
    """Return which points no other one beats in both, by rising loss."""
    best, chosen = math.inf, []
    for i in np.lexsort((deltas, losses)).tolist():
        if deltas[i] < best:
            best = deltas[i]
            chosen.append(i)
    return chosen


def loss_at(losses: FloatArray, deltas: FloatArray) -> float:
    """Return the loss at `DELTA` along the frontier, by logarithms; NaN where it is not reached on both sides."""
    chosen = frontier(losses, deltas)
    chosen = [i for i in chosen if losses[i] > 0 and deltas[i] > 0]
    x, y = np.log(deltas[chosen])[::-1], np.log(losses[chosen])[::-1]
    if not len(chosen) or not x[0] <= math.log(DELTA) <= x[-1]:
        return math.nan
    return float(np.exp(np.interp(math.log(DELTA), x, y)))


def tables(found: Sequence[Point], about: dict[str, object]) -> tuple[list[dict[str, object]], ...]:
    """Return the curves (of the grids, what nothing beats) and the losses at `DELTA`, as rows."""
    curves, summary = [], []
    methods = list(dict.fromkeys(one.method for one in found))
    losses = {method: np.array([one.losses for one in found if one.method == method]) for method in methods}
    deltas = {method: np.array([one.deltas for one in found if one.method == method]) for method in methods}

    def at(method: str) -> tuple[float, FloatArray]:
        L, D = losses[method], deltas[method]
        each = np.array([loss_at(L[:, i], D[:, i]) for i in range(L.shape[1])])
        return loss_at(L.mean(axis=1), D.mean(axis=1)), each

    baseline, baselines = at(RL)
    for method in methods:
        L, D = losses[method].mean(axis=1), deltas[method].mean(axis=1)
        of_method = [one for one in found if one.method == method]
        for i in frontier(L, D) if method.startswith("RL") else range(L.size):
            named = {"method": method, **about, "parameter": of_method[i].parameter}
            curves.append({**named, "loss": L[i], "held_out_delta": D[i]})
        loss, each = at(method)
        ratios = (each / baselines)[np.isfinite(each / baselines)]
        row = {"method": method, **about, "halves": each.size, "loss": loss, "ratio_to_RL": loss / baseline}
        low, high = (ratios.min(), ratios.max()) if ratios.size else (math.nan, math.nan)
        least, most = D.min(), D.max()
        row |= {"least_ratio": low, "largest_ratio": high, "least_delta": least, "largest_delta": most}
        summary.append(row)
    return curves, summary


def write(rows: Sequence[dict[str, object]], path: Path) -> None:
    """Write rows; no number where there is none."""
    short = [
        {key: _short(value) if isinstance(value, float) else value for key, value in row.items()} for row in rows
    ]
    pl.DataFrame(short, infer_schema_length=None).write_csv(path)


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def main() -> None:
    """Write equal-held-out.csv (the curves), equal-held-out-summary.csv and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shared", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/population"))
    parser.add_argument("--splits", type=int, default=SPLITS)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    curves: list[dict[str, object]] = []
    summary: list[dict[str, object]] = []
    for attribute in ATTRIBUTES:
        sample, regions = read_sample(new_york_1083, given.shared, attribute)
        halves = [[half.pair() for half in sample.split(seed)] for seed in range(SEED, SEED + given.splits)]
        for dummies in DUMMIES:
            trials = [Trial(way[0], way[1], regions, dummies) for both in halves for way in (both, both[::-1])]
            some, rows = tables(points(trials), {"attribute": attribute, "dummies": dummies})
            curves, summary = curves + some, summary + rows
            print(pl.DataFrame(rows, infer_schema_length=None), flush=True)
            write(curves, given.out / "equal-held-out.csv")
            write(summary, given.out / "equal-held-out-summary.csv")
    figure(pl.read_csv(given.out / "equal-held-out.csv"), DELTA, given.out / "equal-held-out.png")


if __name__ == "__main__":
    main()
