"""Check-ins in, tuples out: files of any size in little memory, part by part."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from distp.checks import IntArray
from distp.data.formats import FORMATS
from distp.data.places import REASON, located
from distp.data.plans import Asked
from distp.data.sources import REGIONS, Part, ahead
from distp.data.streaming import Block, Stream, find_set
from distp.data.tidy import ROW
from distp.errors import DataError, OutsideError, ParameterError
from distp.files import check_target
from distp.release.arrowfile import finish_arrow, read_arrow, without_dictionaries
from distp.release.columns import COLUMN, PLACES, check_keep
from distp.release.memory import Memory
from distp.release.policy import Policy
from distp.release.tables import KINDS, check_columns, pack, regions_table, write_part
from distp.release.work import Work, working

PART_ROWS = 1 << 20
PART_BYTES = 1 << 26  # of tuples in a part, where they are long
TEXTS = ("csv", "tsv", "jsonl", "geojson")  # formats whose columns are kept as they are written
PERSON = "distp:person"
UNLIKE = "the files do not fit together: a column to keep holds different things"
Progress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Protected:
    """How many rows were written, how many of them without a report, and how many an interrupted run had finished."""

    rows: int
    empty: int
    before: int = 0


def protect_file(
    source: str | Path | Sequence[str | Path],
    target: str | Path,
    policy: Policy,
    *,
    format: str | None = None,  # noqa: A002 - as in `read_check_ins`
    lat: str | None = None,
    lon: str | None = None,
    keep: Sequence[str] = (),
    person: str | None = None,
    memory: Memory | None = None,
    empty: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
) -> Protected:
    """Write one tuple for each row of ``source``, in its order; the true coordinates are never written.

    The rows go through memory part by part. Finished parts wait in ``<target>.partial``: after an error, or a kill,
    the same call goes on where they end, and the result is as if nothing had happened. What the regions' numbers mean
    is written beside the target (``<target>.regions.csv``).

    Parameters
    ----------
    source : str, Path or a sequence of them
        As for `read_check_ins`.
    target : str or Path
        ``.parquet`` or ``.arrow`` (a list of fixed size, ``report``, of region numbers), ``.csv`` (``report_0`` ...),
        or a new folder, whose name has no ending, of Parquet files.
    policy : Policy
    format, lat, lon : str, optional
        As for `read_check_ins`.
    keep : sequence of str
        Columns to pass through as they are written: text in CSV, TSV and JSON stays text.
    person : str, optional
        Column with the person, for ``memory``.
    memory : Memory, optional
        A person's rows at one region then get one tuple; without it, every row is drawn independently.
    empty : bool
        Give a row that cannot be protected an empty report; otherwise it stops the job.
    restart : bool
        Throw away what an interrupted job has finished.
    progress : callable, optional
        Called with (steps done, steps in all, about; rows written).

    Raises
    ------
    DataError, OutsideError, SpentError
        As named. Finished parts are kept.
    """
    if (person is None) != (memory is None):
        raise ParameterError("person and memory belong together: whose tuples are to be remembered, and by what")
    path = Path(target)
    kind = _kind(path)
    table = path.with_name(f"{path.name}{REGIONS}")
    sources = [source] if isinstance(source, (str, Path)) else source
    if not path.suffix and path.is_file():
        raise DataError(f"cannot write {path}: a file of that name is in the way of the folder")
    check_target(path, *sources, *([] if memory is None or memory.ledger is None else [memory.ledger.path]))
    check_target(table, *(file for file in sources if Path(file).is_file()))
    found = find_set(source, format)
    keep = check_keep(keep, policy)
    stream = Stream.of(found, Asked(lat, lon, person, None, None, None, tuple(keep), (), whole=True))
    job: dict[str, Any] = {
        "policy": policy.identity,
        "format": found.format,
        "lat": lat,
        "lon": lon,
        "keep": keep,
        "kind": path.suffix,
        "person": person,
        "memory": None if memory is None else memory.name,
        "companions": _identities([part for role in found.others.values() for part in role]),
    }
    packed, suffix = path.suffix == ".parquet", None if path.suffix else f".{kind}"

    def tell(done: int, rows: int) -> None:
        if progress:
            progress(done, stream.steps * (1 + packed), rows)

    with working(path, job, _identities(found.parts), suffix, restart=restart) as work:
        before = work.rows
        if work.empty and not empty:
            raise OutsideError(
                f"{work.empty:,} rows of finished parts have an empty report: allow that with --empty, or start anew "
                "with --restart"
            )
        if not work.delivered:
            _protect(stream, work, _Drawing(policy, memory, empty), path.suffix, tell)
            if not work.parts:
                raise DataError(f"{found.label} has no rows")
            work.deliver(regions_table(policy.regions).write_csv, table)
            if packed:
                work.deliver(partial(pack, partial(_parts, work, stream.steps, tell), work.width), path)
                work.delivered = True
            else:
                work.become(path, finish_arrow if kind == "arrow" else None)
        return Protected(work.rows, work.empty, before)


def _kind(path: Path) -> str:
    """Return what the parts of a target are written as; refuse a name that says nothing, or something else."""
    if path.name.startswith(".") or path.name.endswith(".") or path.suffix not in KINDS:
        raise DataError(
            f"cannot write {path}: the name must end in {', '.join(sorted(filter(None, KINDS)))}, or have no ending: "
            "a folder of Parquet files"
        )
    return KINDS[path.suffix]


def _identities(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Return what tells whether a source file is still the one that was read."""
    states = [part.path.stat() for part in parts]
    return [
        {"file": [str(part.path.resolve()), part.member], "bytes": state.st_size, "modified": state.st_mtime_ns}
        for part, state in zip(parts, states, strict=True)
    ]


@dataclass(frozen=True)
class _Drawing:
    """How rows get their tuples; ``empty``: whether a row may go without."""

    policy: Policy
    memory: Memory | None
    empty: bool

    def with_reports(self, kept: pl.DataFrame, inputs: IntArray) -> pl.DataFrame:
        """Draw a tuple for every row that has an input region, and put the tuples beside what is kept."""
        inside = inputs >= 0
        if self.memory is None:
            drawn = self.policy.release_inputs(inputs if inside.all() else inputs[inside])
        else:
            people = kept[PERSON].filter(pl.Series(inside)).to_list()
            kept = kept.drop(PERSON)
            if self.empty:
                drawn, allowed = self.memory.release_allowed(self.policy, people, inputs[inside])
                drawn, inside[inside] = drawn[allowed], allowed
            else:
                drawn = self.memory.release(self.policy, people, inputs[inside])
        kind = pl.Array(pl.UInt16 if drawn.itemsize == 2 else pl.UInt32, self.policy.dummies + 1)
        report = pl.Series(COLUMN, drawn, dtype=kind)
        if not inside.all():
            rows = np.full(inputs.size, -1, dtype=np.int64)
            rows[inside] = np.arange(drawn.shape[0])
            report = report.gather(pl.Series(rows).replace(-1, None))
        return pl.DataFrame([*kept, report])


@dataclass(frozen=True)
class _Piece:
    """Rows to protect: the columns to keep, and each row's input region, -1 where it has none."""

    kept: pl.DataFrame
    inputs: IntArray
    number: int
    done: int


def _protect(
    stream: Stream,
    work: Work,
    drawing: _Drawing,
    suffix: str,
    tell: Callable[[int, int], None],
) -> None:
    """Draw and write what is not finished yet.

    While the rows of one part are drawn, the next are read and located, and the last are written.
    """
    kind = KINDS[suffix]
    types = _types(work, kind)
    with ThreadPoolExecutor(1) as pool:
        writing: Future[None] | None = None
        for piece in _cut(ahead(_pieces(stream, work.rows, drawing)), _size(drawing.policy)):
            kept = piece.kept.drop(PERSON, strict=False)
            own = dict(kept.schema)
            if not work.parts and writing is None:
                check_columns(kept, suffix)
            types = types or own
            if kind != "csv" and own != types:  # no value is ever changed
                raise DataError(UNLIKE)
            frame = drawing.with_reports(piece.kept, piece.inputs)
            if writing is not None:
                writing.result()
            write = partial(write_part, frame, kind=kind, header=not work.rows)
            rows, lacking = frame.height, frame[COLUMN].null_count()
            written = work.rows + rows  # before the writer counts them itself
            # From here on the frame is the writer's: it is locked while polars writes it.
            writing = pool.submit(work.add, write, rows, lacking, piece.number + 1)
            tell(piece.done, written)
        if writing is not None:
            writing.result()


def _size(policy: Policy) -> int:
    """Return how many rows make a part."""
    return max(1, min(PART_ROWS, PART_BYTES // (4 * (policy.dummies + 1))))


def _pieces(stream: Stream, skip: int, drawing: _Drawing) -> Iterator[_Piece]:
    """Yield the rows of each block with their input regions."""
    keep, known = list(stream.asked.keep), stream.found.format in FORMATS
    for block in stream.blocks(skip):
        check_keep(keep, drawing.policy, (block.plan.lat, block.plan.lon, *(PLACES if known else ())))
        finished = stream.finished(block.frame, block.plan)
        inputs = _located(block, finished, drawing.policy, empty=drawing.empty)
        # A record may lack what others have.
        lacking = [pl.lit(None, pl.String).alias(name) for name in keep if name not in finished.columns]
        kept = finished.with_columns(lacking).select(keep)
        if drawing.memory is not None:
            kept = pl.DataFrame([*kept, _people(finished, block)])
        if stream.found.format in TEXTS:
            kept = kept.select(pl.all().cast(pl.String))
        kept = kept.cast({name: without_dictionaries(type_) for name, type_ in kept.schema.items()})
        yield _Piece(kept, inputs, block.number, block.done)


def _people(finished: pl.DataFrame, block: Block) -> pl.Series:
    """Return who each row is about, as text: 7 and 7.0 are one person, whatever else stands in the column."""
    if block.plan.user is None:
        raise DataError(f"{block.part.label} names no people: leave out --person")
    people = finished[block.plan.user]
    if people.dtype.is_float():
        whole = people.cast(pl.Int64, strict=False)
        people = pl.select(
            pl.when(whole == people).then(whole.cast(pl.String)).otherwise(people.cast(pl.String))
        ).to_series()
    try:
        return people.cast(pl.String).alias(PERSON)
    except pl.exceptions.PolarsError:
        raise DataError(f"{block.part.label}: column {block.plan.user!r} holds {people.dtype}, not people") from None


def _located(block: Block, finished: pl.DataFrame, policy: Policy, *, empty: bool) -> IntArray:
    """Return the input region of every row; a row without one stops the job unless it may be ``empty``."""
    reason = block.frame[REASON]
    inputs = located(finished, reason, block.plan.lat, block.plan.lon, policy.locate)
    if empty or (inputs >= 0).all():
        return inputs
    lacking = np.flatnonzero(inputs < 0)
    first, several = int(lacking[0]), f"{lacking.size:,} of {inputs.size:,} rows here"
    where = f"row {block.start + int(block.frame[ROW][first]) + 1} of {block.part.label}"
    if reason[first] is not None:
        raise DataError(f"{where}: {reason[first]} ({several}); give such rows an empty report with --empty")
    raise OutsideError(
        f"{where} lies outside the policy's area ({several}); give such rows an empty report with --empty, or fit "
        "with --outside nearest"
    )


def _cut(pieces: Iterator[_Piece], size: int) -> Iterator[_Piece]:
    """Yield the same rows in pieces of ``size``, smaller ones where much is kept; the last is what is left."""
    waiting: list[_Piece] = []
    rows = 0
    for piece in pieces:
        # What is kept may be wider than any tuple.
        each = piece.kept.estimated_size() / max(1, piece.inputs.size)
        most = max(1, min(size, int(PART_BYTES / 2 / max(each, 1e-9))))
        waiting.append(piece)
        rows += piece.inputs.size
        if rows < most:
            continue
        whole = _joined(waiting)
        for start in range(0, rows - most + 1, most):
            yield _sliced(whole, start, most)
        left = rows % most
        waiting, rows = ([_sliced(whole, rows - left, left)] if left else []), left
    if rows:
        yield _joined(waiting)


def _joined(pieces: Sequence[_Piece]) -> _Piece:
    last = pieces[-1]
    try:
        kept = pl.concat([piece.kept for piece in pieces], how="vertical")
    except pl.exceptions.PolarsError:
        raise DataError(UNLIKE) from None
    return _Piece(kept, np.concatenate([piece.inputs for piece in pieces]), last.number, last.done)


def _sliced(piece: _Piece, start: int, size: int) -> _Piece:
    return _Piece(piece.kept.slice(start, size), piece.inputs[start : start + size], piece.number, piece.done)


def _parts(work: Work, steps: int, tell: Callable[[int, int], None]) -> Iterator[pl.DataFrame]:
    """Yield the finished parts to be packed, which counts as much as drawing them did."""
    for number, part in enumerate(read_arrow(work.rows_file, work.sizes), 1):
        yield part
        tell(steps + steps * number // len(work.parts), work.rows)


def _types(work: Work, kind: str) -> dict[str, pl.DataType]:
    """Return the types of the kept columns in finished parts; none where there is none, or where all is text."""
    if not work.parts or kind == "csv":
        return {}
    parts = read_arrow(work.rows_file, work.sizes) if kind == "arrow" else map(pl.read_parquet, work.files)
    try:
        schema = next(parts).schema
    except (pl.exceptions.PolarsError, struct.error, IndexError):
        raise DataError(
            f"cannot go on: a finished part in {work.folder} is damaged: start anew with --restart"
        ) from None
    return {name: type_ for name, type_ in schema.items() if name != COLUMN}
