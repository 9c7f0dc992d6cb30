"""What every mechanism is: inputs, outputs, and the channel of one report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from distp.checks import FloatArray, distribution
from distp.errors import MechanismError, SpaceError
from distp.spaces import Space, as_space

# scipy ships no types, so the sparse half is unchecked.
Matrix: TypeAlias = FloatArray | sparse.csr_array


class Mechanism(ABC):
    """A randomised map from inputs to reports.

    Subclasses are frozen dataclasses: what they mean is fixed by their fields. ``_build`` makes the matrix,
    once; `channel` hands it out.
    """

    inputs: Space
    outputs: Space

    @abstractmethod
    def _build(self) -> Matrix:
        """Make the matrix of one report, shape (|X|, |Y|), rows summing to 1 within 1e-12."""

    @cached_property
    def _matrix(self) -> Matrix:
        matrix = self._build()
        data = matrix.data if isinstance(matrix, sparse.csr_array) else matrix
        if isinstance(data, np.ndarray):
            data.setflags(write=False)
        return matrix

    def channel(self) -> Matrix:
        """Return the matrix of one report, shape (|X|, |Y|): row ``x`` is the law of the report of ``x``.

        Returns
        -------
        ndarray or scipy.sparse.csr_array
            Sparse where the mechanism is; read-only.
        """
        return self._matrix

    def lift(self, p: ArrayLike) -> FloatArray:
        """Return the law of the report when the input is drawn from ``p`` (shape (|X|,)), shape (|Y|,).

        Source: theory section 1, the lifting A^#.
        """
        vector = distribution(p, len(self.inputs), "p")
        return np.asarray(vector @ self.channel(), dtype=np.float64)

    def __getstate__(self) -> dict[str, object]:
        # The matrix follows from the fields; it need not travel.
        return {name: value for name, value in self.__dict__.items() if name != "_matrix"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)


def set_spaces(mechanism: Mechanism, inputs: object, outputs: object) -> None:
    """Turn what a constructor was given into spaces, and keep them on the frozen mechanism."""
    source = as_space(inputs, "inputs")  # type: ignore[arg-type]
    target = source if outputs is None else as_space(outputs, "outputs")  # type: ignore[arg-type]
    object.__setattr__(mechanism, "inputs", source)
    object.__setattr__(mechanism, "outputs", target)


def positions(mechanism: Mechanism) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return where each input stands among the outputs."""
    if mechanism.inputs is mechanism.outputs:
        return np.arange(len(mechanism.inputs), dtype=np.int64)
    try:
        return mechanism.inputs.positions_in(mechanism.outputs)
    except SpaceError as error:
        raise MechanismError(f"{type(mechanism).__name__} needs every input among the outputs: {error}") from None
