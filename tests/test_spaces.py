"""Spaces and regions: geometry that is right at edges, poles and the antimeridian."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import Geod
from scipy.spatial import KDTree

from distp import Box, Regions, Space
from distp.errors import CoordinateError, ParameterError, SpaceError
from distp.spaces import median_box
from distp.spaces.projection import to_degrees, to_km

NEW_YORK = (40.75, -73.97)


def city(points: int = 4000, lat: float = 40.75, lon: float = -73.97, seed: int = 0):
    rng = np.random.default_rng(seed)
    lons = lon + 0.03 * rng.standard_normal(points) / np.cos(np.deg2rad(lat))
    return lat + 0.02 * rng.standard_normal(points), (lons + 180) % 360 - 180


def test_space_distances_by_metric_and_between_subsets():
    space = Space([[0, 0], [3, 4], [6, 8]])
    assert space.distances()[0].tolist() == [0, 5, 10]
    assert Space([[0, 0], [3, 4]], metric="cityblock").distances()[0, 1] == 7
    part = space.subset([2, 0])
    assert part.distances(space).tolist() == [[10, 5, 0], [0, 5, 10]]
    assert part.positions_in(space).tolist() == [2, 0]
    given_matrix = Space.from_distances(space.distances())
    assert given_matrix.subset([2]).distances(given_matrix).tolist() == [[10, 5, 0]]


def test_space_pickles_with_its_subsets():
    space = Space(np.arange(5.0))
    whole, part = pickle.loads(pickle.dumps((space, space.subset([3, 1]))))
    assert part.positions_in(whole).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Space([]), "shape"),
        (lambda: Space([[0.0, np.nan]]), "point 0"),
        (lambda: Space([["a"]]), "not an array of numbers"),
        (lambda: Space([[0, 0]], metric="earth"), "metric"),
        (lambda: Space.from_distances([[0, 1]]), "square"),
        (lambda: Space.from_distances([[0, 1], [2, 0]]), "symmetric"),
        (lambda: Space.from_distances([[0, -1], [-1, 0]]), ">= 0"),
        (lambda: Space.from_distances([[1, 1], [1, 0]]), "diagonal"),
        (lambda: Space([0.0, 1.0]).subset([2]), r"0\.\.1"),
        (lambda: Space([0.0]).distances(Space([[0, 0]])), "no distance"),
        (lambda: Space.discrete(2).distances(Space.discrete(2)), "no distance"),
        (lambda: Space([9.0]).positions_in(Space([0.0])), "not among the outputs"),
    ],
)
def test_bad_spaces_are_named(make, match):
    with pytest.raises(SpaceError, match=match):
        make()


def test_the_papers_grid_has_276_regions_and_228_inputs_are_possible():
    lat, lon = city()
    regions = Regions.quadtree(lat, lon, box=Box.around(*NEW_YORK, 12, 11))
    assert len(regions) == 276
    # 10 x 9 inner cells; each quartered inner cell adds three.
    assert (len(regions.inputs) - 90) % 3 == 0


def test_the_most_crowded_cell_is_always_the_one_quartered():
    lat, lon = city()
    counts = {}
    for limit in (132, 135, 138, 141):
        regions = Regions.quadtree(lat, lon, box=Box.around(*NEW_YORK, 12, 11), regions=limit)
        where = regions.locate(lat, lon)
        counts[limit] = (regions, np.bincount(where[where >= 0], minlength=len(regions)))
    for before, after in ((132, 135), (135, 138), (138, 141)):
        regions, count = counts[before]
        finer = {tuple(cell) for cell in counts[after][0].cells.round(9).tolist()}
        gone = [i for i, cell in enumerate(regions.cells.round(9).tolist()) if tuple(cell) not in finer]
        assert gone == [int(np.argmax(count))]


def test_weights_stand_for_repeated_points():
    lat, lon = city(300)
    weights = np.random.default_rng(1).integers(0, 5, 300)
    box = Box.around(*NEW_YORK, 6, 6)
    one = Regions.quadtree(lat, lon, box=box, regions=90, weights=weights)
    two = Regions.quadtree(np.repeat(lat, weights), np.repeat(lon, weights), box=box, regions=90)
    assert np.array_equal(one.cells, two.cells)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([30, 60, 120]))
def test_every_point_in_the_box_lies_in_the_cell_it_is_located_in(seed, limit):
    lat, lon = city(500, seed=seed)
    box = Box.around(*NEW_YORK, 5, 4)
    regions = Regions.quadtree(lat, lon, box=box, regions=limit)
    x, y = to_km(box.lat, box.lon, lat, lon)
    found = regions.locate(lat, lon)
    inside = (x >= -2.5) & (x < 2.5) & (y >= -2) & (y < 2)
    assert np.array_equal(found >= 0, inside)
    west, south, side = regions.cells[found[inside]].T
    assert (x[inside] >= west - 1e-9).all()
    assert (x[inside] < west + side + 1e-9).all()
    assert (y[inside] >= south - 1e-9).all()
    assert (y[inside] < south + side + 1e-9).all()
    assert (regions.cells[:, 2] ** 2).sum() == pytest.approx(20.0)


def test_cells_are_half_open_to_the_north_and_east():
    box = Box.around(0.0, 0.0, 2, 2)
    regions = Regions.quadtree([0.001], [0.001], box=box, regions=4, ring_km=0)
    assert len(regions) == 4
    cells = {
        int(regions.locate(*corner)[0]) for corner in ((1e-6, 1e-6), (1e-6, -1e-6), (-1e-6, 1e-6), (-1e-6, -1e-6))
    }
    assert len(cells) == 4
    assert int(regions.locate(0.0, 0.0)[0]) == int(regions.locate(1e-6, 1e-6)[0])


def test_region_centres_locate_in_themselves_and_outlines_surround_them():
    lat, lon = city()
    regions = Regions.quadtree(lat, lon)
    assert np.array_equal(regions.locate(regions.lat, regions.lon), np.arange(len(regions)))
    corners = regions.outline(5)
    assert min(c[0] for c in corners) < regions.lat[5] < max(c[0] for c in corners)


def test_distances_are_kilometres_on_the_ground():
    lat, lon = city()
    regions = Regions.quadtree(lat, lon)
    geod = Geod(ellps="WGS84")
    _, _, metres = geod.inv(regions.lon[0], regions.lat[0], regions.lon[-1], regions.lat[-1])
    assert regions.distances()[0, -1] == pytest.approx(metres / 1000, rel=1e-5)


@pytest.mark.parametrize("lon", [180.0, -180.0, 179.99])
def test_a_city_on_the_antimeridian_is_one_city(lon):
    lat, lons = city(lat=-17.0, lon=lon)
    regions = Regions.quadtree(lat, lons)
    assert (regions.locate(lat, lons) >= 0).mean() > 0.9
    assert regions.locate(-17.0, 180.0) == regions.locate(-17.0, -180.0)
    box = Box.from_degrees(-17.04, 179.95, -16.96, -179.95)
    assert box.width == pytest.approx(10.65, abs=0.05)
    assert (Regions.quadtree(lat, lons, box=box).locate(lat, lons) >= 0).any()


def test_polar_boxes_are_refused_with_the_reason():
    with pytest.raises(CoordinateError, match="no meaning"):
        Box.around(89.0, 0.0, 10, 10)


@pytest.mark.parametrize(
    ("lat", "lon", "match"),
    [
        ([40.7, np.nan], [-73.9, -73.9], "row 1 is missing"),
        ([40.7, 40.7, 91.0], [-73.9, -73.9, 10.0], "row 2 .*swapped"),
        ([40.7], [181.0], "row 0 is out of range"),
        ([np.inf], [0.0], "row 0 is missing or not finite"),
        ([40.7, 40.8], [-73.9], "differ in shape"),
        (["north"], [0.0], "must be numbers"),
        ([], [], "no points"),
    ],
)
def test_bad_coordinates_name_the_row(lat, lon, match):
    with pytest.raises(CoordinateError, match=match):
        Regions.quadtree(lat, lon, box=Box.around(*NEW_YORK, 12, 11))


def test_swapped_coordinates_are_recognised_with_and_without_a_box():
    lat, lon = city()
    with pytest.raises(CoordinateError, match="swapped"):
        Regions.quadtree(lon, lat, box=Box.around(*NEW_YORK, 12, 11))
    with pytest.raises(CoordinateError, match="swapped"):
        Regions.quadtree(lon, lat)
    with pytest.raises(CoordinateError, match="none of the"):
        Regions.quadtree(lat, lon, box=Box.around(10.0, 10.0, 12, 11))


def test_bad_parameters_are_named():
    lat, lon = city(50)
    box = Box.around(*NEW_YORK, 12, 11)
    with pytest.raises(ParameterError, match="regions=100"):
        Regions.quadtree(lat, lon, box=box, regions=100)
    with pytest.raises(ParameterError, match="cell_km"):
        Regions.quadtree(lat, lon, box=box, cell_km=0)
    with pytest.raises(ParameterError, match="ring_km"):
        Regions.quadtree(lat, lon, box=box, ring_km=9)
    with pytest.raises(ParameterError, match="weights"):
        Regions.quadtree(lat, lon, box=box, weights=[1])
    with pytest.raises(ParameterError, match="whole number"):
        Regions.quadtree(lat, lon, box=box, regions=276.5)
    with pytest.raises(CoordinateError, match="south < north"):
        Box.from_degrees(41, -74, 40, -73)


def test_a_crowd_at_one_point_stops_quartering_at_the_depth_limit():
    regions = Regions.quadtree(
        np.full(50, 40.75), np.full(50, -73.97), box=Box.around(*NEW_YORK, 2, 2), regions=1000, ring_km=0
    )
    assert regions.cells[:, 2].min() == pytest.approx(1 / 64)
    assert len(regions) < 1000


def test_cells_that_do_not_tile_the_box_are_refused():
    box = Box.around(*NEW_YORK, 2, 2)
    good = [[-1, -1, 1], [0, -1, 1], [-1, 0, 1], [0, 0, 1]]
    assert len(Regions(box, 1.0, good, 4)) == 4
    for bad, match in (
        (good[:3], "hole"),
        ([*good, [0, 0, 0.5]], "overlaps"),
        ([*good[:3], [0.25, 0, 1]], "multiple"),
        ([*good[:3], [0, 0, 0.7]], "halved"),
        ([*good[:3], [5, 0, 1]], "outside"),
    ):
        with pytest.raises(SpaceError, match=match):
            Regions(box, 1.0, bad, 2)
    with pytest.raises(SpaceError, match="5 inputs"):
        Regions(box, 1.0, good, 5)


def test_points_outside_the_inputs_go_to_the_nearest_only_when_asked():
    lat, lon = city()
    regions = Regions.quadtree(lat, lon, box=Box.around(*NEW_YORK, 12, 11))
    far = (41.5, -73.97)
    assert regions.locate_inputs(*far).tolist() == [-1]
    moved = int(regions.locate_inputs(*far, nearest=True)[0])
    x, y = to_km(*NEW_YORK, *far)
    gaps = np.hypot(regions.inputs.points[:, 0] - x, regions.inputs.points[:, 1] - y)
    assert gaps[moved] == gaps.min()
    ring = len(regions) - 1
    assert regions.locate_inputs(regions.lat[ring], regions.lon[ring]).tolist() == [-1]


@pytest.mark.parametrize("box", [Box.around(*NEW_YORK, 12, 11), Box.around(-17.5, 179.9, 400, 300)])
def test_many_points_outside_go_to_the_centre_that_the_projection_finds_nearest(box):
    regions = Regions.grid(box, box.width / 12)
    rng = np.random.default_rng(8)
    x = box.west + box.width * rng.uniform(-0.4, 1.4, 60_000)
    y = box.south + box.height * rng.uniform(-0.4, 1.4, 60_000)
    # On the edge between two cells' areas of influence, north of the box: the two distances differ by rounding.
    x[:5000] = box.west + np.round(12 * rng.uniform(1 / 12, 11 / 12, 5000)) * box.width / 12
    y[:5000] = box.south + box.height * 1.005
    lat, lon = to_degrees(box.lat, box.lon, x, y)
    lon[:50], lat[:50] = 20.0, rng.uniform(-80, 80, 50)
    found = regions.locate_inputs(lat, lon, nearest=True)
    outside = regions.locate(lat, lon) < 0
    assert outside.sum() > 20_000
    x, y = to_km(box.lat, box.lon, lat[outside], lon[outside])
    points = regions.inputs.points
    gaps = np.hypot(points[:, 0] - x[:, None], points[:, 1] - y[:, None])
    assert np.array_equal(found[outside], regions._locator._closest(KDTree(points), lat[outside], lon[outside]))
    assert np.allclose(gaps[np.arange(len(gaps)), found[outside]], gaps.min(axis=1), atol=1e-12, rtol=0)


def test_median_box_ignores_a_far_outlier():
    lat, lon = city()
    box = median_box([*lat, -33.0], [*lon, 151.0], 12, 11)
    assert abs(box.lat - 40.75) < 0.01
    assert abs(box.lon + 73.97) < 0.01
