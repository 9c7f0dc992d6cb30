"""Rebuild the embedded example: Manhattan tax lots counted in cells of 250 m.

Usage: python tools/build_example.py manhattan_lots_2023.csv.gz

The input has one row a lot (latitude, longitude, unitsres, bbl_population_estimate). A lot is residential if
it has a residential unit. Only sums over cells are kept; the lots' authors advise against single-lot figures.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import polars as pl

from distp.spaces.projection import to_degrees, to_km

ANCHOR = (40.78, -73.97)
CELL_KM = 0.25
TARGET = Path(__file__).parent.parent / "src/distp/data/example/manhattan_buildings.csv"


def build(source: str) -> pl.DataFrame:
    """Return one row a cell: its centre, residential and other lots, population."""
    lots = pl.read_csv(source, columns=["latitude", "longitude", "unitsres", "bbl_population_estimate"])
    x, y = to_km(*ANCHOR, lots["latitude"].to_numpy(), lots["longitude"].to_numpy())
    cells = (
        lots.with_columns(
            i=pl.Series(np.floor(x / CELL_KM).astype(np.int64)),
            j=pl.Series(np.floor(y / CELL_KM).astype(np.int64)),
            home=pl.col("unitsres").fill_null(0) > 0,
        )
        .group_by("i", "j")
        .agg(
            residential=pl.col("home").sum(),
            other=(~pl.col("home")).sum(),
            population=pl.col("bbl_population_estimate").sum().round().cast(pl.Int64),
        )
        .sort("j", "i")
    )
    lat, lon = to_degrees(*ANCHOR, (cells["i"].to_numpy() + 0.5) * CELL_KM, (cells["j"].to_numpy() + 0.5) * CELL_KM)
    return cells.select(
        pl.Series("lat", lat).round(5), pl.Series("lon", lon).round(5), "residential", "other", "population"
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    table = build(sys.argv[1])
    table.write_csv(TARGET)
    print(
        f"{TARGET.name}: {table.height} cells, {table['residential'].sum()} residential lots, "
        f"{table['other'].sum()} others"
    )
