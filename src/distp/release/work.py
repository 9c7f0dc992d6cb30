"""A job in parts that survives being killed at any instant: finished parts wait in a folder beside the target.

The folder ``<target>.partial`` holds a manifest and the finished parts: whole files of their own where the target is
a folder, and otherwise one file that grows. A part is on the disk before the manifest that counts it takes the place
of the last one, by one renaming. Whatever is not in the manifest was never finished, and is done anew. The target
itself appears by one renaming, at the very end.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from distp.errors import DataError
from distp.files import flush_folder, replacing, take_place, writing

MANIFEST, LOCK, ROWS, WHOLE = "_manifest", "_lock", "_rows", "_whole"
VERSION = 2
MAX_BYTES = 1 << 28


@dataclass(frozen=True)
class Done:
    """A finished part.

    Attributes
    ----------
    rows, empty, size : int
        How many rows it has, how many of them without a report, and bytes.
    sources : int
        How many of the job's source files were read for it and for the parts before it, the last perhaps in part.
    """

    rows: int
    empty: int
    size: int
    sources: int


@dataclass
class Work:
    """The folder of a job, locked while it is in use.

    Attributes
    ----------
    folder : Path
    job : dict
        What must be the same for finished parts to count: policy, options, kind of target.
    sources : list of dict
        What identifies each source file; those that finished parts came from must not have changed.
    suffix : str or None
        What the names of parts end in; None: they stand one after the other in one file, `rows_file`.
    parts : list of Done
    delivered : bool
        Whether the target is in place already: a run was killed just then.
    """

    folder: Path
    job: dict[str, Any]
    sources: list[dict[str, Any]]
    suffix: str | None
    parts: list[Done] = field(default_factory=list)
    delivered: bool = False

    @property
    def rows(self) -> int:
        """Rows in finished parts."""
        return sum(part.rows for part in self.parts)

    @property
    def empty(self) -> int:
        """Rows without a report in finished parts."""
        return sum(part.empty for part in self.parts)

    @property
    def sizes(self) -> list[int]:
        """Bytes of each finished part."""
        return [part.size for part in self.parts]

    @property
    def width(self) -> int:
        """Bytes that a row takes, about."""
        return max(1, sum(self.sizes) // max(1, self.rows))

    @property
    def rows_file(self) -> Path:
        """The one file that holds the finished parts, and perhaps something after them."""
        return self.folder / ROWS

    @property
    def files(self) -> list[Path]:
        """The finished parts, in order, where they are files of their own."""
        return (
            []
            if self.suffix is None
            else [_part(self.folder, place, self.suffix) for place in range(len(self.parts))]
        )

    def add(self, write: Callable[[BinaryIO], None], rows: int, empty: int, sources: int) -> None:
        """Write one more part, all or nothing, and count it."""
        with writing(self.folder):
            if self.suffix is None:
                size = self._appended(write)
            else:
                path = _part(self.folder, len(self.parts), self.suffix)
                with replacing(path) as temporary, temporary.open("wb") as stream:
                    write(stream)
                size = path.stat().st_size
            self._count([*self.parts, Done(rows, empty, size, sources)])

    def _appended(self, write: Callable[[BinaryIO], None]) -> int:
        """Write behind the finished parts, and return how many bytes."""
        start = sum(self.sizes)
        with self.rows_file.open("r+b" if start else "wb") as stream:
            stream.truncate(start)
            stream.seek(start)
            try:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            except OSError:
                stream.truncate(start)  # on a full disk, what is half written takes the room of what is to come
                raise
            return stream.seek(0, os.SEEK_END) - start

    def _count(self, parts: list[Done], whole: tuple[int, int] | None = None) -> None:
        """Replace the manifest; ``whole``: by what the finished file is known again once it is the target."""
        body = {"version": VERSION, "job": self.job, "sources": self.sources, "parts": [asdict(one) for one in parts]}
        body["whole"] = whole
        with replacing(self.folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(body) + "\n", encoding="utf-8")
        flush_folder(self.folder)
        self.parts = parts

    def deliver(self, write: Callable[[Path], None], target: Path) -> None:
        """Write a whole file in the folder, and let it take the place of ``target``."""
        temporary = self.folder / WHOLE
        with writing(target):
            write(temporary)
            take_place(temporary, target)
            flush_folder(target.parent)

    def become(self, target: Path, finish: Callable[[Path, list[int]], None] | None = None) -> None:
        """Let what was written take the place of ``target``, at once: the one file, or the folder of parts.

        ``finish`` writes into the file, whose parts have these sizes, what comes after the last of them.
        """
        with writing(target):
            if self.suffix is None:
                if finish:
                    finish(self.rows_file, self.sizes)
                self._count(self.parts, _known(self.rows_file))
                take_place(self.rows_file, target)
            else:
                self._renamed(target)
            flush_folder(target.parent)
        self.delivered = True

    def _renamed(self, target: Path) -> None:
        """Give the folder its last name: without the manifest, which readers of a folder may take for a table."""
        (self.folder / MANIFEST).unlink()
        try:
            self.folder.replace(target)
        except BaseException:  # interrupted by its user, too
            self._count(self.parts)
            raise
        self.folder = target

    def close(self) -> None:
        """Remove what is no longer needed once the target is in place."""
        with writing(self.folder):
            if self.suffix is None:
                discard(self.folder)
            else:
                (self.folder / LOCK).unlink(missing_ok=True)


@contextmanager
def working(
    target: Path, job: dict[str, Any], sources: list[dict[str, Any]], suffix: str | None, *, restart: bool
) -> Iterator[Work]:
    """Open the folder of a job, with the parts that an interrupted run finished; see `Work` for what they are.

    It is removed when the job is done; without a finished part, also when the job fails.

    Raises
    ------
    DataError
        Another process is at work on it; or there are parts of another job, or of files that have changed since.
    """
    folder = target.with_name(f"{target.name}.partial")
    with _locked(folder, target):
        with writing(folder):
            if restart:
                (folder / MANIFEST).unlink(missing_ok=True)
            work = Work(folder, job, sources, suffix)
            _take_up(work, target)
            counted = {*work.files, work.rows_file} if work.parts else set()
            for item in _own(folder):  # what a killed run was writing, or had begun to throw away
                if item not in counted:
                    item.unlink()
        try:
            yield work
        finally:
            if work.delivered:
                work.close()
            elif not work.parts:
                discard(folder)


def _made(folder: Path, target: Path) -> None:
    """Make the folder of a job; one that is there already must be that of a job."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise DataError(f"cannot write {target}: {folder} is in the way")
    if folder.exists() and not (folder / LOCK).exists() and any(folder.iterdir()):
        raise DataError(f"cannot write {target}: the folder {folder} is in the way, and not that of a job")
    folder.mkdir(exist_ok=True)


def _own(folder: Path) -> list[Path]:
    """Return the files of a job's folder that are ours but for manifest and lock; nothing else is ever removed."""
    return [
        item
        for item in folder.iterdir()
        # With a dot before and letters after: `replacing` was writing it.
        if re.match(rf"part-\d{{5}}\.parquet$|\.part-\d{{5}}\.parquet\.|\.{MANIFEST}\.|({ROWS}|{WHOLE})$", item.name)
    ]


def discard(folder: Path) -> None:
    """Remove a job's files. The manifest goes first: without it, what is left after a kill counts for nothing."""
    if not folder.is_dir():
        return  # somebody has removed it
    (folder / MANIFEST).unlink(missing_ok=True)
    for item in _own(folder):
        item.unlink()
    (folder / LOCK).unlink(missing_ok=True)
    with suppress(OSError):  # something else lies in it
        folder.rmdir()


def _part(folder: Path, place: int, suffix: str) -> Path:
    return folder / f"part-{place:05d}{suffix}"


def _take_up(work: Work, target: Path) -> None:
    """Add the finished parts of the same job to a work; refuse those of another."""
    path = work.folder / MANIFEST
    hint = f"remove the folder {work.folder}, or start anew with --restart"
    if not path.exists():
        return
    try:
        with path.open("rb") as stream:
            body = json.loads(stream.read(MAX_BYTES))
        parts = [Done(**one) for one in body["parts"]]
        before, known, whole = body["job"], body["sources"], body.get("whole")
        version = body["version"]
        if not all(type(number) is int and number >= 0 for part in parts for number in asdict(part).values()):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise DataError(f"cannot go on: {path} is damaged; {hint}") from None
    if version != VERSION or before != work.job:
        raise DataError(
            f"cannot go on: {work.folder} holds parts of another job (policy, options or version); {hint}"
        )
    used = max((part.sources for part in parts), default=0)
    if known[:used] != work.sources[:used]:
        raise DataError(f"cannot go on: a file that finished parts in {work.folder} came from has changed; {hint}")
    if whole is not None and not work.rows_file.exists():
        # It was put in place; if it is there no more, somebody has taken it away since, and wants it anew.
        work.delivered = _known(target) == tuple(whole)
        work.parts = parts if work.delivered else []
        return
    work.parts = parts
    if work.suffix is None:
        there = _bytes(work.rows_file) >= sum(work.sizes)
    else:
        there = [_bytes(file) for file in work.files] == work.sizes
    if parts and not there:
        raise DataError(
            f"cannot go on: a finished part in {work.folder} is missing, or is not as long as it was; {hint}"
        )


def _bytes(path: Path) -> int:
    """Return a file's size, -1 where there is none."""
    return path.stat().st_size if path.is_file() else -1


def _known(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from others after it was renamed; None where there is none."""
    if not path.is_file():
        return None
    state = path.stat()
    return state.st_ino, state.st_size


@contextmanager
def _locked(folder: Path, target: Path) -> Iterator[None]:
    """Make a folder and keep other processes out; the system lets go when this one ends, however it ends."""
    with writing(target):
        handle = _lock(folder, target)
    try:
        yield
    finally:
        handle.close()


def _lock(folder: Path, target: Path) -> TextIO:
    while True:
        _made(folder, target)
        handle = (folder / LOCK).open("w")
        try:
            import fcntl
        except ImportError:  # Windows: two runs at once are not noticed there
            return handle
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            raise DataError(f"cannot go on: another process is at work in {folder}") from None
        # The process that had it may have removed folder and file since they were opened here.
        if _known(folder / LOCK) == (os.fstat(handle.fileno()).st_ino, 0):
            return handle
        handle.close()
