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
    texts = frame.select(pl.col(lat, lon).cast(pl.String).str.strip_chars())
    values = texts.select(pl.all().cast(pl.Float64, strict=False))
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
    try:
        if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
            separator = "\t" if ".tsv" in name else ","
            header = pl.read_csv(path, separator=separator, n_rows=0, infer_schema=False).columns
            _require(path, named, header)
            return pl.read_csv(
                path,
                separator=separator,
                columns=None if all_columns else named,
                # Numbers are parsed here, one by one, so that a bad one is a counted row and not a crash.
                schema_overrides=dict.fromkeys(as_text, pl.String),
                infer_schema_length=None,
                encoding="utf8-lossy",
            )
        if name.endswith((".parquet", ".pq")):
            _require(path, named, pl.read_parquet_schema(path).keys())
            return pl.read_parquet(path, columns=None if all_columns else named)
    except (OSError, PolarsError) as error:
        first_line = str(error).strip().split("\n")[0]
        raise DataError(f"cannot read {path}: {first_line}") from None
    raise DataError(f"cannot read {path}: the name must end in .csv, .csv.gz, .tsv, .tsv.gz or .parquet")


def _require(path: Path, named: Sequence[str], present: Iterable[str]) -> None:
    columns = list(present)
    missing = [name for name in named if name not in columns]
    if missing:
        raise DataError(f"{path} has no column {missing[0]!r}; its columns are: {', '.join(columns)}")


def _with_time(frame: pl.DataFrame, time: str) -> pl.DataFrame:
    column = frame[time]
    parsed = column if column.dtype.is_temporal() else column.cast(pl.String).str.to_datetime(strict=False)
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
