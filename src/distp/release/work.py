"""A job in parts that survives being killed at any instant: finished parts wait in a folder beside the target.

The folder ``<target>.partial`` holds a manifest and whole parts. A part is written under another name, flushed to the
disk and renamed; then the manifest that counts it is replaced in the same way. Whatever is not in the manifest was
never finished, and is done anew. The target itself appears by one renaming, at the very end.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from distp.errors import DataError
from distp.files import flush_folder, replacing

# Readers of folders of tables leave alone what begins so.
MANIFEST, LOCK = "_manifest.json", "_lock"
VERSION = 1
MAX_BYTES = 1 << 28


@dataclass(frozen=True)
class Done:
    """A finished part.

    Attributes
    ----------
    name : str
        Of its file.
    rows, empty, size : int
        How many rows it has, how many of them without a report, and bytes.
    sources : int
        How many of the job's source files were read for it and for the parts before it, the last perhaps in part.
    """

    name: str
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
    parts : list of Done
    """

    folder: Path
    job: dict[str, Any]
    sources: list[dict[str, Any]]
    parts: list[Done] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows in finished parts."""
        return sum(part.rows for part in self.parts)

    @property
    def empty(self) -> int:
        """Rows without a report in finished parts."""
        return sum(part.empty for part in self.parts)

    @property
    def files(self) -> list[Path]:
        """The finished parts, in order."""
        return [self.folder / part.name for part in self.parts]

    def add(self, suffix: str, write: Callable[[Path], None], rows: int, empty: int, sources: int) -> None:
        """Write one more part, all or nothing, and count it."""
        path = self.folder / f"part-{len(self.parts):05d}{suffix}"
        with replacing(path) as temporary:
            write(temporary)
        self._count([*self.parts, Done(path.name, rows, empty, path.stat().st_size, sources)])

    def _count(self, parts: list[Done]) -> None:
        body = {"version": VERSION, "job": self.job, "sources": self.sources, "parts": [asdict(one) for one in parts]}
        with replacing(self.folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(body) + "\n", encoding="utf-8")
        flush_folder(self.folder)
        self.parts = parts

    def deliver(self, write: Callable[[Path], None], target: Path) -> None:
        """Write a whole file in the folder, and let it take the place of ``target``."""
        temporary = self.folder / "_whole"
        try:
            write(temporary)
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            temporary.replace(target)
        except OSError as error:
            raise DataError(f"cannot write {target}: {error.strerror or error}") from None
        flush_folder(target.parent)

    def become(self, target: Path) -> None:
        """Let the folder itself take the place of ``target``: whole, at once."""
        (self.folder / MANIFEST).unlink()
        try:
            self.folder.replace(target)
        except OSError as error:
            raise DataError(f"cannot write {target}: {error.strerror}") from None
        (target / LOCK).unlink(missing_ok=True)
        flush_folder(target.parent)

    def discard(self) -> None:
        """Remove the folder and all parts."""
        discard(self.folder)


@contextmanager
def working(target: Path, job: dict[str, Any], sources: list[dict[str, Any]], *, restart: bool) -> Iterator[Work]:
    """Open the folder of a job, with the parts that an interrupted run finished.

    Without a finished part, the folder is removed when the job fails.

    Raises
    ------
    DataError
        Another process is at work on it; or there are parts of another job, or of files that have changed since.
    """
    folder = target.with_name(f"{target.name}.partial")
    _made(folder, target)
    with _locked(folder):
        if restart:
            (folder / MANIFEST).unlink(missing_ok=True)
        work = Work(folder, job, sources, _finished(folder, job, sources))
        counted = {part.name for part in work.parts}
        for item in _own(folder):  # what a killed run was writing, or had begun to throw away
            if item.name not in counted:
                item.unlink()
        try:
            yield work
        finally:
            if not work.parts:
                work.discard()


def _made(folder: Path, target: Path) -> None:
    """Make the folder of a job; one that is there already must be that of a job."""
    try:
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise DataError(f"cannot write {target}: {folder} is in the way")
        if folder.exists() and not (folder / LOCK).exists() and any(folder.iterdir()):
            raise DataError(f"cannot write {target}: the folder {folder} is in the way, and not that of a job")
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror}") from None


def _own(folder: Path) -> list[Path]:
    """Return the files of a job's folder that are ours but for manifest and lock; nothing else is ever removed."""
    return [
        item for item in folder.iterdir() if re.match(r"part-\d{5}\.|\.part-\d{5}\.|\._manifest|_whole$", item.name)
    ]


def discard(folder: Path) -> None:
    """Remove a job's files. The manifest goes first: without it, what is left after a kill counts for nothing."""
    if not folder.is_dir():
        return  # it has become the target
    (folder / MANIFEST).unlink(missing_ok=True)
    for item in _own(folder):
        item.unlink()
    (folder / LOCK).unlink(missing_ok=True)
    with suppress(OSError):  # something else lies in it
        folder.rmdir()


def _finished(folder: Path, job: dict[str, Any], sources: list[dict[str, Any]]) -> list[Done]:
    """Return the finished parts of the same job; refuse those of another."""
    path = folder / MANIFEST
    hint = f"remove the folder {folder}, or start anew with --restart"
    if not path.exists():
        return []
    try:
        with path.open("rb") as stream:
            body = json.loads(stream.read(MAX_BYTES))
        parts = [Done(**one) for one in body["parts"]]
        before, known = body["job"], body["sources"]
        version = body["version"]
        for place, part in enumerate(parts):
            numbers = (part.rows, part.empty, part.size, part.sources)
            named = re.fullmatch(rf"part-{place:05d}\.[a-z]+", part.name)
            if not named or not all(type(number) is int and number >= 0 for number in numbers):
                raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"cannot go on: {path} is damaged; {hint}") from None
    if version != VERSION or before != job:
        raise DataError(f"cannot go on: {folder} holds parts of another job (policy, options or version); {hint}")
    used = max((part.sources for part in parts), default=0)
    if known[:used] != sources[:used]:
        raise DataError(f"cannot go on: a file that finished parts in {folder} came from has changed; {hint}")
    if not all((path := folder / part.name).is_file() and path.stat().st_size == part.size for part in parts):
        raise DataError(f"cannot go on: a finished part in {folder} is missing, or has changed; {hint}")
    return parts


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes out; the system lets go when this one ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows: two runs at once are not noticed there
        yield
        return
    with (folder / LOCK).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataError(f"cannot go on: another process is at work in {folder}") from None
        yield
