"""A frame of check-ins in, a frame of tuples out, drawn where the rows are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from distp.data.places import REASON, located
from distp.errors import OutsideError
from distp.release import Policy
from distp.release.columns import COLUMN, check_keep
from distp.spark.frames import ROWS, blocks, column, degrees, reasons, require_spark, summary, tidied

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBERS = 1 << 24  # regions drawn at once


def protect(
    frame: DataFrame,
    policy: Policy,
    *,
    lat: str = "lat",
    lon: str = "lon",
    keep: Sequence[str] = (),
    empty: bool = False,
) -> DataFrame:
    """Return one tuple for each row of ``frame``, in its order; the true coordinates are never in it.

    Nothing is shuffled and nothing passes through the driver: every partition is protected where it is.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Spark 4 or newer, on a cluster whose Python workers have distp.
    policy : Policy
        It travels with the job. No random state does: each worker draws from its operating system's entropy.
    lat, lon : str
        Columns with degrees.
    keep : sequence of str
        Columns to pass through, by their exact names.
    empty : bool
        Give a row that cannot be protected a null report; otherwise it stops the job.

    Returns
    -------
    pyspark.sql.DataFrame
        The kept columns and ``report``, an array of ``policy.dummies + 1`` region numbers. It is lazy: each action on
        it draws *new* reports, and two reports of one row are two reports. Write it once, and read what was written.

    Raises
    ------
    ParameterError
        The packages are missing: ``pip install 'distp[spark]'``.
    DataError
        A missing column, or one that must not be kept: as for `distp.release.protect_file`.

    Notes
    -----
    Without ``empty``, a row outside the policy's area or without coordinates fails the job: Spark's error carries an
    OutsideError that says how many rows of the worker's batch are so, and never where.
    """
    require_spark()
    from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

    kept = check_keep(keep, policy, (lat, lon))
    places = degrees(frame, lat, lon)
    # Plain names on the way in: Spark finds columns by their names once more, and reads a dot as a part of one.
    columns = [column(frame, name).alias(f"kept_{i}") for i, name in enumerate(kept)]
    fields = [frame.schema[name] for name in kept]
    schema = StructType([*fields, StructField(COLUMN, ArrayType(IntegerType(), False), True)])

    sent = without_people(policy)

    def protected(batches: Iterable[Any]) -> Iterator[Any]:
        return _protected(batches, sent, lat, lon, kept, empty)

    return frame.select(*columns, *places).mapInArrow(protected, schema)


def without_people(policy: Policy) -> Policy:
    """Return a policy as its file would hold it: who it was fitted to is no business of the workers."""
    return replace(policy, pairs=tuple(replace(pair, people=None) for pair in policy.pairs))


def _protected(
    batches: Iterable[Any], policy: Policy, lat: str, lon: str, kept: Sequence[str], empty: bool
) -> Iterator[Any]:
    """Protect a worker's batches; the last two columns are the coordinates."""
    import pyarrow as pa

    for block in blocks(batches, max(1, min(ROWS, _NUMBERS // (policy.dummies + 1)))):
        lats, lons = (pa.chunked_array([batch.column(len(kept) + i) for batch in block]) for i in (0, 1))
        report = _reports(policy, lats, lons, lat, lon, empty)
        start = 0
        for batch in block:
            part = report.slice(start, batch.num_rows)
            start += batch.num_rows
            yield pa.RecordBatch.from_arrays([*batch.columns[: len(kept)], part], names=[*kept, COLUMN])


def _reports(policy: Policy, lats: Any, lons: Any, lat: str, lon: str, empty: bool) -> Any:
    """Return an Arrow array of lists: a report for each row, null where it cannot be protected."""
    import pyarrow as pa

    rows = tidied({lat: lats, lon: lons}, lat, lon)
    inputs = located(rows, rows[REASON], lat, lon, policy.locate)
    inside = inputs >= 0
    if not (empty or inside.all()):
        aside = reasons(rows)
        outside = int((~inside).sum()) - sum(aside.values())
        if outside:
            aside["outside the policy's area"] = outside
        raise OutsideError(
            f"{int((~inside).sum()):,} of {rows.height:,} rows of a batch cannot be protected ({summary(aside)}); "
            "give them an empty report with empty=True, or fit with --outside nearest"
        )
    drawn = policy.release_inputs(inputs[inside]).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(inside * (policy.dummies + 1))]).astype(np.int32)
    values = pa.array(drawn.ravel(), type=pa.int32())
    kind = pa.list_(pa.field("element", pa.int32(), nullable=False))
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=kind, mask=pa.array(~inside))
