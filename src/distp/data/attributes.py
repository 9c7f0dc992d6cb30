"""Attributes: a condition on the columns of a file, and the two distributions that it separates."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from polars.exceptions import ColumnNotFoundError, PolarsError, SQLInterfaceError, SQLSyntaxError

from distp.data.readers import CheckIns, SetAside
from distp.distributions import Pair
from distp.errors import DataError
from distp.spaces import Regions

_NAMED = re.compile(r"\s*([\w -]+):\s+(\S.*)", re.DOTALL)


def split_name(text: str) -> tuple[str, str]:
    """Return (name, condition) of ``"name: condition"``; a condition alone is its own name.

    Examples
    --------
    >>> split_name("home: root_category == 'Residence'")
    ('home', "root_category == 'Residence'")
    >>> split_name("hour < 12")
    ('hour < 12', 'hour < 12')
    """
    match = _NAMED.fullmatch(text)
    return (match[1].strip(), match[2].strip()) if match else (text.strip(), text.strip())


def evaluate(check_ins: CheckIns, condition: str) -> pl.Series:
    """Return for each usable row whether ``condition`` holds: True, False, or null where unknown.

    Parameters
    ----------
    check_ins : CheckIns
    condition : str
        An SQL expression on the columns: ``root_category == 'Residence'``, ``hour < 12 AND weekday <= 5``.

    Raises
    ------
    DataError
        It does not parse, names a missing column, is not a condition, or depends on other rows.
    """
    frame = check_ins.frame
    result = _rows(frame, condition)
    half = frame.height // 2
    # What depends on other rows (a count, a rank) means something else on other data: it is no attribute.
    alone = _rows(frame.head(half), condition) if half else result.head(0)
    if not (alone.equals(result.head(half)) and _rows(frame.reverse(), condition).reverse().equals(result)):
        raise DataError(f"attribute {condition!r} depends on other rows: it must be decided by each row alone")
    return result


def _rows(frame: pl.DataFrame, condition: str) -> pl.Series:
    """Evaluate a condition on each row; what polars says about it is not repeated, as it may quote values."""
    try:
        result = frame.select(pl.sql_expr(condition).alias("condition"))["condition"]
    except ColumnNotFoundError as error:
        found = re.search(r'"([^"]*)"', str(error))
        name = found[1] if found else "?"
        hint = "; name the time column with --time" if name in ("hour", "weekday") else ""
        raise DataError(
            f"attribute {condition!r}: there is no column {name!r} (text goes in single quotes{hint})"
        ) from None
    except (SQLInterfaceError, SQLSyntaxError):
        raise DataError(f"attribute {condition!r} is not a condition in SQL, such as: kind == 'home'") from None
    except PolarsError:
        raise DataError(f"attribute {condition!r} cannot be computed from these columns") from None
    if result.dtype != pl.Boolean:
        raise DataError(f"attribute {condition!r} is not a condition: it gives {result.dtype}, not true or false")
    if result.len() != frame.height:
        raise DataError(f"attribute {condition!r} depends on other rows: it must be decided by each row alone")
    return result


def attribute_pair(
    check_ins: CheckIns, regions: Regions, attribute: str, *, nearest: bool = False
) -> tuple[Pair, tuple[SetAside, ...]]:
    """Count the check-ins of each input region with and without an attribute.

    Parameters
    ----------
    check_ins : CheckIns
    regions : Regions
    attribute : str
        ``"condition"`` or ``"name: condition"``.
    nearest : bool
        Count a check-in outside the input regions in the nearest one, instead of setting it aside.

    Returns
    -------
    Pair
    tuple of SetAside
        Rows where the attribute is unknown, and rows outside.

    Raises
    ------
    DataError
        One of the two classes has no check-in in any input region.
    """
    name, condition = split_name(attribute)
    holds = evaluate(check_ins, condition)
    known = holds.is_not_null().to_numpy()
    yes = holds.fill_null(False).to_numpy()
    where = regions.locate_inputs(check_ins.lat, check_ins.lon, nearest=nearest)
    numbers = check_ins.row_numbers
    aside = tuple(
        SetAside.of(reason, numbers[mask])
        for reason, mask in (
            (f"attribute {name!r} unknown", ~known),
            ("outside the input regions", known & (where < 0)),
        )
        if mask.any()
    )
    counted = []
    people = []
    for label, member in (("with", yes), ("without", ~yes)):
        chosen = known & member & (where >= 0)
        if not chosen.any():
            total = int((known & member).sum())
            raise DataError(
                f"attribute {name!r}: no check-in {label} it lies in the input regions "
                f"({total} of {check_ins.frame.height} rows are {label} it anywhere)"
            )
        counted.append(np.bincount(where[chosen], minlength=len(regions.inputs)))
        people.append(None if check_ins.user is None else check_ins.user.filter(pl.Series(chosen)).n_unique())
    known_people = None if people[0] is None or people[1] is None else (people[0], people[1])
    return Pair.from_counts(name, counted[0], counted[1], known_people), aside
