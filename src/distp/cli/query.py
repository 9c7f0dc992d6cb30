"""``distp query``: one place in, one tuple out."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from distp.cli import options, steps
from distp.cli.console import emit
from distp.release import Policy

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
    json_output: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print one tuple for one place, drawn from operating-system entropy."""
    loaded = Policy.load(policy)
    steps.region_of(loaded, lat, lon)
    drawn = [int(region) for region in loaded.release(lat, lon)[0]]
    emit(geojson(loaded, drawn) if form is Form.geojson and not json_output else {"tuple": centres(loaded, drawn)})


def centres(policy: Policy, regions: list[int]) -> list[dict[str, float]]:
    """Return number, centre and side of each region of a tuple."""
    space = policy.regions
    return [
        {
            "region": region,
            "lat": round(float(space.lat[region]), 6),
            "lon": round(float(space.lon[region]), 6),
            "side_km": float(space.cells[region, 2]),
        }
        for region in regions
    ]


def geojson(policy: Policy, regions: list[int]) -> dict[str, Any]:
    """Return the regions of a tuple as a GeoJSON feature collection."""
    features = []
    for region in regions:
        corners = [[round(lon, 6), round(lat, 6)] for lat, lon in policy.regions.outline(region)]
        features.append(
            {
                "type": "Feature",
                "properties": {"region": region},
                "geometry": {"type": "Polygon", "coordinates": [[*corners, corners[0]]]},
            }
        )
    return {"type": "FeatureCollection", "features": features}
