"""Noise in the plane: exact masses of cells, exact calibration, and points that carry nothing but a lattice point."""

from __future__ import annotations

import math
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj import Geod
from scipy import stats

from distp import (
    Box,
    ContinuousGaussian,
    ContinuousLaplace,
    PlanarLaplace,
    Regions,
    Tupling,
    metric_epsilon,
    release_points,
    simulate_points,
)
from distp.errors import CoordinateError, DistpError, MechanismError, ParameterError, SpaceError
from distp.mechanisms.polar import laplace_masses
from distp.release.entropy import Seeded, SystemEntropy
from distp.release.points import RADIUS_KM, STEP_KM, displacements, exponentials, uniforms
from distp.spaces.projection import to_km

INF = math.inf
EARTH = Geod(ellps="WGS84")
HOME = (40.7, -74.0)
GRIDS = [(11, 10), (10, 11), (1, 9), (9, 1), (1, 1)]
ALPHA = 1e-6
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
NODES, WEIGHTS = (NODES + 1) / 2, WEIGHTS / 2


def unit_grid(width: int, height: int) -> Regions:
    return Regions.grid(Box.around(*HOME, width, height), ring_km=0)


def matrix(mechanism, regions) -> np.ndarray:
    return np.asarray(mechanism.cells(regions).channel())


def distances(lat: float, lon: float, lats, lons) -> np.ndarray:
    n = np.size(lats)
    return np.asarray(EARTH.inv(np.full(n, lon), np.full(n, lat), lons, lats)[2]) / 1000


# Masses of cells ------------------------------------------------------------------------------------------------


def panels(low: float, high: float, unit: float, away: float, reach: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights on an interval, in panels that grow from its point nearest to 0."""
    low, high = max(low, -reach), min(high, reach)
    sides = [(max(low, 0.0), high, 1)] if high > 0 else []
    sides += [(max(-high, 0.0), -low, -1)] if low < 0 else []
    nodes, weights = [], []
    for start, end, sign in sides:
        step = min(end - start, unit, away) / 4 if start else 1e-9 * min(end, unit)
        edges = [start]
        while edges[-1] + step < end:
            edges.append(edges[-1] + step)
            step *= 1.7
        width = np.diff([*edges, end])[:, None]
        nodes.append(sign * (np.array(edges)[:, None] + width * NODES).ravel())
        weights.append((width * WEIGHTS).ravel())
    return np.concatenate(nodes), np.concatenate(weights)


def cartesian(mechanism, west, east, south, north) -> float:
    """Return a rectangle's mass by an integral over x and y of the density itself."""
    x0, y0 = (0.0 if low <= 0 <= high else min(abs(low), abs(high)) for low, high in ((west, east), (south, north)))
    nearest, scale = math.hypot(x0, y0), mechanism.scale
    reach = nearest + 45 * scale + math.sqrt(90 * nearest * scale)
    unit = scale if isinstance(mechanism, ContinuousLaplace) else scale / (1 + nearest / scale)
    x, wx = panels(west, east, unit, max(y0, 1e-3), reach)
    y, wy = panels(south, north, unit, max(x0, 1e-3), reach)
    total = wx @ mechanism.density(np.hypot(x[:, None], y) / scale) @ wy
    return float(total) / (2 * math.pi * scale**2)


RECTANGLES = [
    (-0.5, 0.5, -0.5, 0.5),
    (0.5, 1.5, -0.5, 0.5),
    (-0.25, 0.75, 0.5, 1.0),
    (3.5, 4.5, -7.5, -6.5),
    (10.5, 11.5, 3.5, 4.5),
    (-6.125, -6.109375, 2.25, 2.265625),
    (8.5, INF, 2.5, 3.5),
    (-0.125, 0.875, 5.125, INF),
    (4.5, INF, -INF, -4.5),
]


@pytest.mark.parametrize("epsilon", [1e-6, 1e-2, 0.5, 2.0, 20.0])
def test_masses_are_those_of_a_cartesian_integral_however_near_or_far(epsilon):
    mechanism = ContinuousLaplace(epsilon)
    for rectangle in RECTANGLES:
        mass = mechanism.masses(*(np.array([edge]) for edge in rectangle))[0]
        assert mass == pytest.approx(cartesian(mechanism, *rectangle), rel=2e-12), rectangle


@pytest.mark.parametrize(
    ("epsilon", "rectangle"),
    [
        (60.0, (7.5, 8.5, 5.0, INF)),
        (1e3, (-0.5, 0.5, 0.5, 0.625)),
        (1e3, (0.1, 0.11, 0.2, 0.21)),
        (1e6, (0.0, 1e-6, 5e-4, 6e-4)),
    ],
)
def test_masses_keep_their_digits_down_to_the_smallest(epsilon, rectangle):
    mechanism = ContinuousLaplace(epsilon)
    mass = mechanism.masses(*(np.array([edge]) for edge in rectangle))[0]
    assert 1e-280 < mass < 1e-90
    assert mass == pytest.approx(cartesian(mechanism, *rectangle), rel=1e-11)


@pytest.mark.parametrize("sigma", [1e6, 50.0, 1.0, 0.4])
def test_gaussian_masses_are_products_of_normal_laws_at_any_distance(sigma):
    def normal(low, high):
        lower, upper = (mpmath.erf(mpmath.mpf(edge) / sigma / mpmath.sqrt(2)) for edge in (low, high))
        return (upper - lower) / 2

    for west, east, south, north in RECTANGLES:
        mass = ContinuousGaussian(sigma).masses(*(np.array([edge]) for edge in (west, east, south, north)))[0]
        with mpmath.workdps(400):
            exact = normal(west, east) * normal(south, north)
        assert mass == pytest.approx(float(exact), rel=2e-12, abs=1e-290)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("shape", GRIDS)
def test_cells_of_unit_grids_keep_epsilon_exactly(shape, epsilon):
    regions = unit_grid(*shape)
    channel = ContinuousLaplace(epsilon).cells(regions)
    laws = np.asarray(channel.channel())
    assert laws.shape == (len(regions.inputs), len(regions))
    assert np.abs(laws.sum(axis=1) - 1).max() <= 1e-12
    assert (laws > 0).all()
    assert metric_epsilon(channel, regions.inputs.distances()).upper <= epsilon * (1 + 1e-9)
    if len(regions) > 1:
        # Normalising over the map, as the finite mechanism does, spends more: remapping is what keeps epsilon.
        assert metric_epsilon(PlanarLaplace(regions, epsilon)).lower > epsilon * 1.01


@pytest.mark.parametrize("shape", [(11, 10), (10, 11), (1, 9), (9, 1)])
def test_what_is_claimed_of_unit_grids_is_what_an_independent_integral_finds(shape):
    """The two inputs and the output that decide, by a Cartesian integral of the density: the same epsilon to 1e-9."""
    regions, mechanism = unit_grid(*shape), ContinuousLaplace(0.5)
    laws, apart = matrix(mechanism, regions), regions.inputs.distances()
    claim = metric_epsilon(mechanism.cells(regions), apart)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.abs(np.log(laws[:, None] / laws)).max(axis=2) / apart
    one, other = np.unravel_index(np.nanargmax(rates), rates.shape)
    cells, edge = regions.cells, regions.box
    east, north = edge.west + edge.width, edge.south + edge.height

    def law(x: float, y: float) -> np.ndarray:
        masses = []
        for west, south, side in cells:
            low = -INF if np.isclose(west, edge.west) else west - x
            high = INF if np.isclose(west + side, east) else west + side - x
            down = -INF if np.isclose(south, edge.south) else south - y
            up = INF if np.isclose(south + side, north) else south + side - y
            masses.append(cartesian(mechanism, low, high, down, up))
        return np.array(masses)

    a, b = (law(*regions.inputs.points[row]) for row in (one, other))
    assert abs(a.sum() - 1) < 1e-12
    found = np.abs(np.log(a / b)).max() / apart[one, other]
    assert claim.lower - 1e-9 <= found <= claim.upper + 1e-9
    assert claim.upper - claim.lower < 1e-9


def test_a_cell_of_the_grid_is_the_same_whichever_way_the_grid_is_turned():
    wide, high = (matrix(ContinuousLaplace(0.5), unit_grid(*shape)) for shape in ((11, 10), (10, 11)))
    turn = np.arange(110).reshape(10, 11).T.ravel()  # rows of cells go from west to east
    np.testing.assert_allclose(wide[np.ix_(turn, turn)], high, rtol=1e-13)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-100, 1e-8, 1e-6, 1e-3, 0.1, 10.0, 1e3, 1e6, 1e300])
def test_every_finite_epsilon_gives_laws(epsilon):
    points = np.random.default_rng(3).normal(0, 0.01, (2, 300)) + np.array(HOME)[:, None]
    regions = Regions.quadtree(*points, box=Box.around(*HOME, 5, 4), regions=50, ring_km=0)
    for mechanism in (ContinuousLaplace(epsilon), ContinuousGaussian(1 / epsilon)):
        laws = matrix(mechanism, regions)
        assert (laws >= 0).all()
        assert np.abs(laws.sum(axis=1) - 1).max() <= 1e-12
    if 1e-6 <= epsilon <= 10:
        assert (matrix(ContinuousLaplace(epsilon), regions) > 0).all()
    if 1e-3 <= epsilon <= 10:  # below, log ratios themselves are rounded to more than 1e-9 of them
        channel = ContinuousLaplace(epsilon).cells(regions)
        assert metric_epsilon(channel).upper <= epsilon * (1 + 1e-9)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(4, 60), st.floats(0.01, 50), st.sampled_from([0.0, 1.0]))
def test_laws_on_random_quadtrees(seed, n, epsilon, ring):
    points = np.random.default_rng(seed).normal(0, 0.02, (2, 200)) + np.array(HOME)[:, None]
    regions = Regions.quadtree(*points, box=Box.around(*HOME, 4, 3), regions=12 + n, ring_km=ring)
    for mechanism in (ContinuousLaplace(epsilon), ContinuousGaussian(1 / epsilon)):
        laws = matrix(mechanism, regions)
        assert np.isfinite(laws).all()
        assert (laws >= 0).all()
        assert np.abs(laws.sum(axis=1) - 1).max() <= 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_random_maps_are_whole_at_every_scale_of_noise(seed):
    rng = np.random.default_rng(seed)
    for _ in range(6):
        width, height = rng.integers(1, 7, 2).tolist()
        points = rng.normal(0, 0.02, (2, 200)) + np.array(HOME)[:, None]
        area = Box.around(*HOME, width, height)
        regions = Regions.quadtree(*points, box=area, regions=width * height + 6, ring_km=0)
        for epsilon in 10 ** rng.uniform([-9, -6, -3], [-6, -3, 3]):  # hidden mass was found at 1e-8
            assert np.abs(matrix(ContinuousLaplace(epsilon), regions).sum(axis=1) - 1).max() <= 1e-14


def test_a_box_that_ends_inside_its_last_cells_has_open_rims_too():
    regions = Regions.grid(Box.around(*HOME, 3.5, 2.5), ring_km=0)
    assert np.abs(matrix(ContinuousLaplace(1.0), regions).sum(axis=1) - 1).max() <= 1e-12


def test_cells_refuse_what_they_cannot_integrate():
    square = {
        "type": "Polygon",
        "coordinates": [[[-74.02, 40.69], [-73.98, 40.69], [-73.98, 40.71], [-74.02, 40.69]]],
    }
    with pytest.raises(SpaceError, match="polygons"):
        ContinuousLaplace(1.0).cells(Regions.polygons(square))
    with pytest.raises(SpaceError, match="mask leaves"):
        ContinuousGaussian(1.0).cells(Regions.grid(mask=square))


def test_a_row_that_misses_mass_is_refused(monkeypatch):
    monkeypatch.setattr("distp.mechanisms.continuous.laplace_masses", lambda *a: laplace_masses(*a) * (1 - 1e-11))
    with pytest.raises(MechanismError, match="sums to 1 only within"):
        ContinuousLaplace(1.0).cells(unit_grid(3, 2))


def test_the_channel_serves_as_a_base_of_dummies():
    regions = unit_grid(3, 3)
    assert Tupling(ContinuousLaplace(1.0).cells(regions), 3).channel().shape == (9, 9)


# Parameters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, math.nan, INF, "1", None])
def test_no_noise_and_no_number_are_refused_by_name(value):
    with pytest.raises(ParameterError, match="epsilon"):
        ContinuousLaplace(value)
    with pytest.raises(ParameterError, match="sigma"):
        ContinuousGaussian(value)
    with pytest.raises(ParameterError, match="distance"):
        ContinuousGaussian.calibrated(1.0, 0.1, value)
    if value != 0:
        with pytest.raises(ParameterError, match="epsilon"):
            ContinuousGaussian.calibrated(value, 0.1, 1.0)
    with pytest.raises(ParameterError, match="delta"):
        ContinuousGaussian.calibrated(1.0, value, 1.0)


def test_mechanisms_are_values():
    for mechanism in (ContinuousLaplace(0.5), ContinuousGaussian(2.0)):
        assert pickle.loads(pickle.dumps(mechanism)) == mechanism
        with pytest.raises(AttributeError):
            mechanism.epsilon = 3.0
    assert ContinuousLaplace(0.5).mean_displacement == 4.0
    assert ContinuousGaussian(2.0).mean_displacement == pytest.approx(math.sqrt(2 * math.pi))


# Calibration of the Gaussian ------------------------------------------------------------------------------------


def hockey_stick(epsilon: float, sigma: float, distance: float) -> float:
    """Return the delta of two normal laws by integration of max(p - e^epsilon q, 0)."""
    # p = e^epsilon q at one point, and below it q e^epsilon / p = e^(distance (x - end) / sigma^2).
    end = distance / 2 - epsilon * sigma**2 / distance
    x, weights = panels(0, INF, 0.25 * min(sigma, sigma**2 / distance), INF, 45 * sigma + max(-end, 0))
    x = end - x
    return float(stats.norm.pdf(x, 0, sigma) * -np.expm1(distance * (x - end) / sigma**2) @ weights)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 5.0, 20.0, 700.0])
@pytest.mark.parametrize("delta", [0.5, 1e-3, 1e-15])
def test_calibrated_noise_has_its_delta_and_hardly_less_noise_has_not(epsilon, delta):
    found = ContinuousGaussian.calibrated(epsilon, delta, 3.0).sigma
    assert hockey_stick(epsilon, found, 3.0) <= delta * (1 + 1e-11)
    assert hockey_stick(epsilon, found * (1 - 1e-9), 3.0) > delta


def test_the_classical_formula_gives_too_little_noise_at_large_epsilon():
    for epsilon, delta, enough in [(0.5, 1e-5, True), (5.0, 1e-5, True), (20.0, 1e-5, False), (20.0, 1e-3, False)]:
        classical = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        assert (hockey_stick(epsilon, classical, 1.0) <= delta) is enough
        assert (ContinuousGaussian.calibrated(epsilon, delta, 1.0).sigma <= classical) is enough


def test_calibration_is_monotone_and_scales_with_the_distance():
    grid = [
        [ContinuousGaussian.calibrated(e, d, 1.0).sigma for d in (1e-300, 1e-9, 0.1, 1 - 1e-9)]
        for e in (0, 1e-9, 1, 30, 1e4)
    ]
    assert (np.diff(grid, axis=1) < 0).all()
    assert (np.diff(grid, axis=0) < 0).all()
    assert ContinuousGaussian.calibrated(1.0, 0.1, 7.0).sigma == pytest.approx(7 * grid[2][2], rel=1e-11)


# Words to noise -------------------------------------------------------------------------------------------------


class Fixed:
    """A source of given words."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, size: int) -> np.ndarray:
        taken, self.left = self.left[:size], self.left[size:]
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([2**64 - 1], 2.0**-65),  # u nearest to 1: not 0
        ([2**63], math.log(2)),
        ([1], 64 * math.log(2) - math.log(1.5)),
        ([0, 2**63], 65 * math.log(2)),  # u nearest to 0: a further word goes on
        ([0, 0, 0, 1], 256 * math.log(2) - math.log(1.5)),
    ],
)
def test_exponentials_are_positive_finite_and_have_no_end(words, expected):
    source = Fixed(*words)
    assert exponentials(1, source).tolist() == [pytest.approx(expected, rel=1e-14)]
    assert source.left == []


def test_exponentials_fall_strictly_with_the_word():
    words = [0, 1, 2**10, 2**40, 2**63 - 2**10, 2**63, 2**63 + 2**11, 2**64 - 2**10, 2**64 - 2, 2**64 - 1]
    found = exponentials(len(words), Fixed(*words, 2**63))
    assert (np.diff(found) < 0).all()
    # No radius is cut off at 26 / epsilon, as it is where 32 bits make a uniform number.
    assert found[1] > 40


def test_uniforms_use_53_bits_and_are_never_1():
    ends = uniforms(np.array([0, 2**11, 2**64 - 1], dtype=np.uint64))
    assert ends.tolist() == [0.0, 2.0**-53, 1 - 2.0**-53]


@pytest.mark.parametrize("epsilon", [1e-300, 1e-9, 1e-4, 2e-4, 1e-3])
def test_noise_as_large_as_the_earth_is_laplace_on_the_sphere(epsilon):
    km = displacements(ContinuousLaplace(epsilon), 20_000, Seeded(5))
    assert ((km > 0) & (km < math.pi * RADIUS_KM)).all()
    a = epsilon * RADIUS_KM

    def law(r):  # integral of e^(-epsilon r) sin(r / R)
        c = r / RADIUS_KM
        return (1 - np.exp(-a * c) * (np.cos(c) + a * np.sin(c))) / (1 + np.exp(-a * math.pi))

    assert stats.kstest(km, law).pvalue > 1e-3


@pytest.mark.parametrize("sigma", [2000.0, 6000.0, 7000.0, 1e9])
def test_gaussian_noise_as_large_as_the_earth_has_its_density_on_the_sphere(sigma):
    km = displacements(ContinuousGaussian(sigma), 20_000, Seeded(6))
    r = np.linspace(0, math.pi * RADIUS_KM, 20_001)
    density = np.exp(-((r / sigma) ** 2) / 2) * np.sin(r / RADIUS_KM)
    running = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    assert stats.kstest(km, lambda x: np.interp(x, r, running / running[-1])).pvalue > 1e-3


# Points on the ground -------------------------------------------------------------------------------------------

LAWS = [
    (ContinuousLaplace(1.0), stats.gamma(2, scale=1.0)),
    (ContinuousLaplace(0.01), stats.gamma(2, scale=100.0)),
    (ContinuousGaussian(1.5), stats.rayleigh(scale=1.5)),
]


@pytest.mark.parametrize("lat", [0.0, 40.7, 60.0, 89.9, -90.0])
def test_noise_is_the_same_on_the_ground_in_every_direction_and_at_every_latitude(lat):
    n, lon = 20_000, 30.0
    found = simulate_points(ContinuousLaplace(1.0), np.full(n, lat), np.full(n, lon), seed=1)
    azimuth, _, metres = EARTH.inv(np.full(n, lon), np.full(n, lat), found.lon, found.lat)
    r = np.asarray(metres) / 1000
    assert abs(r.mean() - 2.0) < 4 * math.sqrt(2 / n)
    sectors = np.histogram(np.asarray(azimuth) % 360, bins=36, range=(0, 360))[0]
    assert stats.chisquare(sectors).pvalue > ALPHA
    # Direction and distance are independent.
    far = np.histogram(np.asarray(azimuth)[r > 2] % 360, bins=12, range=(0, 360))[0]
    assert stats.chisquare(far).pvalue > ALPHA


@pytest.mark.parametrize(("mechanism", "law"), LAWS)
def test_radii_follow_their_law_and_five_per_cent_more_do_not(mechanism, law):
    n = 50_000
    found = simulate_points(mechanism, np.full(n, HOME[0]), np.full(n, HOME[1]), seed=2)
    r = distances(*HOME, found.lat, found.lon)
    # A law on the sphere, 100 km wide, is 1e-3 off the plane's: too little for this many draws to tell.
    assert stats.kstest(r, law.cdf).pvalue > 1e-3
    assert stats.kstest(r * 1.05, law.cdf).pvalue < ALPHA
    assert stats.kstest(r * 0.95, law.cdf).pvalue < ALPHA
    assert r.min() > 0
    assert np.unique(r[:20_000]).size > 19_000


def test_released_points_follow_the_same_law_and_differ_from_call_to_call():
    n = 20_000
    lat, lon = np.full(n, HOME[0]), np.full(n, HOME[1])
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - must be left alone
    first, second = release_points(ContinuousLaplace(1.0), lat, lon), release_points(ContinuousLaplace(1.0), lat, lon)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert (first[0] != second[0]).mean() > 0.99
    r = distances(*HOME, *first)
    assert stats.kstest(r, stats.gamma(2).cdf).pvalue > ALPHA
    assert np.unique(r).size > 19_000
    # The mean report is the place: both coordinates are noisy on their own.
    x, y = to_km(*HOME, *first)
    for part in (x, y):
        assert abs(part.mean()) < 5 * part.std() / math.sqrt(n)
        assert part.std() == pytest.approx(math.sqrt(3), rel=0.05)
    assert abs(np.corrcoef(x, y)[0, 1]) < 5 / math.sqrt(n)


def test_a_simulation_is_stamped_and_repeats_itself():
    args = ContinuousGaussian(1.0), [40.7, 41.0, -3.0, 0.0, 9.0], [-74.0, 0.0, 7.0, 1.0, 2.0]
    for seed in (0, 1):
        one, two = simulate_points(*args, seed=seed), simulate_points(*args, seed=seed)
        assert one.lat.tolist() == two.lat.tolist()
        assert (one.simulated, one.seed, one.generator) == (True, seed, "PCG64")
        assert np.unique(one.lat - np.array(args[1])).size == 5
    assert simulate_points(*args, seed=0).lat.tolist() != simulate_points(*args, seed=1).lat.tolist()
    with pytest.raises(ParameterError, match="seed"):
        simulate_points(*args, seed=-1)
    with pytest.raises(ParameterError, match="seed"):
        simulate_points(*args, seed=None)


@pytest.mark.parametrize("place", [(90.0, 0.0), (89.99, 10.0), (40.7, 179.9999), (-90.0, 77.0), (0.0, -180.0)])
@pytest.mark.parametrize("epsilon", [1e-9, 0.01, 1.0, 1e12])
def test_points_stay_on_the_earth(place, epsilon):
    n = 2000
    found = simulate_points(ContinuousLaplace(epsilon), np.full(n, place[0]), np.full(n, place[1]), seed=3)
    assert (np.abs(found.lat) <= 90).all()
    assert ((found.lon >= -180) & (found.lon < 180)).all()
    assert (found.lon[np.abs(found.lat) == 90] == 0).all()
    if epsilon == 1.0:
        r = distances(*place, found.lat, found.lon)
        assert stats.kstest(r, stats.gamma(2).cdf).pvalue > ALPHA


def test_one_place_has_one_pair_of_numbers():
    sharp = ContinuousLaplace(1e12)  # no noise to speak of
    cases = [((0.0, 180.0), (0.0, -180.0)), ((90.0, 77.0), (90.0, 0.0)), ((-1e-9, -1e-9), (0.0, 0.0))]
    for (lat, lon), expected in cases:
        found = simulate_points(sharp, lat, lon, seed=1)
        assert (found.lat[0].hex(), found.lon[0].hex()) == tuple(value.hex() for value in expected)
    box = Box(0.0, 180.0, -1.0, -1.0, 2.0, 2.0)
    on_map = simulate_points(ContinuousLaplace(1.0), np.zeros(1000), np.full(1000, 180.0), seed=1, box=box)
    assert ((on_map.lon >= -180) & (on_map.lon < 180)).all()


def test_low_bits_say_nothing_about_the_place():
    n, places = 4000, [(40.7, -74.0), (40.70001, -74.00001), (40.7 + 1e-13, -74.0)]
    for lat, lon in places:
        found = simulate_points(ContinuousLaplace(1.0), np.full(n, lat), np.full(n, lon), seed=4)
        for part in (found.lat, found.lon):
            assert (part * 2**20 == np.rint(part * 2**20)).all()
    # On a map, places of two people that come out in one lattice square are the same bits.
    box, seen = Box.around(*HOME, 0.02, 0.02), {}
    for lat, lon in places:
        found = simulate_points(ContinuousLaplace(100.0), np.full(n, lat), np.full(n, lon), seed=4, box=box)
        x, y = to_km(*HOME, found.lat, found.lon)
        u, v = x / STEP_KM - 0.5, y / STEP_KM - 0.5
        assert max(np.abs(u - np.rint(u)).max(), np.abs(v - np.rint(v)).max()) < 0.1
        squares = zip(np.rint(u).tolist(), np.rint(v).tolist(), strict=True)
        for square, bits in zip(squares, zip(found.lat, found.lon, strict=True), strict=True):
            assert seen.setdefault(square, bits) == bits
    assert len(seen) < 3 * n / 2  # places did meet


@pytest.mark.parametrize("mechanism", [ContinuousLaplace(0.7), ContinuousGaussian(1.3)])
@pytest.mark.parametrize("cell", [0, 17, 19])
def test_points_fall_into_cells_as_the_channel_says(mechanism, cell):
    regions, n = unit_grid(6, 4), 40_000
    law = matrix(mechanism, regions)[cell]
    place = np.full(n, regions.lat[cell]), np.full(n, regions.lon[cell])
    found = simulate_points(mechanism, *place, seed=8, box=regions.box)
    counts = np.bincount(regions.locate(found.lat, found.lon), minlength=len(regions))  # none outside: -1 would raise
    assert stats.chisquare(counts, n * law).pvalue > ALPHA
    # Without remapping (renormalised over the map) the law would be another one.
    inner = mechanism.density(np.hypot(*(regions.points - regions.points[cell]).T) / mechanism.scale)
    assert stats.chisquare(counts, n * inner / inner.sum()).pvalue < ALPHA


def test_ends_beyond_the_border_are_moved_to_it_and_not_drawn_anew():
    box, n = Box.around(*HOME, 4, 2), 5000
    corner = np.full(n, 40.6905), np.full(n, -74.0236)
    free = simulate_points(ContinuousLaplace(0.05), *corner, seed=9)
    held = simulate_points(ContinuousLaplace(0.05), *corner, seed=9, box=box)
    x, y = to_km(*HOME, free.lat, free.lon)
    u, v = to_km(*HOME, held.lat, held.lon)
    np.testing.assert_allclose(u, np.clip(x, -2, 2), atol=1.5e-4)
    np.testing.assert_allclose(v, np.clip(y, -1, 1), atol=1.5e-4)
    assert (np.abs(v) < 1).all()
    assert ((np.abs(u) > 1.999) & (np.abs(v) > 0.999)).mean() > 0.7


@pytest.mark.parametrize("place", [HOME, (-40.7, 106.0), (-40.69, 106.02), (90.0, 0.0)])
def test_enormous_noise_and_places_at_the_other_end_of_the_world_end_in_the_box(place):
    regions, n = unit_grid(3, 2), 3000
    for mechanism in (ContinuousLaplace(1e-9), ContinuousLaplace(1e-3), ContinuousGaussian(1e8)):
        found = simulate_points(mechanism, np.full(n, place[0]), np.full(n, place[1]), seed=2, box=regions.box)
        assert (regions.locate(found.lat, found.lon) >= 0).all()


def test_boxes_may_be_given_in_degrees_but_not_be_narrower_than_the_lattice():
    lat, lon = simulate_points(ContinuousLaplace(1.0), 40.7, -74.0, seed=1, box=(40.6, -74.1, 40.8, -73.9)).lat, -74.0
    assert abs(lat[0] - 40.7) < 0.2
    with pytest.raises(ParameterError, match="too narrow"):
        release_points(ContinuousLaplace(1.0), 40.7, lon, box=Box.around(*HOME, 1e-4, 1))


def test_bad_places_and_other_mechanisms_are_refused():
    with pytest.raises(CoordinateError, match="row 1"):
        release_points(ContinuousLaplace(1.0), [40.7, math.nan], [-74.0, -74.0])
    with pytest.raises(CoordinateError, match="swapped"):
        release_points(ContinuousLaplace(1.0), -174.0, 40.7)
    with pytest.raises(MechanismError, match="PlanarLaplace"):
        release_points(PlanarLaplace(3, 1.0), 40.7, -74.0)
    with pytest.raises(DistpError) as caught:
        release_points(ContinuousLaplace(1.0), [40.123456], [200.654321])
    assert "123456" not in str(caught.value)
    assert "654321" not in str(caught.value)


def test_no_points_are_no_points():
    assert [part.size for part in release_points(ContinuousLaplace(1.0), [], [])] == [0, 0]
    assert SystemEntropy().words(3).dtype == np.uint64
