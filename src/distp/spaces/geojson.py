"""Outlines in degrees: reading them from GeoJSON, and the checks that need no map."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from distp.checks import FloatArray, IntArray, frozen
from distp.errors import CoordinateError, DataError, DistpError, SpaceError
from distp.spaces.projection import MAX_LATITUDE, coordinates

MAX_BYTES = 1 << 28
MAX_VERTICES = 2_000_000


@dataclass(frozen=True, eq=False)
class Outlines:
    """Areas on the Earth: each has polygons, each polygon an outer ring and perhaps holes.

    Attributes
    ----------
    names : tuple of str
        One for each area.
    vertices : ndarray, shape (v, 2)
        Longitude and latitude (degrees) of every vertex, ring by ring; a ring's last is its first. 180 stands for
        the meridian of -180 too.
    rings, parts, areas : ndarray of int
        Ring i has the vertices ``rings[i]`` to ``rings[i + 1]``, polygon i the rings ``parts[i]`` to
        ``parts[i + 1]``, area i the polygons ``areas[i]`` to ``areas[i + 1]``.
    """

    names: tuple[str, ...]
    vertices: FloatArray
    rings: IntArray
    parts: IntArray
    areas: IntArray

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Outlines({len(self)} areas, {self.vertices.shape[0]} vertices)"

    def bounds(self) -> tuple[float, float, float, float]:
        """Return south, west, north, east of everything; ``west > east`` crosses the antimeridian."""
        west, span = _arc(*self._intervals())
        lat = self.vertices[:, 1]
        east = (west + span + 180) % 360 - 180
        return float(lat.min()), west, float(lat.max()), east

    def middle(self) -> tuple[float, float]:
        """Return latitude and longitude of the middle of the bounds."""
        south, west, north, east = self.bounds()
        return (south + north) / 2, (west + (east - west) % 360 / 2 + 180) % 360 - 180

    def _intervals(self) -> tuple[FloatArray, FloatArray]:
        """Return each ring's west end and its span in longitude, both in degrees, going round the short way."""
        lon = self.vertices[:, 0]
        steps = (np.diff(lon, prepend=lon[0]) + 180) % 360 - 180
        steps[self.rings[:-1]] = 0
        run = np.cumsum(steps)
        run -= np.repeat(run[self.rings[:-1]], np.diff(self.rings))
        low, high = (f.reduceat(run, self.rings[:-1]) for f in (np.minimum, np.maximum))
        around = np.abs(run[self.rings[1:] - 1]) > 1
        if around.any():
            raise CoordinateError(f"{self._owner(int(np.argmax(around)))} goes round a pole")
        return lon[self.rings[:-1]] + low, high - low

    def _owner(self, ring: int) -> str:
        part = int(np.searchsorted(self.parts, ring, side="right")) - 1
        area = int(np.searchsorted(self.areas, part, side="right")) - 1
        return f"area {area} ({self.names[area]})"

    def check(self) -> None:
        """Refuse what no local map can show.

        Raises
        ------
        CoordinateError
            A vertex beyond 85 degrees of latitude, a ring around a pole, more than a hemisphere.
        """
        polar = np.abs(self.vertices[:, 1]) > MAX_LATITUDE
        if polar.any():
            vertex = int(np.argmax(polar))
            ring = int(np.searchsorted(self.rings, vertex, side="right")) - 1
            raise CoordinateError(
                f"{self._owner(ring)} reaches latitude {self.vertices[vertex, 1]:.2f}: beyond {MAX_LATITUDE:g} "
                "degrees north and east have no meaning"
            )
        west, span = self._intervals()
        for area, (a, b) in enumerate(pairwise(self.parts[self.areas].tolist())):
            wide = float(span[a:b].max()) if b - a == 1 else _arc(west[a:b], span[a:b])[1]
            if wide > 180:
                raise CoordinateError(
                    f"area {area} ({self.names[area]}) spans {wide:.0f} degrees of longitude, more than a hemisphere"
                )
        wide = _arc(west, span)[1]
        if wide > 180:
            raise CoordinateError(f"the areas span {wide:.0f} degrees of longitude together, more than a hemisphere")


def read_outlines(source: str | Path | Mapping[str, Any], name: str | None = None) -> Outlines:
    """Read areas from GeoJSON (RFC 7946): one for each feature.

    Parameters
    ----------
    source : path or dict
        A FeatureCollection, a Feature or a geometry; every feature a Polygon or a MultiPolygon. Longitudes and
        latitudes of WGS 84. Polygons cut at the antimeridian are one area if they are one MultiPolygon; where a ring
        jumps from 179 to -179, it is taken to go the short way round.
    name : str, optional
        The property that names a feature. Default: its ``name``, else its ``id``, else its number.

    Returns
    -------
    Outlines

    Raises
    ------
    DataError
        The file cannot be read or is not GeoJSON.
    SpaceError
        No polygons, a feature without one, or a ring that is none.
    CoordinateError
        A position that is no place on Earth, near a pole, or an area of more than a hemisphere.

    Notes
    -----
    Source: RFC 7946, sections 3.1.6, 3.1.7 and 3.1.9.

    Examples
    --------
    >>> corners = [[-74.0, 40.7], [-73.9, 40.7], [-73.9, 40.8], [-74.0, 40.7]]
    >>> read_outlines({"type": "Polygon", "coordinates": [corners]})
    Outlines(1 areas, 4 vertices)
    """
    features = _features(_document(source))
    if not features:
        raise SpaceError("there are no polygons in the file")
    names: list[str] = []
    flat: list[Any] = []
    rings, parts, areas = [0], [0], [0]
    for number, feature in enumerate(features):
        names.append(_name(feature, name, number))
        where = f"area {number} ({names[-1]})"
        for polygon in _polygons(feature.get("geometry"), where):
            for ring in _list(polygon, where):
                positions = _ring(ring, where)
                flat.append(positions)
                rings.append(rings[-1] + positions.shape[0])
                if rings[-1] > MAX_VERTICES:
                    raise SpaceError(f"the outlines have more than {MAX_VERTICES:,} vertices: simplify them")
            parts.append(len(rings) - 1)
        areas.append(len(parts) - 1)
    vertices = np.concatenate(flat)
    index = (frozen(np.array(values, dtype=np.int64)) for values in (rings, parts, areas))
    outlines = Outlines(tuple(names), frozen(vertices), *index)
    outlines.check()
    return outlines


def as_outlines(value: Outlines | str | Path | Mapping[str, Any]) -> Outlines:
    """Return ``value`` as outlines: itself, or read."""
    return value if isinstance(value, Outlines) else read_outlines(value)


def _arc(west: FloatArray, span: FloatArray) -> tuple[float, float]:
    """Return the west end and the span of the shortest stretch of longitudes that holds all the given ones."""
    start = np.mod(west + 180, 360)
    order = np.argsort(start, kind="stable")
    start, end = start[order], (start + span)[order]
    reach = np.maximum.accumulate(end)
    # The gap before each stretch; before the first one lies what the last ones leave of the circle.
    gaps = np.concatenate([[start[0] + 360 - reach[-1]], start[1:] - reach[:-1]])
    over = reach[-1] - 360  # the circle's seam is covered so far from the west
    gaps[1:] = np.minimum(gaps[1:], start[1:] - over)
    widest = int(np.argmax(gaps))
    return float(start[widest] - 180), float(360 - max(gaps[widest], 0.0))


def _document(source: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    if not isinstance(source, (str, Path)):
        raise DataError(f"outlines must be a path or a GeoJSON dict, got {type(source).__name__}")
    try:
        with Path(source).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"cannot read outlines {source}: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise DataError(f"{source} is larger than {MAX_BYTES >> 20} MiB: simplify the outlines")
    try:
        document = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise DataError(f"{source} is not GeoJSON: it is not JSON") from None
    if not isinstance(document, dict):
        raise DataError(f"{source} is not GeoJSON: it is not an object")
    return document


def _features(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    kind = document.get("type")
    if kind == "FeatureCollection":
        features = document.get("features")
        if not isinstance(features, list) or not all(isinstance(feature, Mapping) for feature in features):
            raise DataError("outlines are not GeoJSON: 'features' must be a list of features")
        return features
    if kind == "Feature":
        return [document]
    if kind in ("Polygon", "MultiPolygon"):
        return [{"geometry": document}]
    raise SpaceError(f"outlines must be polygons in a FeatureCollection, a Feature or alone, not {kind!r}")


def _name(feature: Mapping[str, Any], key: str | None, number: int) -> str:
    properties = feature.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    if key is not None:
        if known.get(key) is None:
            raise SpaceError(f"area {number} has no property {key!r} to name it by")
        return str(known[key])
    found = [known.get("name"), known.get("NAME"), feature.get("id"), known.get("id")]
    return next((str(value) for value in found if value is not None), str(number))


def _polygons(geometry: Any, where: str) -> list[Any]:
    kind = geometry.get("type") if isinstance(geometry, Mapping) else None
    if kind not in ("Polygon", "MultiPolygon"):
        raise SpaceError(f"{where} has no polygon: its geometry is {kind or 'missing'}")
    found = _list(geometry.get("coordinates"), where)
    polygons = [found] if kind == "Polygon" else found
    if not polygons or not all(isinstance(polygon, (list, tuple)) and polygon for polygon in polygons):
        raise SpaceError(f"{where} is empty")
    return list(polygons)


def _list(value: Any, where: str) -> Any:
    if not isinstance(value, (list, tuple)):
        raise SpaceError(f"{where} has coordinates that are no list")
    return value


def _ring(ring: Any, where: str) -> FloatArray:
    """Return a ring's longitudes and latitudes, shape (k, 2), closed, without repetitions."""
    try:
        positions: FloatArray = np.array([position[:2] for position in ring], dtype=np.float64)
    except (TypeError, ValueError):
        raise SpaceError(f"{where} has a position that is no pair of numbers") from None
    if positions.ndim != 2 or positions.shape[0] < 3 or positions.shape[1] != 2:
        raise SpaceError(f"{where} has a ring of fewer than three positions")
    try:
        coordinates(positions[:, 1], positions[:, 0])
    except DistpError as error:
        raise CoordinateError(f"{where}: {error}") from None
    positions[positions[:, 0] == -180, 0] = 180.0  # one meridian, one number
    positions = np.concatenate([positions, positions[:1]])
    positions = positions[np.concatenate([[True], (np.diff(positions, axis=0) != 0).any(axis=1)])]
    if positions.shape[0] < 4:
        raise SpaceError(f"{where} has a ring without area, or one right round the Earth")
    return positions
