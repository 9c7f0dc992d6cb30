"""What the columns of a file mean: from what was asked for, what the set is known for, and what is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from distp.data.formats import FORMATS, Format, canonical
from distp.data.sources import Part
from distp.data.tables import PREFIX, twin
from distp.data.tidy import Plan
from distp.data.times import FORMS, find_clock
from distp.errors import DataError

LATITUDES = ("lat", "latitude")
LONGITUDES = ("lon", "lng", "long", "longitude")
WHOLE = ("user", "offset", "birth_year", "friends", "followers", "duration_s")


@dataclass(frozen=True)
class Asked:
    """What the caller of `read_check_ins` named."""

    lat: str | None
    lon: str | None
    user: str | None
    time: str | None
    offset: str | None
    zone: str | None
    keep: tuple[str, ...]
    columns: Sequence[str] | None
    whole: bool

    @property
    def named(self) -> list[str]:
        """The columns that must be there."""
        named = (self.lat, self.lon, self.user, self.time, self.offset, *self.keep)
        return [name for name in dict.fromkeys(named) if name is not None]

    def needed(self, known: Format | None) -> list[str] | None:
        """Return the columns to read, None for all."""
        if known is not None or self.columns is None:
            return None
        guesses = () if self.lat and self.lon else (*LATITUDES, *LONGITUDES)
        return [*self.named, *self.columns, *guesses, *(name.title() for name in guesses)]


def make_plan(part: Part, frame: pl.DataFrame, name: str, asked: Asked, *, has_venues: bool) -> Plan:
    """Return what the columns of a part mean.

    Raises
    ------
    DataError
        A column that is asked for is missing, there twice, or holds something else.
    """
    present = [column for column in frame.columns if not column.startswith(PREFIX)]
    known = FORMATS.get(name)
    if known is not None:
        return _known_plan(part, frame, known, present, asked, has_venues=has_venues)
    lat = asked.lat or _guess(part, present, LATITUDES, "latitude", "--lat")
    lon = asked.lon or _guess(part, present, LONGITUDES, "longitude", "--lon")
    require(part, [lat, lon, *asked.named], present)
    for column in (lat, lon):
        if frame[column].dtype.is_nested():
            raise DataError(f"{part.label}: column {column!r} holds lists or records, not numbers")
    clock = None if asked.time is None else find_clock(frame[asked.time])
    columns = None if asked.columns is None else (*asked.columns, *asked.named)
    return Plan(
        {}, lat, lon, asked.user, asked.time, asked.offset, asked.zone, clock, None, (), {}, columns, venues=False
    )


def require(part: Part, named: Sequence[str], present: Sequence[str]) -> None:
    """Refuse a file without the named columns, with the names that it has."""
    twice = [name for name in named if twin(name) in present]
    if twice:
        raise DataError(f"{part.label} has two columns named {twice[0]!r}")
    missing = [name for name in named if name not in present]
    if not missing:
        return
    names = ", ".join(present)
    if any(_is_number(name) or not name.isprintable() for name in present):
        raise DataError(f"{part.label} has no column {missing[0]!r}: its first line does not look like column names")
    hint = ""
    if len(present) == 1 and ";" in present[0]:
        hint = " (semicolons separate the columns: write commas, or tabs as .tsv)"
    raise DataError(f"{part.label} has no column {missing[0]!r}; its columns are: {names}{hint}")


def with_numbers(frame: pl.DataFrame, besides: set[str | None]) -> pl.DataFrame:
    """Make numbers of the text columns that hold nothing else, so that a condition compares numbers."""
    made = []
    for name, kind in frame.schema.items():
        if kind != pl.String or name in besides or name.startswith(PREFIX):
            continue
        column = frame[name].str.strip_chars()
        column = column.set((column == "").fill_null(value=False), None)
        for number in (pl.Int64, pl.Float64):
            value = column.cast(number, strict=False)
            if value.null_count() == column.null_count() < len(column):
                made.append(value.alias(name))
                break
    return frame.with_columns(made)


def _known_plan(
    part: Part, frame: pl.DataFrame, known: Format, present: list[str], asked: Asked, *, has_venues: bool
) -> Plan:
    for name, value in (("lat", asked.lat), ("lon", asked.lon), ("user", asked.user), ("time", asked.time)):
        if value is not None and value != name:
            raise DataError(f"{part.label} is {known.name}: its columns are known, and --{name} is not needed")
    renamed = canonical(known, present)
    if len(set(renamed.values())) < len(renamed):
        raise DataError(f"{part.label}: two columns mean the same in a {known.name} file")
    columns = [renamed.get(name, name) for name in present]
    venues = known.layout is not None and "lat" not in known.layout.columns
    assert has_venues or not venues  # the reader asks for the venues first
    needed = (*(() if venues else ("lat", "lon")), known.user, known.time, known.offset)
    require(part, [name for name in needed if name is not None], columns)
    back = {new: old for old, new in renamed.items()}
    assert known.time is not None
    clock = find_clock(frame[back.get(known.time, known.time)], known.times or FORMS)
    kept = None if asked.columns is None else (*asked.columns, *asked.keep, "time", "time_utc")
    return Plan(
        renamed,
        "lat",
        "lon",
        known.user,
        known.time,
        known.offset,
        asked.zone if clock.utc and known.offset is None else None,
        clock,
        "time",
        WHOLE,
        known.words,
        kept,
        venues=venues,
    )


def _guess(part: Part, present: Sequence[str], names: Sequence[str], what: str, option: str) -> str:
    found = [name for name in present if name.lower() in names]
    if len(found) != 1:
        shown = ", ".join(present)
        raise DataError(f"{part.label}: which column is the {what}? Name it with {option}; its columns are: {shown}")
    return found[0]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
