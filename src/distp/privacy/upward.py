"""Numbers of guarantees, rounded up: each function returns at least the exact value."""

from __future__ import annotations

import math
import sys
from fractions import Fraction


def ceiling(exact: Fraction) -> float:
    """Return the least double that is not below ``exact``."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -sys.float_info.max
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def capped(exact: Fraction) -> float:
    """Return the least double that is not below ``exact``, at most 1."""
    return ceiling(min(Fraction(1), exact))


def add(a: float, b: float) -> float:
    """Add upwards."""
    return a + b if math.isinf(a) or math.isinf(b) else ceiling(Fraction(a) + Fraction(b))


def product(a: float, b: float) -> float:
    """Multiply numbers >= 0 upwards; nothing times infinity is nothing, since here infinity stands for overflow."""
    if a == 0 or b == 0:
        return 0.0
    return math.inf if math.isinf(a) or math.isinf(b) else ceiling(Fraction(a) * Fraction(b))


def power(x: float) -> float:
    """Return at least ``e^x``, ``inf`` where that leaves the range of a double."""
    if x == 0:
        return 1.0
    return math.inf if x > 709 else math.nextafter(math.nextafter(math.exp(x), math.inf), math.inf)
