"""What the jobs on Spark share: columns by their exact names, blocks of rows in a worker, and which rows are usable.

Spark and pyarrow are imported when something is done with them, so that `import distp.spark` needs neither. What runs
in a worker is in functions of this room: the workers must have distp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from distp.data.places import REASON
from distp.data.tables import BROKEN
from distp.data.tidy import Plan, tidy
from distp.errors import DataError, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROWS = 1 << 16  # that a worker handles at once: Spark's own batches are too short for the fast way of locating
NEEDS = "pyspark, pyarrow and pandas are needed: pip install 'distp[spark]'"


def require_spark() -> None:
    """Refuse to go on without the packages of the extra ``spark``."""
    try:
        import pandas  # noqa: F401 - Spark asks for it before it hands Arrow batches to anybody
        import pyarrow  # noqa: F401
        import pyspark.sql  # noqa: F401
    except ImportError:
        raise ParameterError(NEEDS) from None


def column(frame: DataFrame, name: str) -> Column:
    """Return a column by its exact name, whatever stands in it.

    Spark itself would take ``Y`` for ``y``, and ``a.b`` for a part of ``a``: what is refused by name must not come
    back by another.
    """
    from pyspark.sql import functions

    if name not in frame.columns:
        # Its names may be a person's place, where a file without a header was read: they are not shown.
        raise DataError(f"the frame has no column {name!r}")
    if frame.columns.count(name) > 1:
        raise DataError(f"the frame has two columns named {name!r}")
    return functions.col("`" + name.replace("`", "``") + "`")


def degrees(frame: DataFrame, lat: str, lon: str) -> list[Column]:
    """Return the two columns with coordinates, as ``lat`` and ``lon``: numbers, or text that the readers can read."""
    from pyspark.sql.types import NullType, NumericType, StringType

    if lat == lon:
        raise DataError(f"latitude and longitude are the same column, {lat!r}")
    found = [column(frame, lat).alias("lat"), column(frame, lon).alias("lon")]
    for name in (lat, lon):
        kind = frame.schema[name].dataType
        if not isinstance(kind, (NumericType, StringType, NullType)):
            raise DataError(f"column {name!r} holds {kind.simpleString()}, not numbers")
    return found


def blocks(batches: Iterable[Any], rows: int = ROWS) -> Iterator[list[Any]]:
    """Gather Arrow batches into lists of at most ``rows`` rows together, in their order; longer ones are cut."""
    held: list[Any] = []
    size = 0
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            piece = batch.slice(start, rows)
            if held and size + piece.num_rows > rows:
                yield held
                held, size = [], 0
            held.append(piece)
            size += piece.num_rows
    if held:
        yield held


def tidied(columns: dict[str, Any], lat: str, lon: str, user: str | None = None) -> pl.DataFrame:
    """Return Arrow columns with coordinates as numbers, and why a row is of no use in ``distp:reason`` (else null).

    The rule is the file readers' own, by their own code: no coordinates, none that are numbers on Earth, both
    exactly 0, no person.
    """
    frame = pl.DataFrame([pl.Series(name, pl.from_arrow(values)) for name, values in columns.items()])
    frame = frame.with_columns(pl.lit(None, dtype=pl.String).alias(BROKEN))
    plan = Plan({}, lat, lon, user, None, None, None, None, None, (), {}, None, venues=False)
    return tidy(frame, plan, None, None)


def reasons(frame: pl.DataFrame) -> dict[str, int]:
    """Return how many rows are of no use, by the reason."""
    return dict(sorted(frame[REASON].drop_nulls().value_counts().iter_rows()))


def summary(aside: dict[str, int]) -> str:
    """Return counts by reason in words, the most frequent first."""
    ranked = sorted(aside.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{rows:,} {'row' if rows == 1 else 'rows'}: {reason}" for reason, rows in ranked)


def check_bad(aside: dict[str, int], rows: int, max_bad: float) -> None:
    """Refuse a frame without a usable row, or with too large a share of unusable ones: the readers' own limit."""
    if not rows:
        raise DataError("the frame has no rows")
    bad = sum(aside.values())
    if bad == rows:
        raise DataError(f"the frame has no usable row: {summary(aside)}")
    if bad / rows > max_bad:
        raise DataError(
            f"{bad / rows:.2%} of the rows are unusable, more than the {max_bad:.2%} allowed: {summary(aside)}"
        )
