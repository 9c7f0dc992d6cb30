"""Check-ins with and without an attribute, as region numbers: what two distributions are estimated from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from distp.checks import FloatArray, IntArray, nonnegative
from distp.distributions import Pair, People, Support
from distp.distributions.people import check_weight
from distp.errors import DataError

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sample:
    """The check-ins of a file that an attribute divides, each in its input region.

    Attributes
    ----------
    name : str
        The attribute, in words.
    size : int
        Number of input regions.
    inputs : ndarray of int, shape (n,)
        Input region of each check-in.
    holds : ndarray of bool, shape (n,)
        Whether the check-in has the attribute.
    users : ndarray of int, shape (n,), or None
        A number for the person of each check-in; None where the file names nobody.
    weight : {"check-ins", "users"}
        Whether every check-in counts alike, or every person (whose check-ins of a class share a weight of 1).
    condition : str
        What divides them, in SQL: the same rule for other data.
    """

    name: str
    size: int
    inputs: IntArray
    holds: BoolArray
    users: IntArray | None = None
    weight: str = "check-ins"
    condition: str = ""

    def __post_init__(self) -> None:
        check_weight(self.weight)
        if self.weight == "users" and self.users is None:
            raise DataError("weighting by users needs the person of each check-in: name the column with --user")

    def __len__(self) -> int:
        return int(self.inputs.size)

    def pair(self, smoothing: float = 0.0) -> Pair:
        """Return the two distributions, with the counts they come from.

        Parameters
        ----------
        smoothing : float
            Added to the weight of every input region, in check-ins (or users); 0 leaves the counts alone.

        Raises
        ------
        DataError
            One of the two classes has no check-in.
        """
        return _pair(self.name, self, self.holds, nonnegative(smoothing, "smoothing"))

    def split(self, seed: int, share: float = 0.5) -> tuple[Sample, Sample]:
        """Return two parts with different people in them (different check-ins, where the file names nobody).

        Parameters
        ----------
        seed : int
        share : float
            Of the people, how many go to the first part.
        """
        first = _members(self.users, np.ones(len(self), dtype=bool), seed, share)
        return self._only(first), self._only(~first)

    def halves(self, holds: bool, seed: int) -> Pair:
        """Return two random halves of the people of *one* class as a pair: the noise floor.

        The two are equal but for chance, so any distance between them is what chance alone makes.
        """
        chosen = self.holds == holds
        first = _members(self.users, chosen, seed, 0.5)
        part = self._only(chosen)
        return _pair(
            f"{self.name}: two halves of those {'with' if holds else 'without'} it", part, first[chosen], 0.0
        )

    def _only(self, chosen: BoolArray) -> Sample:
        users = None if self.users is None else self.users[chosen]
        return replace(self, inputs=self.inputs[chosen], holds=self.holds[chosen], users=users)


def _members(users: IntArray | None, chosen: BoolArray, seed: int, share: float) -> BoolArray:
    """Draw a share of the people among the chosen check-ins; return which check-ins are theirs."""
    rng = np.random.default_rng(seed)
    everybody = np.flatnonzero(chosen) if users is None else np.unique(users[chosen])
    drawn = rng.permutation(everybody)[: round(share * everybody.size)]
    member = np.zeros(chosen.size if users is None else int(users.max(initial=-1)) + 1, dtype=bool)
    member[drawn] = True
    return member if users is None else member[users]


def _pair(name: str, sample: Sample, holds: BoolArray, smoothing: float) -> Pair:
    laws, supports = [], []
    for label, member in (("with", holds), ("without", ~holds)):
        if not member.any():
            raise DataError(f"attribute {name!r}: no check-in {label} it lies in the input regions")
        inputs = sample.inputs[member]
        people = None if sample.users is None else sample.users[member]
        counts = np.bincount(inputs, minlength=sample.size)
        mass = _by_person(inputs, people, sample.size) if sample.weight == "users" else counts.astype(np.float64)
        mass = mass + smoothing
        laws.append(mass / mass.sum())
        known = None if people is None else int(np.unique(people).size)
        supports.append(Support(int(inputs.size), known, tuple(counts.tolist())))
    who = None if sample.users is None else _people(sample, holds, smoothing)
    return Pair(name, laws[0], laws[1], supports[0], supports[1], who)


def _people(sample: Sample, holds: BoolArray, smoothing: float) -> People:
    assert sample.users is not None
    known, rows = np.unique(sample.users, return_inverse=True)
    weights = []
    for member in (holds, ~holds):
        each = np.ones(int(member.sum()))
        if sample.weight == "users":
            each = 1 / np.bincount(rows[member], minlength=known.size)[rows[member]]
        shape = known.size, sample.size
        weights.append(sparse.csr_array((each, (rows[member], sample.inputs[member])), shape=shape))
    return People(weights[0], weights[1], smoothing, known)


def _by_person(inputs: IntArray, people: IntArray | None, size: int) -> FloatArray:
    assert people is not None  # the constructor of Sample sees to it
    each = np.bincount(people)
    mass: FloatArray = np.bincount(inputs, weights=1 / each[people], minlength=size).astype(np.float64)
    return mass
