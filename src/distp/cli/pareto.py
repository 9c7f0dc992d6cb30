"""``distp compare --pareto``: the mechanisms that no other one beats in everything."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from distp.calibration import Choice, pareto
from distp.checks import count
from distp.cli import steps
from distp.cli.console import emit, progress, say, table
from distp.distributions import Pair
from distp.errors import DataError, ParameterError
from distp.files import replacing
from distp.spaces import Regions

EPSILONS = (0.2, 0.5, 1.0, 2.0)
DUMMIES = (2, 5, 10, 20, 50)

COLUMNS = (
    "mechanism",
    "epsilon",
    "delta",
    "delta_realised_upper",
    "dummies",
    "loss_km",
    "location_error_lower_km",
    "location_error_upper_km",
    "location_success_upper",
    "blind_error_lower_km",
    "attack_success_upper",
    "efficient",
    "parameter",
)


def run(
    pairs: Sequence[Pair],
    regions: Regions,
    epsilons: Sequence[float],
    delta: float,
    dummies: Sequence[int],
    out: Path | None,
    *,
    json_output: bool,
) -> None:
    """Find the choices, show the efficient ones, and write all of them."""
    for k in dummies:
        if count(k, "dummies") > steps.MOST_DUMMIES:
            raise ParameterError(f"dummies must be at most {steps.MOST_DUMMIES:,}, got {k:,}")
    for epsilon in epsilons:
        steps.check_numbers(epsilon, delta, 0, len(regions))
    if out is not None and out.exists() and not out.is_dir():
        raise DataError(f"cannot make the folder {out}: it is a file")
    with progress("looking for the front") as step:
        rows = pareto(pairs, regions, epsilons, delta, dummies, progress=step)
    if out is not None:
        write(out, rows)
    if json_output:
        emit([asdict(row) for row in rows])
        return
    show(rows)
    if out is not None:
        say(f"table: {out / 'pareto.csv'}")
        say(f"figure: {out / 'pareto.png'}")


def show(rows: Sequence[Choice]) -> None:
    """Print the efficient choices as a table, and say how many others there are."""
    kept = [row for row in rows if row.efficient]
    table(
        [
            "epsilon",
            "dummies",
            "mechanism",
            "loss km",
            "place off by km",
            "place found",
            "attack success",
            "parameter",
        ],
        [
            [
                f"{row.epsilon:g}",
                str(row.dummies),
                row.mechanism,
                f"{row.loss:.3f}",
                f"{math.floor(100 * row.location_error.lower) / 100:.2f}",  # a promise: never rounded up
                row.location_success.claim(3),
                row.attack_success.claim(),
                row.parameter,
            ]
            for row in kept
        ],
    )
    say(
        f"   each within delta {rows[0].delta:g}; a place guessed without any report is off by "
        f"{rows[0].blind_error.lower:.2f} km on average"
    )
    others = len(rows) - len(kept)
    if others:
        say(f"   not shown: {others} more, each beaten by one of these (--json and --out have all)")


def write(folder: Path, rows: Sequence[Choice]) -> None:
    """Write the table as CSV and the figure as PNG, each whole or not at all."""
    make_folder(folder)
    with replacing(folder / "pareto.csv") as temporary, temporary.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for row in rows:
            writer.writerow(
                (
                    row.mechanism,
                    row.epsilon,
                    row.delta,
                    row.realised.upper,
                    row.dummies,
                    row.loss,
                    row.location_error.lower,
                    row.location_error.upper,
                    row.location_success.upper,
                    row.blind_error.lower,
                    row.attack_success.upper,
                    str(row.efficient).lower(),
                    row.parameter,
                )
            )
    from distp.report.figures import pareto_figure  # loads what draws figures

    with replacing(folder / "pareto.png") as temporary:
        pareto_figure(rows).savefig(temporary, format="png", dpi=130)


def make_folder(folder: Path) -> None:
    """Make a folder for results, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {folder}: {error.strerror}") from None
