"""Regions of every kind: polygons, hexagons, masks and caps; many points located as exactly as one."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import h3
import numpy as np
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import Delaunay

from distp import Box, Identity, Pair, Policy, Regions, Tupling
from distp.cli import query
from distp.errors import CoordinateError, DataError, ParameterError, PolicyError, SpaceError
from distp.release import policyfile, regionfile
from distp.report.figures import map_figure, tuple_figure
from distp.spaces import hexagons, read_outlines
from distp.spaces.projection import to_degrees, to_km
from distp.spaces.shapes import Shapes
from distp.spaces.squares import MAX_REGIONS
from distp.spaces.window import FIT_KM, _value, fit_window
from helpers import shared

TRACTS = "manhattan_boundary/manhattan_census_tracts_2020.geojson"
NEW_YORK = Box.around(40.75, -73.97, 12, 11)
FIJI = Box.around(-17.5, 179.8, 300, 300)


def polygon(*rings, **properties):
    """Return a feature of one polygon, rings of (lon, lat) closed here."""
    closed = [[list(place) for place in (*ring, ring[0])] for ring in rings]
    return {"type": "Feature", "properties": properties, "geometry": {"type": "Polygon", "coordinates": closed}}


def collection(*features):
    return {"type": "FeatureCollection", "features": list(features)}


def rectangle(west, south, east, north, **properties):
    return polygon([(west, south), (east, south), (east, north), (west, north)], **properties)


def several(*polygons, **properties):
    parts = [feature["geometry"]["coordinates"] for feature in polygons]
    return {
        "type": "Feature",
        "properties": properties,
        "geometry": {"type": "MultiPolygon", "coordinates": parts},
    }


def triangles(points):
    """Return shapes of a triangulation of points in km, shape (n, 2)."""
    corners = points[Delaunay(points).simplices]
    closed = np.concatenate([corners, corners[:, :1]], axis=1)
    one = np.arange(len(corners) + 1)
    return Shapes(closed.reshape(-1, 2), 4 * one, one, one, [str(i) for i in range(len(corners))])


def held_by(shapes, x, y):
    """Return how many of all polygons hold each place, each polygon asked."""
    count = np.zeros(x.size, dtype=int)
    for number in range(len(shapes)):
        count += shapes._holds(x, y, np.full(x.size, number))
    return count


@pytest.fixture(scope="module")
def city():
    """Return points in and around the city, in degrees."""
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-9, 9, (2, 60_000))
    return to_degrees(NEW_YORK.lat, NEW_YORK.lon, x, y)


# Many points as exactly as one


def at_edges(regions, rng, points):
    """Return points on edges of regions, or off them by 0 to a few mm, in degrees."""
    rings = [ring for region in range(len(regions)) for ring in regions.rings_km(region)]
    a = np.concatenate(rings)
    b = np.concatenate([np.roll(ring, -1, axis=0) for ring in rings])
    edge = rng.integers(len(a), size=points)
    # A tenth of them at the very corners.
    place = a[edge] + (b - a)[edge] * (rng.random(points) * (rng.random(points) < 0.9))[:, None]
    place += rng.choice([0, 1e-12, 1e-10, 1e-9, 1e-8, 1e-7, 3e-6], (points, 1)) * rng.standard_normal((points, 2))
    return to_degrees(regions.box.lat, regions.box.lon, *place.T)


def kinds():
    rng = np.random.default_rng(5)
    lat, lon = 40.75 + 0.02 * rng.standard_normal(3000), -73.97 + 0.02 * rng.standard_normal(3000)
    triangle = collection(polygon([(-74.03, 40.70), (-73.91, 40.70), (-73.97, 40.80)]))
    yield "quadtree", lambda: Regions.quadtree(lat, lon, box=NEW_YORK)
    yield "grid", lambda: Regions.grid(NEW_YORK, 0.3)
    yield "masked", lambda: Regions.quadtree(lat, lon, box=NEW_YORK, cap=30, mask=triangle)
    yield "polygons", lambda: Regions.polygons(star(rng))
    yield "h3", lambda: Regions.h3(NEW_YORK, 9)
    yield "fiji", lambda: Regions.h3(FIJI, 5)
    yield "fiji grid", lambda: Regions.grid(FIJI, 7.0)
    yield "a continent", lambda: Regions.grid(Box.around(48.0, 10.0, 4000, 3000), 50.0)


def star(rng):
    """Return a ragged ring of 2000 vertices with a hole, and what fills the hole."""
    angle = np.sort(rng.uniform(0, 2 * np.pi, 2000))
    reach = 0.05 + 0.005 * rng.random(2000)
    outer = np.column_stack([-73.97 + reach * np.cos(angle), 40.75 + reach * np.sin(angle)])
    inner = [(-73.99, 40.74), (-73.95, 40.73), (-73.96, 40.76)]
    return collection(polygon(outer.tolist(), inner[::-1], name="ring"), polygon(inner, name="core"))


@pytest.mark.parametrize(("name", "make"), list(kinds()))
def test_many_points_are_located_as_the_projection_locates_each(name, make):
    regions = make()
    rng = np.random.default_rng(6)
    lat, lon = at_edges(regions, rng, 40_000)
    box = regions.box
    x = box.west + box.width * rng.uniform(-0.3, 1.3, 40_000)
    y = box.south + box.height * rng.uniform(-0.3, 1.3, 40_000)
    around = to_degrees(box.lat, box.lon, x, y)
    lat, lon = np.concatenate([lat, around[0]]), np.concatenate([lon, around[1]])
    anywhere = np.degrees(np.arcsin(rng.uniform(-1, 1, 20_000))), rng.uniform(-180, 180, 20_000)
    lat, lon = np.concatenate([lat, anywhere[0]]), np.concatenate([lon, anywhere[1]])
    assert regions._locator.window is not None
    quick = regions.locate(lat, lon)
    assert np.array_equal(quick, regions._locator.exactly(lat, lon)), name
    assert (quick[40_000:80_000] < 0).any()
    assert (quick[40_000:80_000] >= 0).any()
    few = rng.integers(lat.size, size=500)
    assert np.array_equal(regions.locate(lat[few], lon[few]), quick[few])


@pytest.mark.parametrize("make", [lambda: Regions.grid(FIJI, 7.0), lambda: Regions.h3(FIJI, 5)])
def test_180_and_minus_180_are_one_meridian_for_few_points_and_many(make):
    regions = make()
    lat = np.linspace(-18.8, -16.2, 30_000)
    east, west = np.full(lat.size, 180.0), np.full(lat.size, -180.0)
    many = regions.locate(lat, east)
    assert np.array_equal(many, regions.locate(lat, west))
    assert np.array_equal(many[:50], regions.locate(lat[:50], west[:50]))
    assert (many >= 0).all()


def test_180_and_minus_180_are_projected_to_the_last_bit_alike():
    lat = np.linspace(-19, -16, 2000)
    for lon0 in (179.8, -179.3, 177.77, 180.0):
        one, two = (np.array(to_km(-17.5, lon0, lat, np.full(2000, lon))) for lon in (180.0, -180.0))
        assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("lat0", "lon0", "extent"),
    [
        (40.75, -73.97, (-6, -5.5, 6, 5.5)),
        (-17.5, 180.0, (-150, -150, 150, 150)),
        (40.75, -73.97, (90.0, -30, 130, 10)),  # the anchor lies outside
        (39.0, -98.0, (-2300, -1500, 2300, 1500)),
        (84.0, 0.0, (-50, -50, 50, 50)),
    ],
)
def test_the_window_holds_the_box_and_its_polynomial_is_the_projection(lat0, lon0, extent):
    window = fit_window(lat0, lon0, extent)
    assert window is not None
    middle, per_height, _, per_width = window.frame
    rng = np.random.default_rng(0)
    x, y = rng.uniform(extent[0], extent[2], 20_000), rng.uniform(extent[1], extent[3], 20_000)
    x[:5000], y[5000:10_000] = rng.choice([extent[0], extent[2]], 5000), rng.choice([extent[1], extent[3]], 5000)
    lat, lon = to_degrees(lat0, lon0, x, y)
    t, e = (lat - middle) * per_height, ((lon - lon0 + 180) % 360 - 180) * per_width
    assert np.abs(t).max() < 1
    assert np.abs(e).max() < 1
    exact = to_km(lat0, lon0, lat, lon)
    s = 2 * e**2 - 1
    assert np.abs(_value(window.x, t, s) * e - exact[0]).max() < 2 * FIT_KM
    assert np.abs(_value(window.y, t, s) - exact[1]).max() < 2 * FIT_KM


def test_a_box_with_a_pole_or_half_the_world_has_no_window_and_is_located_all_the_same():
    for box in (Box(84.0, 0.0, -100, -100, 200, 900), Box.around(0.0, 0.0, 15_000, 15_000)):
        regions = Regions.grid(box, 100.0, ring_km=0)
        assert regions._locator.window is None
        lat, lon = to_degrees(box.lat, box.lon, *regions.points.T)
        assert np.array_equal(regions.locate(np.tile(lat, 2), np.tile(lon, 2)), np.tile(np.arange(len(regions)), 2))
        assert regions.locate(np.tile(lat, 300)[:20_000], np.tile(lon, 300)[:20_000]).min() >= 0


@pytest.mark.parametrize(
    ("row", "lat", "lon", "match"),
    [
        (12_345, np.nan, 0.0, "row 12345 is missing or not finite .1 such"),
        (19_999, 91.0, 10.0, "row 19999 .*swapped"),
        (0, 40.0, 180.5, "row 0 is out of range"),
        (256, 40.0, -np.inf, "row 256 is missing"),
    ],
)
def test_a_bad_row_among_many_is_named_as_among_few(row, lat, lon, match):
    lats, lons = np.full(20_000, 40.75), np.full(20_000, -73.97)
    lats[row], lons[row] = lat, lon
    for regions in (Regions.grid(NEW_YORK), Regions.h3(NEW_YORK, 8)):
        with pytest.raises(CoordinateError, match=match):
            regions.locate(lats, lons)


@pytest.mark.parametrize("row", [5, 39_995])
def test_a_bad_row_is_named_beside_points_that_the_projection_has_to_decide(row):
    regions = Regions.grid(NEW_YORK)
    lats, lons = at_edges(regions, np.random.default_rng(9), 40_000)
    lats[row] = np.nan
    with pytest.raises(CoordinateError, match=f"row {row} is missing"):
        regions.locate(lats, lons)


def test_a_single_point_on_an_edge_is_decided_by_the_projection():
    regions = Regions.grid(NEW_YORK)
    lats, lons = np.full(20_000, 40.7503), np.full(20_000, -73.9703)
    lats[[77]], lons[[77]] = to_degrees(NEW_YORK.lat, NEW_YORK.lon, *regions.cells[5, :2, None])
    found = regions.locate(lats, lons)
    assert found.min() >= 0
    assert np.array_equal(found, regions._locator.exactly(lats, lons))


def test_any_array_will_do(city):
    regions = Regions.grid(NEW_YORK)
    lat, lon = (values[:40_000] for values in city)
    wanted = regions.locate(lat[::2].copy(), lon[::2].copy())
    assert np.array_equal(regions.locate(lat[::2], lon[::2]), wanted)
    assert np.array_equal(regions.locate(lat[::2].tolist(), lon[::2].tolist()), wanted)
    assert np.array_equal(regions.locate(lat[::2].astype(">f8"), lon[::2]), wanted)
    single = lat[::2].astype(np.float32), lon[::2].astype(np.float32)
    assert np.array_equal(regions.locate(*single), regions.locate(*(values.astype(float) for values in single)))
    assert lat.flags.writeable


def test_one_point_compiles_nothing_and_importing_loads_nothing():
    script = (
        "import sys, distp.spaces;"
        "heavy = lambda: [m for m in ('pyproj', 'shapely', 'h3', 'numba') if m in sys.modules];"
        "print(heavy());"
        "r = distp.spaces.Regions.grid(distp.spaces.Box.around(0, 0, 3, 3)); r.locate(0, 0); print(heavy());"
        "r = distp.spaces.Regions.h3(distp.spaces.Box.around(0, 0, 3, 3), 9); r.locate(0, 0); print(heavy())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["[]", "['pyproj']", "['pyproj', 'shapely', 'h3']"]


# Polygons


def test_real_tracts_agree_with_shapely_point_by_point(city):
    regions = Regions.polygons(shared(TRACTS), name="geoid")
    assert len(regions) == len(regions.inputs) == 310
    assert regions.names[0] == "36061000100"
    lat, lon = (values[:60_000] for values in city)
    found = regions.locate(lat, lon)
    x, y = to_km(regions.box.lat, regions.box.lon, lat, lon)
    shapes = [shapely.MultiPolygon([(p[0], p[1:]) for p in regions.pieces_km(i)]) for i in range(len(regions))]
    place, owner = shapely.STRtree(shapes).query(shapely.points(x, y), predicate="within")
    brute = np.full(lat.size, -1)
    brute[place] = owner
    assert np.array_equal(found, brute)
    assert (found >= 0).sum() > 5_000
    assert regions.area_km2.sum() == pytest.approx(sum(shape.area for shape in shapes))
    middles = np.array([shape.centroid.coords[0] for shape in shapes])
    assert np.abs(middles - regions.points).max() < 1e-9


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 60), st.booleans())
def test_every_point_of_a_triangulation_lies_in_exactly_one_triangle(seed, size, whole):
    rng = np.random.default_rng(seed)
    # Whole coordinates: many vertices in one line, many edges horizontal.
    corners = rng.integers(0, 9, (size, 2)).astype(float) if whole else rng.normal(0, 3, (size, 2)).clip(-8, 19)
    corners = np.unique(np.concatenate([corners, [[-9, -9], [20, -9], [20, 20], [-9, 20]]]), axis=0)
    shapes = triangles(corners)
    inside = rng.uniform(-9, 20, (200, 2))
    ends = corners[rng.integers(len(corners), size=(300, 2))]
    places = np.concatenate([inside, corners, ends.mean(axis=1)])
    within = (places >= -9).all(axis=1) & (places < 20).all(axis=1)
    x, y = places.T
    assert np.array_equal(held_by(shapes, x, y), within.astype(int))
    assert np.array_equal(shapes.find(x, y) >= 0, within)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_raster_finds_what_every_polygon_asked_says(seed):
    rng = np.random.default_rng(seed)
    shapes = triangles(np.concatenate([rng.normal(0, 3, (40, 2)), rng.normal(1, 0.01, (20, 2))]))
    frame, pixels, starts, candidates = shapes._raster
    place = rng.uniform(shapes.extent[:2], shapes.extent[2:], (3000, 2))
    u, v = np.floor((place - frame[:2]) * frame[2]).astype(int).T
    value = pixels[v, u]
    wanted = shapes.find(*place.T)
    pure = value > -2
    assert pure.mean() > 0.3
    assert np.array_equal(value[pure], wanted[pure])
    for m, region in zip(-2 - value[~pure], wanted[~pure], strict=True):
        assert region < 0 or region in candidates[starts[m] : starts[m + 1]]


def test_an_edge_belongs_to_the_polygon_east_or_north_of_it():
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]], dtype=float)
    corners = [square + [i, j] for j in (0, 1) for i in (0, 1)]
    one = np.arange(5)
    shapes = Shapes(np.concatenate(corners), 5 * one, one, one, list("abcd"))
    x, y = np.array([[1, 0.5], [0.5, 1], [1, 1], [0, 0], [2, 0.5], [0.5, 2], [0, 2], [1, 0]]).T
    assert shapes.find(x, y).tolist() == [1, 2, 3, 0, -1, -1, -1, 1]


def test_holes_parts_and_numbering():
    outer = [(0, 0), (3, 0), (3, 3), (0, 3)]
    hole = [(1, 1), (1, 2), (2, 2), (2, 1)]
    areas = collection(polygon(outer, hole, name="frame"), rectangle(1.2, 1.2, 1.8, 1.8, NAME="pond"))
    areas["features"].append(several(rectangle(5, 0, 6, 1), rectangle(8, 0, 9, 1), name="islands"))
    regions = Regions.polygons(areas, inputs=[False, True, True])
    assert regions.names == ("pond", "islands", "frame")
    assert len(regions.inputs) == 2
    where = regions.locate([0.5, 1.5, 1.1, 0.5, 0.5, 0.5], [0.5, 1.5, 1.1, 5.5, 8.5, 7.0])
    assert where.tolist() == [2, 0, -1, 1, 1, -1]
    assert regions.locate_inputs(0.5, 0.5).tolist() == [-1]
    assert [len(piece) for piece in regions.pieces_km(2)] == [2]
    assert len(regions.pieces_km(1)) == len(regions.rings_km(1)) == 2
    lat, lon = zip(*regions.outline(0), strict=True)
    assert (min(lat), max(lon)) == (pytest.approx(1.2), pytest.approx(1.8))
    with pytest.raises(SpaceError, match="polygons, not square cells"):
        _ = regions.cells
    with pytest.raises(SpaceError, match="square cells"):
        _ = Regions.grid(NEW_YORK).shapes


def test_a_many_sided_polygon_costs_no_more_to_ask():
    angle = np.linspace(0, 2 * np.pi, 40_001)[:-1]
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    shapes = Shapes(np.concatenate([ring, ring[:1]]), *(np.array([0, end]) for end in (40_001, 1, 1)), ["disc"])
    assert np.diff(shapes._begin).mean() < 6
    place = np.random.default_rng(1).uniform(-1.1, 1.1, (20_000, 2))
    radius = np.hypot(*place.T)
    clear = np.abs(radius - 1) > 1e-6
    assert np.array_equal(shapes.find(*place.T)[clear] == 0, radius[clear] < 1)


def test_long_edges_follow_the_parallel_as_geojson_says():
    regions = Regions.polygons(collection(rectangle(-110, 41, -104, 49), rectangle(-104, 43, -98, 49)))
    lon = np.linspace(-109.9, -98.1, 200)
    assert (regions.locate(np.full(200, 48.999), lon) >= 0).all()
    assert (regions.locate(np.full(200, 49.001), lon) < 0).all()
    lat = np.linspace(43.1, 48.9, 20_000)
    assert (regions.locate(lat, np.full(20_000, -104.0)) >= 0).all()


def test_polygons_on_the_antimeridian_cut_or_not_are_one_area():
    cut = several(rectangle(179.5, -18, 180, -17), rectangle(-180, -18, -179.5, -17))
    jump = rectangle(179.5, -18, -179.5, -17)
    lat, lon = np.full(5, -17.5), np.array([179.6, 180.0, -180.0, -179.6, 179.4])
    for feature in (cut, jump):
        regions = Regions.polygons(collection(feature, rectangle(-179.5, -18, -179, -17)))
        assert regions.locate(lat, lon).tolist() == [0, 0, 0, 0, -1]
        assert len(regions.pieces_km(0)) == 1
        assert abs(abs(regions.lon[0]) - 180) < 1e-6
        assert regions.area_km2[0] == pytest.approx(2 * regions.area_km2[1], rel=1e-3)
        assert regions.box.width < 200


@pytest.mark.parametrize(
    ("outlines", "error", "match"),
    [
        (collection(), SpaceError, "no polygons"),
        ({"type": "Point", "coordinates": [0, 0]}, SpaceError, "'Point'"),
        (collection({"type": "Feature", "geometry": {"type": "Point", "coordinates": [0, 0]}}), SpaceError, "area 0"),
        (collection({"type": "Feature", "geometry": None}), SpaceError, "geometry is missing"),
        (collection(several(name="none")), SpaceError, r"area 0 \(none\) is empty"),
        (collection(polygon([(0, 0), (1, 1), (1, 0), (0, 1)], name="bow")), SpaceError, r"bow\) is no polygon: self"),
        (collection(polygon([(0, 0), (1, 1), (0, 0)])), SpaceError, "area 0"),
        (collection(polygon([(0, 0), (1, 1), (2, 2)], name="flat")), SpaceError, "flat"),
        (collection(polygon([(0, 0), (1, "a"), (2, 2)])), SpaceError, "no pair of numbers"),
        (collection(rectangle(0, 0, 1, 95, name="far")), CoordinateError, r"area 0 \(far\): row"),
        (collection(rectangle(0, 0, 1, 86, name="north")), CoordinateError, r"\(north\) reaches latitude 86"),
        (collection(polygon([(0, 70), (120, 70), (-120, 70)])), CoordinateError, "round a pole"),
        (collection(polygon([(w, 0) for w in (-100, -40, 20, 80, 100)] + [(20, 9)])), CoordinateError, "hemisphere"),
        (collection(rectangle(-90, 0, -80, 5), rectangle(0, 0, 9, 5), rectangle(170, 0, 179, 5)),
         CoordinateError, "together"),
        (collection(rectangle(0, 0, 2, 2, name="a"), rectangle(1, 1, 3, 3, name="b")), SpaceError,
         r"\(a\) and area 1 \(b\) overlap"),
        (collection(rectangle(0, 0, 2, 2), rectangle(0.5, 0.5, 1, 1)), SpaceError, "overlap"),
        (collection(rectangle(0, 0, 2, 2), rectangle(0, 0, 2, 2)), SpaceError, "overlap"),
        (collection(several(rectangle(0, 0, 2, 2), rectangle(1, 1, 3, 3))), SpaceError, "no polygon"),
        ([1], DataError, "a path or a GeoJSON dict"),
        ({"type": "FeatureCollection", "features": 3}, DataError, "list of features"),
    ],
)  # fmt: skip
def test_bad_outlines_are_refused_by_name(outlines, error, match):
    with pytest.raises(error, match=match):
        Regions.polygons(outlines)


def test_files_that_are_no_outlines_are_refused(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        read_outlines(tmp_path / "none.geojson")
    path = tmp_path / "bad.geojson"
    for text, match in (("{", "not JSON"), ("[]", "not an object")):
        path.write_text(text)
        with pytest.raises(DataError, match=match):
            read_outlines(path)
    path.write_text(json.dumps(collection(rectangle(0, 0, 1, 1, code=7), rectangle(1, 0, 2, 1))))
    assert read_outlines(path).names == ("0", "1")
    with pytest.raises(SpaceError, match="area 1 has no property 'code'"):
        read_outlines(path, name="code")
    with pytest.raises(ParameterError, match="true or false for each of 2"):
        Regions.polygons(path, inputs=[1, 0])
    with pytest.raises(ParameterError, match="names no area"):
        Regions.polygons(path, inputs=[False, False])


def test_slivers_are_allowed_and_belong_to_the_first():
    regions = Regions.polygons(collection(rectangle(0, 0, 1, 1), rectangle(1 - 1e-9, 0, 2, 1)))
    lat = np.linspace(0.01, 0.99, 20_000)
    assert (regions.locate(lat, np.full(lat.size, 1 - 5e-10)) == 0).all()


# Caps and masks


def test_a_cap_quarters_every_cell_above_it_and_no_other():
    rng = np.random.default_rng(2)
    lat, lon = 40.75 + 0.02 * rng.standard_normal(4000), -73.97 + 0.02 * rng.standard_normal(4000)
    regions = Regions.quadtree(lat, lon, box=NEW_YORK, cap=25)
    where = regions.locate(lat, lon)
    held = np.bincount(where[where >= 0], minlength=len(regions))
    assert held.max() <= 25
    west, south, side = regions.cells.T
    x, y = to_km(NEW_YORK.lat, NEW_YORK.lon, lat, lon)
    for i in np.flatnonzero(side < 1):  # the cell it was cut from held more
        a, b = (np.floor((edge - low) / (2 * side[i]) + 1e-9) * 2 * side[i] + low
                for edge, low in ((west[i], NEW_YORK.west), (south[i], NEW_YORK.south)))  # fmt: skip
        assert ((x >= a) & (x < a + 2 * side[i]) & (y >= b) & (y < b + 2 * side[i])).sum() > 25
    weighted = Regions.quadtree(lat, lon, box=NEW_YORK, cap=50, weights=np.full(4000, 2.0))
    assert np.array_equal(weighted.cells, regions.cells)
    assert len(Regions.quadtree(lat, lon, box=NEW_YORK, cap=4000)) == 132
    shallow = Regions.quadtree(lat, lon, box=NEW_YORK, cap=0, max_depth=1)
    assert shallow.cells[:, 2].min() == 0.5


def test_bad_caps_are_named():
    rng = np.random.default_rng(2)
    lat, lon = 40.75 + 0.02 * rng.standard_normal(400), -73.97 + 0.02 * rng.standard_normal(400)
    with pytest.raises(ParameterError, match="not both"):
        Regions.quadtree(lat, lon, box=NEW_YORK, cap=5, regions=276)
    with pytest.raises(ParameterError, match="cap"):
        Regions.quadtree(lat, lon, box=NEW_YORK, cap=-1)
    many = np.random.default_rng(0).uniform(-5, 5, (2, 60_000))
    lat, lon = to_degrees(NEW_YORK.lat, NEW_YORK.lon, *many)
    with pytest.raises(ParameterError, match=f"more than {MAX_REGIONS:,} regions"):
        Regions.quadtree(lat, lon, box=NEW_YORK, cap=0, max_depth=9)


def triangle_mask():
    return collection(polygon([(-74.03, 40.71), (-73.92, 40.71), (-73.97, 40.79)]))


def overlap(regions, mask):
    outline = shapely.Polygon(np.column_stack(to_km(
        regions.box.lat, regions.box.lon, *np.array(mask["features"][0]["geometry"]["coordinates"][0])[:, ::-1].T
    )))  # fmt: skip
    pieces = [shapely.Polygon(regions.rings_km(i)[0]) for i in range(len(regions))]
    return outline, np.array([outline.intersection(piece).area for piece in pieces]), pieces


@pytest.mark.parametrize("kind", ["grid", "quadtree", "cap", "h3"])
def test_a_mask_keeps_exactly_the_regions_that_overlap_it(kind, city):
    mask = triangle_mask()
    rng = np.random.default_rng(2)
    lat, lon = 40.75 + 0.02 * rng.standard_normal(4000), -73.97 + 0.02 * rng.standard_normal(4000)
    regions = {
        "grid": lambda: Regions.grid(NEW_YORK, 0.5, mask=mask),
        "quadtree": lambda: Regions.quadtree(lat, lon, box=NEW_YORK, regions=400, mask=mask),
        "cap": lambda: Regions.quadtree(lat, lon, cap=20, mask=mask),
        "h3": lambda: Regions.h3(NEW_YORK, 8, ring_km=0, mask=mask),
    }[kind]()
    outline, shared_area, pieces = overlap(regions, mask)
    assert (shared_area > 0).all()
    # Nothing of the outline is missing but what lies outside the box, where there is one.
    here = shapely.union_all(pieces)
    assert outline.difference(here.buffer(1e-6)).area == pytest.approx(0, abs=1e-3 if kind == "h3" else 1e-6)
    where = regions.locate(*city)
    x, y = to_km(regions.box.lat, regions.box.lon, *city)
    shapely.prepare(here)
    inside = shapely.contains_xy(here, x, y)
    assert ((where >= 0) == inside).all()
    if kind == "quadtree":
        assert 398 <= len(regions) <= 400


def test_the_ring_is_about_the_box_and_a_box_laid_around_a_mask_leaves_none():
    mask = triangle_mask()
    tight = Regions.grid(NEW_YORK, 1.0, mask=mask)
    loose = Regions.grid(NEW_YORK, 1.0, ring_km=0, mask=mask)
    assert len(loose.inputs) == len(loose) == len(tight)
    depth = np.minimum(tight.points - [-6, -5.5], [6, 5.5] - tight.points).min(axis=1)
    assert np.array_equal(depth > 1, np.arange(len(tight)) < len(tight.inputs))
    for regions in (Regions.grid(cell_km=0.7, mask=mask), Regions.h3(None, 8, mask=mask)):
        assert len(regions.inputs) == len(regions)
    with pytest.raises(ParameterError, match="box is missing"):
        Regions.grid()
    with pytest.raises(ParameterError, match="overlaps the mask"):
        Regions.grid(Box.around(10.0, -70.0, 5, 5), mask=mask)


def test_touching_a_mask_is_not_overlapping_it():
    box = Box.around(0.0, 0.0, 4, 4)
    corner = to_degrees(0.0, 0.0, [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0])
    mask = collection(polygon(np.column_stack(corner[::-1]).tolist()))
    kept = Regions.grid(box, 1.0, ring_km=0, mask=mask)
    assert {(0, 0)} <= {tuple(np.rint(cell[:2]).astype(int).tolist()) for cell in kept.cells}
    assert len(kept) <= 4  # rounding of the corners may reach over an edge, never over a cell


def test_cells_may_leave_holes_only_when_told_so():
    box = Box.around(40.75, -73.97, 2, 2)
    three = [[-1, -1, 1], [0, -1, 1], [-1, 0, 1]]
    with pytest.raises(SpaceError, match="hole"):
        Regions(box, 1.0, three, 2)
    regions = Regions(box, 1.0, three, 2, holes=True)
    assert regions.locate(40.751, -73.969).tolist() == [-1]
    with pytest.raises(SpaceError, match="overlaps"):
        Regions(box, 1.0, [*three, [-1, -1, 0.5]], 2, holes=True)
    for bad in ([-1, -1, 0.0], [-1, -1, np.nan], [1e300, -1, 1]):
        with pytest.raises(SpaceError):
            Regions(box, 1.0, [*three, bad], 2, holes=True)


# Hexagons


@pytest.mark.parametrize(("box", "resolution"), [(NEW_YORK, 9), (FIJI, 5), (Box.around(58.3, 11.0, 600, 600), 5)])
def test_h3_cells_are_those_of_the_scalar_function(box, resolution):
    regions = Regions.h3(box, resolution)
    rng = np.random.default_rng(4)
    size = 15_000
    x, y = (low + span * rng.random(size) for low, span in ((box.west, box.width), (box.south, box.height)))
    lat, lon = to_degrees(box.lat, box.lon, x, y)
    found = regions.locate(lat, lon)
    cells = np.array([h3.latlng_to_cell(a, b, resolution) for a, b in zip(lat.tolist(), lon.tolist(), strict=True)])
    named = np.array([*regions.names, "outside"])[found]
    known = np.isin(cells, regions.names)
    assert np.array_equal(found >= 0, known)
    assert np.array_equal(named[known], cells[known])
    centres = np.array([h3.cell_to_latlng(cell) for cell in regions.names])
    u, v = to_km(box.lat, box.lon, *centres.T)
    assert (np.abs(u) < box.width / 2).all()
    assert (np.abs(v) < box.height / 2).all()
    ring = hexagons.spacing(resolution)
    depth = np.minimum(box.width / 2 - np.abs(u), box.height / 2 - np.abs(v))
    assert np.array_equal(depth > ring, np.arange(len(regions)) < len(regions.inputs))
    # None is missing: as many as the cells of a fine grid of points have their centre in the box.
    assert len(regions) >= len({cell for cell in cells if within(cell, box)})
    assert list(regions.names) == [
        *sorted(regions.names[: len(regions.inputs)]),
        *sorted(regions.names[len(regions.inputs) :]),
    ]


def within(cell, box):
    lat, lon = h3.cell_to_latlng(cell)
    x, y = to_km(box.lat, box.lon, [lat], [lon])
    return abs(x[0]) < box.width / 2 and abs(y[0]) < box.height / 2


@pytest.mark.parametrize(("box", "resolution"), [(NEW_YORK, 9), (FIJI, 5), (Box.around(0.0, 0.0, 1500, 1500), 3)])
def test_h3_agrees_up_to_a_centimetre_of_an_edge(box, resolution):
    regions = Regions.h3(box, resolution)
    rng = np.random.default_rng(4)
    sides = regions.shapes._sides[rng.integers(regions.shapes._sides.shape[0], size=3000)]
    way = sides[:, 2:] - sides[:, :2]
    across = np.column_stack([-way[:, 1], way[:, 0]]) / np.linalg.norm(way, axis=1)[:, None]
    place = sides[:, :2] + way * rng.uniform(0.05, 0.95, (3000, 1)) + 1e-5 * across
    lat, lon = to_degrees(regions.box.lat, regions.box.lon, *place.T)
    found = regions.locate(lat, lon)
    for cell, a, b in zip(found.tolist(), lat.tolist(), lon.tolist(), strict=True):
        assert cell < 0 or regions.names[cell] == h3.latlng_to_cell(a, b, resolution)


@pytest.mark.parametrize("box", [Box.around(40.75, -73.97, 40, 0.4), Box.around(-17.5, 180.0, 0.3, 40)])
def test_a_box_narrower_than_a_cell_misses_none(box):
    x, y = (low + span * np.linspace(0, 1, max(3, int(span * 10))) for low, span in
            ((box.west, box.width), (box.south, box.height)))  # fmt: skip
    lat, lon = to_degrees(box.lat, box.lon, np.repeat(x, y.size), np.tile(y, x.size))
    cells = {h3.latlng_to_cell(a, b, 8) for a, b in zip(lat.tolist(), lon.tolist(), strict=True)}
    wanted = sorted(cell for cell in cells if within(cell, box))
    assert len(wanted) > 5
    assert hexagons.cells_in(box, 8)[0] == wanted


def test_neighbouring_hexagons_share_their_corners_to_the_last_bit():
    # The second lies where several faces of H3's icosahedron meet.
    for box, resolution in ((NEW_YORK, 9), (Box.around(58.3, 11.0, 600, 600), 5)):
        vertices = Regions.h3(box, resolution).shapes.vertices
        assert len(np.unique(vertices, axis=0)) == len(np.unique(np.rint(vertices / 1e-5), axis=0))


def test_h3_limits_are_named(monkeypatch):
    with pytest.raises(CoordinateError, match="85 degrees"):
        Regions.h3(Box.around(84.8, 0.0, 100, 100), 5)
    with pytest.raises(ParameterError, match="resolution"):
        Regions.h3(NEW_YORK, 16)
    with pytest.raises(ParameterError, match="more than 200,000 cells"):
        Regions.h3(NEW_YORK, 14)
    with pytest.raises(ParameterError, match="raise the resolution"):
        Regions.h3(Box.around(40.75, -73.97, 1, 1), 3)
    with pytest.raises(ParameterError, match="no inner region"):
        Regions.h3(NEW_YORK, 8, ring_km=9)
    monkeypatch.setitem(sys.modules, "h3", None)
    with pytest.raises(ParameterError, match=r"pip install 'distp\[hex\]'"):
        Regions.h3(NEW_YORK, 8)


# Policies, figures, queries


def every_kind():
    two = several(rectangle(-73.97, 40.72, -73.96, 40.73), rectangle(-73.95, 40.72, -73.94, 40.73), name="two")
    hole = polygon(
        [(-74.0, 40.70), (-73.98, 40.70), (-73.98, 40.72), (-74.0, 40.72)],
        [(-73.995, 40.705), (-73.995, 40.715), (-73.985, 40.715), (-73.985, 40.705)],
        name="hole",
    )
    return {
        "grid": Regions.grid(Box.around(40.75, -73.97, 5, 4)),
        "masked": Regions.grid(cell_km=2.0, mask=triangle_mask()),
        "polygons": Regions.polygons(collection(hole, two), inputs=[False, True]),
        "h3": Regions.h3(NEW_YORK, 7, ring_km=0.5),
        "fiji": Regions.h3(FIJI, 4, ring_km=5),
    }


def policy_of(regions):
    size = len(regions.inputs)
    rng = np.random.default_rng(0)
    pair = Pair.from_counts("home", *rng.integers(1, 50, (2, size)))
    mechanism = Tupling(Identity(regions.inputs, regions), 3)
    return Policy.create(mechanism, regions, [pair], epsilon=3.0, delta=0.1, prior=np.full(size, 1 / size))


@pytest.mark.parametrize("kind", list(every_kind()))
def test_a_policy_keeps_its_map_to_the_last_bit(kind, tmp_path, city):
    regions = every_kind()[kind]
    policy_of(regions).save(tmp_path / "a.policy")
    loaded = Policy.load(tmp_path / "a.policy")
    again = loaded.regions
    assert (again.box, again.names) == (regions.box, regions.names)
    assert len(again.inputs) == len(regions.inputs)
    assert np.array_equal(again.points, regions.points)
    for region in range(len(regions)):
        for one, two in zip(again.rings_km(region), regions.rings_km(region), strict=True):
            assert np.array_equal(one, two)
    lat, lon = at_edges(regions, np.random.default_rng(1), 30_000)
    assert np.array_equal(again.locate(lat, lon), regions.locate(lat, lon))
    assert np.array_equal(again.locate(*city), regions.locate(*city))
    loaded.save(tmp_path / "b.policy")
    assert (tmp_path / "a.policy").read_bytes() == (tmp_path / "b.policy").read_bytes()
    here = to_degrees(again.box.lat, again.box.lon, *(again.rings_km(0)[0][:3].mean(axis=0)))
    if regions.locate(*here)[0] == 0:
        assert loaded.release(*here).shape == (1, 4)


def test_a_tiling_is_written_as_version_1_always_was():
    body = regionfile.to_body(every_kind()["grid"])
    assert sorted(body) == ["anchor", "box_km", "cell_km", "cells_km", "centres", "inputs", "projection"]


def damages():
    yield "names", lambda place: place["names"].pop()
    yield "must be text", lambda place: place.update(names=[1, 2])
    yield "is missing", lambda place: place.pop("names")
    yield "empty", lambda place: place["polygons_km"].__setitem__(0, [])
    yield "without a ring", lambda place: place["polygons_km"][0].append([])
    yield "three or more", lambda place: place["polygons_km"][0][0].__setitem__(0, [[0, 0], [1, 1]])
    yield "not be|not what", lambda place: place["polygons_km"][0][0][0].__setitem__(0, "ab")
    yield "centres", lambda place: place["centres"][0].__setitem__(0, 1.0)
    yield "rectangle", lambda place: place["box_km"].__setitem__(2, 99.0)
    yield "rectangle|centres|away", lambda place: place["polygons_km"][0][0][0].__setitem__(0, [1e9, 0])
    yield "overlap", lambda place: place.update(polygons_km=[place["polygons_km"][0]] * 2)
    yield "no polygon", lambda place: place["polygons_km"][0][0].__setitem__(0, [[0, 0], [1, 1], [1, 0], [0, 1]])
    yield "inputs", lambda place: place.update(inputs=3)
    yield "projection", lambda place: place.update(projection="+proj=merc")


@pytest.mark.parametrize(("match", "damage"), list(damages()))
def test_a_damaged_map_is_refused(match, damage, tmp_path):
    policy_of(every_kind()["polygons"]).save(tmp_path / "a.policy")
    body = copy.deepcopy(policyfile.read(tmp_path / "a.policy"))
    damage(body["regions"])
    policyfile.write(tmp_path / "a.policy", body)
    with pytest.raises(PolicyError, match=match):
        Policy.load(tmp_path / "a.policy")


def test_a_masked_map_that_denies_its_holes_is_refused(tmp_path):
    policy_of(every_kind()["masked"]).save(tmp_path / "a.policy")
    body = policyfile.read(tmp_path / "a.policy")
    for value, match in ((False, "hole"), (1, "true or false")):
        body["regions"]["holes"] = value
        policyfile.write(tmp_path / "a.policy", body)
        with pytest.raises(PolicyError, match=match):
            Policy.load(tmp_path / "a.policy")


@pytest.mark.parametrize("kind", list(every_kind()))
def test_figures_and_queries_take_every_kind(kind):
    regions = every_kind()[kind]
    policy = policy_of(regions)
    map_figure(regions, policy.pairs[0]).canvas.draw()
    tuple_figure(regions, policy.prior, 0, [0, len(regions) - 1]).canvas.draw()
    chosen = list(range(len(regions)))
    rows = query.centres(policy, chosen)
    assert all(("side_km" in row) == regions.square and ("area_km2" in row) != regions.square for row in rows)
    features = query.geojson(policy, chosen)
    json.dumps(features, allow_nan=False)
    if kind in ("polygons", "h3"):
        again = Regions.polygons(features)
        assert again.names == regions.names
        assert np.allclose(again.area_km2, regions.area_km2, rtol=1e-3)


def test_regions_pickle_and_find_the_same(city):
    for regions in every_kind().values():
        regions.locate(*city)
        again = pickle.loads(pickle.dumps(regions))
        assert np.array_equal(again.locate(*city), regions.locate(*city))
