"""The same person at the same place sends the same tuple: what makes repeated reports harmless.

Independent tuples from one place give it away together (theory 5.1): only its own region is in all of them. A tuple
that is drawn once and sent again tells nothing new. It need not be stored: a keyed hash of a local secret stands in
for the dice, so that drawing again gives the same.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from distp.checks import IntArray
from distp.errors import DataError, ParameterError, SpentError
from distp.files import flush_folder
from distp.release.entropy import Keyed
from distp.release.ledger import Ledger
from distp.release.policy import Policy
from distp.release.sampling import Tuples

SECRET_BYTES = 32


def open_secret(path: str | Path) -> bytes:
    """Return the secret in a file; where there is none, make one that only its owner may read.

    Whoever has it can tell which tuples are a person's, and from which regions; whoever loses it draws anew.

    Raises
    ------
    DataError
        The file cannot be read or written, or holds anything but a secret.
    """
    file = Path(path)
    try:
        made = file.with_name(f".{file.name}.{os.urandom(8).hex()}")
        if not file.exists():
            handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(handle, "w") as stream:
                    stream.write(os.urandom(SECRET_BYTES).hex() + "\n")
                    stream.flush()
                    os.fsync(stream.fileno())
                with suppress(FileExistsError):  # another process was quicker: its secret counts
                    file.hardlink_to(made)
            finally:
                made.unlink()
            flush_folder(file.parent)
        open_to_others = os.name == "posix" and file.stat().st_mode & 0o077
        text = file.read_text(encoding="ascii").strip()
        secret = bytes.fromhex(text)
    except OSError as error:
        raise DataError(f"cannot use the secret {file}: {error.strerror}") from None
    except ValueError:
        raise DataError(f"{file} holds no secret: expected {2 * SECRET_BYTES} hexadecimal digits") from None
    if open_to_others:
        raise DataError(f"others may read the secret {file}: let its owner alone read it (chmod 600)")
    if len(secret) != SECRET_BYTES:
        raise DataError(f"{file} holds no secret: expected {2 * SECRET_BYTES} hexadecimal digits")
    return secret


def plain(person: str) -> bytes:
    """Return a person's name as bytes: the same however it is spaced, and however its accents are composed.

    Raises
    ------
    ParameterError
        It is no text.
    """
    try:
        return unicodedata.normalize("NFC", person).strip().encode()
    except (TypeError, UnicodeEncodeError):
        raise ParameterError("a person must be named by text") from None


@dataclass(frozen=True)
class Memory:
    """What remembers tuples: a secret, a period, and perhaps a ledger of independent draws.

    Parameters
    ----------
    secret : bytes
        32 of them, as `open_secret` gives them.
    period : str
        What the memory lasts for, in any words: ``"2026-11"``. Within a period a person's tuple for a region stays
        the same; in another it is drawn independently. ``""``: for ever.
    ledger : Ledger, optional
        Counts each person's independent draws, and refuses further ones at its limit.

    Examples
    --------
    >>> from distp.release import Memory
    >>> Memory(bytes(32), "2026-11").period
    '2026-11'
    """

    secret: bytes = field(repr=False)
    period: str = ""
    ledger: Ledger | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or len(self.secret) != SECRET_BYTES:
            raise ParameterError(f"secret must be {SECRET_BYTES} bytes")
        if not isinstance(self.period, str):
            raise ParameterError(f"period must be text, got {self.period!r}")

    def release(self, policy: Policy, people: Sequence[str], inputs: IntArray) -> Tuples:
        """Return each person's tuple for an input region: drawn when first asked for, the same ever after.

        Parameters
        ----------
        policy : Policy
        people : sequence of str, length n
        inputs : ndarray of int, shape (n,)
            Input regions, as `Policy.locate` gives them, none of them -1.

        Returns
        -------
        ndarray of uint16 or uint32, shape (n, dummies + 1)

        Raises
        ------
        SpentError
            Somebody has no draws left; nothing of what was asked counts as spent then.
        OutsideError
            An entry that is no input region.
        """
        drawn, allowed = self._release(policy, people, inputs, whole=True)
        if not allowed.all():
            who = {person for person, well in zip(people, allowed.tolist(), strict=True) if not well}
            assert self.ledger is not None  # only a ledger refuses
            raise SpentError(
                f"{len(who):,} {'person has' if len(who) == 1 else 'people have'} no independent draw left of "
                f"{self.ledger.limit:,} (first: row {int(np.flatnonzero(~allowed)[0])})"
            )
        return drawn

    def release_allowed(
        self, policy: Policy, people: Sequence[str], inputs: IntArray
    ) -> tuple[Tuples, NDArray[np.bool_]]:
        """Return the same for those who have draws left, and who they are, shape (n,); the others' rows are 0."""
        return self._release(policy, people, inputs, whole=False)

    def _release(
        self, policy: Policy, people: Sequence[str], inputs: IntArray, *, whole: bool
    ) -> tuple[Tuples, NDArray[np.bool_]]:
        regions = policy.check_inputs(inputs)
        if len(people) != regions.size:
            raise ParameterError(f"{len(people)} people, but {regions.size} regions")
        about = [self._about(policy, person, region) for person, region in zip(people, regions.tolist(), strict=True)]
        first: dict[bytes, int] = {}
        place = np.array([first.setdefault(one, row) for row, one in enumerate(about)], dtype=np.int64)
        rows, back = np.unique(place, return_inverse=True)
        allowed = np.ones(rows.size, dtype=bool)
        if self.ledger is not None:
            allowed = self.ledger.spend(
                [self._mark(b"person", plain(people[row])) for row in rows],
                [self._mark(b"draw", about[row]) for row in rows],
                whole=whole,
            )
        drawn = policy.sampler.draw(regions[rows], Keyed(self.secret, [about[row] for row in rows]))
        drawn[~allowed] = 0
        return drawn[back], allowed[back]

    @property
    def name(self) -> str:
        """What tells memories of different secrets and periods apart, without telling the secret."""
        return self._mark(b"memory", self.period.encode()).hex()

    def spent(self, person: str) -> int:
        """Return how many independent draws a person has had; 0 without a ledger."""
        return 0 if self.ledger is None else self.ledger.spent(self._mark(b"person", plain(person)))

    def _about(self, policy: Policy, person: str, region: int) -> bytes:
        # Lengths first: no two questions look alike.
        parts = [bytes.fromhex(policy.identity), self.period.encode(), plain(person), region.to_bytes(8, "little")]
        return b"".join(len(part).to_bytes(8, "little") + part for part in parts)

    def __reduce__(self) -> str:
        raise TypeError("a memory holds a secret and is not pickled: open the secret where it is needed")

    def _mark(self, kind: bytes, what: bytes) -> bytes:
        """Return what stands in the ledger: without the secret it names neither person nor place."""
        return blake2b(what, key=self.secret, person=kind, digest_size=32).digest()
