"""How many check-ins lie in each of a quadtree's finest cells, counted on Spark: all that drawing the map takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from distp.checks import FloatArray, IntArray, count, positive, probability
from distp.data.places import REASON
from distp.data.readers import MAX_BAD
from distp.errors import CoordinateError, ParameterError
from distp.spaces import Box, Regions
from distp.spaces.boxes import BoxLike, as_box
from distp.spaces.cells import grid_shape, inside_grid
from distp.spaces.projection import to_degrees, to_km
from distp.spaces.regions import MAX_DEPTH, OutlinesLike
from distp.spark.frames import blocks, check_bad, degrees, reasons, require_spark, tidied

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEEPEST = 16  # that square cells can be quartered
OUT = "outside the box"


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Counts in the finest cells; the empty ones are not in it.

    Attributes
    ----------
    box : Box
    cell_km : float
    max_depth : int
        The finest cells have a side of ``cell_km / 2 ** max_depth``.
    lat, lon : ndarray, shape (cells,)
        Their middles, in degrees.
    weights : ndarray of int, shape (cells,)
    rows : int
        Of the frame.
    set_aside : dict of str to int
        Rows in no cell, by the reason.
    """

    box: Box
    cell_km: float
    max_depth: int
    lat: FloatArray
    lon: FloatArray
    weights: IntArray
    rows: int
    set_aside: dict[str, int] = field(default_factory=dict)

    def quadtree(
        self,
        regions: int | None = None,
        ring_km: float | None = None,
        *,
        cap: float | None = None,
        mask: OutlinesLike | None = None,
    ) -> Regions:
        """Return the regions that `Regions.quadtree` draws from all the rows with this box, ``cell_km`` and depth."""
        return Regions.quadtree(
            self.lat,
            self.lon,
            box=self.box,
            cell_km=self.cell_km,
            regions=regions,
            ring_km=ring_km,
            weights=self.weights,
            max_depth=self.max_depth,
            cap=cap,
            mask=mask,
        )


def cells(
    frame: DataFrame,
    box: BoxLike,
    cell_km: float = 1.0,
    *,
    lat: str = "lat",
    lon: str = "lon",
    max_depth: int = MAX_DEPTH,
    max_bad: float = MAX_BAD,
) -> CellCounts:
    """Count check-ins in the finest cells of a box on the cluster; only cells that are not empty come to the driver.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Spark 4 or newer, on a cluster whose Python workers have distp.
    box : Box or (south, west, north, east)
        Around the median point, as the local default has it, it cannot be: say where.
    cell_km : float
    lat, lon : str
        Columns with degrees.
    max_depth : int
    max_bad : float
        Largest share of rows that may be unusable, as for `read_check_ins`.

    Raises
    ------
    ParameterError
        The packages are missing, or an option is out of range.
    DataError
        A missing column, no row, too many unusable rows.
    CoordinateError
        Latitude and longitude look swapped, or no row lies in the box.
    """
    require_spark()
    area, cell_km = as_box(box), positive(cell_km, "cell_km")
    if count(max_depth, "max_depth") > DEEPEST:
        raise ParameterError(f"max_depth must be at most {DEEPEST}, got {max_depth}")
    probability(max_bad, "max_bad")
    columns, _ = grid_shape(area, cell_km)
    numbers, weights, aside = _found(frame, area, cell_km, lat, lon, max_depth)
    outside, inside = aside.pop(OUT, 0), int(weights.sum())
    rows = inside + outside + sum(aside.values())
    check_bad(aside, rows, max_bad)
    if outside > inside:
        exchanged = int(_found(frame, area, cell_km, lon, lat, 0)[1].sum())
        if exchanged > inside:
            raise CoordinateError(
                f"latitude and longitude look swapped: exchanged, {exchanged:,} of {rows:,} rows lie in the box, as "
                f"given {inside:,}"
            )
    if not inside:
        raise CoordinateError(f"none of the {rows:,} rows lies in the box")
    north, east = np.divmod(numbers, columns << max_depth)
    side = cell_km / (1 << max_depth)
    lats, lons = to_degrees(area.lat, area.lon, area.west + (east + 0.5) * side, area.south + (north + 0.5) * side)
    return CellCounts(area, cell_km, max_depth, lats, lons, weights, rows, {**aside, OUT: outside})


def _found(
    frame: DataFrame, box: Box, cell_km: float, lat: str, lon: str, depth: int
) -> tuple[IntArray, IntArray, dict[str, int]]:
    """Return numbers of cells in ascending order, how many rows lie in each, and the rows that lie in none."""
    from pyspark.sql import functions

    def work(batches: Iterable[Any]) -> Iterator[Any]:
        return _counted(batches, box, cell_km, lat, lon, depth)

    located = frame.select(*degrees(frame, lat, lon)).mapInArrow(work, "cell BIGINT, reason STRING, n BIGINT")
    table = located.groupBy("cell", "reason").agg(functions.sum("n").alias("n")).toArrow()
    known = table.filter(table.column("cell").is_valid()).sort_by("cell")
    told = table.filter(table.column("cell").is_null()).sort_by("reason").to_pydict()
    return (
        known.column("cell").to_numpy(),
        known.column("n").to_numpy(),
        dict(zip(told["reason"], told["n"], strict=True)),
    )


def _counted(batches: Iterable[Any], box: Box, cell_km: float, lat: str, lon: str, depth: int) -> Iterator[Any]:
    """Count a worker's rows by cell: numbered as `squares.quarter` would part them, so that edges fall alike."""
    import pyarrow as pa

    columns, rows = grid_shape(box, cell_km)
    for block in blocks(batches):
        table = pa.Table.from_batches(block)
        frame = tidied({lat: table.column(0), lon: table.column(1)}, lat, lon)
        good = frame.filter(frame[REASON].is_null())
        x, y = to_km(box.lat, box.lon, good[lat].to_numpy(), good[lon].to_numpy())
        inside = inside_grid(box, columns, rows, cell_km, x, y)
        # Twice as many cells is a power of two: the products are exact, and so is the side of an edge.
        u, v = ((x[inside] - box.west) / cell_km) * 2.0**depth, ((y[inside] - box.south) / cell_km) * 2.0**depth
        cell = np.floor(v).astype(np.int64) * (columns << depth) + np.floor(u).astype(np.int64)
        numbers, counts = np.unique(cell, return_counts=True)
        aside = {**reasons(frame), OUT: int((~inside).sum())}
        yield pa.RecordBatch.from_pydict(
            {
                "cell": pa.array([*numbers.tolist(), *([None] * len(aside))], pa.int64()),
                "reason": pa.array([*([None] * numbers.size), *aside], pa.string()),
                "n": pa.array([*counts.tolist(), *aside.values()], pa.int64()),
            }
        )
