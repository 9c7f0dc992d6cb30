"""How many independent draws each person has had: a count that no crash loses, and a limit that it enforces."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from distp.checks import count
from distp.errors import DataError, ParameterError

_WAIT = 60.0  # seconds, for another process that is writing


@dataclass(frozen=True)
class Ledger:
    """A small SQLite file of draws. It keeps marks of persons and draws, neither names nor places.

    Parameters
    ----------
    path : str or Path
        Made when first used.
    limit : int
        Independent draws that each person may have.

    Notes
    -----
    A draw is on the disk before its tuple can leave. A crash in between leaves a draw counted that nobody saw; asking
    again gives the same tuple and counts nothing. No connection is kept: processes and threads may share a ledger.
    """

    path: str | Path
    limit: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", count(self.limit, "limit"))

    def spend(self, people: Sequence[bytes], draws: Sequence[bytes], *, whole: bool = False) -> NDArray[np.bool_]:
        """Count new draws, in order, and say which are allowed: known ones always, new ones below the limit.

        Parameters
        ----------
        people, draws : sequence of bytes, length n
            Marks of the person and of the draw.
        whole : bool
            Count nothing if one of them is refused.
        """
        if len(people) != len(draws):
            raise ParameterError(f"{len(people)} people, but {len(draws)} draws")
        allowed = np.ones(len(draws), dtype=bool)
        with self._open() as base:
            base.execute("BEGIN IMMEDIATE")  # reading the count and writing the draw are one step
            for row, (person, draw) in enumerate(zip(people, draws, strict=True)):
                if base.execute("SELECT 1 FROM draws WHERE draw = ?", (draw,)).fetchone():
                    continue
                had = base.execute("SELECT draws FROM people WHERE person = ?", (person,)).fetchone()
                if (had[0] if had else 0) >= self.limit:
                    allowed[row] = False
                    continue
                base.execute("INSERT INTO draws VALUES (?)", (draw,))
                base.execute(
                    "INSERT INTO people VALUES (?, 1) ON CONFLICT (person) DO UPDATE SET draws = draws + 1", (person,)
                )
            base.execute("ROLLBACK" if whole and not allowed.all() else "COMMIT")
        return allowed

    def spent(self, person: bytes) -> int:
        """Return how many draws a person (by the mark) has had."""
        with self._open() as base:
            found = base.execute("SELECT draws FROM people WHERE person = ?", (person,)).fetchone()
        return int(found[0]) if found else 0

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            # Absolute: ":memory:" and "" would be ledgers that forget.
            base = sqlite3.connect(Path(self.path).absolute(), timeout=_WAIT, isolation_level=None)
        except sqlite3.Error as error:
            raise DataError(f"cannot use the ledger {self.path}: {error}") from None
        try:
            base.execute("PRAGMA synchronous = FULL")
            base.execute("CREATE TABLE IF NOT EXISTS draws (draw BLOB PRIMARY KEY) WITHOUT ROWID")
            base.execute("CREATE TABLE IF NOT EXISTS people (person BLOB PRIMARY KEY, draws INTEGER) WITHOUT ROWID")
            yield base
        except sqlite3.Error as error:
            raise DataError(f"cannot use the ledger {self.path}: {error}") from None
        finally:
            base.close()
