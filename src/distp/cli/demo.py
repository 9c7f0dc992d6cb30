"""``distp demo``: the whole way on the embedded example."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from distp.cli import options, steps
from distp.cli.console import emit, say
from distp.cli.query import centres
from distp.cli.remembered import region_of
from distp.data import Example, load_example
from distp.errors import DataError
from distp.files import replacing
from distp.report.figures import tuple_figure

NAME = "demo"
EXAMPLE = "distp demo"
PLACE = ("the Empire State Building", 40.7484, -73.9857)
ATTRIBUTE = "kind == 'home'"


def run(
    out: Annotated[Path, typer.Option("--out", help="Folder for everything that is written.")] = Path("distp-demo"),
    epsilon: options.Epsilon = 1.0,
    delta: options.Delta = 0.001,
    max_dummies: options.MaxDummies = 10,
    json_output: options.Json = False,
) -> None:
    """Hide on real data whether somebody is in a home building or in another one: no network, no set-up."""
    steps.check_numbers(epsilon, delta, max_dummies, 1)
    example = load_example()
    regions = example.regions()
    pair = example.pair(regions)
    support_p, support_q = pair.support_p, pair.support_q
    assert support_p is not None  # the example is made of counts
    assert support_q is not None
    talk = say if not json_output else (lambda _="": None)
    total = int(example.residential.sum() + example.other.sum())
    inside = support_p.records + support_q.records
    read = [
        f"Manhattan tax lots, embedded ({total:,} lots; {total - inside:,} of them outside the input regions)",
        f"home building: {support_p.records:,} lots with, {support_q.records:,} without",
    ]
    talk("1. The data: Manhattan's buildings. Is somebody in a home building, or in another one?")
    for line in read:
        talk(f"   {line}")
    talk(f"   {len(regions)} regions, {len(regions.inputs)} of them inputs")
    talk()
    talk("2. Both distributions: where the difference is largest")
    _show_difference(regions.lat, regions.lon, pair.p, pair.q, talk)
    talk()
    policy, words = steps.design(
        [pair], [ATTRIBUTE], regions, steps.Wishes(epsilon, delta, max_dummies), outside="refuse"
    )
    found = policy.certificate.pairs[0]
    talk("3. The attacker without protection")
    talk(f"   is right {found.success_unprotected.upper:.1%} of the time from one report (50 % is blind guessing)")
    talk()
    talk("4. The calibrated mechanism and its certificate")
    talk(f"   {words}")
    if not json_output:
        steps.show_certificate(policy.certificate)
        for text in policy.certificate.assumptions:
            talk(f"   not covered: {text}" if "not covered" in text else f"   assumes: {text}")
    talk()
    rows = steps.compared([pair], regions, [*steps.EPSILONS, epsilon], delta, max_dummies)
    talk(f"5. All mechanisms at the same epsilon {epsilon:g}, delta {delta:g}")
    if not json_output:
        steps.show_comparison([row for row in rows if row.epsilon == epsilon])
    talk()
    name, lat, lon = PLACE
    drawn = [int(region) for region in policy.release(lat, lon)[0]]
    talk(f"6. One tuple for {name}: this is all that leaves")
    for item in centres(policy, drawn):
        talk(f"   region {item['region']:>3}  {item['lat']:.4f}, {item['lon']:.4f}  ({item['side_km']:g} km)")
    talk()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {out}: {error.strerror}") from None
    _write_buildings(out / "buildings.csv", example)
    policy.save(out / "home.policy")
    with replacing(out / "tuple.png") as temporary:
        figure = tuple_figure(regions, policy.prior, region_of(policy, lat, lon), drawn)
        figure.savefig(temporary, format="png", dpi=130)
    page = steps.report(out, "Hiding home buildings in Manhattan", policy, words, rows, read)
    if json_output:
        emit(
            {
                "regions": len(regions),
                "inputs": len(regions.inputs),
                "mechanism": words,
                "certificate": policy.certificate.to_dict(),
                "tuple": centres(policy, drawn),
                "report": page,
                "policy": out / "home.policy",
                "data": out / "buildings.csv",
            }
        )
    talk("7. Written")
    talk(f"   report:  {page}  (open it in a browser; the figures are beside it)")
    talk(f"   policy:  {out / 'home.policy'}")
    talk(f"   data:    {out / 'buildings.csv'}  (the example as a file, for distp fit and distp protect)")


def _show_difference(lat: np.ndarray, lon: np.ndarray, p: np.ndarray, q: np.ndarray, talk: object) -> None:
    assert callable(talk)
    for index in np.argsort(-np.abs(p - q))[:4]:
        talk(
            f"   around {lat[index]:.3f}, {lon[index]:.3f}: {p[index]:.2%} of the home buildings, "
            f"{q[index]:.2%} of the others"
        )


def _write_buildings(path: Path, example: Example) -> None:
    """Write the example as one row a building, at the centre of its cell."""
    with replacing(path) as temporary, temporary.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["lat", "lon", "kind"])
        for kind, counts in (("home", example.residential), ("other", example.other)):
            for lat, lon, number in zip(example.lat, example.lon, counts, strict=True):
                writer.writerows([(lat, lon, kind)] * int(number))
