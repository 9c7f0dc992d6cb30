"""Times of check-ins: text into local time, with no guess about a zone."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl
from polars.exceptions import PolarsError

from distp.errors import DataError, ParameterError

TWITTER = "%a %b %d %H:%M:%S %z %Y"  # Tue Apr 03 18:00:06 +0000 2012, the form of the Foursquare sets
# Tried in this order; the one that reads most of the first rows is the column's. Those with a zone read a moment.
FORMS = (
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y/%m/%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M:%S%.f %#z",
    "%Y-%m-%d %H:%M:%S%.f UTC",
    TWITTER,
)
US_FORMS = (
    "%m/%d/%y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S%.f",
    "%m/%d/%y %H:%M",
    "%m/%d/%Y %H:%M",
)  # only where a format is known to write the month first
_SAMPLE = 1000
_OFFSET = r"[+-]((0[1-9]|1\d)(:?\d\d)?|00:?([1-9]\d|0[1-9]))$"  # an offset other than none
_ANY_OFFSET = r"\s*[+-]\d\d(:?\d\d)?$"
_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "Universal", "Etc/Universal")
_MICRO = pl.Datetime("us")


@dataclass(frozen=True)
class Clock:
    """How to read a time column.

    Attributes
    ----------
    forms : tuple of str
        Of `FORMS`, what to try; none where the column holds times already.
    utc : bool
        Whether the times are moments in UTC. Others are local time: as written, whatever offset is written behind.
    written : bool
        Whether a zone or an offset is written with the times: the local time is then known, whatever else is said.
    """

    forms: tuple[str, ...]
    utc: bool
    written: bool = False


def find_clock(column: pl.Series, forms: tuple[str, ...] = FORMS) -> Clock:
    """Return how the times of a column are written, from its first rows.

    Raises
    ------
    DataError
        The column does not hold times of day.
    """
    if column.dtype == pl.Datetime:
        # A column with a zone shows the clock of that zone; only UTC says nothing about where people are.
        zone = getattr(column.dtype, "time_zone", None)
        return Clock((), zone in _UTC, zone is not None and zone not in _UTC)
    if column.dtype == pl.Date:
        raise DataError(f"column {column.name!r} holds dates without a time of day")
    if column.dtype not in (pl.String, pl.Null):
        raise DataError(
            f"column {column.name!r} holds {column.dtype}, not dates and times such as 2012-04-03 18:00:06"
        )
    few = column.cast(pl.String).drop_nulls().head(_SAMPLE)
    read = [few.to_frame().select(_moment(column.name, form).is_not_null().sum()).item() for form in forms]
    best = max(read, default=0)
    if not best:  # nothing to go by: any form without a zone
        plain = tuple(form for form in forms if not _zoned(form))
        return Clock(plain or forms, not plain)
    form = forms[read.index(best)]
    fit = few.filter(few.to_frame().select(_moment(column.name, form).is_not_null()).to_series())
    written = _zoned(form) and fit.str.contains(_OFFSET).any()
    return Clock((form,), _zoned(form) and not written, written)


def local_time(column: str, clock: Clock, offset: str | None, zone: str | None) -> pl.Expr:
    """Return the local time of a column, null where it cannot be read.

    Parameters
    ----------
    column : str
    clock : Clock
    offset : str, optional
        Column with the minutes to add to UTC.
    zone : str, optional
        IANA zone that the times, being UTC, are converted to, daylight saving included.
    """
    if clock.written and clock.forms:
        return _moment(column, clock.forms[0].replace("%#z", "").strip(), cut=_ANY_OFFSET)
    if clock.forms:
        moment = pl.coalesce([_moment(column, form) for form in clock.forms])
    else:
        moment = pl.col(column).dt.replace_time_zone(None).cast(_MICRO)
    if clock.written:
        return moment
    if offset is not None:
        return moment + pl.duration(minutes=minutes_of(offset))
    if zone is not None:
        return moment.dt.replace_time_zone("UTC").dt.convert_time_zone(zone).dt.replace_time_zone(None)
    return moment


def minutes_of(offset: str) -> pl.Expr:
    """Return the whole minutes that a column says local time is ahead of UTC, null where it says none."""
    minutes = pl.col(offset).cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    return pl.when((minutes.abs() <= 24 * 60) & (minutes == minutes.round())).then(
        minutes.cast(pl.Int64, strict=False)
    )


def check_zone(zone: str) -> str:
    """Return the name of an IANA time zone."""
    try:
        ZoneInfo(zone)
        pl.Series([None], dtype=_MICRO).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError, PolarsError):
        raise ParameterError(f"time zone {zone!r} is unknown: use a name such as America/New_York") from None
    return zone


def _zoned(form: str) -> bool:
    return "z" in form or form.endswith("UTC")


def _moment(column: str, form: str, cut: str | None = None) -> pl.Expr:
    """Read a column as naive time: UTC where the form names a zone, as written elsewhere."""
    text = pl.col(column).cast(pl.String).str.strip_chars()
    if cut is not None:
        text = text.str.replace(cut, "")
    if form == TWITTER:
        return _twitter(text)
    if "z" in form:
        aware = text.str.to_datetime(form, strict=False, time_unit="us", time_zone="UTC")
        return aware.dt.replace_time_zone(None)
    return text.str.to_datetime(form, strict=False, time_unit="us")


def _twitter(text: pl.Expr) -> pl.Expr:
    """Read ``Tue Apr 03 18:00:06 +0000 2012``: no locale, and days and times of day parsed once each."""
    exact = text.str.contains(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d \+0000 \d{4}$")
    day = (text.str.slice(4, 6) + text.str.slice(25, 5)).str.to_date("%b %d %Y", strict=False)
    clock = text.str.slice(11, 8).str.to_time("%H:%M:%S", strict=False)
    return pl.when(exact).then(day.dt.combine(clock, time_unit="us"))
