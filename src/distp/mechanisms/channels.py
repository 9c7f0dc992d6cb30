"""Mechanisms that need no distance: any matrix, the identity, randomised response."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from distp.checks import FloatArray, nonnegative
from distp.errors import MechanismError
from distp.mechanisms.base import Matrix, Mechanism, positions, set_spaces
from distp.spaces import Space, as_space

ROW_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False, init=False)
class Channel(Mechanism):
    """Any finite mechanism, given by its matrix.

    Parameters
    ----------
    matrix : array_like or sparse, shape (|X|, |Y|)
        Row ``x`` is the law of the report of input ``x``. Sparse stays sparse (CSR).
    inputs, outputs : Space, optional
        What rows and columns stand for. Default: values without geometry.

    Raises
    ------
    MechanismError
        An entry that is negative or not finite, or a row that does not sum to 1 within 1e-9.

    Examples
    --------
    >>> Channel([[0.9, 0.1], [0.2, 0.8]]).lift([0.5, 0.5]).tolist()
    [0.55, 0.45]
    """

    inputs: Space
    outputs: Space

    def __init__(self, matrix: ArrayLike | Matrix, inputs: Space | None = None, outputs: Space | None = None) -> None:
        array: Matrix
        if sparse.issparse(matrix):
            array = sparse.csr_array(matrix, dtype=np.float64, copy=True)
            array.sum_duplicates()
            entries = array.data
        else:
            array = np.array(matrix, dtype=np.float64)
            if array.ndim != 2 or array.size == 0:
                raise MechanismError(f"a channel's matrix must have shape (inputs, outputs), got {array.shape}")
            entries = array.ravel()
        if not np.isfinite(entries).all() or (entries < 0).any():
            raise MechanismError("a channel's entries must be finite and >= 0")
        sums = np.asarray(array.sum(axis=1)).ravel()
        bad = np.flatnonzero(np.abs(sums - 1) > ROW_TOLERANCE)
        if bad.size:
            raise MechanismError(f"row {bad[0]} of the channel sums to {sums[bad[0]]!r}, not to 1")
        rows, columns = array.shape
        if inputs is None and outputs is None and rows == columns:
            inputs = outputs = Space.discrete(rows)
        source = Space.discrete(rows) if inputs is None else as_space(inputs, "inputs")
        target = Space.discrete(columns) if outputs is None else as_space(outputs, "outputs")
        if (rows, columns) != (len(source), len(target)):
            raise MechanismError(
                f"the matrix has shape {array.shape}, but there are {len(source)} inputs, {len(target)} outputs"
            )
        object.__setattr__(self, "inputs", source)
        object.__setattr__(self, "outputs", target)
        object.__setattr__(self, "_entries", array)

    def _build(self) -> Matrix:
        entries: Matrix = self._entries  # type: ignore[attr-defined]
        return entries


@dataclass(frozen=True, eq=False)
class Identity(Mechanism):
    """The report is the value itself: no protection, unless dummies surround it.

    Parameters
    ----------
    inputs : Space, int or points
    outputs : Space, optional
        Must hold every input. Default: the inputs.

    Examples
    --------
    >>> Identity(2).channel().toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    inputs: Space
    outputs: Space = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        set_spaces(self, self.inputs, self.outputs)

    def _build(self) -> Matrix:
        n = len(self.inputs)
        return sparse.csr_array(
            (np.ones(n), positions(self), np.arange(n + 1)), shape=(n, len(self.outputs)), dtype=np.float64
        )


@dataclass(frozen=True, eq=False)
class RandomizedResponse(Mechanism):
    """Tell the truth with probability e^eps / (e^eps + |Y| - 1), else any other output, all alike.

    Parameters
    ----------
    inputs : Space, int or points
    epsilon : float
        Log of the ratio between the true output's probability and another's, >= 0.
    outputs : Space, optional
        Must hold every input. Default: the inputs.

    Notes
    -----
    Source: Warner's randomised response over |Y| values (theory 6.4).

    Examples
    --------
    >>> import math
    >>> RandomizedResponse(4, math.log(9)).channel()[0].round(6).tolist()
    [0.75, 0.083333, 0.083333, 0.083333]
    """

    inputs: Space
    epsilon: float
    outputs: Space = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        set_spaces(self, self.inputs, self.outputs)
        object.__setattr__(self, "epsilon", nonnegative(self.epsilon, "epsilon"))

    def _build(self) -> FloatArray:
        n, others = len(self.inputs), len(self.outputs) - 1
        # exp(-eps) neither overflows nor loses the small probability of a lie at large epsilon.
        lie = math.exp(-self.epsilon) / (1 + others * math.exp(-self.epsilon))
        matrix = np.full((n, others + 1), lie)
        matrix[np.arange(n), positions(self)] = 1 / (1 + others * math.exp(-self.epsilon))
        return matrix
