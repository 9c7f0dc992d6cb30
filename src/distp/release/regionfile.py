"""The map of a policy file: square cells or polygons, written so that every reader finds the same region."""

from __future__ import annotations

from typing import Any

import numpy as np

from distp.checks import FloatArray
from distp.errors import PolicyError
from distp.spaces import Box, Regions
from distp.spaces.geojson import MAX_VERTICES
from distp.spaces.shapes import MAX_SHAPES, Shapes


def to_body(regions: Regions) -> dict[str, Any]:
    """Return the ``regions`` of a policy's body."""
    box = regions.box
    body: dict[str, Any] = {
        "projection": box.proj,
        "anchor": [box.lat, box.lon],
        "box_km": [box.west, box.south, box.width, box.height],
        "inputs": len(regions.inputs),
        "centres": np.round(np.column_stack([regions.lat, regions.lon]), 7).tolist(),
    }
    if regions.square:
        body |= {"cell_km": regions.cell_km, "cells_km": regions.cells.tolist()}
        if regions.holes:
            body["holes"] = True
    else:
        body["names"] = regions.names
        body["polygons_km"] = [
            [[ring.tolist() for ring in piece] for piece in regions.pieces_km(region)]
            for region in range(len(regions))
        ]
    return body


def from_body(place: dict[str, Any]) -> Regions:
    """Read the map back; everything is checked by the constructor of its own type.

    Raises
    ------
    DistpError
        Parts that do not fit together. Anything else that a damaged file may raise is left to the caller.
    """
    anchor = floats(place["anchor"], 2)
    box = Box(*anchor, *floats(place["box_km"], 4))
    if "polygons_km" in place:
        regions = _polygons(place, (anchor[0], anchor[1]))
        if regions.box != box:
            raise PolicyError("the box is not the rectangle around the polygons")
    else:
        holes = place.get("holes", False)
        if not isinstance(holes, bool):
            raise PolicyError(f"holes must be true or false, not {holes!r}")
        cells = np.array(place["cells_km"], dtype=float)
        regions = Regions(box, float(place["cell_km"]), cells, place["inputs"], holes=holes)
    centres = np.array(place["centres"])
    if centres.dtype.kind not in "if":
        raise PolicyError("the centres must be numbers")
    here = np.column_stack([regions.lat, regions.lon])
    if place["projection"] != box.proj or centres.shape != here.shape or _apart(centres, here) > 1e-5:
        raise PolicyError("the projection or the centres do not belong to the cells")
    return regions


def floats(values: list[float], size: int) -> list[float]:
    """Return ``size`` numbers as floats."""
    if len(values) != size:
        raise PolicyError(f"expected {size} numbers, found {len(values)}")
    return [float(value) for value in values]


def _apart(one: FloatArray, two: FloatArray) -> float:
    """Return the largest difference in degrees; a meridian's two names are one."""
    away = np.abs(one - two)
    away[:, 1] = np.minimum(away[:, 1], np.abs(360 - away[:, 1]))
    worst = float(away.max())
    return worst if np.isfinite(worst) else np.inf


def _polygons(place: dict[str, Any], anchor: tuple[float, float]) -> Regions:
    areas, names = place["polygons_km"], place["names"]
    if not isinstance(areas, list) or not isinstance(names, list) or not 0 < len(areas) == len(names) <= MAX_SHAPES:
        raise PolicyError(f"polygons and names must be two lists of one length, 1 to {MAX_SHAPES:,}")
    if not all((isinstance(name, str) and name.isprintable()) or name == "" for name in names):
        raise PolicyError("the name of a polygon must be text that can be printed")
    flat, total = [], 0
    rings, parts, ends = [0], [0], [0]
    for number, area in enumerate(areas):
        for piece in area:
            for ring in piece:
                total += len(ring) + 1
                if total > MAX_VERTICES:
                    raise PolicyError(f"the polygons have more than {MAX_VERTICES:,} vertices")
                vertices = np.array(ring, dtype=float)
                if vertices.ndim != 2 or vertices.shape[0] < 3 or vertices.shape[1] != 2:
                    raise PolicyError(f"polygon {number} has a ring that is no list of three or more [x, y]")
                flat.append(np.concatenate([vertices, vertices[:1]]))
                rings.append(total)
            if len(rings) - 1 == parts[-1]:
                raise PolicyError(f"polygon {number} has a part without a ring")
            parts.append(len(rings) - 1)
        if len(parts) - 1 == ends[-1]:
            raise PolicyError(f"polygon {number} is empty")
        ends.append(len(parts) - 1)
    of_ring, of_part, of_area = (np.array(values, dtype=np.int64) for values in (rings, parts, ends))
    shapes = Shapes(np.concatenate(flat), of_ring, of_part, of_area, names)
    return Regions.from_shapes(shapes, anchor, place["inputs"], names)
