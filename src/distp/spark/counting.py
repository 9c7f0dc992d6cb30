"""The counting step of a fit on Spark: only counts come to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from distp.checks import count as whole
from distp.checks import nonnegative, probability
from distp.data.attributes import split_name
from distp.data.places import REASON, located
from distp.data.readers import MAX_BAD
from distp.distributions import Pair
from distp.distributions.people import WEIGHTS, check_weight
from distp.errors import DataError, ParameterError
from distp.release.policy import OUTSIDE
from distp.spaces import Regions
from distp.spark.conditions import as_condition, computed
from distp.spark.frames import blocks, check_bad, column, degrees, reasons, require_spark, tidied
from distp.spark.pairs import Class, make_pair

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_PEOPLE = 1_000_000
OUT = "outside the input regions"
# Of the tables that travel: the column of people, which is there only where they are named; and two reasons.
_WHO, _ALL, _UNKNOWN = "user", "rows", "unknown: "


@dataclass(frozen=True)
class Counted:
    """What `count` found.

    Attributes
    ----------
    pairs : list of Pair
        One for each attribute, as the local fit counts them.
    expressions : list of str
        The condition of each, for `Policy.create`.
    rows : int
        Of the frame.
    set_aside : dict of str to int
        Rows that are not in the counts, by the reason. Those without a known attribute are named by it.
    people : int or None
        Different people in all pairs together; None where nobody is named.
    """

    pairs: list[Pair]
    expressions: list[str]
    rows: int
    set_aside: dict[str, int] = field(default_factory=dict)
    people: int | None = None


def count(
    frame: DataFrame,
    regions: Regions,
    attributes: str | Sequence[str],
    *,
    lat: str = "lat",
    lon: str = "lon",
    user: str | None = None,
    weight: str = WEIGHTS[0],
    smoothing: float = 0.0,
    outside: str = OUTSIDE[0],
    max_bad: float = MAX_BAD,
    max_people: int = MAX_PEOPLE,
) -> Counted:
    """Count the two distributions of each attribute on the cluster, as the local fit does from the same rows.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Spark 4 or newer, on a cluster whose Python workers have distp.
    regions : Regions
    attributes : str or sequence of str
        ``"condition"`` or ``"name: condition"``, in Spark's SQL; or a preset that is a condition on columns.
    lat, lon, user : str
        Columns with degrees and the person.
    weight : {"check-ins", "users"}
    smoothing : float
        As for `Sample.pair`.
    outside : {"refuse", "nearest"}
        Whether a check-in outside the input regions is set aside or counts in the nearest.
    max_bad : float
        Largest share of rows that may be unusable, as for `read_check_ins`.
    max_people : int
        With more people than this, the driver gets no table of people: pairs are without ``people``.

    Returns
    -------
    Counted

    Raises
    ------
    ParameterError
        The packages are missing, an option that there is not, or two attributes of one name.
    DataError
        A missing column, a condition that Spark does not take for one, a class without a check-in in any input
        region, too many unusable rows.

    Notes
    -----
    The counts are the local ones exactly. With ``weight="users"``, shares of people are added up in another order, so
    that probabilities agree to 1e-12 only. Without ``people``, nothing can be said with confidence about people who
    are not in the data.
    """
    require_spark()
    check_weight(weight)
    if outside not in OUTSIDE:
        raise ParameterError(f"outside must be one of {', '.join(OUTSIDE)}, got {outside!r}")
    if weight == "users" and user is None:
        raise DataError("weighting by users needs the person of each check-in: name the column with user")
    nonnegative(smoothing, "smoothing")
    probability(max_bad, "max_bad")
    whole(max_people, "max_people")
    texts = [attributes] if isinstance(attributes, str) else list(attributes)
    names, conditions = [split_name(text)[0] for text in texts], [as_condition(frame, text) for text in texts]
    if not names:
        raise ParameterError("at least one attribute is needed: what is to be hidden?")
    if len(set(names)) < len(names):
        raise ParameterError("two attributes have the same name")
    size, nearest = len(regions.inputs), outside == "nearest"
    located = _located(frame, regions, conditions, lat, lon, user, nearest)
    with computed():
        found = _brought(located, user is not None, weight, max_people, max_bad)
    pairs = [make_pair(name, found.classes(i, weight), size, smoothing) for i, name in enumerate(names)]
    aside = {_said(reason, names): rows for reason, rows in found.aside.items()}
    return Counted(pairs, conditions, found.rows, aside, found.people)


def _located(
    frame: DataFrame,
    regions: Regions,
    conditions: Sequence[str],
    lat: str,
    lon: str,
    user: str | None,
    nearest: bool,
) -> DataFrame:
    """Return counts of each block of rows: attribute, holds, region (and user), or a reason; and ``n``."""
    from pyspark.sql import functions
    from pyspark.sql.types import (
        ArrayType,
        BooleanType,
        IntegerType,
        LongType,
        MapType,
        StringType,
        StructField,
        StructType,
    )

    columns = degrees(frame, lat, lon)
    who = []
    if user is not None:
        if user in (lat, lon):
            raise DataError(f"column {user!r} cannot be both a coordinate and the person")
        kind = frame.select(column(frame, user)).schema[0].dataType
        if isinstance(kind, (ArrayType, MapType, StructType)):
            raise DataError(f"column {user!r} holds lists or records, not people")
        columns.append(column(frame, user).alias(_WHO))
        who = [StructField(_WHO, kind, True)]
    schema = StructType(
        [
            StructField("attribute", IntegerType()),
            StructField("holds", BooleanType()),
            StructField("region", IntegerType()),
            StructField("reason", StringType()),
            StructField("n", LongType()),
            *who,
        ]
    )
    columns += [functions.expr(condition).alias(f"holds_{i}") for i, condition in enumerate(conditions)]

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        return _counted(batches, regions, len(conditions), lat, lon, user, nearest)

    located = frame.select(*columns).mapInArrow(work, schema)
    keys = ["attribute", "holds", "region", "reason", *(field.name for field in who)]
    return located.groupBy(*keys).agg(functions.sum("n").alias("n"))


def _counted(
    batches: Iterable[Any],
    regions: Regions,
    attributes: int,
    lat: str,
    lon: str,
    user: str | None,
    nearest: bool,
) -> Iterator[Any]:
    """Count a worker's batches: coordinates, the person if there is one, then whether each attribute holds."""
    import pyarrow as pa

    who = [] if user is None else [user]
    for block in blocks(batches):
        table = pa.Table.from_batches(block)
        rows = tidied({name: table.column(i) for i, name in enumerate([lat, lon, *who])}, lat, lon, user)
        where = located(rows, rows[REASON], lat, lon, partial(regions.locate_inputs, nearest=nearest))
        where = where.astype(np.int32)
        inside = where >= 0
        aside = reasons(rows)
        aside |= {_ALL: rows.height, OUT: int((~inside).sum()) - sum(aside.values())}
        here = table.filter(pa.array(inside))
        people = {_WHO: here.column(2)} if who else {}
        for i in range(attributes):
            keys = {"holds": here.column(2 + len(who) + i), "region": pa.array(where[inside]), **people}
            yield from _grouped(i, pa.table(keys), aside)
        yield _reasons(aside, table.schema.field(2).type if who else None)


def _grouped(attribute: int, keys: Any, aside: dict[str, int]) -> Iterator[Any]:
    """Count equal rows of an attribute; where it is unknown, only how many they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    unknown = keys.column("holds").null_count
    if unknown:
        aside[f"{_UNKNOWN}{attribute}"] = unknown
        keys = keys.filter(pc.is_valid(keys.column("holds")))
    found = keys.group_by(keys.column_names, use_threads=False).aggregate([([], "count_all")])
    size = found.num_rows
    columns = {
        "attribute": pa.array(np.full(size, attribute, dtype=np.int32)),
        "holds": found.column("holds"),
        "region": found.column("region"),
        "reason": pa.nulls(size, pa.string()),
        "n": found.column("count_all"),
    }
    if _WHO in found.column_names:
        columns[_WHO] = found.column(_WHO)
    yield from pa.table(columns).combine_chunks().to_batches()


def _reasons(aside: dict[str, int], user: Any) -> Any:
    import pyarrow as pa

    some = {reason: rows for reason, rows in aside.items() if rows}
    size = len(some)
    columns = {
        "attribute": pa.nulls(size, pa.int32()),
        "holds": pa.nulls(size, pa.bool_()),
        "region": pa.nulls(size, pa.int32()),
        "reason": pa.array(list(some), pa.string()),
        "n": pa.array(list(some.values()), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns if user is None else {**columns, _WHO: pa.nulls(size, user)})


def _said(reason: str, names: Sequence[str]) -> str:
    """Return a reason with the attribute's name in it."""
    if not reason.startswith(_UNKNOWN):
        return reason
    return f"attribute {names[int(reason.removeprefix(_UNKNOWN))]!r} unknown"


@dataclass(frozen=True, eq=False)
class _Brought:
    """What came to the driver: counts by attribute, class and region (and person), as Arrow."""

    table: Any
    rows: int
    aside: dict[str, int]
    people: int | None
    by_class: dict[tuple[int, bool], int]

    def classes(self, attribute: int, weight: str) -> tuple[Class, Class]:
        """Return those with an attribute and those without."""
        frame = self.frame.filter(pl.col("attribute") == attribute)
        parts = [(holds, frame.filter(pl.col("holds") == holds)) for holds in (True, False)]
        made = []
        for holds, part in parts:
            regions, rows = part["region"].to_numpy().astype(np.int64), part["n"].to_numpy()
            if "number" in part.columns:
                made.append(Class.by_person(regions, rows, part["number"].to_numpy(), weight))
            else:
                mass = part["mass"].to_numpy() if "mass" in part.columns else rows.astype(np.float64)
                made.append(Class(regions, rows, mass, self.by_class.get((attribute, holds))))
        return made[0], made[1]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The table; people by a number, in the order of their names."""
        frame = pl.DataFrame(pl.from_arrow(self.table))
        if _WHO not in frame.columns:
            return frame
        number = frame[_WHO].rank("dense").cast(pl.Int64) - 1
        return frame.drop(_WHO).with_columns(number.alias("number"))


def _brought(located: DataFrame, named: bool, weight: str, max_people: int, max_bad: float) -> _Brought:
    """Bring counts to the driver: by person if they are few enough, otherwise added up on the cluster."""
    if not named:
        table = located.toArrow()
        valid = table.column("attribute").is_valid()
        rows, aside = _told(table.filter(table.column("attribute").is_null()), max_bad)
        return _Brought(table.filter(valid).drop_columns("reason"), rows, aside, None, {})
    from pyspark.sql import Window, functions
    from pyspark.storagelevel import StorageLevel

    # Several questions are asked of it; the rows shall be located once.
    located = located.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows, aside = _told(located.filter("attribute IS NULL").select("reason", "n").toArrow(), max_bad)
        known = located.filter("attribute IS NOT NULL").drop("reason")
        people = known.select(_WHO).distinct().count()
        if people <= max_people:
            return _Brought(known.toArrow(), rows, aside, people, {})
        heads = known.groupBy("attribute", "holds").agg(functions.countDistinct(_WHO).alias("people")).collect()
        by_class = {(row["attribute"], row["holds"]): row["people"] for row in heads}
        mass = functions.col("n")
        if weight == "users":
            mass = mass / functions.sum("n").over(Window.partitionBy("attribute", "holds", _WHO))
        added = known.withColumn("mass", mass.cast("double")).groupBy("attribute", "holds", "region")
        table = added.agg(functions.sum("n").alias("n"), functions.sum("mass").alias("mass")).toArrow()
        return _Brought(table, rows, aside, people, by_class)
    finally:
        located.unpersist()


def _told(table: Any, max_bad: float) -> tuple[int, dict[str, int]]:
    """Return how many rows there were, and those set aside by the reason; refuse too many unusable ones."""
    columns = table.to_pydict()
    aside = dict(sorted(zip(columns["reason"], columns["n"], strict=True)))
    rows = aside.pop(_ALL, 0)
    check_bad({k: n for k, n in aside.items() if k != OUT and not k.startswith(_UNKNOWN)}, rows, max_bad)
    return rows, aside
