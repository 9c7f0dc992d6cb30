"""Protected rows as files: Parquet, Arrow and CSV; one part, or many put together without holding them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from distp.release.columns import COLUMN
from distp.spaces import Regions

GROUP_ROWS, GROUP_BYTES = 1 << 18, 1 << 24
KINDS = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".csv": "csv"}


def write_table(frame: pl.DataFrame, path: Path, kind: str, *, header: bool = True) -> None:
    """Write one part; a CSV spreads the report over columns ``report_0``, ..., with a first line of their names."""
    with _named():
        if kind == "parquet":
            # LZ4 packs small region numbers into about two bytes each, several times as fast as Zstandard does.
            frame.write_parquet(path, compression="lz4", statistics=False)
        elif kind == "arrow":
            frame.write_ipc(path, compression="uncompressed")
        else:
            flat(frame).write_csv(path, include_header=header)


def join_tables(parts: Sequence[Path], path: Path, kind: str) -> None:
    """Write parts into one file, in their order and in constant memory; of CSV, only the first has a header."""
    if len(parts) == 1:
        try:
            path.hardlink_to(parts[0])  # so that the part is still there if this is where the process is killed
        except OSError:
            shutil.copyfile(parts[0], path)
        return
    with _named():
        if kind == "parquet":
            places = pl.read_parquet_schema(parts[0])[COLUMN].shape[0]  # type: ignore[attr-defined]
            pl.scan_parquet([part.resolve() for part in parts], glob=False).sink_parquet(
                path,
                compression="lz4",
                statistics=False,
                row_group_size=max(1, min(GROUP_ROWS, GROUP_BYTES // (4 * places))),  # held at once, several times
                maintain_order=True,
                engine="streaming",
            )
        elif kind == "arrow":
            pl.scan_ipc([part.resolve() for part in parts], glob=False).sink_ipc(
                path, compression="uncompressed", maintain_order=True, engine="streaming"
            )
        else:
            with path.open("wb") as whole:
                for part in parts:
                    with part.open("rb") as stream:
                        shutil.copyfileobj(stream, whole, 1 << 20)


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
