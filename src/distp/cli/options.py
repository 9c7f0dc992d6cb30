"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distp.errors import ParameterError

DATA, TARGET, MAP = "Data", "Target", "Map"

Files = Annotated[
    list[Path],
    typer.Argument(
        help="Check-ins: files, folders or .zip archives of one set (Foursquare, Gowalla, Brightkite, Citi Bike), or "
        "CSV, TSV, Parquet, Arrow, JSON lines, GeoJSON with named columns; .gz too."
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="What the files are, if that is not to be recognised: tist2015, www2019, tsmc2014, gowalla, brightkite, "
        "citibike, csv, tsv, parquet, arrow, jsonl, geojson.",
        rich_help_panel=DATA,
    ),
]
Lat = Annotated[
    str | None,
    typer.Option("--lat", help="Column with the latitude, degrees. Default: the one named so.", rich_help_panel=DATA),
]
Lon = Annotated[
    str | None,
    typer.Option(
        "--lon", help="Column with the longitude, degrees. Default: the one named so.", rich_help_panel=DATA
    ),
]
User = Annotated[
    str | None,
    typer.Option("--user", help="Column with the person; people are then counted.", rich_help_panel=DATA),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Column with the local time; adds 'hour', 'weekday' and 'date'. For times in UTC name --utc-offset or "
        "--zone too.",
        rich_help_panel=DATA,
    ),
]
UtcOffset = Annotated[
    str | None,
    typer.Option(
        "--utc-offset", help="Column with the minutes that local time is ahead of UTC.", rich_help_panel=DATA
    ),
]
Zone = Annotated[
    str | None,
    typer.Option("--zone", help="Time zone of the place, such as Europe/London, for UTC.", rich_help_panel=DATA),
]
Weight = Annotated[
    str,
    typer.Option(
        "--weight",
        help="'check-ins': every check-in counts alike. 'users': every person does.",
        rich_help_panel=DATA,
    ),
]
Smoothing = Annotated[
    float,
    typer.Option(
        "--smoothing",
        help="Add so many check-ins (or users) to every input region of both distributions. Default: none.",
        rich_help_panel=DATA,
    ),
]
MaxBad = Annotated[
    float, typer.Option("--max-bad", help="Largest share of unusable rows to accept.", rich_help_panel=DATA)
]
Attributes = Annotated[
    list[str],
    typer.Option(
        "--attribute",
        help="What to hide: a preset (home, workplace, gender, morning, weekday, north, social, followed, resident, "
        "member, at-home, at-work), an SQL condition on the columns, or 'name: condition'. Repeat it for several.",
        rich_help_panel=TARGET,
    ),
]
Epsilon = Annotated[float, typer.Option("--epsilon", help="Target epsilon.", rich_help_panel=TARGET)]
Delta = Annotated[float, typer.Option("--delta", help="Target delta.", rich_help_panel=TARGET)]
MaxDummies = Annotated[
    int, typer.Option("--max-dummies", help="How many dummies a report may carry.", rich_help_panel=TARGET)
]
Confidence = Annotated[
    float | None,
    typer.Option(
        "--confidence",
        help="How sure to be that the target holds for the population that the people in the data were drawn from, "
        "for each attribute by itself. Default: 0.95.",
        rich_help_panel=TARGET,
    ),
]
InSample = Annotated[
    bool,
    typer.Option(
        "--in-sample",
        help="Meet the target only for the distributions as they were counted: right where they are known, and no "
        "statement about other people where they are estimated.",
        rich_help_panel=TARGET,
    ),
]
Base = Annotated[
    str,
    typer.Option(
        "--base",
        help="What perturbs the true region where it may not be sent as it is. 'optimal': whatever costs the least "
        "loss (with 50 people of either class, on up to about 580 regions). 'laplace': a restricted Laplace "
        "mechanism, two numbers.",
        rich_help_panel=TARGET,
    ),
]
DummyLaw = Annotated[
    str | None,
    typer.Option(
        "--dummy-law",
        help="How dummies are drawn: 'uniform', 'mixture' (as reports are), 'difference' (where the two "
        "distributions differ), 'chosen' (with the optimal base and a confidence; the default there).",
        rich_help_panel=TARGET,
    ),
]
MaxLoss = Annotated[
    float | None,
    typer.Option(
        "--max-loss",
        help="A budget in km: with it, the fewest dummies that keep to it, instead of the least loss.",
        rich_help_panel=TARGET,
    ),
]
MinLocationError = Annotated[
    float | None,
    typer.Option(
        "--min-location-error",
        help="How far off, in km and on average, the best guess of a person's own place must be after a report.",
        rich_help_panel=TARGET,
    ),
]
BoxText = Annotated[
    str | None,
    typer.Option("--box", help="SOUTH,WEST,NORTH,EAST in degrees: the area of all regions.", rich_help_panel=MAP),
]
CityName = Annotated[
    str | None,
    typer.Option(
        "--city",
        help="City in the middle of the area, 'London' or 'London, GB': from the set's file of cities, or a known "
        "one. Also says the --zone.",
        rich_help_panel=MAP,
    ),
]
Centre = Annotated[
    str | None,
    typer.Option("--center", help="LAT,LON of the middle of the area. Default: median point.", rich_help_panel=MAP),
]
SizeKm = Annotated[
    str, typer.Option("--size-km", help="WIDTH,HEIGHT of the area around the center.", rich_help_panel=MAP)
]
MapKind = Annotated[
    str,
    typer.Option(
        "--map",
        help="'quadtree': square cells, crowded ones quartered. 'grid': square cells. 'h3:8': hexagons of that H3 "
        "resolution (needs the extra 'hex'). Or a GeoJSON file: a region for each polygon.",
        rich_help_panel=MAP,
    ),
]
CellKm = Annotated[float, typer.Option("--cell-km", help="Side of a region before quartering.", rich_help_panel=MAP)]
RegionCount = Annotated[
    int | None,
    typer.Option(
        "--regions", help="Quarter crowded cells up to this number of regions. Default: 276.", rich_help_panel=MAP
    ),
]
Cap = Annotated[
    float | None,
    typer.Option(
        "--cap",
        help="Instead of --regions: quarter every cell that holds more check-ins than this.",
        rich_help_panel=MAP,
    ),
]
Mask = Annotated[
    Path | None,
    typer.Option("--mask", help="GeoJSON outline: only regions that overlap it.", rich_help_panel=MAP),
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
REMEMBERED = "Remembered"
Secret = Annotated[
    Path | None,
    typer.Option(
        "--secret",
        help="File with the local secret that remembers tuples; made if it is not there. Who has it can tell which "
        "tuples are whose.",
        rich_help_panel=REMEMBERED,
    ),
]
Period = Annotated[
    str,
    typer.Option(
        "--period",
        help="What a tuple is remembered for, in any words (2026-11): in another period it is drawn anew. "
        "Default: for ever.",
        rich_help_panel=REMEMBERED,
    ),
]
LedgerPath = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="SQLite file that counts each person's independent draws; needs --limit.",
        rich_help_panel=REMEMBERED,
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", help="Independent draws that each person may have.", rich_help_panel=REMEMBERED),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
PolicyPath = Annotated[Path, typer.Option("--policy", help="Policy file.")]


def numbers(text: str, count: int, form: str) -> list[float]:
    """Return the numbers of a comma-separated option."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != count:
        raise ParameterError(f"expected {form}, got {text!r}")
    return values
