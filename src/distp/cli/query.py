"""``distp query``: one place in, one tuple out."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import numpy as np
import typer

from distp.cli import options
from distp.cli.console import emit
from distp.cli.remembered import memory_of, region_of
from distp.release import Policy
from distp.spaces import Regions

NAME = "query"
EXAMPLE = "distp query --policy distp-demo/home.policy --lat 40.7484 --lon -73.9857"


class Form(StrEnum):
    """How a tuple is printed."""

    json = "json"
    geojson = "geojson"


def run(
    policy: options.PolicyPath,
    lat: Annotated[float, typer.Option("--lat", help="Latitude, degrees.")],
    lon: Annotated[float, typer.Option("--lon", help="Longitude, degrees.")],
    form: Annotated[Form, typer.Option("--format", help="JSON of centres, or GeoJSON polygons.")] = Form.json,
    person: Annotated[
        str | None,
        typer.Option(
            "--person", help="Who asks: the same tuple for the same region.", rich_help_panel=options.REMEMBERED
        ),
    ] = None,
    secret: options.Secret = None,
    period: options.Period = "",
    ledger: options.LedgerPath = None,
    limit: options.Limit = None,
    json_output: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print one tuple for one place, drawn from operating-system entropy."""
    loaded = Policy.load(policy)
    region = np.array([region_of(loaded, lat, lon)])
    memory = memory_of(person, secret, period, ledger, limit)
    if memory is None or person is None:
        found = loaded.release_inputs(region)
    else:
        found = memory.release(loaded, [person], region)
    drawn = [int(region) for region in found[0]]
    emit(geojson(loaded, drawn) if form is Form.geojson and not json_output else {"tuple": centres(loaded, drawn)})


def centres(policy: Policy, regions: list[int]) -> list[dict[str, float | str]]:
    """Return number, centre and size of each region of a tuple, and its name if it has one."""
    return [
        {
            "region": region,
            "lat": round(float(policy.regions.lat[region]), 6),
            "lon": round(float(policy.regions.lon[region]), 6),
            **_size(policy.regions, region),
        }
        for region in regions
    ]


def _size(space: Regions, region: int) -> dict[str, float | str]:
    if space.names is None:
        return {"side_km": float(space.cells[region, 2])}
    return {"area_km2": round(float(space.area_km2[region]), 6), "name": space.names[region]}


def geojson(policy: Policy, regions: list[int]) -> dict[str, Any]:
    """Return the regions of a tuple as a GeoJSON feature collection."""
    features = []
    for region in regions:
        parts = [[_positions(ring) for ring in piece] for piece in policy.regions.pieces(region)]
        shape = {"type": "Polygon", "coordinates": parts[0]}
        if len(parts) > 1:
            shape = {"type": "MultiPolygon", "coordinates": parts}
        named = {} if policy.regions.names is None else {"name": policy.regions.names[region]}
        features.append({"type": "Feature", "properties": {"region": region, **named}, "geometry": shape})
    return {"type": "FeatureCollection", "features": features}


def _positions(ring: list[tuple[float, float]]) -> list[list[float]]:
    return [[round(lon, 6), round(lat, 6)] for lat, lon in [*ring, ring[0]]]
