"""Parts as frames: delimited text, Parquet, JSON lines and GeoJSON, block by block, every row accounted for."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import polars as pl
from polars.exceptions import PolarsError

from distp.data.sources import BLOCK, HEAD, LONGEST_LINE, Part, blocks
from distp.errors import DataError

PREFIX = "distp:"  # of the columns that are ours
EXTRA = "distp:extra"  # text beyond the last column
BROKEN = "distp:broken"  # what is wrong with the row as a whole, null where nothing is
ODD = "distp:odd"  # whether a row had bytes that are not UTF-8; there only where some had
TABLE_ROWS, TABLE_BYTES = 1 << 20, 1 << 26
JSON_ROWS = 1 << 18
MOST_COLUMNS = 1000


@dataclass(frozen=True)
class Layout:
    """How a delimited text is laid out.

    Attributes
    ----------
    columns : tuple of str
        Names in the order of the file; empty where the first line gives them.
    separator : str
    quoted : bool
        Whether quotation marks mean anything.
    latin : bool
        Whether bytes that are not UTF-8 are ISO 8859-1 (TSMC2014 is).
    required : int
        A line with fewer fields than this ends early; 0 where any number will do.
    """

    columns: tuple[str, ...] = ()
    separator: str = "\t"
    quoted: bool = False
    latin: bool = False
    required: int = 0


def header(part: Part, separator: str) -> list[str]:
    """Return the column names in a text's first line."""
    head = part.head().removeprefix(b"\xef\xbb\xbf")
    first = next(iter(head.splitlines()), b"")
    if len(first) == len(head) >= HEAD:
        raise DataError(f"cannot read {part.label}: its first line is longer than {HEAD:,} bytes")
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"cannot read {part.label}: it is UTF-16 text; save it as UTF-8")
    text = first.decode("utf-8", "replace")
    try:
        names = next(csv.reader([text], delimiter=separator), [])
    except csv.Error:
        return []
    if len(names) > MOST_COLUMNS:
        raise DataError(f"{part.label} has {len(names):,} columns, more than the {MOST_COLUMNS:,} that are read")
    refuse_reserved(part, names)
    # A second column of the same name is told apart, and not kept; naming it is refused in `plans.require`.
    seen: dict[str, int] = {}
    for place, name in enumerate(names):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            names[place] = twin(name, seen[name])
    return names


def twin(name: str, number: int = 2) -> str:
    """Return what the second (third, ...) column of the same name is called."""
    return f"{PREFIX}{number}:{name}"


def refuse_reserved(part: Part, names: Iterable[str]) -> None:
    """Refuse column names that could be taken for ours."""
    if any(name.startswith(PREFIX) for name in names):
        raise DataError(f"{part.label} has a column whose name begins with {PREFIX!r}: that is reserved")


def text_frames(
    part: Part, layout: Layout, columns: Sequence[str] | None, size: int = BLOCK
) -> Iterator[pl.DataFrame]:
    """Yield a delimited text as frames of text columns, with ``distp:broken``, null where a row is well formed."""
    names = layout.columns or tuple(header(part, layout.separator))
    if not names:
        raise DataError(f"{part.label} has no rows, or no column names in its first line")
    skip = 0 if layout.columns else 1
    # Many columns make many cells of short lines: as many cells at once as with a few.
    for block in blocks(part, quoted=layout.quoted, size=max(1, size * 16 // max(16, len(names)))):
        clean = _is_utf8(block)
        if not clean and layout.latin:
            block, clean = b"\n".join(map(_from_latin, block.split(b"\n"))), True
        frame = _parsed(block, names, layout).slice(skip)
        skip = 0
        wanted = [pl.col(name) for name in names if columns is None or name in columns or name.startswith(PREFIX)]
        odd = [] if clean else [pl.any_horizontal(pl.col(names).str.contains("\ufffd", literal=True)).alias(ODD)]
        yield frame.select(*wanted, _broken(names, layout).alias(BROKEN), *odd)


def parquet_frames(part: Part, columns: Sequence[str] | None, first: int = 0) -> Iterator[pl.DataFrame]:
    """Yield a Parquet file from row ``first`` on, as frames of about a million rows."""
    return _scanned(part, "parquet", columns, first)


def arrow_frames(part: Part, columns: Sequence[str] | None, first: int = 0) -> Iterator[pl.DataFrame]:
    """Yield an Arrow IPC file (Feather) from row ``first`` on, as frames of about a million rows."""
    return _scanned(part, "arrow", columns, first)


def table_rows(part: Part, kind: str) -> int:
    """Return how many rows a Parquet or Arrow file has."""
    with _readable(part, kind):
        return int(_scan(part, kind).select(pl.len()).collect().item())


def _scanned(part: Part, kind: str, columns: Sequence[str] | None, first: int) -> Iterator[pl.DataFrame]:
    with _readable(part, kind):
        scan = _scan(part, kind)
        present = scan.collect_schema().names()
        refuse_reserved(part, present)
        rows = scan.select(pl.len()).collect().item()
        chosen = present if columns is None else [name for name in present if name in columns]
        # Wide rows are taken a few at a time: memory is for bytes, not for rows.
        each = part.path.stat().st_size / max(1, rows)
        step = max(1 << 10, min(TABLE_ROWS, int(TABLE_BYTES / max(each, 1.0))))
        for start in range(first, max(rows, first + 1), step):
            yield scan.select(chosen).slice(start, step).with_columns(_NOTHING).collect()


def _scan(part: Part, kind: str) -> pl.LazyFrame:
    source: Any = part.path.resolve() if part.member is None else part.whole()
    return pl.scan_parquet(source, glob=False) if kind == "parquet" else pl.scan_ipc(source, glob=False)


@contextmanager
def _readable(part: Part, kind: str) -> Iterator[None]:
    try:
        yield
    except (OSError, PolarsError):
        # What the reader says may quote a row: a person's location must not be printed.
        name = "Parquet" if kind == "parquet" else "an Arrow file"
        raise DataError(f"cannot read {part.label}: it is damaged, or not {name}") from None


def json_frames(part: Part, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """Yield JSON lines (or GeoJSON features, one a line) as frames; nested values are not read."""
    with part.open() as stream:
        while rows := _json_rows(stream):
            yield _from_rows(part, rows, columns)


def geojson_frames(part: Part, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """Yield a GeoJSON FeatureCollection, or a JSON array of records, as one frame."""
    content = part.whole()
    try:
        document = json.loads(content if _is_utf8(content) else content.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise DataError(f"cannot read {part.label}: it is damaged, or not JSON") from None
    items = document.get("features") if isinstance(document, dict) else document
    if not isinstance(items, list):
        raise DataError(f"cannot read {part.label}: it is neither a GeoJSON FeatureCollection nor a list of records")
    for start in range(0, max(len(items), 1), JSON_ROWS):
        yield _from_rows(part, [_record(item) for item in items[start : start + JSON_ROWS]], columns)


_NOTHING = pl.lit(None, dtype=pl.String).alias(BROKEN)


def _is_utf8(block: bytes) -> bool:
    if block.isascii():
        return True
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _from_latin(line: bytes) -> bytes:
    """Return a line as UTF-8: line by line, since such files hold both."""
    return line if _is_utf8(line) else line.decode("latin-1").encode()


def _parsed(block: bytes, names: Sequence[str], layout: Layout) -> pl.DataFrame:
    """Parse a block into text columns; one more column takes what a long line has too much."""
    # A first line of our own gives every block the same columns, however its first row looks.
    columns = [f"c{number}" for number in range(len(names))]
    top = layout.separator.join([*columns, EXTRA]).encode() + b"\n"
    frame = None
    if not layout.quoted or block.count(b'"') % 2 == 0:
        try:
            frame = pl.read_csv(
                top + block,
                separator=layout.separator,
                quote_char='"' if layout.quoted else None,
                infer_schema=False,
                truncate_ragged_lines=True,
                encoding="utf8-lossy",
                glob=False,
            )
        except PolarsError:
            frame = None
    if frame is None:
        frame = _line_by_line(block, [*columns, EXTRA], layout)
    return frame.rename(dict(zip(columns, names, strict=True)))


def _line_by_line(block: bytes, columns: Sequence[str], layout: Layout) -> pl.DataFrame:
    """Parse a block with quotation marks out of place: the lines that have them become rows with marks alone."""
    rows: list[list[str | None]] = []
    for line in block.decode("utf-8", "replace").split("\n")[:-1]:
        try:
            fields: list[str] = next(csv.reader([line], delimiter=layout.separator, strict=True), [])
        except csv.Error:
            fields = ['"'] * len(columns)
        padded = [*fields, *[None] * len(columns)][: len(columns)]
        rows.append([value or None for value in padded])
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")


def _broken(names: Sequence[str], layout: Layout) -> pl.Expr:
    """Say what is wrong with a line as a whole."""
    least = layout.required or 1
    blank = pl.all_horizontal(pl.col(name).is_null() for name in names)
    marks = pl.all_horizontal(pl.col(name).eq_missing(pl.lit('"')) for name in (*names, EXTRA))
    early = pl.col(names[least - 1]).is_null() if layout.required else pl.lit(value=False)
    return (
        pl.when(blank)
        .then(pl.lit("line blank"))
        .when(marks)
        .then(pl.lit("line with a quotation mark out of place"))
        .when(pl.col(EXTRA).is_not_null())
        .then(pl.lit("line with too many fields"))
        .when(early)
        .then(pl.lit("line ends early"))
        .otherwise(None)
    )


@dataclass(frozen=True)
class _Row:
    """A record's plain values, and what is wrong with it or odd about it."""

    values: dict[str, Any]
    broken: str | None = None
    odd: bool = False


def _json_rows(stream: BinaryIO) -> list[_Row]:
    rows: list[_Row] = []
    size = 0
    while len(rows) < JSON_ROWS and size < BLOCK and (line := stream.readline(LONGEST_LINE)):
        size += len(line)
        clean = _is_utf8(line)
        try:
            row = _record(json.loads(line if clean else line.decode("utf-8", "replace"))) if line.strip() else _BLANK
        except (ValueError, RecursionError):
            row = _NO_RECORD
        rows.append(row if clean else replace(row, odd=True))
    return rows


_BLANK, _NO_RECORD = _Row({}, "line blank"), _Row({}, "not a JSON record")


def _record(item: Any) -> _Row:
    """Return a record's plain values; a GeoJSON feature gives its properties and, of a point, lat and lon."""
    if not isinstance(item, dict):
        return _NO_RECORD
    if item.get("type") != "Feature":
        return _Row({_text(name): _plain(value) for name, value in item.items()})
    properties, geometry = item.get("properties"), item.get("geometry")
    values = (
        {_text(name): _plain(value) for name, value in properties.items()} if isinstance(properties, dict) else {}
    )
    where = geometry.get("coordinates") if isinstance(geometry, dict) and geometry.get("type") == "Point" else None
    if isinstance(where, list) and len(where) >= 2:
        return _Row(values | {"lon": _plain(where[0]), "lat": _plain(where[1])})
    if geometry is None:
        return _Row(values | {"lon": None, "lat": None})
    return _Row(values, "feature that is not a point")


def _from_rows(part: Part, rows: Sequence[_Row], columns: Sequence[str] | None) -> pl.DataFrame:
    names = dict.fromkeys(name for row in rows for name in row.values)
    refuse_reserved(part, names)
    made = [
        _series(name, [row.values.get(name) for row in rows]) for name in names if columns is None or name in columns
    ]
    made.append(pl.Series(BROKEN, [row.broken for row in rows], dtype=pl.String))
    if any(row.odd for row in rows):
        made.append(pl.Series(ODD, [row.odd for row in rows]))
    return pl.DataFrame(made)


def _plain(value: Any) -> Any:
    return None if isinstance(value, (list, dict)) else value


def _series(name: str, values: list[Any]) -> pl.Series:
    """Give a column one type: numbers, true or false, or else text."""
    kinds = {type(value) for value in values if value is not None}
    # Whole numbers that a float cannot hold stay what they are, or become text: two people never become one.
    limit = 2**53 if float in kinds else 2**63
    if kinds <= {int, float} and kinds and all(abs(value) < limit for value in values if type(value) is int):
        return pl.Series(name, values, dtype=pl.Int64 if kinds == {int} else pl.Float64)
    if kinds == {bool}:
        return pl.Series(name, values, dtype=pl.Boolean)
    return pl.Series(name, [None if value is None else _text(value) for value in values], dtype=pl.String)


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode()  # JSON may hold half a surrogate pair


def json_kind(part: Part) -> str | None:
    """Tell a document (GeoJSON, or a list of records) from JSON lines by its beginning; None: neither."""
    head = part.head().removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"[") or b"FeatureCollection" in head:
        return "geojson"
    try:
        return "jsonl" if isinstance(json.loads(head.split(b"\n", 1)[0]), dict) else None
    except (ValueError, RecursionError):
        return None
