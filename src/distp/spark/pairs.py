"""From counts by region and person to a pair: what `distp.data.samples` does from single check-ins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from distp.checks import FloatArray, IntArray
from distp.distributions import Pair, People, Support
from distp.errors import DataError


@dataclass(frozen=True, eq=False)
class Class:
    """The check-ins of one class of an attribute, counted by region; by person too, where ``numbers`` are there.

    Attributes
    ----------
    regions, rows : ndarray of int, shape (n,)
        An input region, and how many check-ins.
    mass : ndarray, shape (n,)
        What they weigh together.
    people : int or None
        Different people; None where nobody is named.
    numbers : ndarray of int, shape (n,), or None
        The person.
    """

    regions: IntArray
    rows: IntArray
    mass: FloatArray
    people: int | None = None
    numbers: IntArray | None = None

    @classmethod
    def by_person(cls, regions: IntArray, rows: IntArray, numbers: IntArray, weight: str) -> Class:
        """Make one from a table of people."""
        if weight == "users":
            mass = np.asarray(rows / np.bincount(numbers, weights=rows)[numbers], dtype=np.float64)
        else:
            mass = rows.astype(np.float64)
        return cls(regions, rows, mass, int(np.unique(numbers).size), numbers)

    def by_region(self, values: FloatArray | IntArray, size: int) -> FloatArray:
        """Add up values of the rows in each region, shape (size,)."""
        return np.bincount(self.regions, weights=values, minlength=size).astype(np.float64)


def make_pair(name: str, classes: tuple[Class, Class], size: int, smoothing: float) -> Pair:
    """Return the pair of an attribute from those with it and those without.

    Parameters
    ----------
    name : str
    classes : tuple of Class
    size : int
        Number of input regions.
    smoothing : float
        Added to the weight of every input region.

    Raises
    ------
    DataError
        One of the two classes has no check-in.
    """
    laws, supports = [], []
    for label, one in zip(("with", "without"), classes, strict=True):
        if not one.rows.size:
            raise DataError(f"attribute {name!r}: no check-in {label} it lies in the input regions")
        mass = one.by_region(one.mass, size) + smoothing
        laws.append(mass / mass.sum())
        counts = np.rint(one.by_region(one.rows, size)).astype(np.int64)
        supports.append(Support(int(counts.sum()), one.people, tuple(counts.tolist())))
    return Pair(name, laws[0], laws[1], supports[0], supports[1], _people(classes, size, smoothing))


def _people(classes: tuple[Class, Class], size: int, smoothing: float) -> People | None:
    numbers = [one.numbers for one in classes if one.numbers is not None]
    if len(numbers) < len(classes):
        return None
    known = np.unique(np.concatenate(numbers))
    weights = [
        sparse.csr_array((one.mass, (np.searchsorted(known, who), one.regions)), shape=(known.size, size))
        for one, who in zip(classes, numbers, strict=True)
    ]
    return People(weights[0], weights[1], smoothing, known)
