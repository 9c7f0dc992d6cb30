"""What a person's own check-ins say about them: where they live and work, how long they have been there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from distp.checks import FloatArray, IntArray
from distp.data.checkins import CheckIns
from distp.errors import DataError

CELL_KM = 0.5
_DEGREE_KM = 111.2  # of latitude, about
LEAST_VISITS = 2
NIGHT = (pl.col("hour") >= 20) | (pl.col("hour") < 6)
WORKING = (pl.col("weekday") <= 5) & (pl.col("hour") >= 9) & (pl.col("hour") < 17)
RULES = {
    "home_lat": "latitude of the middle of the cell (about 500 m) where the person checks in most often at night (20 "
    "to 6 o'clock), if at least twice",
    "home_lon": "longitude of that cell",
    "at_home": "whether a check-in lies in that cell",
    "work_lat": "latitude of the middle of the cell, other than home, where the person checks in most often from "
    "Monday to Friday, 9 to 17 o'clock, if at least twice",
    "work_lon": "longitude of that cell",
    "at_work": "whether a check-in lies in that cell",
    "days_here": "days from the first to the last check-in of the person on the map",
}


def with_people(check_ins: CheckIns, names: set[str]) -> pl.DataFrame:
    """Return the usable rows with the columns among ``names`` that are made from each person's check-ins.

    The rules are in `RULES`. A person of whom too little is known has null.

    Raises
    ------
    DataError
        No person or no local time is known.
    """
    frame = check_ins.frame
    wanted = [name for name in RULES if name in names and name not in frame.columns]
    if not wanted:
        return frame
    if check_ins.user is None:
        raise DataError(f"{wanted[0]} needs the person of each check-in: name the column with --user")
    needed = ("date",) if wanted == ["days_here"] else ("hour", "weekday")
    lacking = [name for name in needed if name not in frame.columns]
    if lacking:
        hint = "the times are in UTC: name the --zone" if check_ins.utc else "name the column with --time"
        raise DataError(f"{wanted[0]} needs the local time of each check-in: {hint}")
    for name in needed:
        if not (frame[name].dtype == pl.Date if name == "date" else frame[name].dtype.is_integer()):
            raise DataError(
                f"{wanted[0]} needs the local time of each check-in, but {name!r} is a column of another kind"
            )
    rows = frame.select(
        *[name for name in ("hour", "weekday", "date") if name in frame.columns],
    ).with_columns(check_ins.user.alias("who"), _cells(check_ins))
    made: dict[str, Callable[[], pl.DataFrame]] = {"home": lambda: _home(rows), "work": lambda: _work(rows)}
    columns: dict[str, pl.Series] = {}
    for place, find in made.items():
        if any(name.startswith(place) or name == f"at_{place}" for name in wanted):
            cell = rows.join(find(), on="who", how="left", maintain_order="left")["place"]
            lat, lon = _centres(cell)
            columns |= {f"{place}_lat": lat, f"{place}_lon": lon, f"at_{place}": cell == rows["cell"]}
    if "days_here" in wanted:
        span = (pl.col("date").max() - pl.col("date").min()).dt.total_days().over("who")
        columns["days_here"] = rows.select(span).to_series()
    return frame.with_columns(columns[name].alias(name) for name in wanted)


def _cells(check_ins: CheckIns) -> pl.Series:
    """Return the cells of a fixed lattice of about 500 m by number: one place, one cell, in any file."""
    row = np.floor((check_ins.lat + 90) / _STEP).astype(np.int64)
    column = np.floor((check_ins.lon + 180) / _lon_step(row)).astype(np.int64)
    return pl.Series("cell", row * _ROW + column)


_STEP = CELL_KM / _DEGREE_KM
_ROW = 1_000_000


def _lon_step(row: IntArray) -> FloatArray:
    """Return the width in degrees of the cells of a row, 500 m at the middle of it."""
    middle = (row + 0.5) * _STEP - 90
    step: FloatArray = _STEP / np.maximum(np.cos(np.deg2rad(middle)), 0.01)
    return step


def _centres(cell: pl.Series) -> tuple[pl.Series, pl.Series]:
    known = cell.is_not_null()
    number = cell.fill_null(0).to_numpy()
    row, column = np.divmod(number, _ROW)
    lat = pl.Series((row + 0.5) * _STEP - 90).set(~known, None)
    lon = pl.Series((column + 0.5) * _lon_step(row) - 180).set(~known, None)
    return lat, lon


def _home(rows: pl.DataFrame) -> pl.DataFrame:
    return _most_frequent(rows.filter(NIGHT))


def _work(rows: pl.DataFrame) -> pl.DataFrame:
    home = _home(rows).rename({"place": "home"})
    away = rows.filter(WORKING).join(home, on="who", how="left").filter(pl.col("cell").ne_missing(pl.col("home")))
    return _most_frequent(away)


def _most_frequent(rows: pl.DataFrame) -> pl.DataFrame:
    """Return each person's most frequent cell; of equally frequent ones the lowest number, so that it repeats."""
    counted = rows.group_by("who", "cell").agg(pl.len().alias("visits")).filter(pl.col("visits") >= LEAST_VISITS)
    ranked = counted.sort(["visits", "cell"], descending=[True, False])
    return ranked.unique("who", keep="first", maintain_order=True).select("who", place="cell")
