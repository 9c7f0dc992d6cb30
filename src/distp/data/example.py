"""The embedded example: Manhattan's buildings, home against other."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from distp.checks import FloatArray, IntArray
from distp.distributions import Pair
from distp.spaces import Box, Regions

# The whole island in 12 x 22 cells of 1 km with a ring around it; the table's own cells are 250 m.
BOX = Box.around(40.78, -73.965, 12, 22)
REGIONS = 400
MAX_DEPTH = 2


@dataclass(frozen=True, eq=False)
class Example:
    """Counts of tax lots in cells of about 250 m.

    Attributes
    ----------
    lat, lon : ndarray, shape (cells,)
        Centres in degrees.
    residential, other : ndarray of int, shape (cells,)
        Lots with and without a home.
    population : ndarray of int, shape (cells,)
        Estimated residents, 2023.
    """

    lat: FloatArray
    lon: FloatArray
    residential: IntArray
    other: IntArray
    population: IntArray

    def regions(self) -> Regions:
        """Return the map: 1 km cells, the ones crowded with lots quartered down to 250 m."""
        return Regions.quadtree(
            self.lat,
            self.lon,
            box=BOX,
            regions=REGIONS,
            weights=self.residential + self.other,
            max_depth=MAX_DEPTH,
        )

    def pair(self, regions: Regions) -> Pair:
        """Return home building against other building over the input regions."""
        where = regions.locate_inputs(self.lat, self.lon)
        inside, size = where >= 0, len(regions.inputs)
        counts = [
            np.bincount(where[inside], weights=lots[inside], minlength=size)
            for lots in (self.residential, self.other)
        ]
        return Pair.from_counts("home building", counts[0], counts[1])


def load_example() -> Example:
    """Return the embedded table (MIT; see ``NOTICE`` beside it).

    Examples
    --------
    >>> example = load_example()
    >>> int(example.residential.sum()), int(example.other.sum())
    (32552, 9675)
    """
    text = files("distp.data").joinpath("example/manhattan_buildings.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))

    def column(name: str) -> FloatArray:
        return np.array([float(row[name]) for row in rows])

    return Example(
        column("lat"),
        column("lon"),
        column("residential").astype(np.int64),
        column("other").astype(np.int64),
        column("population").astype(np.int64),
    )
