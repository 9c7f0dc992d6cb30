"""What a transport problem answers: couplings, and the objects that hold them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from distp.checks import FloatArray, IntArray, frozen
from distp.errors import ParameterError

MAX_DENSE = 1 << 28  # entries of a coupling as a matrix


@dataclass(frozen=True, eq=False)
class Plan:
    """A coupling of two distributions: how much of each input's mass goes where.

    Attributes
    ----------
    sources, targets : ndarray of int64, shape (arcs,)
        From where to where, each pair once, in order.
    units : ndarray of int64, shape (arcs,)
        Mass in whole units, > 0.
    total : int
        Units of the whole distribution: masses are ``units / total``, and sums of units are exact.
    shape : (int, int)
    """

    sources: IntArray
    targets: IntArray
    units: IntArray
    total: int
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        for array in (self.sources, self.targets, self.units):
            frozen(array)

    @classmethod
    def of(cls, sources: IntArray, targets: IntArray, units: IntArray, total: int, shape: tuple[int, int]) -> Plan:
        """Make a plan of arcs in any order, the same pair any number of times, zeros included."""
        key = sources.astype(np.int64) * shape[1] + targets
        order = np.argsort(key, kind="stable")
        key, units = key[order], units[order]
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if key.size else np.zeros(0, np.int64)
        sums = np.add.reduceat(units, first) if key.size else units
        keep = sums > 0
        pairs = key[first][keep]
        return cls(pairs // shape[1], pairs % shape[1], sums[keep], total, shape)

    @cached_property
    def masses(self) -> FloatArray:
        """The probability on each arc, shape (arcs,)."""
        masses: FloatArray = frozen(self.units / float(self.total))
        return masses

    def toarray(self) -> FloatArray:
        """Return the coupling as a matrix, shape ``self.shape``."""
        if self.shape[0] * self.shape[1] > MAX_DENSE:
            raise ParameterError(f"a coupling of shape {self.shape} is too large for a matrix: use its arcs")
        matrix = np.zeros(self.shape)
        matrix[self.sources, self.targets] = self.masses
        return matrix

    def marginals(self) -> tuple[IntArray, IntArray]:
        """Return the units that leave each input and that arrive at each output: exact."""
        left, right = (np.zeros(size, dtype=np.int64) for size in self.shape)
        np.add.at(left, self.sources, self.units)
        np.add.at(right, self.targets, self.units)
        return left, right

    def swapped(self) -> Plan:
        """Return the same with inputs and outputs exchanged."""
        return Plan.of(self.targets, self.sources, self.units, self.total, (self.shape[1], self.shape[0]))


@dataclass(frozen=True, eq=False)
class Transport:
    """The least cost of turning one distribution into another, and a coupling that has it.

    Attributes
    ----------
    value : float
        W_inf, W^slack, W_1 or a cost, in the unit of the distances.
    lower : float
        What is proven of the least value: equal to ``value`` for W_inf; for costs below it by rounding, relative to
        the largest cost.
    coupling : Plan
        Optimal; its marginals are the distributions', exactly in units.
    pair : (int, int) or None
        W_inf: a pair of the coupling at distance ``value``. None where nothing has to move any distance that counts.
    left : Fraction
        Mass that the coupling moves further than ``value``: at most the slack.
    error : float
        Total variation between the distributions given and their whole units, at most.
    """

    value: float
    lower: float
    coupling: Plan = field(repr=False)
    pair: tuple[int, int] | None = None
    left: Fraction = Fraction(0)
    error: float = 0.0


@dataclass(frozen=True, eq=False)
class Lifted:
    """Whether two distributions are in a lifted relation, with the proof of either answer.

    Attributes
    ----------
    holds : bool
    coupling : Plan or None
        Supported on the relation.
    witness : ndarray of int64 or None
        Inputs S with ``p[S] > q[relation(S)]``.
    excess : Fraction
        ``p[S] - q[relation(S)]``: the mass that no coupling can place; 0 if the relation holds.
    """

    holds: bool
    coupling: Plan | None = field(repr=False)
    witness: IntArray | None
    excess: Fraction
