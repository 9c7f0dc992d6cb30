"""Reading check-ins: every row becomes a usable check-in or is counted among those set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from distp.checks import IntArray, count, probability
from distp.data.checkins import CheckIns, Tally
from distp.data.companions import Companions, read_companions
from distp.data.formats import CHECK_INS, FORMATS, GENERIC, VENUES, canonical, check_format, recognise
from distp.data.places import REASON, window_of
from distp.data.plans import Asked, make_plan, same_meaning, with_numbers
from distp.data.sources import BLOCK, Part, ahead, find_parts
from distp.data.tables import Layout, geojson_frames, header, json_frames, parquet_frames, text_frames
from distp.data.tidy import REMARK, ROW, Plan, finished, tidy
from distp.data.times import check_zone
from distp.data.venues import Venues
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
        ``csv``, ``tsv``, ``parquet``, ``jsonl`` or ``geojson``.
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
    found = _find(files, format)
    zone = None if zone is None else check_zone(zone)
    asked = Asked(lat, lon, user, time, utc_offset, zone, tuple(keep), columns, whole)
    companions = read_companions(found.others)
    window = None if area is None else window_of(area)
    venues = None if companions.venues is None else Venues.of(companions.venues, window)
    several = len(found.parts) > 1
    kept = _Kept(asked, venues, companions, Tally(several=several), Tally(several=several))
    steps = _steps(found.parts, block)
    for number, part in enumerate(found.parts):
        plan: Plan | None = None
        start = 0
        for frame in ahead(_frames(part, found.format, asked, block)):
            if plan is None:
                plan = make_plan(part, frame, found.format, asked, has_venues=venues is not None)
                same_meaning(part, kept.plan or plan, plan)
            if frame.height:
                kept.add(tidy(frame, plan, venues, window), frame.height, plan, part, start)
            start += frame.height
            if progress:
                progress(min(kept.blocks, steps[number]), steps[-1])
        if plan is not None:
            kept.plan = plan
        kept.blocks = steps[number]
    return kept.result(found, max_bad)


def find_format(files: str | Path | Sequence[str | Path], format: str | None = None) -> str:  # noqa: A002
    """Return what a set of files is, without reading more than their beginnings."""
    return _find(files, format).format


@dataclass(frozen=True)
class _Found:
    """The parts of a set, by role."""

    format: str
    parts: list[Part]
    others: dict[str, list[Part]]
    ignored: list[Part]

    @property
    def label(self) -> str:
        names = [part.label for part in self.parts]
        return names[0] if len(names) == 1 else f"{len(names)} files ({names[0]}, ...)"


def _find(files: str | Path | Sequence[str | Path], named: str | None) -> _Found:
    """Recognise every part; say what is missing or too much."""
    forced = None if named is None else check_format(named)
    by_format: dict[str, list[Part]] = {}
    others: dict[str, list[Part]] = {}
    ignored: list[Part] = []
    parts = find_parts(files)
    for part in parts:
        known = recognise(part)
        if forced in GENERIC and part.named:
            by_format.setdefault(forced, []).append(part)
        elif known is not None and known.role != CHECK_INS:
            others.setdefault(known.role, []).append(part)
        elif forced is not None and (known is not None or part.named):
            by_format.setdefault(forced, []).append(part)
        elif known is not None:
            by_format.setdefault(known.format, []).append(part)
        else:
            ignored.append(part)
    if not by_format:
        what = ", ".join(part.label for part in (ignored or parts)[:3])
        hint = "it holds venues or people only" if others and not ignored else "name the --format"
        raise DataError(
            f"cannot read {what}: neither a check-in set that is known here, nor CSV, TSV, Parquet, JSON lines or "
            f"GeoJSON by its name ({hint})"
        )
    unknown = [part.label for part in ignored if part.named]
    if unknown:
        raise DataError(f"cannot tell what {unknown[0]} is: name the --format, or leave it out")
    if len(by_format) > 1:
        raise DataError(f"these are different sets ({', '.join(sorted(by_format))}): read one at a time")
    (name, chosen), *_ = by_format.items()
    if name in FORMATS and FORMATS[name].one_file and len(chosen) > 1:
        raise DataError(
            f"{len(chosen)} check-in files of {name} ({', '.join(part.name for part in chosen)}): the same person "
            "number may be different people, or the same check-ins may be there twice; name one of them"
        )
    if name in ("tist2015", "www2019") and VENUES not in others:
        raise DataError(f"{chosen[0].label} names venues without their places: add the file of POIs")
    return _Found(name, chosen, others, ignored)


def _frames(part: Part, name: str, asked: Asked, block: int) -> Iterator[pl.DataFrame]:
    """Yield a part block by block."""
    known = FORMATS.get(name)
    needed = asked.needed(known)
    if name == "parquet":
        return parquet_frames(part, needed)
    if name == "jsonl":
        return json_frames(part, needed)
    if name == "geojson":
        return geojson_frames(part, needed)
    separator = "\t" if name == "tsv" or part.name.endswith(".tsv") else ","
    if known is not None and known.layout is not None and not canonical(known, header(part, separator)):
        return text_frames(part, known.layout, None, block)
    return text_frames(part, Layout(separator=separator, quoted=True, latin=name == "tsmc2014"), needed, block)


def _steps(parts: Sequence[Part], block: int) -> list[int]:
    """Return about how many blocks have been read once each part is done."""
    sizes = [max(1, part.path.stat().st_size // block + 1) for part in parts]
    return [sum(sizes[: done + 1]) for done in range(len(sizes))]


@dataclass
class _Kept:
    """What has been read so far."""

    asked: Asked
    venues: Venues | None
    companions: Companions
    tally: Tally
    remarks: Tally
    frames: list[pl.DataFrame] = field(default_factory=list)
    usable: list[np.ndarray[tuple[int], np.dtype[np.bool_]]] = field(default_factory=list)
    numbers: list[IntArray] = field(default_factory=list)
    rows: int = 0
    elsewhere: int = 0
    blocks: int = 0
    plan: Plan | None = None

    def add(
        self,
        block: pl.DataFrame,
        height: int,
        plan: Plan,
        part: Part,
        start: int,
    ) -> None:
        """Count a tidy block of ``height`` rows from row ``start`` of its part, and keep its rows."""
        reason, row = block[REASON], block[ROW].cast(pl.Int64)
        self.elsewhere += height - block.height
        self.tally.add(reason, row + start, part.name)
        self.remarks.add(block[REMARK], row + start, part.name)
        good = reason.is_null()
        chosen = block if self.asked.whole else block.filter(good)
        self.frames.append(finished(chosen, plan, self.venues, self.companions))
        self.usable.append(good.to_numpy() if self.asked.whole else np.ones(chosen.height, dtype=bool))
        self.numbers.append(row.filter(good).to_numpy() + (self.rows + 1))
        self.rows += height
        self.blocks += 1

    def result(self, found: _Found, max_bad: float) -> CheckIns:
        """Put the blocks together, and refuse what is too dirty or too little."""
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
            exact = source.columns if self.asked.whole else [plan.user, *self.asked.keep]
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
            remarks=(*self.remarks.found(), *self.companions.remarks),
            utc=plan.utc_only,
            unread=tuple(part.label for part in found.ignored),
            degrees=(plan.lat, plan.lon),
        )
