"""What ``query`` and ``protect`` share: which region a point belongs to, and who remembers its tuple."""

from __future__ import annotations

from pathlib import Path

from distp.errors import OutsideError, ParameterError
from distp.release import Ledger, Memory, Policy, open_secret


def memory_of(
    person: str | None, secret: Path | None, period: str, ledger: Path | None, limit: int | None
) -> Memory | None:
    """Return what remembers tuples, if that was asked for; half of it is refused."""
    if (ledger is None) != (limit is None):
        raise ParameterError("--ledger and --limit belong together")
    if (person is None) != (secret is None) or (secret is None and (ledger is not None or period)):
        raise ParameterError("--person and --secret belong together; --period, --ledger and --limit need them")
    if secret is None:
        return None
    counted = None if ledger is None or limit is None else Ledger(ledger, limit)
    return Memory(open_secret(secret), period, counted)


def region_of(policy: Policy, lat: float, lon: float) -> int:
    """Return the input region of one point, or say that it is outside without repeating it."""
    found = int(policy.locate(lat, lon)[0])
    if found < 0:
        raise OutsideError("the point lies outside the policy's area")
    return found
