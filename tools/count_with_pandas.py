"""Count the check-ins of dataset_TIST2015 by grid cell and morning with pandas: what our reader is compared with.

Usage: python tools/count_with_pandas.py FOLDER --box=S,W,N,E [--cell-km 1] [--fast | --chunks]

Three ways of the same job, all of them fair:
  (default)  the plain way: read both files, merge, parse the times, keep the box, group;
  --fast     venues cut to the box before anything is joined, a look-up instead of a merge, hours cut out of the
             text of the rows that are left, pyarrow's multithreaded reader for the large file;
  --chunks   as --fast, with the large file read by pandas' own reader a million rows at a time: little memory.

Prints the seconds of each step, the total, peak memory and what was counted. Needs the extra `peers`.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CHECK_INS, VENUES = "dataset_TIST2015_Checkins.txt", "dataset_TIST2015_POIs.txt"
TIME = "%a %b %d %H:%M:%S %z %Y"
KM_PER_DEGREE = 111.195
CHUNK = 1_000_000

Box = tuple[float, float, float, float]
Frame = Any  # pandas comes without types


class Clock:
    """The seconds that each step took."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add the time of a block to the step ``name``."""
        start = time.perf_counter()
        yield
        self.steps[name] = self.steps.get(name, 0.0) + time.perf_counter() - start


def read_venues(folder: Path, columns: list[str]) -> Frame:
    """Read the venues; a coordinate that is no number becomes NaN."""
    names = ["venue", "lat", "lon", "category", "country"]
    venues = pd.read_csv(
        folder / VENUES,
        sep="\t",
        header=None,
        names=names,
        usecols=columns,
        dtype="str",  # the numbers too: one bad cell must not stop the reading
        quoting=csv.QUOTE_NONE,
        encoding_errors="replace",
        keep_default_na=False,  # NA is a country, and "null" is to be seen below
    )
    for name in ("lat", "lon"):
        venues[name] = pd.to_numeric(venues[name], errors="coerce")
    return venues


def inside(table: Frame, box: Box) -> Frame:
    """Return which rows lie in the box."""
    south, west, north, east = box
    return (table["lat"] >= south) & (table["lat"] < north) & (table["lon"] >= west) & (table["lon"] < east)


def cells(table: Frame, box: Box, cell_km: float) -> tuple[Frame, Frame]:
    """Return column and row of each place in a square grid over the box."""
    south, west, north, _ = box
    wide = KM_PER_DEGREE * np.cos(np.radians((south + north) / 2))
    x = ((table["lon"] - west) * wide // cell_km).astype("int32")
    y = ((table["lat"] - south) * KM_PER_DEGREE // cell_km).astype("int32")
    return x, y


def count(table: Frame, box: Box, cell_km: float) -> Frame:
    """Count by cell and morning."""
    x, y = cells(table, box, cell_km)
    morning = table["hour"] < 12
    return table.assign(x=x, y=y, morning=morning).groupby(["x", "y", "morning"]).size()


def plain(folder: Path, box: Box, cell_km: float, clock: Clock) -> Frame:
    """Do it as it is usually written."""
    with clock.step("read check-ins"):
        table = pd.read_csv(
            folder / CHECK_INS,
            sep="\t",
            header=None,
            names=["user", "venue", "utc", "offset"],
            dtype={"user": "int32", "venue": "str", "utc": "str", "offset": "float32"},  # a short line lacks the last
            quoting=csv.QUOTE_NONE,
            encoding_errors="replace",
        )
    with clock.step("read venues"):
        venues = read_venues(folder, ["venue", "lat", "lon", "category", "country"])
    with clock.step("merge"):
        table = table.merge(venues, on="venue", how="inner")
    with clock.step("parse times"):
        utc = pd.to_datetime(table.pop("utc"), format=TIME, errors="coerce", utc=True)
        table["hour"] = (utc + pd.to_timedelta(table["offset"], unit="min")).dt.hour
    with clock.step("keep the box"):
        table = table[inside(table, box) & table["hour"].notna()]
    with clock.step("count"):
        return count(table, box, cell_km)


def hours(table: Frame) -> Frame:
    """Cut hour and minute out of the text, and return the local hour; NaN where the text is no time."""
    form = r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d [0-2]\d:[0-5]\d:[0-5]\d \+0000 \d{4}"
    utc = table["utc"].where(table["utc"].str.fullmatch(form))
    hour = pd.to_numeric(utc.str.slice(11, 13))
    local = (hour * 60 + pd.to_numeric(utc.str.slice(14, 16)) + table["offset"]) // 60 % 24
    days = pd.Series(pd.date_range("2000-01-01", "2030-12-31").strftime("%a %b %d %Y"))  # 31 April is none of them
    date = utc.str.slice(0, 10) + utc.str.slice(25)
    return local.where(date.isin(days) & (hour < 24))


def fast(folder: Path, box: Box, cell_km: float, clock: Clock, chunks: bool) -> Frame:
    """Do it as one would who knows pandas well and has waited for the plain way."""
    with clock.step("read venues"):
        venues = read_venues(folder, ["venue", "lat", "lon"])
        venues = venues[inside(venues, box)].set_index("venue")
    names = ["user", "venue", "utc", "offset"]
    if chunks:
        parts = []
        with clock.step("read check-ins and look venues up"):
            reader = pd.read_csv(
                folder / CHECK_INS,
                sep="\t",
                header=None,
                names=names,
                dtype={"user": "int32", "venue": "str", "utc": "str", "offset": "float32"},
                quoting=csv.QUOTE_NONE,
                encoding_errors="replace",
                chunksize=CHUNK,
            )
            for part in reader:
                parts.append(part[part["venue"].isin(venues.index)])
        table = pd.concat(parts, ignore_index=True)
    else:
        with clock.step("read check-ins"):
            table = pd.read_csv(
                folder / CHECK_INS,
                sep="\t",
                header=None,
                names=names,
                dtype={"user": "int32", "venue": "str", "utc": "str", "offset": "float32"},
                engine="pyarrow",  # cannot be told that nothing is quoted; no check-in has a quote in it
                on_bad_lines="skip",
            )
        with clock.step("look venues up"):
            table = table[table["venue"].isin(venues.index)].reset_index(drop=True)
    with clock.step("join, hours"):
        place = venues.index.get_indexer(table["venue"])
        for name in venues.columns:
            table[name] = venues[name].array.take(place)
        table["hour"] = hours(table)
        table = table[table["hour"].notna()]
    with clock.step("count"):
        return count(table, box, cell_km)


def main() -> None:
    """Read the command line, count, and print times and sizes as one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--box", required=True, help="S,W,N,E in degrees; south of the equator: --box=-6.4,106.7,-6.1,107.0"
    )
    parser.add_argument("--cell-km", type=float, default=1.0)
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--fast", action="store_true")
    way.add_argument("--chunks", action="store_true")
    given = parser.parse_args()
    south, west, north, east = (float(part) for part in given.box.split(","))
    box = (south, west, north, east)
    clock = Clock()
    start = time.perf_counter()
    if given.fast or given.chunks:
        counts = fast(given.folder, box, given.cell_km, clock, given.chunks)
    else:
        counts = plain(given.folder, box, given.cell_km, clock)
    total = time.perf_counter() - start
    usage = resource.getrusage(resource.RUSAGE_SELF)
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    morning = int(counts.xs(True, level="morning").sum()) if counts.size else 0
    result = {
        "seconds": round(total, 2),
        "cpu seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "gigabytes": round(peak, 3),
        "steps": {name: round(seconds, 2) for name, seconds in clock.steps.items()},
        "rows in the box": int(counts.sum()),
        "morning": morning,
        "cells": int(counts.reset_index()[["x", "y"]].drop_duplicates().shape[0]),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
