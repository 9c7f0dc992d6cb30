"""Who a pair was estimated from: how often each person was in each input, with the attribute and without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from distp.checks import FloatArray, IntArray, nonnegative
from distp.errors import DistributionError, ParameterError

WEIGHTS = ("check-ins", "users")  # what counts as one: a check-in, or all check-ins of a person together


def check_weight(weight: str, name: str = "weight") -> str:
    """Refuse what is none of `WEIGHTS`."""
    if weight not in WEIGHTS:
        raise ParameterError(f"{name} must be one of {', '.join(WEIGHTS)}, got {weight!r}")
    return weight


@dataclass(frozen=True, eq=False)
class People:
    """Weights of persons (rows) in inputs (columns). They stay in memory: no policy file holds them.

    Attributes
    ----------
    with_attribute, without : csr_array, shape (people, |X|)
        A person who has no check-in of a class has an empty row in it.
    smoothing : float
        What was added to every input of both sums.
    numbers : ndarray of int, shape (people,), optional
        Who they are: the same number is the same person in all pairs of one file. Default: nobody is in two pairs.

    Examples
    --------
    >>> people = People(sparse.csr_array([[2.0, 0.0], [1.0, 1.0]]), sparse.csr_array([[0.0, 1.0], [0.0, 0.0]]))
    >>> len(people), [law.tolist() for law in people.laws()]
    (2, [[0.75, 0.25], [0.0, 1.0]])
    """

    with_attribute: sparse.csr_array
    without: sparse.csr_array
    smoothing: float = 0.0
    numbers: IntArray | None = None

    def __post_init__(self) -> None:
        nonnegative(self.smoothing, "smoothing")
        if self.with_attribute.shape != self.without.shape:
            raise DistributionError(
                f"people with and without the attribute: {self.with_attribute.shape} and {self.without.shape}"
            )
        for weights in (self.with_attribute, self.without):
            if weights.nnz == 0 or not np.isfinite(weights.data).all() or weights.data.min() <= 0:
                raise DistributionError("weights of people must be finite and > 0, and each class must have some")

    def __len__(self) -> int:
        return int(self.with_attribute.shape[0])

    @property
    def sums(self) -> tuple[FloatArray, FloatArray]:
        """What all persons together weigh in each input, smoothing included, of either class."""
        return tuple(  # type: ignore[return-value]
            np.asarray(weights.sum(axis=0), dtype=np.float64).ravel() + self.smoothing
            for weights in (self.with_attribute, self.without)
        )

    def laws(self) -> tuple[FloatArray, FloatArray]:
        """Return the two distributions, shape (|X|,) each."""
        p, q = self.sums
        return p / p.sum(), q / q.sum()

    def only(self, chosen: NDArray[np.bool_]) -> People | None:
        """Return these persons alone, with their share of the smoothing; None where they leave a class empty."""
        rows = np.flatnonzero(chosen)
        parts = self.with_attribute[rows], self.without[rows]
        if not all(part.nnz for part in parts):
            return None
        numbers = None if self.numbers is None else self.numbers[rows]
        return People(*parts, self.smoothing * rows.size / len(self), numbers)
