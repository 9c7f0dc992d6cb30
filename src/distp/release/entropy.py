"""Where the randomness of reports comes from: uniform 64-bit words that nobody can predict, or that anybody can."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from distp.checks import IntArray

Words = NDArray[np.uint64]

CHUNK = 1 << 18  # bytes of keystream from one key: large enough to be fast, small enough for the processor's cache


class Source(Protocol):
    """Uniform 64-bit words for the rows of a batch."""

    def rows(self, rows: IntArray, each: int, turn: int) -> Words:
        """Return ``each`` words for every one of ``rows``, shape (len(rows), each), none of them used before.

        A source that gives a row the same words whenever it is asked tells rows and turns apart by these numbers.
        """


class Stream:
    """A source to which all rows are alike."""

    def rows(self, rows: IntArray, each: int, turn: int) -> Words:  # noqa: ARG002 - fresh words every time
        """Return ``each`` fresh words for every one of ``rows``."""
        return self.words(rows.size * each).reshape(rows.size, each)

    def words(self, size: int) -> Words:
        """Return ``size`` independent uniform words."""
        raise NotImplementedError


class SystemEntropy(Stream):
    """The only source of anything released: AES-256 in counter mode, keyed anew by the operating system.

    It holds no state. Every call takes fresh keys from `os.urandom`, one for each quarter of a megabyte, and forgets
    them; so threads, forked and spawned processes share none, a pickle holds none, and whoever reads the memory
    afterwards learns nothing about what was drawn before.
    """

    def words(self, size: int) -> Words:
        """Return ``size`` independent uniform words."""
        return keystream(8 * size, lambda: os.urandom(32)).view(np.uint64)


class Seeded(Stream):
    """A reproducible source, for simulations; never for release.

    Attributes
    ----------
    generator : str
        Name of the generator: its words are public knowledge once the seed is.
    """

    generator = "PCG64"

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def words(self, size: int) -> Words:
        """Return the next ``size`` words of the seeded stream."""
        return self._generator.integers(0, 2**64 - 1, size=size, dtype=np.uint64, endpoint=True)


class Keyed:
    """Words that depend on a secret and on what each row is about: the same row gets the same words for ever.

    To whoever does not know the secret they are as good as random: BLAKE2b with a key (RFC 7693).

    Attributes
    ----------
    secret : bytes
    about : sequence of bytes
        One for every row of the batch; rows that are about the same are drawn alike.
    """

    def __init__(self, secret: bytes, about: Sequence[bytes]) -> None:
        self._secret, self._about = secret, about

    def rows(self, rows: IntArray, each: int, turn: int) -> Words:
        """Return the words of these rows, independent of those of other turns."""
        blocks = -(-each // 8)
        places = [turn.to_bytes(8, "little") + block.to_bytes(8, "little") for block in range(blocks)]
        found = bytearray()
        for row in rows.tolist():
            whole = b"".join(blake2b(place + self._about[row], key=self._secret).digest() for place in places)
            found += whole[: 8 * each]
        return np.frombuffer(bytes(found), dtype="<u8").astype(np.uint64, copy=False).reshape(rows.size, each)


def keystream(size: int, next_key: Callable[[], bytes]) -> NDArray[np.uint8]:
    """Return ``size`` bytes of AES-256 in counter mode, under one key of 32 bytes for each `CHUNK` of them."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    result = np.zeros(size, dtype=np.uint8)
    for first in range(0, size, CHUNK):
        part = memoryview(result[first : first + CHUNK])  # type: ignore[arg-type]
        # A key is used once, so its counter may start at 0 always.
        Cipher(algorithms.AES(next_key()), modes.CTR(bytes(16))).encryptor().update_into(part, part)
    return result
