"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distp.data import CheckIns
from distp.errors import ParameterError
from distp.spaces import Box, median_box

DATA, TARGET, MAP = "Data", "Target", "Map"

Lat = Annotated[str, typer.Option("--lat", help="Column with the latitude, degrees.", rich_help_panel=DATA)]
Lon = Annotated[str, typer.Option("--lon", help="Column with the longitude, degrees.", rich_help_panel=DATA)]
User = Annotated[
    str | None,
    typer.Option("--user", help="Column with the person; people are then counted.", rich_help_panel=DATA),
]
Time = Annotated[
    str | None,
    typer.Option("--time", help="Column with the local time; adds 'hour' and 'weekday'.", rich_help_panel=DATA),
]
MaxBad = Annotated[
    float, typer.Option("--max-bad", help="Largest share of unusable rows to accept.", rich_help_panel=DATA)
]
Attributes = Annotated[
    list[str],
    typer.Option(
        "--attribute",
        help="What to hide: an SQL condition on the columns, or 'name: condition'. Repeat it for several.",
        rich_help_panel=TARGET,
    ),
]
Epsilon = Annotated[float, typer.Option("--epsilon", help="Target epsilon.", rich_help_panel=TARGET)]
Delta = Annotated[float, typer.Option("--delta", help="Target delta.", rich_help_panel=TARGET)]
MaxDummies = Annotated[
    int, typer.Option("--max-dummies", help="How many dummies a report may carry.", rich_help_panel=TARGET)
]
BoxText = Annotated[
    str | None,
    typer.Option("--box", help="SOUTH,WEST,NORTH,EAST in degrees: the area of all regions.", rich_help_panel=MAP),
]
Centre = Annotated[
    str | None,
    typer.Option("--center", help="LAT,LON of the middle of the area. Default: median point.", rich_help_panel=MAP),
]
SizeKm = Annotated[
    str, typer.Option("--size-km", help="WIDTH,HEIGHT of the area around the center.", rich_help_panel=MAP)
]
CellKm = Annotated[float, typer.Option("--cell-km", help="Side of a region before quartering.", rich_help_panel=MAP)]
RegionCount = Annotated[
    int,
    typer.Option("--regions", help="Quarter crowded cells up to this number of regions.", rich_help_panel=MAP),
]
RingKm = Annotated[
    float | None,
    typer.Option(
        "--ring-km", help="Border that is reported but holds no input. Default: a cell.", rich_help_panel=MAP
    ),
]
Outside = Annotated[
    str,
    typer.Option(
        "--outside",
        help="Check-ins outside the input regions: 'refuse' (set aside here, refused by protect) or 'nearest' "
        "(counted and protected as if in the nearest one).",
        rich_help_panel=MAP,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
PolicyPath = Annotated[Path, typer.Option("--policy", help="Policy file.")]


def box_of(box: str | None, center: str | None, size: str, check_ins: CheckIns) -> Box:
    """Return the area that the options describe; without a center, around the data's median point."""
    if box is not None:
        if center is not None:
            raise ParameterError("--box and --center exclude each other")
        return Box.from_degrees(*numbers(box, 4, "--box SOUTH,WEST,NORTH,EAST"))
    width, height = numbers(size, 2, "--size-km WIDTH,HEIGHT")
    if center is None:
        return median_box(check_ins.lat, check_ins.lon, width, height)
    lat, lon = numbers(center, 2, "--center LAT,LON")
    return Box.around(lat, lon, width, height)


def numbers(text: str, count: int, form: str) -> list[float]:
    """Return the numbers of a comma-separated option."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != count:
        raise ParameterError(f"expected {form}, got {text!r}")
    return values
