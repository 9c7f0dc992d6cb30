"""Outlines on the local map, in km: long edges bent as the map bends them, cuts healed, faults named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from distp.checks import FloatArray, IntArray
from distp.errors import CoordinateError, SpaceError
from distp.spaces.geojson import MAX_VERTICES, Outlines
from distp.spaces.projection import Box, to_km

if TYPE_CHECKING:
    from shapely import Geometry

BEND_KM = 1e-4  # an edge that the map bends by more than this is drawn in pieces
SLIVER_KM = 1e-3  # polygons may overlap by strips up to this wide: rounded vertices do
Between = Callable[[FloatArray, FloatArray, FloatArray], FloatArray]


def on_the_ground(
    outlines: Outlines, lat0: float, lon0: float, between: Between | None = None, bend_km: float = BEND_KM
) -> tuple[FloatArray, IntArray]:
    """Return vertices in km around (lat0, lon0), and where each ring starts among them.

    Edges run straight in longitude and latitude, as GeoJSON defines them, or as ``between`` says (from two ends and
    the share of the way); where the map bends one by more than ``bend_km``, vertices are put in. Both neighbours of
    an edge get the same ones.
    """
    straight = _straight if between is None else between
    ends = outlines.rings[1:-1] - 1  # no edge from one ring's last vertex to the next one's first
    a, b = outlines.vertices[:-1], outlines.vertices[1:]
    swap = (a[:, 0] > b[:, 0]) | ((a[:, 0] == b[:, 0]) & (a[:, 1] > b[:, 1]))
    p, q = np.where(swap[:, None], b, a), np.where(swap[:, None], a, b)
    half = straight(p, q, np.full(p.shape[0], 0.5))
    ground = _project(outlines.vertices, lat0, lon0)
    bend = np.linalg.norm(_project(half, lat0, lon0) - (ground[:-1] + ground[1:]) / 2, axis=1)
    pieces = np.maximum(np.ceil(np.sqrt(bend / bend_km)), 1)
    pieces[ends] = 1
    if not np.isfinite(pieces).all() or pieces.sum() > MAX_VERTICES:
        raise CoordinateError("the outlines are too large for one local map")
    size = pieces.astype(np.int64)
    edge = np.repeat(np.arange(size.size), size)
    first = np.concatenate([[0], np.cumsum(size)])
    step = np.arange(edge.size) - first[edge]
    share = np.where(swap[edge], size[edge] - step, step) / size[edge]
    new = step > 0
    vertices = ground[edge]
    if new.any():
        at = edge[new]
        vertices[new] = _project(straight(p[at], q[at], share[new]), lat0, lon0)
    return np.concatenate([vertices, ground[-1:]]), np.append(first[outlines.rings[:-1]], first[-1] + 1)


def geometries(
    outlines: Outlines, lat0: float, lon0: float, between: Between | None = None, bend_km: float = BEND_KM
) -> NDArray[np.object_]:
    """Return one shapely multipolygon for each area, in km around (lat0, lon0), every one of them valid.

    Raises
    ------
    SpaceError
        An area that crosses itself or has no area; by name, with shapely's reason.
    """
    vertices, rings = on_the_ground(outlines, lat0, lon0, between, bend_km)
    found = from_ragged(vertices, rings, outlines.parts, outlines.areas)
    cut = np.logical_or.reduceat(outlines.vertices[:, 0] == 180, outlines.rings[:-1])
    return checked(_healed(found, outlines, cut), outlines.names)


def from_ragged(vertices: FloatArray, rings: IntArray, parts: IntArray, areas: IntArray) -> NDArray[np.object_]:
    """Make multipolygons from flat arrays (see `Outlines` for what they say)."""
    import shapely

    offsets = tuple(np.asarray(values, dtype=np.int64) for values in (rings, parts, areas))
    made: NDArray[np.object_] = shapely.from_ragged_array(shapely.GeometryType.MULTIPOLYGON, vertices, offsets)
    return made


def checked(shapes: NDArray[np.object_], names: Sequence[str]) -> NDArray[np.object_]:
    """Return the shapes if every one is a valid polygon with an area, or raise by name."""
    import shapely

    valid = shapely.is_valid(shapes)
    if not valid.all():
        bad = int(np.argmin(valid))
        reason = shapely.is_valid_reason(shapes[bad]).split("[")[0].lower()
        raise SpaceError(f"area {bad} ({names[bad]}) is no polygon: {reason}")
    size = shapely.area(shapes)
    if not (size > 0).all():
        bad = int(np.argmin(size))
        raise SpaceError(f"area {bad} ({names[bad]}) is empty")
    return shapes


def refuse_overlaps(shapes: NDArray[np.object_], names: Sequence[str]) -> None:
    """Raise if two polygons share more than a strip of a metre's width, or a hundredth of the smaller one."""
    import shapely

    parts, owner = shapely.get_parts(shapes, return_index=True)
    if shapely.coverage_is_valid(parts):
        return
    one, two = shapely.STRtree(parts).query(parts, predicate="intersects")
    later = owner[one] < owner[two]
    one, two = one[later], two[later]
    common = shapely.intersection(parts[one], parts[two])
    shared = shapely.area(common)
    # Area over half the length of its rim: the width of a strip, less for a compact shape.
    width = 2 * shared / np.maximum(shapely.length(common), 1e-300)
    smaller = np.minimum(shapely.area(parts[one]), shapely.area(parts[two]))
    bad = (shared > 0) & ((width > SLIVER_KM) | (shared > 0.01 * smaller))
    if bad.any():
        i = int(np.argmax(np.where(bad, shared, 0)))
        a, b = int(owner[one[i]]), int(owner[two[i]])
        raise SpaceError(f"area {a} ({names[a]}) and area {b} ({names[b]}) overlap by {shared[i]:.3g} km2")


class Mask:
    """An outline on the local map of a box, to say which cells overlap it."""

    def __init__(self, outlines: Outlines, box: Box) -> None:
        import shapely

        self._whole: Geometry = shapely.union_all(geometries(outlines, box.lat, box.lon))
        shapely.prepare(self._whole)

    def clip(self, west: float, south: float, side: float, left: Any) -> Any:
        """Return what remains of the outline in a cell: True if all of the cell, None if nothing.

        ``left`` is what remained in the cell around this one, None if there is none.
        """
        import shapely

        if left is True:
            return True
        cell = (west, south, west + side, south + side)
        if left is None:
            square = shapely.box(*cell)
            if shapely.contains(self._whole, square):
                return True
            if not shapely.intersects(self._whole, square):
                return None
        rest = shapely.clip_by_rect(self._whole if left is None else left, *cell)
        # A touch of a corner is no overlap.
        return rest if shapely.area(rest) > 1e-12 * side**2 else None

    def overlaps(self, shapes: NDArray[np.object_]) -> NDArray[np.bool_]:
        """Say which polygons share an area with the outline."""
        import shapely

        kept: NDArray[np.bool_] = shapely.intersects(self._whole, shapes)
        unsure = np.flatnonzero(kept & ~shapely.contains(self._whole, shapes))
        shared = shapely.area(shapely.intersection(self._whole, shapes[unsure]))
        kept[unsure] = shared > 1e-12 * shapely.area(shapes[unsure])
        return kept


def _project(vertices: FloatArray, lat0: float, lon0: float) -> FloatArray:
    return np.column_stack(to_km(lat0, lon0, vertices[:, 1], vertices[:, 0]))


def _straight(p: FloatArray, q: FloatArray, share: FloatArray) -> FloatArray:
    """Return the place on the way from p to q, straight in degrees and the short way round."""
    way = q - p
    way[:, 0] = (way[:, 0] + 180) % 360 - 180
    place = p + way * share[:, None]
    place[:, 0] = 180 - (180 - place[:, 0]) % 360
    return place


def _healed(shapes: NDArray[np.object_], outlines: Outlines, cut: NDArray[np.bool_]) -> NDArray[np.object_]:
    """Join the parts of areas that are cut at the antimeridian: both sides of the cut are one line."""
    import shapely

    touched = np.logical_or.reduceat(np.logical_or.reduceat(cut, outlines.parts[:-1]), outlines.areas[:-1])
    for area in np.flatnonzero(touched & (np.diff(outlines.areas) > 1)):
        parts = shapely.get_parts(shapes[area])
        if shapely.is_valid(parts).all():
            joined = shapely.union_all(parts)
            if shapely.area(joined) > (1 - 1e-9) * shapely.area(parts).sum():  # else they overlap: `checked` says so
                shapes[area] = joined if joined.geom_type == "MultiPolygon" else shapely.multipolygons([joined])
    return shapes
