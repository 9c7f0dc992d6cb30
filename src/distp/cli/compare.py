"""``distp compare``: all mechanisms at the same privacy."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from distp.calibration import Compared
from distp.cli import options, steps
from distp.cli import pareto as front
from distp.cli.console import emit, say
from distp.data import load_example
from distp.distributions import Pair
from distp.errors import ParameterError
from distp.files import replacing
from distp.release import Policy

NAME = "compare"
EXAMPLE = "distp compare --epsilon 0.5 --epsilon 1 --out compared"

COLUMNS = (
    "mechanism",
    "epsilon",
    "delta",
    "delta_realised_upper",
    "dummies",
    "loss_km",
    "attack_success_upper",
    "parameter",
)


def run(
    policy: Annotated[
        Path | None,
        typer.Option("--policy", help="Take regions and distributions from a policy. Default: the embedded example."),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            "--epsilon",
            help="Target epsilon; repeat it for several. Default: 0.1 (not with --pareto), 0.2, 0.5, 1, 2 and the "
            "policy's.",
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="Target delta. Default: the policy's, or 0.001.")
    ] = None,
    max_dummies: Annotated[
        int | None, typer.Option("--max-dummies", help="Dummies of a report. Default: the policy's, or 10.")
    ] = None,
    pareto: Annotated[
        bool,
        typer.Option(
            "--pareto",
            help="Instead: which tupling mechanisms are efficient in dummies, loss, epsilon and how far off an "
            "attacker places the person. Takes some minutes.",
        ),
    ] = False,
    dummies: Annotated[
        list[int] | None,
        typer.Option(
            "--dummies",
            help="With --pareto: a number of dummies; repeat it for several. Default: 2, 5, 10, 20, 50 and the "
            "policy's.",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the CSV and the figure.")] = None,
    json_output: options.Json = False,
) -> None:
    """Bring randomised response, planar Laplace and Gaussian, the coupling mechanism and tupling to one privacy."""
    if dummies and not pareto:
        raise ParameterError(
            "--dummies goes with --pareto; without it, --max-dummies says how many a report may carry"
        )
    if pareto and max_dummies is not None:
        raise ParameterError("--max-dummies does not go with --pareto: --dummies names the numbers to look at")
    known = front.EPSILONS if pareto else steps.EPSILONS
    if policy is None:
        example = load_example()
        regions = example.regions()
        pairs: Sequence[Pair] = [example.pair(regions)]
        own_delta, own_dummies, epsilons = 0.001, 10, list(known)
    else:
        loaded = Policy.load(policy)
        regions, pairs = loaded.regions, loaded.pairs
        claim = loaded.certificate
        own_delta, own_dummies = claim.target_delta, loaded.dummies
        epsilons = [*known, claim.target_epsilon]
    delta = own_delta if delta is None else delta
    if pareto:
        numbers = dummies or [*front.DUMMIES, own_dummies]
        front.run(pairs, regions, epsilon or epsilons, delta, numbers, out, json_output=json_output)
        return
    max_dummies = own_dummies if max_dummies is None else max_dummies
    for value in epsilon or epsilons:
        steps.check_numbers(value, delta, max_dummies, len(regions))
    rows = steps.compared(pairs, regions, epsilon or epsilons, delta, max_dummies)
    if out is not None:
        write(out, rows)
    if json_output:
        emit([asdict(row) for row in rows])
        return
    steps.show_comparison(rows)
    if out is not None:
        say(f"table: {out / 'comparison.csv'}")
        say(f"figure: {out / 'loss.png'}")


def write(folder: Path, rows: Sequence[Compared]) -> None:
    """Write the table as CSV and the figure as PNG, each whole or not at all."""
    front.make_folder(folder)
    with replacing(folder / "comparison.csv") as temporary, temporary.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for row in rows:
            numbers = (row.epsilon, row.delta, row.realised.upper, row.dummies, row.loss, row.success.upper)
            writer.writerow((row.mechanism, *numbers, row.parameter))
    from distp.report.figures import loss_figure  # loads what draws figures

    with replacing(folder / "loss.png") as temporary:
        loss_figure(rows).savefig(temporary, format="png", dpi=130)
