"""Distributions as whole numbers of units, so that flows over them are exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, IntArray, distribution, probability
from distp.errors import DistributionError

UNITS = 1 << 61  # of a distribution given by floats; sums of a few of them stay below 2^63
ROUNDING = 2.0**-50  # of a distribution's floats, in total variation: what computing them may have moved


@dataclass(frozen=True, eq=False)
class Masses:
    """Two distributions with equal whole totals.

    Attributes
    ----------
    p, q : ndarray of int64, shapes (n,) and (m,)
    total : int
        The sum of each.
    error : float
        Total variation between what was given and ``p / total`` (or ``q / total``), at most; 0 for counts.
    """

    p: IntArray
    q: IntArray
    total: int
    error: float

    def allowed(self, slack: float) -> int:
        """Return how many units may stay behind for ``slack``: of counts exactly, of floats their error too.

        A slack given as a float stands for every number that rounds to it: 0.3 lets 3 of 10 stay.
        """
        share = Fraction(probability(slack, "slack")) * (1 + Fraction(1, 1 << 52))
        return min(self.total, math.floor((share + Fraction(self.error)) * self.total))


def whole(p: ArrayLike, q: ArrayLike, sizes: tuple[int, int], units: int = UNITS) -> Masses:
    """Return both distributions in whole units of one total.

    Parameters
    ----------
    p, q : array_like
        Counts (whole numbers, of any total, taken exactly) or probabilities (floats that sum to 1 within 1e-9).
    sizes : (int, int)
        The entries that each must have.
    units : int
        Of floats. Counts with a larger common total are taken as floats too.

    Raises
    ------
    DistributionError
        Wrong shape, negative or not finite, no mass, or a sum that is not 1.
    """
    left, right = _counts(p, sizes[0], "p"), _counts(q, sizes[1], "q")
    if left is not None and right is not None:
        mine, theirs = sum(left.tolist()), sum(right.tolist())
        total = math.lcm(mine, theirs)
        if total <= units:
            return Masses(left * (total // mine), right * (total // theirs), total, 0.0)
    given = [_probabilities(law, size, name) for law, size, name in ((p, sizes[0], "p"), (q, sizes[1], "q"))]
    rounded = [_units(law, units) for law in given]
    return Masses(rounded[0], rounded[1], units, ROUNDING + sum(law.size for law in given) / units)


def _counts(values: ArrayLike, size: int, name: str) -> IntArray | None:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DistributionError(f"{name} is not an array of numbers: {error}") from None
    if array.dtype.kind not in "iu":
        return None
    if array.ndim != 1 or array.size != size:
        raise DistributionError(f"{name} has shape {array.shape}, but the distances ask for ({size},)")
    bad = np.flatnonzero(array < 0)
    if bad.size:
        raise DistributionError(f"{name}[{bad[0]}] is {array[bad[0]]}: counts are >= 0")
    if not array.any():
        raise DistributionError(f"{name} has no mass")
    if float(array.sum(dtype=np.float64)) > UNITS:
        raise DistributionError(f"the counts of {name} add up to more than 2^61")
    return array.astype(np.int64)


def _probabilities(values: ArrayLike, size: int, name: str) -> FloatArray:
    counted = _counts(values, size, name)
    return distribution(values if counted is None else counted / counted.sum(), size, name)


def _units(law: FloatArray, units: int) -> IntArray:
    """Round to units; the largest entry takes what rounding leaves."""
    rounded = np.rint(law / math.fsum(law) * float(units)).astype(np.int64)
    rounded[np.argmax(rounded)] += units - sum(rounded.tolist())
    return rounded
