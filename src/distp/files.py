"""Writing files so that a reader sees the old one or the whole new one, never a part."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distp.errors import DataError


def check_target(path: str | Path, *sources: str | Path) -> None:
    """Refuse, before any work, a file that cannot be written or that would replace one of the ``sources``.

    Raises
    ------
    DataError
        It is a folder, its folder does not exist, or it is one of the inputs.
    """
    target = Path(path)
    if not target.name or target.is_dir():
        raise DataError(f"cannot write {str(path)!r}: it is a folder")
    if not target.parent.is_dir():
        raise DataError(f"cannot write {target}: there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"cannot write {target}: its folder is not writable")
    for source in map(Path, sources):
        inside = source.iterdir() if source.is_dir() else [source]
        if target.exists() and any(file.exists() and target.samefile(file) for file in inside):
            raise DataError(f"cannot write {target}: it is the input, which would be lost")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; what was written there takes its place if no error occurs.

    Raises
    ------
    DataError
        The folder does not exist or cannot be written to.
    """
    target = Path(path)
    if target.is_dir():
        raise DataError(f"cannot write {target}: it is a folder")
    with writing(target):
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            take_place(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Say by the file's name, and in the system's words, why it cannot be written."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}") from error


def take_place(temporary: Path, target: Path) -> None:
    """Flush a file to the disk and let it take the place of ``target``, with the permissions that one had."""
    with temporary.open("rb+") as written:
        os.fsync(written.fileno())
    temporary.chmod(target.stat().st_mode & 0o777 if target.is_file() else 0o666 & ~_umask())
    temporary.replace(target)


def _umask() -> int:
    # There is no way to read the mask but to set it; mkstemp's 0600 is too narrow for a file to be shared.
    mask = os.umask(0)
    os.umask(mask)
    return mask


def flush_folder(folder: Path) -> None:
    """Make renamings in a folder last through a loss of power."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
