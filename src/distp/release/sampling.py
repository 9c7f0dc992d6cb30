"""Drawing tuples with integers only, from a source of uniform 64-bit words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distp.checks import IntArray
from distp.errors import ParameterError
from distp.mechanisms import Tupling
from distp.release.entropy import CHUNK, Source
from distp.release.weights import Weights, quantised

Tuples = NDArray[np.uint16] | NDArray[np.uint32]


class Alias(NamedTuple):
    """Rows of weights as tables for Walker's method, exact in integers.

    A row of n entries has the least power of two >= n of slots (two at least), each of 2^shift of the 2^64 words. Of
    the words of slot s, ``threshold[s]`` belong to column ``columns[2 s]`` and the rest to ``columns[2 s + 1]``.

    Attributes
    ----------
    slots : ndarray of int, shape (rows + 1,)
        Where each row's slots begin.
    shift : ndarray of uint64, shape (rows,)
    threshold : ndarray of uint64, shape (slots,)
    columns : ndarray of uint32, shape (2 slots,)
    """

    slots: IntArray
    shift: NDArray[np.uint64]
    threshold: NDArray[np.uint64]
    columns: NDArray[np.uint32]

    @classmethod
    def of(cls, weights: Weights) -> Alias:
        """Share out every row's weights among its slots."""
        from distp.release.draws import alias_tables  # compiled: only whoever draws waits for that

        bits = np.array([max(1, int(size - 1).bit_length()) for size in np.diff(weights.starts)], dtype=np.int64)
        slots = np.concatenate([[0], np.cumsum(1 << bits)]).astype(np.int64)
        size = int(slots[-1])
        found = cls(
            slots,
            (64 - bits).astype(np.uint64),
            np.empty(size, np.uint64),
            np.empty(2 * size, np.uint32),
        )
        alias_tables(weights.starts, weights.columns, weights.values, weights.bits, *found)
        return found


@dataclass(frozen=True, eq=False)
class Sampler:
    """A tupling mechanism in integer weights, ready to draw.

    Attributes
    ----------
    channel : Weights
        Row x: the law of the real report of input x.
    dummies : Weights or None
        One row; None: uniform over all outputs.
    count : int
        Number of dummies.
    replacement : bool
        If not, the dummies are distinct, uniform over the outputs other than the real report, and each tuple is an
        unordered set, written in ascending order; ``dummies`` must be None.

    Raises
    ------
    ParameterError
        Without replacement: dummies with a law of their own, or more of them than other outputs.

    Notes
    -----
    Source: theory 3.3, Algorithm 1; without replacement, 4.7.
    """

    channel: Weights
    dummies: Weights | None
    count: int
    replacement: bool = True

    def __post_init__(self) -> None:
        if self.replacement:
            return
        if self.dummies is not None:
            raise ParameterError("dummies must be uniform (None) without replacement")
        if self.count > self.channel.width - 1:
            raise ParameterError(
                f"count must be at most {self.channel.width - 1} without replacement, got {self.count}"
            )

    @classmethod
    def of(cls, mechanism: Tupling) -> Sampler:
        """Round a mechanism to integer weights."""
        _, channel, dummies = quantised(mechanism)
        return cls(channel, dummies, mechanism.dummies, mechanism.replacement)

    def draw(self, inputs: IntArray, source: Source) -> Tuples:
        """Return a tuple for each input, the real report at a uniformly random place.

        Parameters
        ----------
        inputs : ndarray of int, shape (n,)
            Rows of the channel; not checked here.
        source : Source

        Returns
        -------
        ndarray of uint16 (or uint32 where there are more outputs), shape (n, count + 1)
        """
        out = np.empty((inputs.size, self.count + 1), np.uint16 if self.channel.width <= 2**16 else np.uint32)
        step = max(1, CHUNK // (8 * out.shape[1]))
        for first in range(0, inputs.size, step):
            rows = np.arange(first, min(first + step, inputs.size))
            if not self._filled(source, rows, inputs[rows], out[first : first + step]):
                for row in rows:  # one by one, so that a row's tuple does not depend on those around it
                    one, turn = np.array([row]), 0
                    while not self._filled(source, one, inputs[one], out[row : row + 1], turn):
                        turn += 2
        return out

    def _filled(self, source: Source, rows: IntArray, inputs: IntArray, out: Tuples, turn: int = 0) -> bool:
        """Draw into ``out``; return False where a word was refused, and everything is to be drawn again."""
        from distp.release.draws import distinct_tuples, insert_real, uniform_dummies, weighted_dummies

        width, places = self.channel.width, self.count + 1
        if not self.replacement:
            return not distinct_tuples(source.rows(rows, places, turn), inputs, width, *self._channel, out)
        words = source.rows(rows, places, turn).ravel()
        refused = False
        if self._dummies is None:
            refused = uniform_dummies(words, width, out.reshape(-1))
        else:
            weighted_dummies(words, *self._dummies[1:], out.reshape(-1))
        return not (insert_real(source.rows(rows, 2, turn + 1), inputs, *self._channel, out) or refused)

    # Tables do not travel when a policy is pickled: they are made where they are used.
    @cached_property
    def _channel(self) -> Alias:
        return Alias.of(self.channel)

    @cached_property
    def _dummies(self) -> Alias | None:
        return None if self.dummies is None else Alias.of(self.dummies)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
