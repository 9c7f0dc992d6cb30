"""Protected rows as files: Parquet, Arrow and CSV; one part, or many put together without holding them."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import polars as pl
from polars.exceptions import PolarsError
from polars.io.plugins import register_io_source

from distp.errors import DataError
from distp.release.arrowfile import arrow_holds, write_arrow
from distp.release.columns import COLUMN
from distp.spaces import Regions

GROUP_ROWS, GROUP_BYTES = 1 << 18, 1 << 24
# What the parts of each kind of target are written as; those of one Parquet file are packed once, at the end.
KINDS = {"": "parquet", ".parquet": "arrow", ".arrow": "arrow", ".feather": "arrow", ".csv": "csv"}


def write_part(frame: pl.DataFrame, stream: BinaryIO, kind: str, *, header: bool = True) -> None:
    """Write one part; a CSV spreads the report over columns ``report_0``, ..., with a first line of their names."""
    with _named():
        if kind == "parquet":
            # LZ4 packs small region numbers into about two bytes each, several times as fast as Zstandard does.
            frame.write_parquet(stream, compression="lz4", statistics=False)
        elif kind == "arrow":
            write_arrow(frame, stream)
        else:
            spread = flat(frame)
            # A lone empty value is written as one: to many readers a line without anything is no row.
            spread.write_csv(stream, include_header=header, null_value='""' if spread.width == 1 else None)


def check_columns(kept: pl.DataFrame, suffix: str) -> None:
    """Refuse, before any part is written, a column whose type such a target cannot hold."""
    kinds = {KINDS[suffix], "parquet"} if suffix == ".parquet" else {KINDS[suffix]}
    for name, type_ in kept.schema.items():
        if not all(_holds(kept.select(name).head(1), kind) for kind in kinds):
            better = "; write .parquet" if suffix == ".csv" else ""
            raise DataError(f"--keep {name}: {type_} cannot be written as {suffix or 'Parquet'}{better}")


def _holds(column: pl.DataFrame, kind: str) -> bool:
    written = io.BytesIO()
    try:
        if kind == "csv":
            column.write_csv(written)
            return True
        if kind == "parquet":
            column.write_parquet(written)
            return pl.read_parquet(written.getvalue()).schema == column.schema
        return arrow_holds(column)
    except (PolarsError, pl.exceptions.PanicException):
        return False


def pack(parts: Callable[[], Iterator[pl.DataFrame]], width: int, path: Path) -> None:
    """Write protected rows as one Parquet file, in constant memory.

    ``parts`` begins to yield them anew, ``width`` says how many bytes a row takes, about.
    """
    with _named():
        schema = next(parts()).schema
        register_io_source(lambda *_: parts(), schema=schema).sink_parquet(
            path,
            compression="lz4",
            statistics=False,
            row_group_size=max(1, min(GROUP_ROWS, GROUP_BYTES // width)),  # held at once, several times
            maintain_order=True,
            engine="streaming",
        )


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Spread the report over columns."""
    places = frame.schema[COLUMN].shape[0]  # type: ignore[attr-defined]
    names = [f"{COLUMN}_{place}" for place in range(places)]
    return frame.drop(COLUMN).hstack(frame[COLUMN].arr.to_struct(names).struct.unnest())


def regions_table(regions: Regions) -> pl.DataFrame:
    """Return what the numbers in the reports mean: centre, size and name of each region."""
    columns = {"region": range(len(regions)), "lat": regions.lat.round(7), "lon": regions.lon.round(7)}
    size = {"side_km": regions.cells[:, 2]} if regions.square else {"area_km2": regions.area_km2.round(6)}
    named = {} if regions.names is None else {"name": list(regions.names)}
    return pl.DataFrame({**columns, **size, **named})


@contextmanager
def _named() -> Iterator[None]:
    """Say in the system's words why a writer failed; its own may quote values."""
    try:
        yield
    except PolarsError as error:
        full = os.strerror(errno.ENOSPC) in str(error)
        raise OSError(*((errno.ENOSPC, os.strerror(errno.ENOSPC)) if full else (errno.EIO, "it failed"))) from None
