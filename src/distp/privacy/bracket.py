"""A number with both its ends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext

from distp.errors import ParameterError


@dataclass(frozen=True, order=False)
class Bracket:
    """An interval that contains the exact value. A guarantee is its ``upper`` end.

    Parameters
    ----------
    lower, upper : float
        ``lower <= upper``; ``upper`` may be ``inf``.

    Examples
    --------
    >>> bracket = Bracket(0.25, 0.5)
    >>> bracket.upper, bracket.width, 0.3 in bracket
    (0.5, 0.25, True)
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ParameterError(f"a bracket needs lower <= upper, got {self.lower} and {self.upper}")

    @property
    def width(self) -> float:
        """How far apart the ends are (0 for two infinities)."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    @property
    def midpoint(self) -> float:
        """The middle, for plots; claim ``upper`` instead."""
        return self.upper if math.isinf(self.upper) else self.lower + self.width / 2

    def claim(self, digits: int = 4, least: float = 0.0) -> str:
        """Return the upper end as text, rounded *up* to ``digits`` significant digits: what may be stated.

        An upper end below ``least``, if that is given, is said to be below it.

        Examples
        --------
        >>> Bracket(0.00099921, 0.00099923).claim()
        '0.0009993'
        """
        if self.upper == 0 or math.isinf(self.upper):
            return f"{self.upper:g}"
        if self.upper < least:
            return f"< {least:g}"
        decimals = digits - 1 - math.floor(math.log10(self.upper))
        with localcontext() as context:
            context.prec = 60
            exact = Decimal(self.upper).quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_CEILING)
        return f"{exact:f}" if 0 <= decimals <= 12 else f"{exact:.{digits - 1}E}".lower()

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __str__(self) -> str:
        return f"[{self.lower:.6g}, {self.upper:.6g}]"


def largest(brackets: list[Bracket]) -> Bracket:
    """Return the bracket of the largest of several bracketed values."""
    return Bracket(max(b.lower for b in brackets), max(b.upper for b in brackets))
