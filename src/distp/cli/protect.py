"""``distp protect``: a file of check-ins in, a file of tuples out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distp.cli import options
from distp.cli.console import emit, say, working
from distp.cli.remembered import memory_of
from distp.files import check_target
from distp.release import Policy, protect_file

NAME = "protect"
EXAMPLE = (
    "distp protect distp-demo/buildings.csv --lat lat --lon lon --policy distp-demo/home.policy "
    "--empty --out protected.parquet"
)


def run(
    files: options.Files,
    policy: options.PolicyPath,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="File to write: .parquet, .arrow or .csv; or, without an ending, a new folder of Parquet files.",
        ),
    ],
    form: options.Format = None,
    lat: options.Lat = None,
    lon: options.Lon = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="Column to pass through as it is; repeat it for several. Default: none."),
    ] = None,
    empty: Annotated[
        bool,
        typer.Option(
            "--empty",
            help="Give an empty report to a row that cannot be protected (outside the area, no coordinates). "
            "Default: refuse the file.",
        ),
    ] = False,
    person: Annotated[
        str | None,
        typer.Option(
            "--person",
            help="Column with the person: rows of one person in one region get one tuple. Default: every row is "
            "drawn independently.",
            rich_help_panel=options.REMEMBERED,
        ),
    ] = None,
    secret: options.Secret = None,
    period: options.Period = "",
    ledger: options.LedgerPath = None,
    limit: options.Limit = None,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Start anew. Default: go on where an interrupted run of the same job ended."),
    ] = False,
    json_output: options.Json = False,
) -> None:
    """Write one tuple for every row, drawn from operating-system entropy; true coordinates never leave."""
    loaded = Policy.load(policy)
    broken = "" if loaded.certificate.holds else "warning: this policy does not meet its own target: see distp audit"
    check_target(out, policy, *([] if secret is None else [secret]))
    memory = memory_of(person, secret, period, ledger, limit)
    with working("protecting", "rows") as step:
        done = protect_file(
            files,
            out,
            loaded,
            format=form,
            lat=lat,
            lon=lon,
            keep=keep or (),
            person=person,
            memory=memory,
            empty=empty,
            restart=restart,
            progress=step,
        )
    if json_output:
        emit(
            {
                "out": out,
                "rows": done.rows,
                "empty": done.empty,
                "before": done.before,
                "places": loaded.dummies + 1,
                "holds": loaded.certificate.holds,
            }
        )
        return
    say(f"{out}: {done.rows:,} rows, one tuple of {loaded.dummies + 1} regions each")
    if done.before:
        say(f"  {done.before:,} of them had been finished by a run that was interrupted")
    if done.empty:
        spent = "" if ledger is None else ", or of people without draws"
        say(f"  {done.empty:,} of them empty: outside the area, or without coordinates{spent} (which can be seen)")
    claim = loaded.certificate
    say(
        f"  each report: epsilon {claim.target_epsilon:g}, delta {claim.target_delta:g} for "
        f"{', '.join(pair.name for pair in loaded.pairs)}; "
        + (
            "several reports of one person from the same place are not covered: --person and --secret remember them"
            if memory is None
            else "a person's reports from one region are one and the same"
        )
    )
    if broken:
        say(broken)
