"""Noisy points on the ground: drawn from the operating system's entropy, snapped to a lattice that knows no input."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, count
from distp.errors import MechanismError, ParameterError
from distp.mechanisms import Continuous
from distp.release.entropy import Seeded, Stream, SystemEntropy, Words
from distp.spaces import Box
from distp.spaces.boxes import BoxLike, as_box
from distp.spaces.projection import coordinates, displaced, to_degrees, to_km

RADIUS_KM = 6371.0088  # of the sphere that is as large as the Earth on average
STEP_KM = 2.0**-13  # of the lattice on a map, 12 cm
STEPS_PER_DEGREE = 2.0**20  # of the lattice without a map: 11 cm from south to north
_DECIMALS = 7  # of a degree: a centimetre, so that a lattice point stays in its own square


@dataclass(frozen=True, eq=False)
class SimulatedPoints:
    """Points drawn reproducibly: fit for experiments, never for release.

    Attributes
    ----------
    lat, lon : ndarray, shape (n,)
    seed : int
    generator : str
        What made the random words of the seed.
    simulated : bool
        Always ``True``; what `release_points` returns has no such stamp.
    """

    lat: FloatArray
    lon: FloatArray
    seed: int
    generator: str = Seeded.generator
    simulated: bool = True


def release_points(
    mechanism: Continuous, lat: ArrayLike, lon: ArrayLike, box: BoxLike | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return a fresh noisy point for each place, drawn from operating-system entropy.

    A place is moved along a geodesic of WGS 84 by as many kilometres on the ground as the mechanism says, at any
    latitude, and the end is snapped: without a box, to multiples of 2^-20 degree, with the longitude in [-180, 180)
    and 0 at the poles; with one, to the middle of a square of 2^-13 km of the grid whose corner is the box's anchor.
    Ends outside the box are moved to its nearest square, never drawn anew. Both lattices are fixed before any input,
    and the numbers returned are a function of the lattice point alone, bit by bit.

    Parameters
    ----------
    mechanism : ContinuousLaplace or ContinuousGaussian
    lat, lon : array_like, shape (n,) or scalar
        Degrees.
    box : Box or (south, west, north, east), optional
        Where reports may lie. The places themselves may lie elsewhere.

    Returns
    -------
    lat, lon : ndarray, shape (n,)
        Degrees. Nothing else that depends on the noise or the truth is returned.

    Raises
    ------
    CoordinateError
        A row that is no place on Earth.
    ParameterError
        A box that is narrower than its lattice.
    MechanismError
        A mechanism of another kind.

    Notes
    -----
    What is guaranteed: `ContinuousLaplace` is epsilon-geo-indistinguishable on the plane. On a sphere a law per
    distance and angle has the factor ``(r/R) / sin(r/R)`` too much per area, which is below 1 + 1e-6 within 10 km
    and without limit at the antipode; it is removed by drawing anew, whatever the place, with the probability that
    the factor says. So the density per area is proportional to e^(-epsilon r) on the whole sphere, epsilon is kept
    at any radius, and no noise is too large to be meant. What remains is the Earth's flattening: within 1000 km, 4e-5
    of the density.

    Arithmetic is in doubles. What their last digits change in a radius or an angle is far below the lattice, but
    this is no sampler of exact integer weights. For one, release regions:
    ``Policy.create(Tupling(mechanism.cells(regions), k), ...)`` certifies the weights that it draws by.

    A second report from the same place costs its epsilon again (`compose`).

    Examples
    --------
    >>> from distp.mechanisms import ContinuousLaplace
    >>> lat, lon = release_points(ContinuousLaplace(1.0), [40.75, 40.75], [-73.97, -73.97])
    >>> lat.size, bool((lat * 2**20 == np.rint(lat * 2**20)).all())
    (2, True)
    """
    return _draw(mechanism, lat, lon, box, SystemEntropy())


def simulate_points(
    mechanism: Continuous, lat: ArrayLike, lon: ArrayLike, *, seed: int, box: BoxLike | None = None
) -> SimulatedPoints:
    """Return points of the same law as `release_points` from a seeded generator, stamped as a simulation.

    Parameters
    ----------
    mechanism, lat, lon, box
        As for `release_points`.
    seed : int
        >= 0. There is no default.

    Examples
    --------
    >>> from distp.mechanisms import ContinuousGaussian
    >>> found = simulate_points(ContinuousGaussian(0.5), 40.75, -73.97, seed=7)
    >>> found.simulated, found.seed, found.lat.shape
    (True, 7, (1,))
    """
    seed = count(seed, "seed")
    return SimulatedPoints(*_draw(mechanism, lat, lon, box, Seeded(seed)), seed)


def _draw(
    mechanism: Continuous, lat: ArrayLike, lon: ArrayLike, box: BoxLike | None, source: Stream
) -> tuple[FloatArray, FloatArray]:
    if not isinstance(mechanism, Continuous):
        raise MechanismError(f"mechanism must be continuous noise, got {type(mechanism).__name__}: use a Policy")
    area = None if box is None else as_box(box)
    lats, lons = coordinates(lat, lon)
    km = displacements(mechanism, lats.size, source)
    azimuth = 360 * uniforms(source.words(lats.size))
    ends = displaced(lats, lons, azimuth, km)
    return _snapped(*ends) if area is None else _on_map(area, *ends)


def displacements(mechanism: Continuous, size: int, source: Stream) -> FloatArray:
    """Return distances in km whose ends have the mechanism's density per area of a sphere.

    The radius of the plane, accepted with probability ``sin(r/R) / (r/R)``; where noise is larger than the Earth,
    a uniform point of the sphere, accepted by the density. How often it is drawn depends neither on the place nor on
    what is accepted.
    """
    scale = mechanism.scale
    km = np.empty(size)
    left = np.arange(size)
    while left.size:
        if scale <= RADIUS_KM:
            first, second = exponentials(left.size, source), exponentials(left.size, source)
            r = scale * mechanism.radius(first, second)
            share = np.where(r < math.pi * RADIUS_KM, np.sinc(r / (math.pi * RADIUS_KM)), 0.0)
        else:
            r = 2 * RADIUS_KM * np.arcsin(np.sqrt(uniforms(source.words(left.size))))
            share = mechanism.density(r / scale)
        accepted = uniforms(source.words(left.size)) < share
        km[left[accepted]] = r[accepted]
        left = left[~accepted]
    return km


def uniforms(words: Words) -> FloatArray:
    """Return the multiples of 2^-53 in [0, 1) that the words' upper bits number."""
    parts: FloatArray = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return parts


def exponentials(size: int, source: Stream) -> FloatArray:
    """Return standard exponential variates, > 0 and without an upper end.

    A word w stands for u = (w + 1/2) / 2^64 and gives -log u, from the other side where u is near 1. A word 0 says
    only that the variate exceeds 64 log 2; what comes after is as at the beginning, and a further word says it.
    """
    found = np.zeros(size)
    left = np.arange(size)
    while left.size:
        words = source.words(left.size)
        low = (words.astype(np.float64) + 0.5) * 2.0**-64
        high = ((~words).astype(np.float64) + 0.5) * 2.0**-64  # 1 - u
        own = np.where(low < 0.5, -np.log(low), -np.log1p(-np.minimum(high, 0.5)))
        found[left] += np.where(words == 0, 64 * math.log(2), own)
        left = left[words == 0]
    return found


def _snapped(lat: FloatArray, lon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the nearest multiples of 2^-20 degree."""
    return _unique(*(np.rint(degrees * STEPS_PER_DEGREE) / STEPS_PER_DEGREE for degrees in (lat, lon)))


def _on_map(box: Box, lat: FloatArray, lon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the middle of the nearest lattice square in the box."""
    middles = []
    places = to_km(box.lat, box.lon, lat, lon)
    for place, low, size in zip(places, (box.west, box.south), (box.width, box.height), strict=True):
        # A square belongs to the box if its middle lies inside by a quarter of a square, more than rounding moves.
        first, last = math.ceil(low / STEP_KM - 0.25), math.floor((low + size) / STEP_KM - 0.75)
        if first > last:
            raise ParameterError(f"the box is {1000 * size:g} m wide: too narrow for a lattice of 12 cm")
        middles.append((np.clip(np.floor(place / STEP_KM), first, last) + 0.5) * STEP_KM)
    degrees = to_degrees(box.lat, box.lon, middles[0], middles[1])
    return _unique(*(np.round(part, _DECIMALS) for part in degrees))


def _unique(lat: FloatArray, lon: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give each place one pair of numbers: -180 for 180 degrees, longitude 0 at the poles, 0 for -0."""
    lon = np.where(np.abs(lat) == 90, 0.0, np.where(lon >= 180, lon - 360, lon))
    return lat + 0.0, lon + 0.0
