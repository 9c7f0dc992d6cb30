"""Attributes as conditions that Spark evaluates: checked before any row is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from distp.data.attributes import split_name
from distp.data.people import RULES
from distp.data.presets import PRESETS
from distp.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def as_condition(frame: DataFrame, attribute: str) -> str:
    """Return the condition of ``"condition"``, ``"name: condition"`` or a preset, once Spark has understood it.

    Raises
    ------
    DataError
        It does not parse, names a missing column, is not a condition or depends on other rows; or it is a preset that
        is found out from each person's check-ins or from a median, which is not done on Spark.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions
    from pyspark.sql.types import BooleanType

    text = split_name(attribute)[1]
    own = text in frame.columns and isinstance(frame.schema[text].dataType, BooleanType)
    preset = None if own else PRESETS.get(text)
    if preset is not None and (preset.column is not None or preset.needs in RULES):
        raise DataError(
            f"attribute {text!r} ({preset.rule}) is not made on Spark: make the column {preset.needs!r} and "
            "write the condition on it"
        )
    condition = text if preset is None else preset.condition
    try:
        # A filter takes what is true or false of each row: neither sums nor windows. Nothing is computed yet.
        _ = frame.filter(functions.expr(condition)).schema
    except AnalysisException as error:
        raise DataError(f"attribute {condition!r} {_why(error)}") from None
    return condition


def _why(error: Exception) -> str:
    """Say in our words what Spark said; its own may quote values and other columns."""
    kind = getattr(error, "getCondition", lambda: None)() or ""
    if kind.startswith("UNRESOLVED_COLUMN"):
        name = (error.getMessageParameters() or {}).get("objectName", "?").strip("`")  # type: ignore[attr-defined]
        return f"names a column {name!r} that the frame does not have (text goes in single quotes)"
    if "FILTER_NOT_BOOLEAN" in kind:
        return "is not a condition: it does not give true or false"
    if kind.startswith("INVALID_WHERE_CONDITION") or "WINDOW_FUNCTION" in kind:
        return "depends on other rows: it must be decided by each row alone"
    return f"is not a condition in Spark's SQL on these columns ({kind or type(error).__name__})"


@contextmanager
def computed() -> Iterator[None]:
    """Say without values that rows could not be computed: Spark's message about a value quotes it.

    What fails for another reason, a worker's own error among them, is passed on as it is.
    """
    from pyspark.errors import (
        ArithmeticException,
        ArrayIndexOutOfBoundsException,
        DateTimeException,
        NumberFormatException,
        SparkRuntimeException,
    )

    of_values = (
        ArithmeticException,
        ArrayIndexOutOfBoundsException,
        DateTimeException,
        NumberFormatException,
        SparkRuntimeException,
    )
    try:
        yield
    except of_values as error:
        raise DataError(
            f"an attribute, or a column it needs, cannot be computed of some row ({error.getCondition()})"
        ) from None
