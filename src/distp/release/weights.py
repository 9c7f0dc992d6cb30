"""Probabilities as integer weights with a fixed total: what is drawn is exactly what was certified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from distp.checks import FloatArray, IntArray, frozen
from distp.errors import MechanismError
from distp.mechanisms import Channel, Tupling
from distp.mechanisms.base import Matrix
from distp.spaces import Space

BITS = 53  # weights and sums of them are exact in a double and in every JSON reader
FEW_BITS = 32  # where no probability is small: they make a policy file half as large
_SMALL = 2.0**-20  # rounding to 2^-32 moves what is larger by less than one in 8,000
TOTAL = 1 << BITS


@dataclass(frozen=True, eq=False)
class Weights:
    """Rows of integer weights, each summing to 2^bits, in CSR form.

    Attributes
    ----------
    starts : ndarray of int, shape (rows + 1,)
    columns, values : ndarray of int, shape (entries,)
    width : int
        Number of columns.
    bits : int
    """

    starts: IntArray
    columns: IntArray
    values: IntArray
    width: int
    bits: int = BITS

    @property
    def total(self) -> int:
        """What every row sums to."""
        return 1 << self.bits

    def __post_init__(self) -> None:
        entries = self.columns.size
        shape_ok = self.starts.ndim == 1 and self.starts.size >= 2 and self.values.shape == (entries,)
        if not shape_ok or self.starts[0] != 0 or self.starts[-1] != entries or (np.diff(self.starts) < 1).any():
            raise MechanismError("the rows of the weights do not fit their entries")
        if self.bits not in (FEW_BITS, BITS):
            raise MechanismError(f"weights must sum to 2^{FEW_BITS} or 2^{BITS}, not 2^{self.bits}")
        if (self.values < 1).any() or (self.values > self.total).any():
            raise MechanismError(f"weights must lie in 1..2^{self.bits}")
        if (self.columns < 0).any() or (self.columns >= self.width).any():
            raise MechanismError(f"columns must lie in 0..{self.width - 1}")
        for row in range(self.starts.size - 1):
            part = slice(self.starts[row], self.starts[row + 1])
            if int(self.values[part].sum(dtype=object)) != self.total:
                raise MechanismError(f"row {row} of the weights does not sum to 2^{self.bits}")
            if (np.diff(self.columns[part]) <= 0).any():
                raise MechanismError(f"row {row} of the weights names a column twice or out of order")
        for array in (self.starts, self.columns, self.values):
            frozen(array)

    @classmethod
    def of(cls, matrix: Matrix | FloatArray, bits: int = BITS) -> Weights:
        """Round each row to integers: down, with what is left over given to the row's largest entry.

        Probabilities below 2^-bits become 0, so a row's support can only shrink.
        """
        total = 1 << bits
        table = sparse.csr_array(np.atleast_2d(matrix) if isinstance(matrix, np.ndarray) else matrix)
        table.sort_indices()
        starts, columns, values = [0], [], []
        for row in range(table.shape[0]):
            part = slice(table.indptr[row], table.indptr[row + 1])
            # Scaling by a power of two is exact; the floor is then the only rounding.
            whole = np.floor(table.data[part] * total).astype(np.int64)
            whole[np.argmax(whole)] += total - int(whole.sum())
            kept = whole > 0
            columns.append(table.indices[part][kept].astype(np.int64))
            values.append(whole[kept])
            starts.append(starts[-1] + int(kept.sum()))
        return cls(np.array(starts), np.concatenate(columns), np.concatenate(values), int(table.shape[1]), bits)

    def matrix(self) -> sparse.csr_array:
        """Return the probabilities, exactly: weights over a power of two need no rounding."""
        shape = (self.starts.size - 1, self.width)
        return sparse.csr_array((self.values / self.total, self.columns, self.starts), shape=shape)

    def row(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the columns and cumulative weights of one row."""
        part = slice(self.starts[index], self.starts[index + 1])
        return self.columns[part], np.cumsum(self.values[part])


def enough_bits(mechanism: Tupling) -> int:
    """Return how many bits keep every probability of a mechanism to three digits at least."""
    matrix, law = mechanism.channel(), mechanism.dummy_distribution
    entries = matrix.data if isinstance(matrix, sparse.csr_array) else matrix
    least = min(float(part[part > 0].min()) for part in (np.asarray(entries), law))
    return FEW_BITS if least >= _SMALL else BITS


def quantised(mechanism: Tupling, bits: int = BITS) -> tuple[Tupling, Weights, Weights | None]:
    """Return the mechanism that integer sampling realises, with the weights of its channel and its dummies.

    Uniform dummies need no weights (``None``): they are drawn without bias for any number of outputs.
    """
    channel = Weights.of(mechanism.channel(), bits)
    law = mechanism.dummy_distribution
    uniform = bool((law == law[0]).all())
    dummies = None if uniform else Weights.of(law, bits)
    exact = from_weights(
        channel, dummies, mechanism.dummies, mechanism.inputs, mechanism.outputs, mechanism.replacement
    )
    return exact, channel, dummies


def from_weights(
    channel: Weights, dummies: Weights | None, count: int, inputs: Space, outputs: Space, replacement: bool = True
) -> Tupling:
    """Return the tupling mechanism of the given integer weights."""
    base = Channel(channel.matrix(), inputs, outputs)
    return Tupling(base, count, None if dummies is None else dummies.matrix().toarray()[0], replacement)
