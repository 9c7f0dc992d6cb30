"""Checks of arguments, shared by every room: each returns the value in its working type or raises by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from distp.errors import DistpError, DistributionError, ParameterError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SUM_TOLERANCE = 1e-9


def nonnegative(value: float, name: str) -> float:
    """Return ``value`` as a finite float >= 0."""
    number = real(value, name)
    if not (math.isfinite(number) and number >= 0):
        raise ParameterError(f"{name} must be a finite number >= 0, got {value!r}")
    return number


def positive(value: float, name: str) -> float:
    """Return ``value`` as a finite float > 0."""
    number = real(value, name)
    if not (math.isfinite(number) and number > 0):
        raise ParameterError(f"{name} must be a finite number > 0, got {value!r}")
    return number


def probability(value: float, name: str) -> float:
    """Return ``value`` as a float in [0, 1]."""
    number = real(value, name)
    if not 0 <= number <= 1:
        raise ParameterError(f"{name} must lie in [0, 1], got {value!r}")
    return number


def count(value: int, name: str, minimum: int = 0) -> int:
    """Return ``value`` as an int; a float is refused rather than truncated."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ParameterError(f"{name} must be a whole number, got {value!r}")
    if value < minimum:
        raise ParameterError(f"{name} must be at least {minimum}, got {value}")
    return int(value)


def distribution(values: ArrayLike, size: int | None, name: str) -> FloatArray:
    """Return ``values`` as a probability vector of shape ``(size,)``; nothing is renormalised.

    Raises
    ------
    DistributionError
        Wrong shape, a negative or non-finite entry, or a sum further than 1e-9 from 1.
    """
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DistributionError(f"{name} is not an array of numbers: {error}") from None
    if vector.ndim != 1 or vector.size == 0:
        raise DistributionError(f"{name} must be a non-empty vector, got shape {vector.shape}")
    if size is not None and vector.size != size:
        raise DistributionError(f"{name} has {vector.size} entries, but the space has {size} points")
    bad = np.flatnonzero(~(np.isfinite(vector) & (vector >= 0)))
    if bad.size:
        raise DistributionError(f"{name}[{bad[0]}] is {vector[bad[0]]}: probabilities are finite and >= 0")
    total = math.fsum(vector)
    if abs(total - 1) > SUM_TOLERANCE:
        raise DistributionError(
            f"{name} sums to {total!r}, not to 1 within {SUM_TOLERANCE}: divide it by its sum if that is meant"
        )
    return vector


def numbers(values: object, name: str, error: type[DistpError]) -> FloatArray:
    """Return ``values`` as an array of floats of any shape, or raise ``error`` by name."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise error(f"{name} is not an array of numbers: {problem}") from None


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return ``array`` marked read-only, so that data shared between frozen objects stays as it was."""
    array.setflags(write=False)
    return array


def real(value: object, name: str) -> float:
    """Return ``value`` as a float of any size."""
    if isinstance(value, (str, bytes)):
        raise ParameterError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{name} must be a number, got {value!r}") from None
