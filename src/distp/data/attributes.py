"""Attributes: a condition on the columns of a file, and the two distributions that it separates."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from polars.exceptions import ColumnNotFoundError, PolarsError, SQLInterfaceError, SQLSyntaxError

from distp.checks import IntArray
from distp.data.checkins import CheckIns, SetAside
from distp.data.people import with_people
from distp.data.presets import PRESETS, resolve, time_hint
from distp.data.samples import Sample
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
        An SQL expression on the columns: ``root_category == 'Residence'``, ``hour < 12 AND weekday <= 5``. The
        columns of `distp.data.people.RULES` (``at_home``, ``days_here``, ...) are made when it names them.

    Raises
    ------
    DataError
        It does not parse, names a missing column, is not a condition, or depends on other rows.
    """
    frame = with_people(check_ins, _columns_in(condition))
    result = _rows(check_ins, frame, condition)
    half = frame.height // 2
    # What depends on other rows (a count, a rank) means something else on other data: it is no attribute.
    alone = _rows(check_ins, frame.head(half), condition) if half else result.head(0)
    if not (
        alone.equals(result.head(half)) and _rows(check_ins, frame.reverse(), condition).reverse().equals(result)
    ):
        raise DataError(f"attribute {condition!r} depends on other rows: it must be decided by each row alone")
    return result


def columns_of(attribute: str) -> set[str]:
    """Return the columns that an attribute needs, as far as its text says so; presets included."""
    condition = split_name(attribute)[1]
    preset = PRESETS.get(condition)
    return {preset.needs, condition} if preset is not None else _columns_in(condition)


def _columns_in(condition: str) -> set[str]:
    try:
        return set(pl.sql_expr(condition).meta.root_names())
    except PolarsError:
        return set()  # what is wrong with it is said when it is evaluated


def _rows(check_ins: CheckIns, frame: pl.DataFrame, condition: str) -> pl.Series:
    """Evaluate a condition on each row; what polars says about it is not repeated, as it may quote values."""
    try:
        result = frame.select(pl.sql_expr(condition).alias("condition"))["condition"]
    except ColumnNotFoundError as error:
        found = re.search(r'"([^"]*)"', str(error))
        name = found[1] if found else "?"
        hint = time_hint(check_ins, name)
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


def attribute_sample(
    check_ins: CheckIns, regions: Regions, attribute: str, *, nearest: bool = False, weight: str = "check-ins"
) -> tuple[Sample, tuple[SetAside, ...]]:
    """Locate the check-ins of each class of an attribute in the input regions.

    Parameters
    ----------
    check_ins : CheckIns
    regions : Regions
    attribute : str
        ``"condition"``, ``"name: condition"`` or the name of a preset.
    nearest : bool
        Take a check-in outside the input regions for one in the nearest, instead of setting it aside.
    weight : {"check-ins", "users"}

    Returns
    -------
    Sample
    tuple of SetAside
        Rows where the attribute is unknown, and rows outside.

    Raises
    ------
    DataError
        One of the two classes has no check-in in any input region.
    """
    name, text = split_name(attribute)
    if nearest:
        where = regions.locate_inputs(check_ins.lat, check_ins.lon, nearest=True)
        on_map = np.ones(where.size, dtype=bool)
    else:
        found = regions.locate(check_ins.lat, check_ins.lon)
        where, on_map = np.where(found < len(regions.inputs), found, -1), found >= 0
    # What is derived of people (their home, how long they stayed) is derived from what lies on the map: so it is the
    # same however much around it was read.
    if not on_map.any():
        raise DataError(f"attribute {name!r}: no check-in lies on the map ({where.size} rows are usable)")
    here = check_ins.only(on_map)
    condition = resolve(here, text)
    holds = evaluate(here, condition)
    known, yes = holds.is_not_null().to_numpy(), holds.fill_null(value=False).to_numpy()
    outside = check_ins.row_numbers[where < 0]
    where = where[on_map]
    inside = where >= 0
    aside = tuple(
        SetAside.of(reason, numbers)
        for reason, numbers in (
            (f"attribute {name!r} unknown", here.row_numbers[inside & ~known]),
            ("outside the input regions", outside),
        )
        if numbers.size
    )
    chosen = known & inside
    for label, member in (("with", yes), ("without", ~yes)):
        if not (chosen & member).any():
            total = int((known & member).sum())
            raise DataError(
                f"attribute {name!r}: no check-in {label} it lies in the input regions "
                f"({total} of {where.size} rows on the map are {label} it)"
            )
    users = None if here.user is None else _numbered(here.user)[chosen]
    return Sample(name, len(regions.inputs), where[chosen], yes[chosen], users, weight, condition), aside


def _numbered(people: pl.Series) -> IntArray:
    """Give each person a number."""
    return people.rank("dense").cast(pl.Int64).to_numpy() - 1
