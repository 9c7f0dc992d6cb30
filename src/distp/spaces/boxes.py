"""Boxes for points and outlines."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray
from distp.errors import CoordinateError, ParameterError
from distp.spaces.geojson import Outlines
from distp.spaces.ground import on_the_ground
from distp.spaces.projection import Box, coordinates

BoxLike = Box | tuple[float, float, float, float]


def as_box(box: BoxLike) -> Box:
    """Return ``box``, made from (south, west, north, east) if it is that."""
    return box if isinstance(box, Box) else Box.from_degrees(*box)


def box_around(outlines: Outlines, margin_km: float, cell_km: float) -> Box:
    """Return the box of whole cells that reaches at least ``margin_km`` beyond the outlines on every side."""
    lat, lon = outlines.middle()
    vertices, *_ = on_the_ground(outlines, lat, lon)
    low, high = vertices.min(axis=0) - margin_km, vertices.max(axis=0) + margin_km
    size = np.ceil((high - low) / cell_km - 1e-9) * cell_km
    corner = (low + high - size) / 2
    return Box(lat, lon, *corner.tolist(), *size.tolist())


def median_box(lat: ArrayLike, lon: ArrayLike, width: float, height: float, weights: ArrayLike | None = None) -> Box:
    """Return the box of ``width`` by ``height`` km around the median point.

    Raises
    ------
    CoordinateError
        A bad row, or a median where hardly anybody lives because latitude and longitude are swapped.
    """
    lats, lons = coordinates(lat, lon)
    mass = np.ones(lats.size) if weights is None else np.asarray(weights, dtype=np.float64)
    # Longitudes are taken relative to their circular mean, so that a city on the antimeridian stays whole.
    angle = np.deg2rad(lons)
    middle = math.degrees(math.atan2(float(mass @ np.sin(angle)), float(mass @ np.cos(angle))))
    lon0 = middle + _median((lons - middle + 180) % 360 - 180, mass)
    lat0 = _median(lats, mass)
    if abs(lat0) > 70 and abs(lon0) <= 70:
        raise CoordinateError(
            f"the median latitude is {lat0:.0f}, where hardly anybody lives: are latitude and longitude swapped? "
            "If not, give the box"
        )
    return Box.around(lat0, (lon0 + 180) % 360 - 180, width, height)


def _median(values: FloatArray, mass: FloatArray) -> float:
    order = np.argsort(values, kind="stable")
    running = np.cumsum(mass[order])
    if running[-1] <= 0:
        raise ParameterError("weights are all 0")
    return float(values[order][np.searchsorted(running, running[-1] / 2)])
