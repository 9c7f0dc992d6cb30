"""One Arrow file that grows: each part is an Arrow file of its own, and a last footer lists the batches of them all.

An Arrow file is read from its end: a footer says where each record batch lies. What stands between batches is never
looked at, so the parts' own heads and footers may stay. A footer is a FlatBuffers table; its fourth field is a list
of entries of 24 bytes, one for each batch (Arrow columnar format, "IPC File Format").
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from polars._typing import PolarsDataType

MAGIC, END = b"ARROW1", struct.pack("<Ii", 0xFFFFFFFF, 0)
BATCHES, ALIGNED = 3, 64
ENTRY = struct.Struct("<qi4xq")


class Batch(NamedTuple):
    """Where a batch lies in its file, and how many bytes describe it and hold its columns."""

    offset: int
    metadata: int
    columns: int


def write_arrow(frame: pl.DataFrame, stream: BinaryIO) -> None:
    """Write one part where the stream stands, after as many bytes as it takes for its columns to lie well.

    Batches refer to the dictionaries of their own part, so no column may have one (see `without_dictionaries`).
    """
    stream.write(bytes(-stream.tell() % ALIGNED))
    frame.write_ipc(stream, compression="uncompressed")


def without_dictionaries(type_: PolarsDataType) -> PolarsDataType:
    """Return a type whose categories are text, wherever in it they stand."""
    if type_ in (pl.Categorical, pl.Enum):
        return pl.String()
    if isinstance(type_, pl.List):
        return pl.List(without_dictionaries(type_.inner))
    if isinstance(type_, pl.Array):
        return pl.Array(without_dictionaries(type_.inner), type_.size)
    if isinstance(type_, pl.Struct):
        return pl.Struct({field.name: without_dictionaries(field.dtype) for field in type_.fields})
    return type_


def read_arrow(path: Path, sizes: Iterable[int]) -> Iterator[pl.DataFrame]:
    """Yield the parts, of these sizes, one by one."""
    with path.open("rb") as stream:
        for start, end in _places(sizes):
            stream.seek(start)
            yield pl.read_ipc(stream.read(end - start))


def finish_arrow(path: Path, sizes: Iterable[int]) -> None:
    """Write the footer of a file that holds parts of these sizes, in place of whatever stands after them."""
    batches: list[Batch] = []
    first, end = b"", 0
    with path.open("r+b") as stream:
        for start, end in _places(sizes):
            footer = _footer(stream, end)
            first = first or footer
            batches += [Batch(start + one.offset, one.metadata, one.columns) for one in _batches(footer)]
        stream.truncate(end)
        stream.seek(end)
        footer = _listing(first, batches)
        stream.write(END + footer + struct.pack("<i", len(footer)) + MAGIC)


def _places(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield where each part begins, after what it was preceded by, and where it ends."""
    end = 0
    for size in sizes:
        start, end = end + -end % ALIGNED, end + size
        yield start, end


def _footer(stream: BinaryIO, end: int) -> bytes:
    """Return the footer of the part that ends here."""
    stream.seek(end - len(MAGIC) - 4)
    (size,) = struct.unpack("<i", stream.read(4))
    stream.seek(end - len(MAGIC) - 4 - size)
    return stream.read(size)


def _batches(footer: bytes) -> list[Batch]:
    pointer = _pointer(footer)
    place = pointer + struct.unpack_from("<I", footer, pointer)[0]
    (number,) = struct.unpack_from("<I", footer, place)
    return [Batch(*ENTRY.unpack_from(footer, place + 4 + ENTRY.size * i)) for i in range(number)]


def _listing(footer: bytes, batches: Sequence[Batch]) -> bytes:
    """Return a footer of the same schema with other batches: the new list goes to its end."""
    content = bytearray(footer)
    content += bytes(-(len(content) + 4) % 8)  # the entries, after their number, begin at a multiple of 8
    pointer = _pointer(footer)
    struct.pack_into("<I", content, pointer, len(content) - pointer)
    return bytes(content) + struct.pack("<I", len(batches)) + b"".join(ENTRY.pack(*one) for one in batches)


def _pointer(footer: bytes) -> int:
    """Return where the field of the batches stands: it tells how far ahead their list is."""
    (table,) = struct.unpack_from("<I", footer, 0)
    (back,) = struct.unpack_from("<i", footer, table)
    (slot,) = struct.unpack_from("<H", footer, table - back + 4 + 2 * BATCHES)
    return int(table + slot)
