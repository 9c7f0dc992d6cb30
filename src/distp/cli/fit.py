"""``distp fit``: from check-ins to a certified policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distp.cli import options, steps
from distp.cli.console import emit, say, warn
from distp.cli.maps import MapOptions, area_of, make_regions
from distp.data.readers import MAX_BAD
from distp.errors import ParameterError
from distp.files import check_target

NAME = "fit"
EXAMPLE = (
    "distp fit distp-demo/buildings.csv --lat lat --lon lon --attribute \"kind == 'home'\" "
    "--size-km 12,22 --regions 400 --out buildings.policy"
)


def run(
    files: options.Files,
    attribute: options.Attributes,
    out: Annotated[Path, typer.Option("--out", help="Policy file to write.")],
    epsilon: options.Epsilon = 1.0,
    delta: options.Delta = 0.001,
    max_dummies: options.MaxDummies = 10,
    confidence: options.Confidence = None,
    in_sample: options.InSample = False,
    base: options.Base = steps.BASE,
    dummy_law: options.DummyLaw = None,
    max_loss: options.MaxLoss = None,
    min_location_error: options.MinLocationError = None,
    form: options.Format = None,
    lat: options.Lat = None,
    lon: options.Lon = None,
    user: options.User = None,
    time: options.Time = None,
    utc_offset: options.UtcOffset = None,
    zone: options.Zone = None,
    weight: options.Weight = "check-ins",
    smoothing: options.Smoothing = 0.0,
    city: options.CityName = None,
    box: options.BoxText = None,
    center: options.Centre = None,
    size_km: options.SizeKm = "12,11",
    map_kind: options.MapKind = "quadtree",
    cell_km: options.CellKm = 1.0,
    regions: options.RegionCount = None,
    cap: options.Cap = None,
    mask: options.Mask = None,
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
    check_target(out, *files)
    if in_sample and confidence is not None:
        raise ParameterError("--in-sample and --confidence exclude each other")
    level = None if in_sample else steps.CONFIDENCE if confidence is None else confidence
    wishes = steps.Wishes(epsilon, delta, max_dummies, level, base, dummy_law, max_loss, min_location_error)
    wishes.check()
    data = steps.DataOptions(form, lat, lon, user, time, utc_offset, zone, max_bad, weight, smoothing)
    place = MapOptions(map_kind, box, center, city, size_km, cell_km, regions, cap, mask, ring_km)
    area, known_city = area_of(place, files)
    own_zone = None if known_city is None else known_city.zone
    check_ins = steps.read(files, data, attribute, area, own_zone, nearest=nearest)
    space = make_regions(place, check_ins, area)
    samples, counted = steps.sample_attributes(check_ins, space, attribute, nearest=nearest, weight=weight)
    pairs = steps.count_pairs(samples, smoothing)
    read = [*steps.read_lines(check_ins), *counted]
    if smoothing:
        read.append(f"smoothing: {smoothing:g} added to every input region of both distributions, as was asked for")
    if not json_output:
        for line in read:
            say(line)
        say(f"{len(space)} regions, {len(space.inputs)} of them inputs")
    policy, words = steps.design(
        pairs,
        [sample.condition for sample in samples],
        space,
        wishes,
        outside=outside,
        weight=weight,
        smoothing=smoothing,
    )
    page = None
    if not no_report:
        rows = steps.compared(pairs, space, [*steps.EPSILONS, epsilon], delta, max_dummies)
        folder = report or out.with_name(f"{out.stem}-report")
        page = steps.report(folder, f"Hiding {', '.join(pair.name for pair in pairs)}", policy, words, rows, read)
    check_target(out, *files)
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
        if in_sample:
            warn("IN-SAMPLE: this says nothing about people who are not in the data; their delta can be far larger")
        say(f"policy: {out}")
        if page is not None:
            say(f"report: {page}")
    if not policy.certificate.holds:
        if not json_output:
            say("the target is NOT met: the certificate above is what the policy does")
        raise typer.Exit(1)
