"""Reading check-ins: every row becomes a usable check-in or is counted among those set aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from distp.checks import FloatArray, probability
from distp.errors import DataError
from distp.spaces.projection import valid_coordinates

MAX_BAD = 0.01
_FIRST = 3  # example rows named for each kind


@dataclass(frozen=True)
class SetAside:
    """Rows of one kind that could not be used.

    Attributes
    ----------
    reason : str
    rows : int
        How many.
    first : tuple of int
        The first few, counted from 1 after the header.
    """

    reason: str
    rows: int
    first: tuple[int, ...]

    @classmethod
    def of(cls, reason: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> SetAside:
        """Count the rows ``numbers`` and name the first of them."""
        return cls(reason, int(numbers.size), tuple(numbers[:_FIRST].tolist()))

    def __str__(self) -> str:
        more = ", ..." if self.rows > len(self.first) else ""
        return f"{self.rows:,} rows: {self.reason} (rows {', '.join(map(str, self.first))}{more})"


@dataclass(frozen=True, eq=False)
class CheckIns:
    """What a file held.

    Attributes
    ----------
    path : str
    source : polars.DataFrame
        Every row, as read, with ``hour`` (0-23) and ``weekday`` (1 Monday - 7 Sunday) added where a time
        column was named.
    usable : ndarray of bool, shape (rows,)
    lat, lon : ndarray, shape (usable rows,)
    user : polars.Series or None
        The person of each usable row.
    set_aside : tuple of SetAside
        Every row that is not usable, under one reason each.
    """

    path: str
    source: pl.DataFrame
    usable: np.ndarray[tuple[int], np.dtype[np.bool_]]
    lat: FloatArray
    lon: FloatArray
    user: pl.Series | None
    set_aside: tuple[SetAside, ...]

    @property
    def rows(self) -> int:
        """Number of rows in the file."""
        return self.source.height

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The usable rows."""
        return self.source.filter(pl.Series(self.usable))

    @cached_property
    def row_numbers(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Where each usable row stands in the file, counted from 1 after the header."""
        return np.flatnonzero(self.usable) + 1


def read_check_ins(
    path: str | Path,
    *,
    lat: str,
    lon: str,
    user: str | None = None,
    time: str | None = None,
    keep: Sequence[str] = (),
    all_columns: bool = True,
    max_bad: float = MAX_BAD,
) -> CheckIns:
    """Read check-ins from CSV, CSV.gz, TSV or Parquet.

    Parameters
    ----------
    path : str or Path
    lat, lon : str
        Names of the columns with degrees.
    user, time : str, optional
        Names of the columns with the person and the local time.
    keep : sequence of str
        Further columns that must be there.
    all_columns : bool
        Whether to read the columns that are not named.
    max_bad : float
        Largest share of rows that may be set aside.

    Raises
    ------
    DataError
        Unreadable file, missing column, no usable row, or more than ``max_bad`` of them set aside.
    """
    probability(max_bad, "max_bad")
    named = list(dict.fromkeys([lat, lon, *([user] if user else []), *([time] if time else []), *keep]))
    frame = _read(Path(path), named, {lat, lon}, all_columns)
    if not frame.height:
        raise DataError(f"{path} has no rows")
    for name in (lat, lon):
        if frame[name].dtype.is_nested():
            raise DataError(f"{path}: column {name!r} holds lists or records, not numbers")
    texts = frame.select(pl.col(lat, lon).cast(pl.String).str.strip_chars())
    values = texts.select(pl.all().cast(pl.Float64, strict=False))
    frame = frame.with_columns(values)  # so that a condition on them compares numbers, whatever the format
    lats, lons = (values[name].fill_null(np.nan).to_numpy() for name in (lat, lon))
    given = (texts[lat].fill_null("") != "").to_numpy() & (texts[lon].fill_null("") != "").to_numpy()
    numeric = np.isfinite(lats) & np.isfinite(lons)
    valid = valid_coordinates(lats, lons)
    null_island = (lats == 0) & (lons == 0)
    kinds = [
        ("latitude or longitude missing", ~given),
        ("latitude or longitude not a finite number", given & ~numeric),
        ("latitude beyond 90 or longitude beyond 180 degrees", numeric & ~valid),
        ("latitude and longitude both exactly 0", null_island),
    ]
    if user:
        kinds.append((f"no {user}", (frame[user].is_null()).to_numpy()))
    if time:
        frame = _with_time(frame, time)
        kinds.append((f"{time} not a date and time", frame["__time"].is_null().to_numpy()))
        frame = frame.drop("__time")
    aside, usable = _set_aside(kinds, frame.height)
    bad = float((~usable).mean())
    summary = "; ".join(map(str, aside))
    if not usable.any():
        raise DataError(f"{path} has no usable row: {summary}")
    if bad > max_bad:
        raise DataError(f"{path}: {bad:.2%} of the rows are unusable, more than the {max_bad:.2%} allowed: {summary}")
    return CheckIns(
        str(path),
        frame,
        usable,
        lats[usable],
        lons[usable],
        frame[user].filter(pl.Series(usable)) if user else None,
        tuple(aside),
    )


def _read(path: Path, named: list[str], as_text: set[str], all_columns: bool) -> pl.DataFrame:
    name = path.name.lower()
    if not path.is_file():
        raise DataError(f"cannot read {path}: {'it is a folder' if path.is_dir() else 'there is no such file'}")
    try:
        if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
            separator = "\t" if ".tsv" in name else ","
            # Plain text keeps the names as they are written; the readers would rename a second one.
            top = pl.read_csv(path, separator=separator, n_rows=1, has_header=False, infer_schema=False, glob=False)
            _require(path, named, [str(cell) for cell in (top.row(0) if top.height else ())])
            return pl.read_csv(
                path,
                separator=separator,
                columns=None if all_columns else named,
                # Numbers are parsed here, one by one, so that a bad one is a counted row and not a crash.
                schema_overrides=dict.fromkeys(as_text, pl.String),
                infer_schema_length=None,
                encoding="utf8-lossy",
                glob=False,
            )
        if name.endswith((".parquet", ".pq")):
            _require(path, named, pl.read_parquet_schema(path).keys())
            return pl.read_parquet(path, columns=None if all_columns else named, glob=False)
    except (OSError, PolarsError):
        # What the reader says may quote the row it stumbled on: a person's location must not be printed.
        kind = "Parquet" if name.endswith((".parquet", ".pq")) else "text with columns (CSV or TSV, UTF-8)"
        raise DataError(f"cannot read {path}: it is damaged, or not {kind}") from None
    raise DataError(f"cannot read {path}: the name must end in .csv, .csv.gz, .tsv, .tsv.gz or .parquet")


def _require(path: Path, named: Sequence[str], present: Iterable[str]) -> None:
    columns = list(present)
    missing = [name for name in named if name not in columns]
    twice = [name for name in named if columns.count(name) > 1]
    if twice:
        raise DataError(f"{path} has two columns named {twice[0]!r}")
    if missing:
        if any(_is_number(name) or not name.isprintable() for name in columns):
            raise DataError(f"{path} has no column {missing[0]!r}: its first line does not look like column names")
        hint = ""
        if len(columns) == 1 and ";" in columns[0]:
            hint = " (semicolons separate the columns: write commas, or tabs as .tsv)"
        raise DataError(f"{path} has no column {missing[0]!r}; its columns are: {', '.join(columns)}{hint}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _with_time(frame: pl.DataFrame, time: str) -> pl.DataFrame:
    column = frame[time]
    if column.dtype == pl.Datetime:
        parsed = column
    elif column.dtype == pl.Date:
        raise DataError(f"column {time!r} holds dates without a time of day")
    elif column.dtype == pl.String:
        try:
            parsed = column.str.to_datetime(strict=False)
        except PolarsError:
            parsed = pl.Series(time, [None] * len(column), dtype=pl.Datetime)
    else:
        raise DataError(f"column {time!r} holds {column.dtype}, not dates and times such as 2012-04-03 18:00:06")
    added = [parsed.alias("__time")]
    for name, part in (("hour", parsed.dt.hour), ("weekday", parsed.dt.weekday)):
        if name not in frame.columns:
            added.append(part().cast(pl.Int64).alias(name))
    return frame.with_columns(added)


def _set_aside(
    kinds: list[tuple[str, np.ndarray[tuple[int], np.dtype[np.bool_]]]], rows: int
) -> tuple[list[SetAside], np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Count each row once, under its first reason."""
    usable = np.ones(rows, dtype=bool)
    found = []
    for reason, mask in kinds:
        if (mask & usable).any():
            found.append(SetAside.of(reason, np.flatnonzero(mask & usable) + 1))
        usable &= ~mask
    return found, usable
