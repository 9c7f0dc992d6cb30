"""What was read: usable check-ins, and every other row counted under one reason."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from distp.checks import FloatArray, IntArray

_FIRST = 3  # example rows named for each kind


@dataclass(frozen=True)
class SetAside:
    """Rows of one kind, and where the first of them stand.

    Attributes
    ----------
    reason : str
    rows : int
        How many.
    first : tuple of int
        The first few, counted from 1 after the header; without ``files``, through all files.
    files : tuple of str
        The file of each of ``first``, where several files were read.
    """

    reason: str
    rows: int
    first: tuple[int, ...]
    files: tuple[str, ...] = ()

    @classmethod
    def of(cls, reason: str, numbers: IntArray) -> SetAside:
        """Count the rows ``numbers`` and name the first of them."""
        return cls(reason, int(numbers.size), tuple(numbers[:_FIRST].tolist()))

    def __str__(self) -> str:
        more = ", ..." if self.rows > len(self.first) else ""
        named = [f"{row} of {file}" for row, file in zip(self.first, self.files, strict=False)] or self.first
        rows = "row" if self.rows == 1 else "rows"
        return f"{self.rows:,} {rows}: {self.reason} ({rows} {', '.join(map(str, named))}{more})"


@dataclass(frozen=True, eq=False)
class CheckIns:
    """What the files held.

    Attributes
    ----------
    path : str
        The files, in words.
    format : str
        What they were read as.
    rows : int
        How many rows they have.
    source : polars.DataFrame
        The rows that were kept: the usable ones, or all of them where that was asked for. With ``hour`` (0-23),
        ``weekday`` (1 Monday - 7 Sunday) and ``date`` where the local time is known.
    usable : ndarray of bool, shape (rows kept,)
    row_numbers : ndarray of int, shape (usable rows,)
        Where each usable row stands in the files, counted from 1 after the header.
    lat, lon : ndarray, shape (usable rows,)
    user : polars.Series or None
        The person of each usable row.
    set_aside : tuple of SetAside
        Every row that could not be used, under one reason each.
    elsewhere : int
        Good rows outside the area that was asked for.
    remarks : tuple of SetAside
        Rows that were kept although something about them is odd, and rows of accompanying files.
    utc : bool
        Whether only UTC is known of the times: there is no ``hour`` then.
    degrees : tuple of str
        The columns with latitude and longitude.
    unread : tuple of str
        Files of the folders and archives that are none of a set (a readme, say).
    """

    path: str
    format: str
    rows: int
    source: pl.DataFrame
    usable: np.ndarray[tuple[int], np.dtype[np.bool_]]
    row_numbers: IntArray
    lat: FloatArray
    lon: FloatArray
    user: pl.Series | None
    set_aside: tuple[SetAside, ...]
    elsewhere: int = 0
    remarks: tuple[SetAside, ...] = ()
    utc: bool = False
    degrees: tuple[str, str] = ("lat", "lon")
    unread: tuple[str, ...] = ()

    @property
    def frame(self) -> pl.DataFrame:
        """The usable rows."""
        return self.source if self.usable.all() else self.source.filter(pl.Series(self.usable))

    def only(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> CheckIns:
        """Return some of the usable rows, shape (usable rows,), as if the others had not been there."""
        mask = pl.Series(chosen)
        return replace(
            self,
            source=self.frame.filter(mask),
            usable=np.ones(int(chosen.sum()), dtype=bool),
            row_numbers=self.row_numbers[chosen],
            lat=self.lat[chosen],
            lon=self.lon[chosen],
            user=None if self.user is None else self.user.filter(mask),
        )


@dataclass
class Tally:
    """Counts rows by reason while the blocks of several files go by.

    Attributes
    ----------
    several : bool
        Whether to say which file a row stands in.
    """

    several: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def add(self, reasons: pl.Series, rows: pl.Series, label: str) -> None:
        """Count the reasons of some rows, by their numbers from 0; null is no reason."""
        for reason, number in reasons.drop_nulls().value_counts().iter_rows():
            self.counts[reason] = self.counts.get(reason, 0) + number
            known = self.first.setdefault(reason, [])
            if len(known) < _FIRST:
                places = rows.filter((reasons == reason).fill_null(value=False)).head(_FIRST - len(known))
                known += [(place + 1, label) for place in places.to_list()]

    @property
    def total(self) -> int:
        """All rows counted."""
        return sum(self.counts.values())

    def found(self) -> tuple[SetAside, ...]:
        """Return the counts, the most frequent reason first."""
        ranked = sorted(self.counts, key=lambda reason: (-self.counts[reason], reason))
        return tuple(
            SetAside(
                reason,
                self.counts[reason],
                tuple(row for row, _ in self.first[reason]),
                tuple(label for _, label in self.first[reason]) if self.several else (),
            )
            for reason in ranked
        )
