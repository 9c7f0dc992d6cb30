"""Which columns of a table may go with a report: one rule for files and for clusters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from distp.data.attributes import columns_of
from distp.data.plans import LATITUDES, LONGITUDES, TIMES
from distp.errors import DataError
from distp.release.policy import Policy

COLUMN = "report"
PLACES = (
    "venue",
    "venueid",
    "venue_id",
    "start station id",
    "start station name",
    "end station id",
    "end station name",
)


def check_keep(keep: Sequence[str], policy: Policy, degrees: Sequence[str] = ()) -> list[str]:
    """Return the columns to pass through, each once; refuse those that would give away what is hidden.

    Parameters
    ----------
    keep : sequence of str
    policy : Policy
    degrees : sequence of str
        Columns that tell the true place, where they are known. Those whose names say so are refused in any case.

    Raises
    ------
    DataError
        A column of coordinates or of the policy's attribute, or one that is called as the report is. Capital letters
        make no difference: to some readers of tables they are the same column.
    """
    hidden = {column.lower() for text in policy.expressions for column in columns_of(text)}
    if hidden & set(TIMES):
        hidden |= {*TIMES, "time", "time_utc"}
    places = {*LATITUDES, *LONGITUDES, *(name.lower() for name in degrees)}
    kept = list(dict.fromkeys(keep))
    for name in kept:
        low = name.strip().lower()
        if low in hidden or any(_mentions(text, name.strip()) for text in policy.expressions):
            raise DataError(f"--keep {name}: the policy's attribute is defined by that column, and would be written")
        if low in places:
            raise DataError(f"--keep {name}: the true coordinates are never written")
        if low == COLUMN or low.startswith(f"{COLUMN}_"):
            raise DataError(f"--keep {name}: that name is taken by the report")
    return kept


def _mentions(condition: str, name: str) -> bool:
    """Say whether a name stands in a condition, as a whole word: other engines know columns where ours finds none."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", condition, re.IGNORECASE) is not None
