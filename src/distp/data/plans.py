"""What the columns of a file mean: from what was asked for, what the set is known for, and what is there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl

from distp.data.formats import FORMATS, Format, canonical
from distp.data.sources import Part
from distp.data.tables import PREFIX, header, twin
from distp.data.tidy import Plan
from distp.data.times import FORMS, find_clock
from distp.data.venues import COLUMNS
from distp.errors import DataError

LATITUDES = ("lat", "latitude")
LONGITUDES = ("lon", "lng", "long", "longitude")
TIMES = ("hour", "weekday", "date")  # what a time column makes
_TEXT = (pl.String, pl.Categorical, pl.Enum, pl.Null)
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
        cases = (form for name in guesses for form in (name, name.title(), name.upper()))
        return [*self.named, *self.columns, *TIMES, *cases]


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
    every = header(part, "\t" if name == "tsv" else ",") if name in ("csv", "tsv") else frame.columns
    lat = asked.lat or _guess(part, every, LATITUDES, "latitude", "--lat")
    lon = asked.lon or _guess(part, every, LONGITUDES, "longitude", "--lon")
    require(part, [lat, lon, *asked.named], every)
    if lat == lon:
        raise DataError(f"{part.label}: latitude and longitude are the same column, {lat!r}")
    for column in (lat, lon, *([asked.offset] if asked.offset else [])):
        kind = frame[column].dtype
        if not (kind.is_numeric() or kind in _TEXT):
            raise DataError(f"{part.label}: column {column!r} holds {kind}, not numbers")
    if asked.user is not None and frame[asked.user].dtype.is_nested():
        raise DataError(f"{part.label}: column {asked.user!r} holds lists or records, not people")
    clock = None
    if asked.time is not None:
        clock = find_clock(frame[asked.time])
        taken = [column for column in TIMES if column in present and column != asked.time]
        if taken:
            raise DataError(
                f"{part.label} has a column {taken[0]!r} of its own, which the time column {asked.time!r} would make "
                "too: leave out --time, or rename it"
            )
    columns = None if asked.columns is None else (*asked.columns, *asked.named)
    return Plan(
        {}, lat, lon, asked.user, asked.time, asked.offset, asked.zone, clock, None, (), {}, columns, venues=False
    )


def same_meaning(part: Part, first: Plan, plan: Plan) -> None:
    """Refuse a further file of a set whose columns mean something else."""
    if (first.lat, first.lon) != (plan.lat, plan.lon):
        raise DataError(
            f"{part.label} names its coordinates otherwise than the first file ({first.lat}, {first.lon})"
        )
    if first.utc_only != plan.utc_only:
        raise DataError(f"{part.label} and the first file disagree on whether their times are in UTC")


def require(part: Part, named: Sequence[str], present: Sequence[str]) -> None:
    """Refuse a file without the named columns, with the names that it has."""
    twice = [name for name in named if twin(name) in present]
    if twice:
        raise DataError(f"{part.label} has two columns named {twice[0]!r}")
    missing = [name for name in named if name not in present]
    if not missing:
        return
    raise DataError(f"{part.label} has no column {missing[0]!r}{_names_of(present)}")


def _names_of(present: Sequence[str]) -> str:
    """Return a file's column names for a message; what looks like a row may be a person's place, and is not shown."""
    names = [name for name in present if not name.startswith(PREFIX)]
    cells = [cell for name in names for cell in re.split(r"[;,|\t ]", name)]
    if any(_is_number(cell) for cell in cells) or not all(name.isprintable() for name in names):
        return ": its first line does not look like column names"
    hint = ""
    if len(names) == 1 and ";" in names[0]:
        hint = " (semicolons separate the columns: write commas, or tabs as .tsv)"
    return f"; its columns are: {', '.join(names)}{hint}"


def with_numbers(frame: pl.DataFrame, exact: Iterable[str | None], besides: Iterable[str | None]) -> pl.DataFrame:
    """Make numbers of the text columns that hold nothing else, so that a condition compares numbers.

    Of the columns ``exact`` only whole numbers are made, which lose nothing: 1.5 and 1.50 may be two people.

    What is written otherwise than a number would be (007, +1, 1e3, 16 digits) stays text: it names something.
    """
    made = []
    for name, kind in frame.schema.items():
        if kind != pl.String or name in besides:
            continue
        column = frame[name].str.strip_chars()
        column = column.set((column == "").fill_null(value=False), None)
        if not column.drop_nulls().len():
            continue
        for form, number in ((_WHOLE_FORM, pl.Int64), (_DECIMAL_FORM, pl.Float64)):
            if name in exact and number == pl.Float64:
                break
            if column.str.contains(form).all():
                made.append(column.cast(number).alias(name))
                break
    return frame.with_columns(made)


_WHOLE_FORM = r"^-?(0|[1-9]\d{0,14})$"
_DECIMAL_FORM = r"^-?(0|[1-9]\d{0,14})(\.\d+)?$"


def _known_plan(
    part: Part, frame: pl.DataFrame, known: Format, present: list[str], asked: Asked, *, has_venues: bool
) -> Plan:
    asked_for = {
        "lat": asked.lat,
        "lon": asked.lon,
        "user": asked.user,
        "time": asked.time,
        "utc-offset": asked.offset,
    }
    for name, value in asked_for.items():
        if value is not None and value != name:
            raise DataError(f"{part.label} is {known.name}: its columns are known, and --{name} is not needed")
    renamed = canonical(known, present)
    columns = [renamed.get(name, name) for name in present]
    if len(set(columns)) < len(columns):
        raise DataError(f"{part.label}: two columns mean the same in a {known.name} file")
    venues = known.layout is not None and "lat" not in known.layout.columns
    assert has_venues or not venues  # the reader asks for the venues first
    needed = (*(() if venues else ("lat", "lon")), known.user, known.time, known.offset)
    require(part, [name for name in needed if name is not None], columns)
    back = {new: old for old, new in renamed.items()}
    assert known.time is not None
    clock = find_clock(frame[back.get(known.time, known.time)], known.times or FORMS)
    kept = None if asked.columns is None else (*asked.columns, *asked.keep, "time", "time_utc")
    made = {*TIMES, "time", "time_utc", "gender", "friends", "followers", *(COLUMNS if venues else ())}
    require(part, asked.keep, sorted({*columns, *made} - {known.offset, "utc_time"} - {None}))
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
        raise DataError(f"{part.label}: which column is the {what}? Name it with {option}{_names_of(present)}")
    return found[0]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
