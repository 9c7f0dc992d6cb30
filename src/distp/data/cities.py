"""Cities by name: where they are, and which clock they keep."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from distp.data.companions import read_cities
from distp.data.formats import CITIES, recognise
from distp.data.sources import Part, find_parts
from distp.errors import DataError


@dataclass(frozen=True)
class City:
    """A city: its name, ISO country, centre in degrees, and IANA time zone where it is known."""

    name: str
    country: str
    lat: float
    lon: float
    zone: str | None = None


# Middle of what the field draws maps of (for New York: the paper's Manhattan).
KNOWN = (
    City("New York", "US", 40.75, -73.97, "America/New_York"),
    City("Tokyo", "JP", 35.68, 139.75, "Asia/Tokyo"),
    City("London", "GB", 51.51, -0.13, "Europe/London"),
    City("Istanbul", "TR", 41.03, 28.98, "Europe/Istanbul"),
    City("Paris", "FR", 48.86, 2.34, "Europe/Paris"),
    City("Jakarta", "ID", -6.2, 106.82, "Asia/Jakarta"),
    City("Kuala Lumpur", "MY", 3.14, 101.69, "Asia/Kuala_Lumpur"),
    City("Sao Paulo", "BR", -23.56, -46.65, "America/Sao_Paulo"),
    City("San Francisco", "US", 37.77, -122.42, "America/Los_Angeles"),
    City("Los Angeles", "US", 34.05, -118.25, "America/Los_Angeles"),
    City("Chicago", "US", 41.88, -87.63, "America/Chicago"),
    City("Austin", "US", 30.27, -97.74, "America/Chicago"),
    City("Stockholm", "SE", 59.33, 18.06, "Europe/Stockholm"),
    City("Beijing", "CN", 39.91, 116.4, "Asia/Shanghai"),
)


def find_city(text: str, files: Sequence[str | Path] = ()) -> City:
    """Return a city by name, or ``name, country code`` where several have the same.

    Parameters
    ----------
    text : str
    files : sequence of str or Path
        A set of check-ins; if it has a file of cities, that is asked first.

    Raises
    ------
    DataError
        No such city, or several.

    Examples
    --------
    >>> find_city("London, GB").zone
    'Europe/London'
    """
    name, _, country = (part.strip() for part in text.partition(","))
    parts = [part for part in find_parts(files) if _role(part) == CITIES] if files else []
    listed = _rows(read_cities(parts)) if parts else []
    for cities in (listed, KNOWN):
        found = [
            city for city in cities if _plain(city.name) == _plain(name) and country.upper() in ("", city.country)
        ]
        if len(found) > 1:
            several = "; ".join(f"{city.name}, {city.country}" for city in found)
            raise DataError(f"there are several cities {name!r}: say which ({several}), or give --center")
        if found:
            zones = [
                city.zone for city in KNOWN if (_plain(city.name), city.country) == (_plain(name), found[0].country)
            ]
            return (
                found[0] if not zones else City(found[0].name, found[0].country, found[0].lat, found[0].lon, zones[0])
            )
    names = ", ".join(city.name for city in KNOWN)
    among = f"neither among the {len(listed)} of the files nor among those" if listed else "not among those"
    raise DataError(f"city {text!r} is {among} known here ({names}): give --center LAT,LON")


def _role(part: Part) -> str | None:
    known = recognise(part)
    return None if known is None else known.role


def _rows(frame: pl.DataFrame) -> list[City]:
    return [City(*row) for row in frame.select("city", "country", "lat", "lon").iter_rows()]


def _plain(name: str) -> str:
    """Return a name without accents and case."""
    return "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c)).casefold()
