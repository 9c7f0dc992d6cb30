"""Coordinates of a file: numbers in an area, or a reason why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from distp.checks import FloatArray, IntArray
from distp.spaces import Box
from distp.spaces.projection import to_degrees

REASON = "distp:reason"
MISSING = "latitude or longitude missing"
NOT_NUMBER = "latitude or longitude not a finite number"
BEYOND = "latitude beyond 90 or longitude beyond 180 degrees"
ZERO = "latitude and longitude both exactly 0"
SWAPPED = "latitude and longitude look swapped: exchanged they lie in the area"
OUTSIDE = "outside the area"


@dataclass(frozen=True)
class Window:
    """A range of degrees that holds an area."""

    south: float
    north: float
    lon: float
    half: float

    def holds(self, lat: pl.Expr, lon: pl.Expr) -> pl.Expr:
        """Say whether points lie in it; a window over the antimeridian is one window."""
        east = (lon - self.lon + 540) % 360 - 180
        return lat.is_between(self.south, self.north) & (east.abs() <= self.half)


def window_of(box: Box) -> Window:
    """Return degrees that hold a box and the cells that reach beyond it: somewhat more than it takes."""
    wide, high = 0.05 * box.width + 2, 0.05 * box.height + 2
    east, north = np.linspace(-wide, box.width + wide, 33), np.linspace(-high, box.height + high, 33)
    x = np.concatenate([east, east, np.full(33, east[0]), np.full(33, east[-1])]) + box.west
    y = np.concatenate([np.full(33, north[0]), np.full(33, north[-1]), north, north]) + box.south
    lat, lon = to_degrees(box.lat, box.lon, x, y)
    east_of = (lon - box.lon + 540) % 360 - 180
    middle = (east_of.min() + east_of.max()) / 2
    return Window(
        float(lat.min()),
        float(lat.max()),
        float((box.lon + middle + 540) % 360 - 180),
        float(east_of.max() - east_of.min()) / 2,
    )


def placed(frame: pl.DataFrame, lat: str, lon: str, window: Window | None) -> pl.DataFrame:
    """Make numbers of two coordinate columns, and say in ``distp:reason`` why a row has no place in the area."""
    a, b = pl.col(lat), pl.col(lon)
    if all(frame[name].dtype.is_numeric() for name in (lat, lon)):
        numbers = frame.select(pl.col(lat, lon).cast(pl.Float64))
        given = numbers.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    else:
        texts = frame.select(pl.col(lat, lon).cast(pl.String, strict=False).str.strip_chars())
        numbers = texts.select(pl.all().cast(pl.Float64, strict=False))
        given = texts.select(pl.all_horizontal((pl.all() != "").fill_null(value=False))).to_series()
    if window is None and given.all():
        fine = a.is_finite() & b.is_finite() & (a.abs() <= 90) & (b.abs() <= 180) & ~((a == 0) & (b == 0))
        if numbers.select(fine.all(ignore_nulls=False)).item():  # as usual: there is no reason to look for
            return frame.with_columns(numbers[lat], numbers[lon], pl.lit(None, dtype=pl.String).alias(REASON))
    inside = pl.lit(value=True) if window is None else window.holds(a, b)
    swapped = pl.lit(value=False) if window is None else window.holds(b, a)
    reason = (
        pl.when(~given)
        .then(pl.lit(MISSING))
        .when(~(a.is_finite() & b.is_finite()).fill_null(value=False))
        .then(pl.lit(NOT_NUMBER))
        .when(~inside & swapped)
        .then(pl.lit(SWAPPED))
        .when((a.abs() > 90) | (b.abs() > 180))
        .then(pl.lit(BEYOND))
        .when((a == 0) & (b == 0))
        .then(pl.lit(ZERO))
        .when(~inside)
        .then(pl.lit(OUTSIDE))
        .otherwise(None)
    )
    return frame.with_columns(numbers[lat], numbers[lon], numbers.select(reason.alias(REASON)).to_series())


def located(
    frame: pl.DataFrame, reason: pl.Series, lat: str, lon: str, locate: Callable[[FloatArray, FloatArray], IntArray]
) -> IntArray:
    """Return what ``locate`` finds for each row whose ``reason`` is null, and -1 for the others, shape (rows,)."""
    good = reason.is_null()
    if good.all():
        return locate(frame[lat].to_numpy(), frame[lon].to_numpy())
    rows = frame.filter(good)
    found = np.full(frame.height, -1, dtype=np.int64)
    found[good.to_numpy()] = locate(rows[lat].to_numpy(), rows[lon].to_numpy())
    return found
