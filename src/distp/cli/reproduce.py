"""``distp reproduce``: the paper's experiments on check-ins of one's own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from distp.checks import probability
from distp.cli import options, steps
from distp.cli.console import emit, progress, say, table
from distp.cli.maps import MapOptions, area_of, make_regions
from distp.data.readers import MAX_BAD
from distp.errors import DataError, ParameterError
from distp.experiments import Experiment, Settings, reproduce
from distp.report.experiments import write_experiments

NAME = "reproduce"
EXAMPLE = (
    "distp reproduce distp-demo/buildings.csv --attribute \"kind == 'home'\" --size-km 12,22 --cell-km 2 "
    "--seed 1 --quick --out reproduced"
)


def run(
    files: options.Files,
    attribute: options.Attributes,
    out: Annotated[Path, typer.Option("--out", help="Folder for the page, the figures and the tables.")],
    seed: Annotated[int, typer.Option("--seed", help="Of the split by people and of every simulation.")],
    delta: options.Delta = 0.001,
    quick: Annotated[bool, typer.Option("--quick", help="Coarser curves and fewer samples.")] = False,
    form: options.Format = None,
    lat: options.Lat = None,
    lon: options.Lon = None,
    user: options.User = None,
    time: options.Time = None,
    utc_offset: options.UtcOffset = None,
    zone: options.Zone = None,
    weight: options.Weight = "check-ins",
    city: Annotated[
        list[str] | None,
        typer.Option(
            "--city",
            help="City in the middle of the area, as for fit; repeat it for several.",
            rich_help_panel=options.MAP,
        ),
    ] = None,
    box: options.BoxText = None,
    center: options.Centre = None,
    size_km: options.SizeKm = "12,11",
    map_kind: options.MapKind = "quadtree",
    cell_km: options.CellKm = 1.0,
    regions: options.RegionCount = None,
    cap: options.Cap = None,
    mask: options.Mask = None,
    ring_km: options.RingKm = None,
    max_bad: options.MaxBad = MAX_BAD,
    json_output: options.Json = False,
) -> None:
    """Repeat the paper's experiments: privacy, loss and attacks, in-sample and held out by user, claim by claim.

    The same seed gives the same numbers (measured times, in cost.csv, apart).
    """
    probability(delta, "delta")
    settings = Settings.quick(seed, delta=delta) if quick else Settings(seed=seed, delta=delta)
    if any(out.resolve() in (file.resolve(), file.resolve().parent) for file in files):
        raise ParameterError(f"--out {out} is where the check-ins are: name another folder")
    data = steps.DataOptions(form, lat, lon, user, time, utc_offset, zone, max_bad, weight)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {out}: {error.strerror}") from None
    done: list[Experiment] = []
    read: dict[str, list[str]] = {}
    names: list[str | None] = [*city] if city else [None]
    for name in names:
        place = MapOptions(map_kind, box, center, name, size_km, cell_km, regions, cap, mask, ring_km)
        area, known = area_of(place, files)
        check_ins = steps.read(files, data, attribute, area, None if known is None else known.zone)
        space = make_regions(place, check_ins, area)
        samples, counted = steps.sample_attributes(check_ins, space, attribute, nearest=False, weight=weight)
        title = name or "the area"
        if title in read:
            raise ParameterError(f"--city {title} is given twice")
        read[title] = [*steps.read_lines(check_ins), *counted, f"{len(space)} regions, {len(space.inputs)} inputs"]
        if not json_output:
            for line in read[title]:
                say(line)
        with progress(f"experiments, {title}") as step:
            done.append(reproduce(samples, space, title, settings, step))
    page = write_experiments(out, done, read=read, title=f"The paper's experiments: {', '.join(read)}")
    claims = [claim for experiment in done for claim in experiment.claims]
    if json_output:
        emit({"page": page, "read": read, "claims": [asdict(claim) for claim in claims]})
        return
    table(
        ["city", "claim of the paper", "verdict"],
        [[claim.city, claim.statement, claim.verdict] for claim in claims],
    )
    say(f"page: {page} (tables as CSV and figures as PNG and SVG beside it)")
