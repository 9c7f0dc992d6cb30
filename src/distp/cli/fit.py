"""``distp fit``: from check-ins to a certified policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distp.cli import options, steps
from distp.cli.console import emit, say
from distp.data import read_check_ins
from distp.data.attributes import split_name
from distp.data.readers import MAX_BAD
from distp.files import check_target
from distp.spaces import Regions

NAME = "fit"
EXAMPLE = (
    "distp fit distp-demo/buildings.csv --lat lat --lon lon --attribute \"kind == 'home'\" "
    "--size-km 12,22 --regions 400 --out buildings.policy"
)


def run(
    file: Annotated[Path, typer.Argument(help="Check-ins: CSV, CSV.gz, TSV or Parquet.")],
    lat: options.Lat,
    lon: options.Lon,
    attribute: options.Attributes,
    out: Annotated[Path, typer.Option("--out", help="Policy file to write.")],
    epsilon: options.Epsilon = 1.0,
    delta: options.Delta = 0.001,
    max_dummies: options.MaxDummies = 10,
    user: options.User = None,
    time: options.Time = None,
    box: options.BoxText = None,
    center: options.Centre = None,
    size_km: options.SizeKm = "12,11",
    cell_km: options.CellKm = 1.0,
    regions: options.RegionCount = 276,
    ring_km: options.RingKm = None,
    outside: options.Outside = "refuse",
    max_bad: options.MaxBad = MAX_BAD,
    report: Annotated[
        Path | None, typer.Option("--report", help="Folder for the report. Default: beside the policy.")
    ] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    json_output: options.Json = False,
) -> None:
    """Learn the distributions of an attribute, calibrate a mechanism that hides it, certify it, write it.

    Exit code 0: the policy meets the target; 1: it was written, but does not; 2: bad input.
    """
    nearest = steps.check_outside(outside)
    steps.check_numbers(epsilon, delta, max_dummies, regions)
    check_target(out, file)
    check_ins = read_check_ins(file, lat=lat, lon=lon, user=user, time=time, max_bad=max_bad)
    area = options.box_of(box, center, size_km, check_ins)
    space = Regions.quadtree(
        check_ins.lat, check_ins.lon, box=area, cell_km=cell_km, regions=regions, ring_km=ring_km
    )
    pairs, counted = steps.count_pairs(check_ins, space, attribute, nearest=nearest)
    read = [*steps.read_lines(check_ins), *counted]
    if not json_output:
        for line in read:
            say(line)
        say(f"{len(space)} regions, {len(space.inputs)} of them inputs")
    policy, words = steps.design(
        pairs,
        [split_name(text)[1] for text in attribute],
        space,
        epsilon=epsilon,
        delta=delta,
        max_dummies=max_dummies,
        outside=outside,
    )
    page = None
    if not no_report:
        rows = steps.compared(pairs, space, [*steps.EPSILONS, epsilon], delta, max_dummies)
        folder = report or out.with_name(f"{out.stem}-report")
        page = steps.report(folder, f"Hiding {', '.join(pair.name for pair in pairs)}", policy, words, rows, read)
    check_target(out, file)
    policy.save(out)
    for line in steps.small_classes(pairs):
        read.append(line)
        if not json_output:
            say(line)
    if json_output:
        emit(
            {
                "policy": out,
                "report": page,
                "read": read,
                "regions": len(space),
                "inputs": len(space.inputs),
                "dummies": policy.dummies,
                "mechanism": words,
                "holds": policy.certificate.holds,
                "certificate": policy.certificate.to_dict(),
            }
        )
    else:
        say(f"mechanism: {words}")
        steps.show_certificate(policy.certificate)
        say(f"policy: {out}")
        if page is not None:
            say(f"report: {page}")
    if not policy.certificate.holds:
        if not json_output:
            say("the target is NOT met: the certificate above is what the policy does")
        raise typer.Exit(1)
