"""From degrees to kilometres on the ground and back; the only module that talks to pyproj."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, positive
from distp.errors import CoordinateError, ParameterError

if TYPE_CHECKING:
    from pyproj import Geod, Transformer

# Beyond this latitude a grid of "north" and "east" cells has little meaning; no city lies there.
MAX_LATITUDE = 85.0


def coordinates(lat: ArrayLike, lon: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return latitudes and longitudes as float vectors, every one of them a place on Earth.

    Raises
    ------
    CoordinateError
        Different lengths, or a row that is not a number, out of range, or evidently swapped.
    """
    lats, lons = vectors(lat, lon)
    refuse_bad_rows(lats, lons)
    return lats, lons


def vectors(lat: ArrayLike, lon: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return latitudes and longitudes as float vectors of one length; their rows are not looked at yet."""
    try:
        lats = np.atleast_1d(np.asarray(lat, dtype=np.float64))
        lons = np.atleast_1d(np.asarray(lon, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise CoordinateError(f"latitude and longitude must be numbers: {error}") from None
    if lats.ndim != 1 or lats.shape != lons.shape:
        raise CoordinateError(f"latitude and longitude differ in shape: {lats.shape} and {lons.shape}")
    return lats, lons


def refuse_bad_rows(lats: FloatArray, lons: FloatArray) -> None:
    """Raise by the first row that is no place on Earth."""
    valid = valid_coordinates(lats, lons)
    if not valid.all():
        row = int(np.flatnonzero(~valid)[0])
        if not (np.isfinite(lats[row]) and np.isfinite(lons[row])):
            why = "is missing or not finite"
        elif abs(lats[row]) > 90 and abs(lons[row]) <= 90 and abs(lats[row]) <= 180:
            why = "has a latitude beyond 90 degrees: are latitude and longitude swapped?"
        else:
            why = "is out of range: latitude lies in [-90, 90], longitude in [-180, 180]"
        raise CoordinateError(f"row {row} {why} ({int((~valid).sum())} such rows)")


def valid_coordinates(lat: FloatArray, lon: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Say for each row whether it is a place on Earth (NaN is not)."""
    return (np.abs(lat) <= 90) & (np.abs(lon) <= 180)


@dataclass(frozen=True)
class Box:
    """A rectangle on the ground, in km east and north of an anchor (azimuthal equidistant, WGS 84).

    Parameters
    ----------
    lat, lon : float
        The anchor, in degrees. It need not be the middle.
    west, south : float
        The south-west corner, km from the anchor (negative: west or south of it).
    width, height : float
        Size in km.
    """

    lat: float
    lon: float
    west: float
    south: float
    width: float
    height: float

    def __post_init__(self) -> None:
        for name in ("lat", "lon", "west", "south", "width", "height"):
            object.__setattr__(self, name, float(getattr(self, name)))
        coordinates(self.lat, self.lon)
        if abs(self.lat) > MAX_LATITUDE:
            raise CoordinateError(
                f"the box lies at latitude {self.lat:.2f}: beyond {MAX_LATITUDE:g} degrees cells of north and "
                "east have no meaning"
            )
        positive(self.width, "box width")
        positive(self.height, "box height")
        if not (np.isfinite(self.west) and np.isfinite(self.south)):
            raise ParameterError("the corner of a box must be finite")

    @classmethod
    def around(cls, lat: float, lon: float, width: float, height: float) -> Box:
        """Make the box of ``width`` by ``height`` km whose middle is (lat, lon)."""
        return cls(lat, lon, -width / 2, -height / 2, width, height)

    @classmethod
    def from_degrees(cls, south: float, west: float, north: float, east: float) -> Box:
        """Make the box between two parallels and two meridians; ``west > east`` crosses the antimeridian."""
        coordinates([south, north], [west, east])
        if not south < north:
            raise CoordinateError(f"a box needs south < north, got {south} and {north}")
        span = (east - west) % 360
        if span == 0 or span > 180:
            raise CoordinateError(f"a box needs west and east up to 180 degrees apart, got {west} and {east}")
        lat, lon = (south + north) / 2, (west + span / 2 + 180) % 360 - 180
        # The middle parallel and meridian give width and height; the box is then a rectangle on the ground.
        x, _ = to_km(lat, lon, [lat, lat], [west, east])
        _, y = to_km(lat, lon, [south, north], [lon, lon])
        return cls(lat, lon, float(x[0]), float(y[0]), float(x[1] - x[0]), float(y[1] - y[0]))

    @property
    def proj(self) -> str:
        """The projection as a PROJ string: what another program needs to repeat it (km)."""
        return f"+proj=aeqd +lat_0={self.lat!r} +lon_0={self.lon!r} +datum=WGS84 +units=km +no_defs"


def to_km(lat0: float, lon0: float, lat: ArrayLike, lon: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Project degrees to km east and north of (lat0, lon0)."""
    lons = np.asarray(lon, float)
    # -180 and 180 are one meridian; rounding must not make two places of it.
    x, y = _transformer(float(lat0), float(lon0)).transform(
        np.where(lons == -180, 180.0, lons), np.asarray(lat, float)
    )
    return np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)


def to_degrees(lat0: float, lon0: float, x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Turn km east and north of (lat0, lon0) back into (latitude, longitude)."""
    lon, lat = _transformer(float(lat0), float(lon0)).transform(
        np.asarray(x, float), np.asarray(y, float), direction="INVERSE"
    )
    return np.asarray(lat, dtype=np.float64), np.asarray(lon, dtype=np.float64)


def displaced(lat: FloatArray, lon: FloatArray, azimuth: FloatArray, km: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Move places along geodesics of WGS 84.

    Parameters
    ----------
    lat, lon : ndarray, shape (n,)
        Degrees.
    azimuth : ndarray, shape (n,)
        Degrees clockwise from north; at a pole, from the meridian ``lon``.
    km : ndarray, shape (n,)
        Finite; more than half-way round the Earth comes back on the other side.

    Returns
    -------
    lat, lon : ndarray, shape (n,)
        Longitudes in [-180, 180].
    """
    lons, lats, _ = _geodesics().fwd(lon, lat, azimuth, 1000 * km)
    return np.asarray(lats, dtype=np.float64), np.asarray(lons, dtype=np.float64)


@lru_cache(maxsize=1)
def _geodesics() -> Geod:
    from pyproj import Geod  # loaded when used, as below

    return Geod(ellps="WGS84")


@lru_cache(maxsize=64)
def _transformer(lat0: float, lon0: float) -> Transformer:
    from pyproj import Transformer  # loaded when used: `import distp` stays light

    local = f"+proj=aeqd +lat_0={lat0!r} +lon_0={lon0!r} +datum=WGS84 +units=km +no_defs"
    return Transformer.from_crs("EPSG:4326", local, always_xy=True)
