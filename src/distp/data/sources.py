"""Where bytes come from: files, folders and archives, read as blocks of whole lines."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, TypeVar

from distp.errors import DataError

BLOCK = 1 << 24  # bytes of text handled at once: larger ones cost more in fresh memory than they save
LONGEST_LINE = 1 << 24
MOST_IN_MEMORY = 1 << 31  # of a file that cannot be read line by line
MOST_PARTS = 10_000
HEAD = 1 << 16
REGIONS = ".regions.csv"  # ends the names of tables that say what the numbers in reports mean
_IGNORED = ("__MACOSX/", ".")
T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """One file, or one member of an archive.

    Attributes
    ----------
    path : Path
    member : str or None
        Name inside a zip archive.
    named : bool
        Whether the caller named this very file, and not a folder or an archive that holds it.
    """

    path: Path
    member: str | None = None
    named: bool = False

    @property
    def label(self) -> str:
        """What to call it in a message."""
        return str(self.path) if self.member is None else f"{self.path}: {self.member}"

    @property
    def name(self) -> str:
        """File name in lower case, without what compression added."""
        return Path(self.member or self.path.name).name.lower().removesuffix(".gz")

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open it for reading, decompressed."""
        try:
            if self.member is None:
                with self.path.open("rb") as stream, _plain(stream) as plain:
                    yield plain
            else:
                with (
                    zipfile.ZipFile(self.path) as archive,
                    archive.open(self.member) as inner,
                    _plain(inner) as plain,
                ):
                    yield plain
        except OSError as error:  # gzip's own errors among them
            raise DataError(f"cannot read {self.label}: {error.strerror or 'it is damaged'}") from None
        except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
            raise DataError(f"cannot read {self.label}: the archive is damaged, or locked with a password") from None

    def head(self) -> bytes:
        """Return the first bytes."""
        with self.open() as stream:
            return stream.read(HEAD)

    def whole(self) -> bytes:
        """Return all bytes of a file that is small enough."""
        with self.open() as stream:
            content = stream.read(MOST_IN_MEMORY + 1)
        if len(content) > MOST_IN_MEMORY:
            raise DataError(f"{self.label} is larger than {MOST_IN_MEMORY >> 30} GiB: write it as CSV or JSON lines")
        return content


def find_parts(files: str | Path | Sequence[str | Path]) -> list[Part]:
    """Return the files, the files of folders, and the members of zip archives, in order of their names.

    Raises
    ------
    DataError
        Nothing there.
    """
    paths = [Path(files)] if isinstance(files, (str, Path)) else [Path(file) for file in files]
    if not paths:
        raise DataError("no file to read")
    found: list[Part] = []
    for path in paths:
        try:
            inside = [item for item in path.iterdir() if item.is_file()] if path.is_dir() else None
            there = path.is_file()
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror}") from None
        if inside is not None:
            visible = sorted(
                item for item in inside if not item.name.startswith(".") and not item.name.endswith(REGIONS)
            )
            if not visible:
                raise DataError(f"cannot read {path}: there is no file in that folder")
            for item in visible:
                found += _unpacked(item, named=False)
        elif there:
            found += _unpacked(path, named=True)
        else:
            raise DataError(f"cannot read {path}: there is no such file")
    if len(found) > MOST_PARTS:
        raise DataError(f"{len(found):,} files, more than the {MOST_PARTS:,} allowed")
    return list({(part.path.resolve(), part.member): part for part in found}.values())  # each file once


def blocks(part: Part, *, quoted: bool, size: int = BLOCK) -> Iterator[bytes]:
    r"""Yield the bytes of a text as blocks that end where a line ends; lines end in ``\n`` alone.

    Parameters
    ----------
    part : Part
    quoted : bool
        Whether a line may end inside quotation marks.
    size : int
        Bytes read at once.
    """
    with part.open() as stream:
        rest = stream.read(3).removeprefix(b"\xef\xbb\xbf")
        while chunk := stream.read(size):
            block = rest + chunk
            cut = _cut(block, quoted)
            if cut == 0 and len(block) > LONGEST_LINE:
                # No line ends outside quotation marks: one of them is out of place, and its row will be counted.
                cut = block.rfind(b"\n") + 1
                if cut == 0:
                    raise DataError(f"cannot read {part.label}: a line is longer than {LONGEST_LINE:,} bytes")
            if cut:
                yield _unix(block[:cut])
            rest = block[cut:]
        if rest:
            yield _unix(rest if rest.endswith(b"\n") else rest + b"\n")


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield what an iterator yields, making the next one while the last is used."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        coming: Future[T | object] = pool.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


def _unix(block: bytes) -> bytes:
    return block.replace(b"\r\n", b"\n") if b"\r" in block else block


def _cut(block: bytes, quoted: bool) -> int:
    """Return where the last whole line ends, 0 if none does."""
    cut = block.rfind(b"\n") + 1
    if not quoted or not cut or block.count(b'"', 0, cut) % 2 == 0:
        return cut
    place = cut  # inside quotation marks: step back over them
    for _ in range(1000):
        place = block.rfind(b"\n", 0, block.rfind(b'"', 0, place)) + 1
        if not place or block.count(b'"', 0, place) % 2 == 0:
            return place
    return 0


def _unpacked(path: Path, *, named: bool) -> list[Part]:
    try:
        with path.open("rb") as stream:
            zipped = stream.read(4) == b"PK\x03\x04"
        if not zipped:
            return [Part(path, named=named)]
        with zipfile.ZipFile(path) as archive:
            members = sorted(item.filename for item in archive.infolist() if not item.is_dir())
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
        raise DataError(f"cannot read {path}: it is damaged, or may not be read") from None
    kept = [name for name in members if not name.startswith(_IGNORED) and not Path(name).name.startswith(".")]
    if not kept:
        raise DataError(f"cannot read {path}: the archive is empty")
    return [Part(path, name) for name in kept]


@contextmanager
def _plain(stream: IO[bytes]) -> Iterator[BinaryIO]:
    buffered = io.BufferedReader(stream)  # type: ignore[type-var]
    if buffered.peek(2)[:2] == b"\x1f\x8b":
        with gzip.GzipFile(fileobj=buffered) as opened:
            yield opened  # type: ignore[misc]
    else:
        yield buffered
