"""A file of check-ins in, a file of tuples out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from distp.data.attributes import columns_of
from distp.data.plans import LATITUDES, LONGITUDES, TIMES
from distp.data.readers import read_check_ins
from distp.errors import DataError, OutsideError
from distp.files import check_target, replacing
from distp.release.policy import Policy

COLUMN = "report"


@dataclass(frozen=True)
class Protected:
    """How many rows were written, and how many of them without a report."""

    rows: int
    empty: int


def check_keep(keep: Sequence[str], policy: Policy, degrees: Sequence[str] = ()) -> list[str]:
    """Return the columns to pass through, each once; refuse those that would give away what is hidden.

    Parameters
    ----------
    keep : sequence of str
    policy : Policy
    degrees : sequence of str
        The columns with the true coordinates, where they are known. Those whose names say so are refused in any case.

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
        low = name.lower()
        if low in hidden or any(_mentions(text, name) for text in policy.expressions):
            raise DataError(f"--keep {name}: the policy's attribute is defined by that column, and would be written")
        if low in places:
            raise DataError(f"--keep {name}: the true coordinates are never written")
        if low == COLUMN or low.startswith(f"{COLUMN}_"):
            raise DataError(f"--keep {name}: that name is taken by the report")
    return kept


def _mentions(condition: str, name: str) -> bool:
    """Say whether a name stands in a condition, as a whole word: other engines know columns where ours finds none."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", condition, re.IGNORECASE) is not None


def protect_file(
    source: str | Path | Sequence[str | Path],
    target: str | Path,
    policy: Policy,
    *,
    format: str | None = None,  # noqa: A002 - as in `read_check_ins`
    lat: str | None = None,
    lon: str | None = None,
    keep: Sequence[str] = (),
    empty: bool = False,
) -> Protected:
    """Write one tuple for each row of ``source``, in its order; the true coordinates are never written.

    Parameters
    ----------
    source : str, Path or a sequence of them
        As for `read_check_ins`.
    target : str or Path
        ``.parquet`` (a fixed-size list ``report`` of region numbers) or ``.csv`` (``report_0`` ...).
    policy : Policy
    format, lat, lon : str, optional
        As for `read_check_ins`.
    keep : sequence of str
        Columns to pass through.
    empty : bool
        Give a row that cannot be protected an empty report; otherwise it stops the job.

    Raises
    ------
    DataError, OutsideError
        As named; nothing is left behind.
    """
    path = Path(target)
    check_target(path, *([source] if isinstance(source, (str, Path)) else source))
    if path.suffix not in (".parquet", ".csv"):
        raise DataError(f"cannot write {path}: the name must end in .parquet or .csv")
    keep = check_keep(keep, policy)
    read = read_check_ins(
        source,
        format=format,
        lat=lat,
        lon=lon,
        keep=keep,
        columns=(),
        whole=True,
        max_bad=1.0 if empty else 0.0,
    )
    check_keep(keep, policy, read.degrees)
    for name in keep:
        if path.suffix == ".csv" and (read.source[name].dtype.is_nested() or read.source[name].dtype == pl.Binary):
            raise DataError(f"--keep {name}: lists, records and bytes cannot be written as CSV; write .parquet")
    inputs = policy.locate(read.lat, read.lon)
    outside = np.flatnonzero(inputs < 0)
    if outside.size and not empty:
        raise OutsideError(
            f"{outside.size:,} of {read.rows:,} rows lie outside the policy's area (first: row "
            f"{int(read.row_numbers[outside[0]])}); give them an empty report with --empty, or fit with "
            "--outside nearest"
        )
    inside = inputs >= 0
    places = policy.dummies + 1
    drawn = policy.release_inputs(inputs[inside])
    rows = np.full(read.rows, -1, dtype=np.int64)
    rows[read.row_numbers[inside] - 1] = np.arange(drawn.shape[0])
    lists = pl.Series(COLUMN, drawn, dtype=pl.Array(pl.UInt16 if drawn.itemsize == 2 else pl.UInt32, places))
    report = lists.gather(pl.Series(rows).replace(-1, None))
    frame = pl.DataFrame([*(read.source[name] for name in keep), report])
    with replacing(path) as temporary:
        if path.suffix == ".parquet":
            frame.write_parquet(temporary)
        else:
            names = [f"{COLUMN}_{place}" for place in range(places)]
            split = frame[COLUMN].arr.to_struct(names).struct.unnest()
            frame.drop(COLUMN).hstack(split).write_csv(temporary)
    return Protected(read.rows, int(read.rows - drawn.shape[0]))
