"""Reading check-ins: every row becomes a usable check-in or is counted among those set aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from distp.checks import IntArray, count, probability
from distp.data.checkins import CheckIns, Tally
from distp.data.places import REASON, window_of
from distp.data.plans import Asked, with_numbers
from distp.data.sources import BLOCK
from distp.data.streaming import Block, Stream, find_set
from distp.data.tidy import REMARK, ROW, Plan
from distp.data.times import check_zone
from distp.errors import DataError, ParameterError
from distp.spaces import Box

MAX_BAD = 0.01
Progress = Callable[[int, int], None]


def read_check_ins(
    files: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,  # noqa: A002 - the word that people look for
    lat: str | None = None,
    lon: str | None = None,
    user: str | None = None,
    time: str | None = None,
    utc_offset: str | None = None,
    zone: str | None = None,
    keep: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    area: Box | None = None,
    whole: bool = False,
    max_bad: float = MAX_BAD,
    block: int = BLOCK,
    progress: Progress | None = None,
) -> CheckIns:
    """Read check-ins from files, folders and archives, block by block.

    The sets of the field are recognised by what is in them: Foursquare TIST2015 (check-ins and venues, with
    UbiComp2016 profiles if they are there), WWW2019 and TSMC2014, Gowalla and Brightkite (SNAP), Citi Bike. Their
    columns are then called ``user``, ``lat``, ``lon``, ``venue``, ``category``, ``country``, ``gender``,
    ``friends``, ``followers``, ``user_type`` (each where the set has it). Other files are CSV, TSV, Parquet, JSON
    lines or GeoJSON with named columns; plain, ``.gz`` or in a ``.zip``.

    Parameters
    ----------
    files : str, Path or a sequence of them
        All that belongs to one set: check-ins, and the files that go with them.
    format : str, optional
        What the check-ins are, if that is not to be recognised: a name in `FORMATS`, ``gowalla``, ``brightkite``,
        ``csv``, ``tsv``, ``parquet``, ``arrow``, ``jsonl`` or ``geojson``.
    lat, lon : str, optional
        Columns with degrees. Default: the ones whose names say so.
    user, time : str, optional
        Columns with the person and the time: local, or in UTC with ``utc_offset`` or ``zone``.
    utc_offset : str, optional
        Column with the minutes that local time is ahead of UTC.
    zone : str, optional
        IANA time zone of the place (``Europe/London``), for times in UTC.
    keep : sequence of str
        Further columns that must be there.
    columns : sequence of str, optional
        The only other columns to read. Default: all.
    area : Box, optional
        Keep only check-ins in (or just outside) this area; the others are counted, and take no memory.
    whole : bool
        Whether ``source`` shall hold every row of the files, the unusable ones too.
    max_bad : float
        Largest share of rows that may be set aside.
    block : int
        Bytes of text handled at once.
    progress : callable, optional
        Called with (blocks done, blocks in all, about).

    Raises
    ------
    DataError
        Unreadable file, missing column, no usable row, or more than ``max_bad`` of them set aside.
    """
    probability(max_bad, "max_bad")
    count(block, "block", 1)
    if zone is not None and utc_offset is not None:
        raise ParameterError("zone and utc_offset exclude each other: both say how far local time is from UTC")
    zone = None if zone is None else check_zone(zone)
    asked = Asked(lat, lon, user, time, utc_offset, zone, tuple(keep), columns, whole)
    stream = Stream.of(find_set(files, format), asked, None if area is None else window_of(area), block)
    several = len(stream.found.parts) > 1
    kept = _Kept(stream, Tally(several=several), Tally(several=several))
    total = stream.steps
    for some in stream.blocks():
        kept.add(some)
        if progress:
            progress(some.done, total)
    return kept.result(max_bad)


def find_format(files: str | Path | Sequence[str | Path], format: str | None = None) -> str:  # noqa: A002
    """Return what a set of files is, without reading more than their beginnings."""
    return find_set(files, format).format


@dataclass
class _Kept:
    """What has been read so far."""

    stream: Stream
    tally: Tally
    remarks: Tally
    frames: list[pl.DataFrame] = field(default_factory=list)
    usable: list[np.ndarray[tuple[int], np.dtype[np.bool_]]] = field(default_factory=list)
    numbers: list[IntArray] = field(default_factory=list)
    rows: int = 0
    elsewhere: int = 0
    plan: Plan | None = None

    def add(self, some: Block) -> None:
        """Count a block, and keep its rows."""
        self.plan = some.plan
        if not some.height:
            return
        reason, row = some.frame[REASON], some.frame[ROW].cast(pl.Int64)
        self.elsewhere += some.height - some.frame.height
        self.tally.add(reason, row + some.start, some.part.name)
        self.remarks.add(some.frame[REMARK], row + some.start, some.part.name)
        good, whole = reason.is_null(), self.stream.asked.whole
        self.frames.append(self.stream.finished(some.frame if whole else some.frame.filter(good), some.plan))
        self.usable.append(good.to_numpy() if whole else np.ones(int(good.sum()), dtype=bool))
        self.numbers.append(row.filter(good).to_numpy() + (self.rows + 1))
        self.rows += some.height

    def result(self, max_bad: float) -> CheckIns:
        """Put the blocks together, and refuse what is too dirty or too little."""
        found, asked = self.stream.found, self.stream.asked
        if not self.rows or self.plan is None:
            raise DataError(f"{found.label} has no rows")
        plan = self.plan
        try:
            source = pl.concat(self.frames, how="diagonal_relaxed")
        except PolarsError:
            raise DataError(
                f"{found.label}: the files do not fit together: a column holds different things"
            ) from None
        if found.format in ("csv", "tsv"):
            exact = source.columns if asked.whole else [plan.user, *asked.keep]
            source = with_numbers(source, exact, {plan.time, plan.lat, plan.lon})
        usable = np.concatenate(self.usable)
        aside = self.tally.found()
        summary = "; ".join(map(str, aside))
        if not usable.any():
            where = f" ({self.elsewhere:,} lie outside the area)" if self.elsewhere else ""
            raise DataError(f"{found.label} has no usable row{where}: {summary or 'all lie outside the area'}")
        bad = self.tally.total / self.rows
        if bad > max_bad:
            raise DataError(
                f"{found.label}: {bad:.2%} of the rows are unusable, more than the {max_bad:.2%} allowed: {summary}"
            )
        rows = source.filter(pl.Series(usable))
        return CheckIns(
            path=found.label,
            format=found.format,
            rows=self.rows,
            source=source,
            usable=usable,
            row_numbers=np.concatenate(self.numbers),
            lat=rows[plan.lat].to_numpy(),
            lon=rows[plan.lon].to_numpy(),
            user=None if plan.user is None else rows[plan.user],
            set_aside=aside,
            elsewhere=self.elsewhere,
            remarks=(*self.remarks.found(), *self.stream.companions.remarks),
            utc=plan.utc_only,
            unread=tuple(part.label for part in found.ignored),
            degrees=(plan.lat, plan.lon),
        )
