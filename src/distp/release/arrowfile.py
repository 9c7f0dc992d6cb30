"""One Arrow file that grows part by part: a schema, the batches of all parts, at the end a footer that lists them.

Arrow's messages stand one after the other, so a part is appended by appending its batches; what stands in the file is
then a stream as well (Arrow columnar format, "Encapsulated message format" and "IPC File Format"). A message and a
footer are FlatBuffers tables, of which two fields of the one and the list of batches in the other are read here.
"""

from __future__ import annotations

import errno
import io
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from polars._typing import PolarsDataType

MAGIC, PADDED, END = b"ARROW1", b"ARROW1\0\0", struct.pack("<Ii", 0xFFFFFFFF, 0)
KIND, BODY = 1, 3  # fields of a message
BATCHES = 3  # of a footer
DICTIONARY = 2
ENTRY = struct.Struct("<qi4xq")


class Message(NamedTuple):
    """Where a message lies, how many bytes describe it, and how many of columns follow."""

    kind: int
    offset: int
    metadata: int
    body: int

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.offset + self.metadata + self.body


def write_arrow(frame: pl.DataFrame, stream: BinaryIO) -> None:
    """Append a part to a file: its batches, at the beginning after their schema."""
    # By way of a file of its own: what polars writes into memory here goes through the interpreter, and takes longer.
    with TemporaryFile(dir=Path(stream.name).parent) as written:
        frame.write_ipc_stream(written, compression="uncompressed")
        end = written.seek(0, os.SEEK_END) - len(END)
        begin = 0
        if stream.tell() == 0:
            stream.write(PADDED)
        else:
            begin = next(_messages(written, 0, end)).end
        _copy(written, begin, end, stream)


def read_arrow(path: Path, sizes: Iterable[int]) -> Iterator[pl.DataFrame]:
    """Yield the parts, of these sizes in the file, one by one."""
    with path.open("rb") as stream:
        schema, start = _schema(stream), 0
        for size in sizes:
            stream.seek(max(start, len(PADDED) + len(schema)))
            start += size
            yield pl.read_ipc_stream(schema + stream.read(start - stream.tell()) + END)


def finish_arrow(path: Path, sizes: Iterable[int]) -> None:
    """Write the footer of a file that holds parts of these sizes, in place of whatever stands after them.

    Raises
    ------
    ValueError
        A batch refers to a dictionary: each part has its own, and a file cannot.
    """
    end = sum(sizes)
    with path.open("r+b") as stream:
        _, *batches = _messages(stream, len(PADDED), end)
        if any(one.kind == DICTIONARY for one in batches):
            raise ValueError("parts have dictionaries of their own")
        empty, written = pl.read_ipc_stream(_schema(stream) + END), io.BytesIO()
        empty.write_ipc(written, compression="uncompressed")
        footer = _listing(_footer(written.getvalue()), batches)
        stream.truncate(end)
        stream.seek(end)
        stream.write(END + footer + struct.pack("<i", len(footer)) + MAGIC)


def arrow_holds(frame: pl.DataFrame) -> bool:
    """Say whether a file that grows can hold such columns: they come back as they were, and need no dictionary."""
    written = io.BytesIO()
    frame.write_ipc_stream(written, compression="uncompressed")
    messages = list(_messages(written, 0, len(written.getbuffer()) - len(END)))
    whole = pl.read_ipc_stream(written.getvalue()).schema == frame.schema
    return whole and all(one.kind != DICTIONARY for one in messages)


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


def _schema(stream: BinaryIO) -> bytes:
    """Return the first message of a file."""
    first = next(_messages(stream, len(PADDED), len(PADDED) + 1))
    stream.seek(first.offset)
    return stream.read(first.metadata)


def _copy(source: BinaryIO, begin: int, end: int, target: BinaryIO) -> None:
    """Append some bytes of a file to another one: within the system where it can do that."""
    target.flush()
    try:
        while begin < end and (done := os.copy_file_range(source.fileno(), target.fileno(), end - begin, begin)):
            begin += done
    except (AttributeError, OSError) as error:  # not on this system, or not between these two
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise
    target.seek(0, os.SEEK_END)
    source.seek(begin)
    while begin < end and (some := source.read(min(1 << 20, end - begin))):
        target.write(some)
        begin += len(some)


def _messages(stream: BinaryIO, start: int, end: int) -> Iterator[Message]:
    """Yield the messages that begin between two places."""
    while start < end:
        stream.seek(start)
        size = struct.unpack("<4xi", stream.read(8))[0]
        table = stream.read(size)
        kind, body = _place(table, KIND), _place(table, BODY)
        found = Message(table[kind], start, 8 + size, struct.unpack_from("<q", table, body)[0] if body else 0)
        yield found
        start = found.end


def _footer(content: bytes) -> bytes:
    """Return the footer of a whole file."""
    end = len(content) - len(MAGIC) - 4
    (size,) = struct.unpack_from("<i", content, end)
    return content[end - size : end]


def _listing(footer: bytes, batches: Sequence[Message]) -> bytes:
    """Return a footer of the same schema with other batches: the new list goes to its end."""
    content = bytearray(footer)
    content += bytes(-(len(content) + 4) % 8)  # the entries, after their number, begin at a multiple of 8
    pointer = _place(footer, BATCHES)
    struct.pack_into("<I", content, pointer, len(content) - pointer)
    entries = b"".join(ENTRY.pack(one.offset, one.metadata, one.body) for one in batches)
    return bytes(content) + struct.pack("<I", len(batches)) + entries


def _place(table: bytes, field: int) -> int:
    """Return where a field of the outermost table stands, 0 if it is left out."""
    (start,) = struct.unpack_from("<I", table, 0)
    (back,) = struct.unpack_from("<i", table, start)
    (length,) = struct.unpack_from("<H", table, start - back)
    if 4 + 2 * field >= length:
        return 0
    (slot,) = struct.unpack_from("<H", table, start - back + 4 + 2 * field)
    return int(start + slot) if slot else 0
