"""A set of files as tidy blocks of rows, in order: found and recognised once, read one block at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from distp.data.companions import Companions, read_companions
from distp.data.formats import CHECK_INS, FORMATS, GENERIC, VENUES, canonical, check_format, recognise
from distp.data.plans import Asked, make_plan, same_meaning
from distp.data.sources import BLOCK, Part, ahead, find_parts
from distp.data.tables import (
    TABLE_ROWS,
    Layout,
    arrow_frames,
    geojson_frames,
    header,
    json_frames,
    parquet_frames,
    table_rows,
    text_frames,
)
from distp.data.tidy import Plan, finished, tidy
from distp.data.venues import Venues
from distp.errors import DataError

if TYPE_CHECKING:
    from distp.data.places import Window


@dataclass(frozen=True)
class Found:
    """The parts of a set, by role."""

    format: str
    parts: list[Part]
    others: dict[str, list[Part]]
    ignored: list[Part]

    @property
    def label(self) -> str:
        """What to call them in a message."""
        names = [part.label for part in self.parts]
        return names[0] if len(names) == 1 else f"{len(names)} files ({names[0]}, ...)"


@dataclass(frozen=True)
class Block:
    """Rows that stand together in a part.

    Attributes
    ----------
    frame : polars.DataFrame
        Tidy (see `tidy`); without rows that lie elsewhere.
    height : int
        How many rows of the part it stands for.
    start : int
        How many rows of the part stand before it.
    part : Part
    number : int
        Of the part.
    plan : Plan
        What the part's columns mean.
    done : int
        About how many of `Stream.steps` are done with it.
    """

    frame: pl.DataFrame
    height: int
    start: int
    part: Part
    number: int
    plan: Plan
    done: int


@dataclass(frozen=True)
class Stream:
    """A set that was found, and what is asked of it."""

    found: Found
    asked: Asked
    companions: Companions
    venues: Venues | None
    window: Window | None
    size: int = BLOCK

    @classmethod
    def of(cls, found: Found, asked: Asked, window: Window | None = None, size: int = BLOCK) -> Stream:
        """Read the files that go with the check-ins."""
        companions = read_companions(found.others)
        venues = None if companions.venues is None else Venues.of(companions.venues, window)
        return cls(found, asked, companions, venues, window, size)

    @property
    def steps(self) -> int:
        """About how many blocks there are."""
        return self._ends[-1]

    @cached_property
    def _ends(self) -> list[int]:
        return _steps(self.found.parts, self.found.format, self.size)

    def blocks(self, skip: int = 0) -> Iterator[Block]:
        """Yield the blocks in order, without the first ``skip`` rows.

        Raises
        ------
        DataError
            A part that cannot be read, or means something else than the first.
        """
        name = self.found.format
        first: Plan | None = None
        steps = [0, *self._ends]
        for number, part in enumerate(self.found.parts):
            start = 0
            if skip and (rows := _rows(part, name)) is not None:
                start = min(skip, rows)
            skip -= start
            plan: Plan | None = None
            for step, frame in enumerate(ahead(_frames(part, name, self.asked, self.size, start)), 1):
                if plan is None:
                    plan = make_plan(part, frame, name, self.asked, has_venues=self.venues is not None)
                    first = first or plan
                    same_meaning(part, first, plan)
                passed = min(skip, frame.height)
                skip -= passed
                rest = frame.slice(passed)
                done = min(steps[number] + step, steps[number + 1])
                start += passed
                if rest.height or not frame.height:
                    tidied = tidy(rest, plan, self.venues, self.window)
                    yield Block(tidied, rest.height, start, part, number, plan, done)
                start += rest.height

    def finished(self, frame: pl.DataFrame, plan: Plan) -> pl.DataFrame:
        """Return tidy rows with the columns to keep, and no others."""
        return finished(frame, plan, self.venues, self.companions)


def _rows(part: Part, name: str) -> int | None:
    """Return how many rows a part has, if its format says so."""
    return table_rows(part, name) if name in ("parquet", "arrow") else None


def find_set(files: str | Path | Sequence[str | Path], named: str | None) -> Found:
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
    return Found(name, chosen, others, ignored)


def _frames(part: Part, name: str, asked: Asked, block: int, skip: int) -> Iterator[pl.DataFrame]:
    """Yield a part block by block; of formats that know their rows, from row ``skip`` on."""
    known = FORMATS.get(name)
    needed = asked.needed(known)
    if name == "parquet":
        return parquet_frames(part, needed, skip)
    if name == "arrow":
        return arrow_frames(part, needed, skip)
    if name == "jsonl":
        return json_frames(part, needed)
    if name == "geojson":
        return geojson_frames(part, needed)
    separator = "\t" if name == "tsv" or part.name.endswith(".tsv") else ","
    if known is not None and known.layout is not None and not canonical(known, header(part, separator)):
        return text_frames(part, known.layout, None, block)
    return text_frames(part, Layout(separator=separator, quoted=True, latin=name == "tsmc2014"), needed, block)


def _steps(parts: Sequence[Part], name: str, block: int) -> list[int]:
    """Return about how many blocks have been read once each part is done."""
    sizes = []
    for part in parts:
        rows = None
        with suppress(DataError):  # it will be said when its turn comes
            rows = _rows(part, name) if part.member is None else None
        sizes.append(max(1, -(-part.path.stat().st_size // block) if rows is None else -(-rows // TABLE_ROWS)))
    return list(accumulate(sizes))
