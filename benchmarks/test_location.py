"""Ten million points located, beside the plain ways in the same run: look at the ratios, not at the seconds.

The table after the last benchmark shows seconds for ten million points; where the plain way took fewer, its time is
scaled up and the table says so.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import numpy as np
import pytest

from distp import Box, Regions
from distp.spaces import read_outlines
from distp.spaces.projection import to_km

POINTS = 10_000_000
BOX = Box.around(40.78, -73.965, 12, 22)
SHARED = Path(os.environ.get("DISTP_SHARED", Path(__file__).parents[2] / "shared")) / "data"
TRACTS = SHARED / "manhattan_boundary/manhattan_census_tracts_2020.geojson"


@pytest.fixture(scope="module")
def points():
    """Return ten million places in and around the city: three in four lie in the box."""
    rng = np.random.default_rng(0)
    return 40.78 + 0.06 * rng.standard_normal(POINTS), -73.97 + 0.05 * rng.standard_normal(POINTS)


@pytest.fixture(scope="module")
def table(request):
    """Collect lines; write them when all is done, past pytest's capture."""
    lines: list[tuple[str, float, str]] = []
    yield lines
    plugins = request.config.pluginmanager
    reporter = plugins.getplugin("terminalreporter")
    with plugins.getplugin("capturemanager").global_and_fixture_disabled():
        reporter.write_line("")
        reporter.section("seconds for 10,000,000 points")
        for name, value, note in lines:
            reporter.write_line(f"{name:<56} {value:8.2f} s  {note}")


def outlines():
    if not TRACTS.exists():
        pytest.skip("the census tracts are not here")
    return read_outlines(TRACTS, name="geoid")


def quadtree():
    rng = np.random.default_rng(1)
    lat, lon = 40.78 + 0.03 * rng.standard_normal(20_000), -73.97 + 0.03 * rng.standard_normal(20_000)
    return Regions.quadtree(lat, lon, box=BOX, regions=400)


KINDS = {
    "quadtree": quadtree,
    "grid": lambda: Regions.grid(BOX, 0.25),
    "masked": lambda: Regions.grid(cell_km=0.25, mask=outlines()),
    "polygons": lambda: Regions.polygons(outlines()),
    "h3 resolution 8": lambda: Regions.h3(BOX, 8),
    "h3 resolution 10": lambda: Regions.h3(BOX, 10),
}


def seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@pytest.mark.parametrize("kind", KINDS)
def test_ten_million_points(benchmark, points, table, kind):
    """Located from degrees, rows checked; the same numbers as by the projection, which the plain way shows."""
    regions = KINDS[kind]()
    regions.locate(*(values[:20_000] for values in points))  # compiled and drawn before the clock starts
    found = benchmark.pedantic(lambda: regions.locate(*points), rounds=5)
    best = benchmark.stats.stats.min if benchmark.stats else math.nan
    few = 500_000
    exact = []
    plain = POINTS / few * seconds(lambda: exact.append(regions._locator.exactly(*(v[:few] for v in points))))
    assert np.array_equal(exact[0], found[:few])
    benchmark.extra_info.update(regions=len(regions), plain=plain, gain=plain / best)
    table.append((f"{kind}: {len(regions):,} regions", best, ""))
    table.append(("  pyproj and numpy, from 500,000", plain, f"{plain / best:.0f}x"))


def test_pandas_cut_on_the_grid(benchmark, points, table):
    pd = pytest.importorskip("pandas")
    few = 1_000_000
    regions = Regions.grid(BOX, 0.25)
    west, south = BOX.west + 0.25 * np.arange(49), BOX.south + 0.25 * np.arange(89)

    def cut():
        x, y = to_km(BOX.lat, BOX.lon, *(values[:few] for values in points))
        column, row = (pd.cut(v, edges, right=False, labels=False) for v, edges in ((x, west), (y, south)))
        return np.where(np.isnan(column + row), -1, row * 48 + column).astype(int)

    found = benchmark.pedantic(cut, rounds=3)
    assert np.array_equal(found >= 0, regions.locate(*(values[:few] for values in points)) >= 0)
    table.append(("pandas.cut after pyproj on the grid, from 1,000,000", least(benchmark, few), ""))


def test_shapely_tree_on_the_tracts(benchmark, points, table):
    shapely = pytest.importorskip("shapely")
    few = 1_000_000
    regions = Regions.polygons(outlines())
    shapes = [shapely.MultiPolygon([(p[0], p[1:]) for p in regions.pieces_km(i)]) for i in range(len(regions))]
    tree = shapely.STRtree(shapes)
    lat, lon = (values[:few] for values in points)

    def locate():
        x, y = to_km(regions.box.lat, regions.box.lon, lat, lon)
        place, owner = tree.query(shapely.points(x, y), predicate="within")
        found = np.full(few, -1)
        found[place] = owner
        return found

    found = benchmark.pedantic(locate, rounds=2)
    assert np.array_equal(found, regions.locate(lat, lon))
    table.append(("shapely STRtree after pyproj on tracts, from 1,000,000", least(benchmark, few), ""))


@pytest.mark.parametrize("resolution", [8, 10])
def test_h3_one_call_per_point(benchmark, points, table, resolution):
    h3 = pytest.importorskip("h3")
    few = 200_000
    regions = Regions.h3(BOX, resolution)
    lat, lon = (values[:few] for values in points)
    places = list(zip(lat.tolist(), lon.tolist(), strict=True))
    found = benchmark.pedantic(lambda: [h3.latlng_to_cell(a, b, resolution) for a, b in places], rounds=2)
    mine = regions.locate(lat, lon)
    named = np.array([*regions.names, ""])[mine]
    assert (named[mine >= 0] == np.array(found)[mine >= 0]).all()
    table.append((f"h3.latlng_to_cell, resolution {resolution}, from 200,000", least(benchmark, few), ""))


def least(benchmark, points: int) -> float:
    """Return the least time of a benchmark, scaled to all points."""
    return benchmark.stats.stats.min * POINTS / points if benchmark.stats else math.nan
