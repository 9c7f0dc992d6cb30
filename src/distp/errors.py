"""Every error that distp raises on purpose.

All of them are ``DistpError``; each one's message names the argument, the row or the value at fault
and says what would be right.
"""

from typing import Any


class DistpError(Exception):
    """Base of every error that distp raises on purpose."""


class ParameterError(DistpError, ValueError):
    """A number or option is outside its range."""


class SpaceError(DistpError, ValueError):
    """Points, distances or a pair of spaces do not fit together."""


class CoordinateError(DistpError, ValueError):
    """A latitude or longitude is missing, out of range, or probably swapped."""


class DistributionError(DistpError, ValueError):
    """A vector is not a probability distribution over the stated space."""


class MechanismError(DistpError, ValueError):
    """A mechanism's matrix, inputs or outputs are inconsistent."""


class PrecisionError(DistpError, ArithmeticError):
    """A bracket could not be made as narrow as asked for; it is still valid and attached as ``bracket``."""

    def __init__(self, message: str, bracket: Any) -> None:
        super().__init__(message)
        self.bracket = bracket


class InfeasibleError(DistpError):
    """No mechanism in the searched family meets the stated target."""


class OutsideError(DistpError, ValueError):
    """A point to be protected lies outside the area that a policy covers."""


class SpentError(DistpError):
    """Somebody has had as many independent draws as a ledger allows."""


class DataError(DistpError, ValueError):
    """A data file cannot be read as asked: unreadable, a missing column, an empty class, too many bad rows."""


class PolicyError(DistpError, ValueError):
    """A policy file is damaged, foreign, or of a version that this release does not know."""
