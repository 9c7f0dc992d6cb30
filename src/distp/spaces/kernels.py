"""The compiled loops over points: project a block, look its cells or polygons up, leave what is close to an edge.

A point gets the number of its region, -1 outside all of them, or `NEAR`: too close to an edge for the polynomial to
decide. The loops go through the points in blocks that fit the processor's nearest memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distp.checks import FloatArray
from distp.compiled import compiled

NEAR = -2
BLOCK = 256


class CellTable(NamedTuple):
    """Square cells: base cells, each with a raster of its own (see `cells.Cells`).

    Attributes
    ----------
    frame : ndarray, shape (4,)
        West and south edge (km), 1 / side of a base cell, distance that counts as near in units of that side.
    shape : ndarray of int, shape (2,)
        Columns and rows of base cells.
    depth, offset, raster : ndarray of int
    """

    frame: FloatArray
    shape: np.ndarray
    depth: np.ndarray
    offset: np.ndarray
    raster: np.ndarray


class ShapeTable(NamedTuple):
    """Polygons: a raster of pixels, and edges of each polygon in buckets of y (see `shapes.Shapes`).

    Attributes
    ----------
    frame : ndarray, shape (4,)
        West and south edge of the raster (km), 1 / side of a pixel, distance that counts as near (km).
    pixels : ndarray of int, shape (rows, columns)
        A region, -1 outside, or -2 - m: mixed, with the candidates m.
    starts, candidates : ndarray of int
        Polygons that may hold a point of mixed pixel m: ``candidates[starts[m]:starts[m + 1]]``, ascending.
    first, low, step : ndarray, shape (n + 1,), (n,), (n,)
        Each polygon's first bucket, its least y, and 1 / height of its buckets.
    begin, edges : ndarray, shape (buckets + 1,), (entries, 4)
        Where a bucket's edges begin, and x1, y1, x2, y2 of each, y1 <= y2.
    """

    frame: FloatArray
    pixels: np.ndarray
    starts: np.ndarray
    candidates: np.ndarray
    first: np.ndarray
    low: FloatArray
    step: FloatArray
    begin: np.ndarray
    edges: FloatArray


@compiled
def _horner(coefficients, t, s, row, total, size):
    """Evaluate the sum of c[j, i] s^j t^i for a block, into ``total``."""
    terms, degree = coefficients.shape[0], coefficients.shape[1] - 1
    total[:size] = 0.0
    for j in range(terms - 1, -1, -1):
        row[:size] = 0.0
        for i in range(degree - 2 * j, -1, -1):
            c = coefficients[j, i]
            for k in range(size):
                row[k] = row[k] * t[k] + c
        for k in range(size):
            total[k] = total[k] * s[k] + row[k]


@compiled
def _project(window, lat, lon, start, size, t, e, s, row, x, y):
    """Project a block; x is infinite outside the window. Return whether every row is a place on Earth."""
    middle, per_height, lon0, per_width = window.frame[0], window.frame[1], window.frame[2], window.frame[3]
    good = True
    for k in range(size):
        a, b = lat[start + k], lon[start + k]
        good &= (abs(a) <= 90.0) & (abs(b) <= 180.0)
        away = b - lon0
        away = away - 360.0 if away > 180.0 else away
        away = away + 360.0 if away < -180.0 else away
        t[k] = (a - middle) * per_height
        e[k] = away * per_width
        s[k] = 2.0 * e[k] * e[k] - 1.0
    if good:
        _horner(window.x, t, s, row, x, size)
        _horner(window.y, t, s, row, y, size)
        for k in range(size):
            inside = (abs(t[k]) <= 1.0) & (abs(e[k]) <= 1.0)
            x[k] = x[k] * e[k] if inside else np.inf
    return good


@compiled
def _cells(table, x, y, value):
    """Look a block's cells up; return how many places are `NEAR`."""
    # Out of the tuple once: taking an array from it counts references, which two threads would fight over.
    depth, offset, raster = table.depth, table.offset, table.raster
    west, south, per, margin = table.frame[0], table.frame[1], table.frame[2], table.frame[3]
    columns, rows = table.shape[0], table.shape[1]
    count = 0
    for k in range(value.size):
        u, v = (x[k] - west) * per, (y[k] - south) * per
        if not (u > -margin and v > -margin and u < columns + margin and v < rows + margin):
            value[k] = -1
            continue
        near = u < margin or v < margin or u > columns - margin or v > rows - margin
        if not near:
            column, row = np.int64(u), np.int64(v)
            base = row * columns + column
            scale = np.int64(1) << np.int64(depth[base])
            u, v = (u - column) * scale, (v - row) * scale
            i, j = np.int64(u), np.int64(v)
            close = margin * scale
            near = u - i < close or v - j < close or i + 1 - u < close or j + 1 - v < close
            if not near:
                value[k] = raster[offset[base] + j * scale + i]
        if near:
            value[k] = NEAR
            count += 1
    return count


@compiled
def _pixels(table, x, y, value, mixed):
    """Look a block's pixels up, and list the points in mixed ones; return how many they are."""
    pixels = table.pixels
    rows, columns = pixels.shape
    west, south, per = table.frame[0], table.frame[1], table.frame[2]
    for k in range(value.size):
        u, v = (x[k] - west) * per, (y[k] - south) * per
        inside = (u >= 0.0) & (v >= 0.0) & (u < columns) & (v < rows)
        column, row = np.int64(u if inside else 0.0), np.int64(v if inside else 0.0)
        found = pixels[row, column]
        value[k] = found if inside else -1
    count = 0
    for k in range(value.size):
        mixed[count] = k
        count += value[k] < -1
    return count


@compiled
def _polygons(table, x, y, value, mixed):
    """Find the polygon of the listed places: the first of their pixel's candidates; return how many are `NEAR`."""
    starts, candidates, first, low = table.starts, table.candidates, table.first, table.low
    step, begin, edges, near = table.step, table.begin, table.edges, table.frame[3]
    count = 0
    for k in mixed:
        m, px, py, found = -2 - value[k], x[k], y[k], -1
        for candidate in range(starts[m], starts[m + 1]):
            polygon = candidates[candidate]
            above = np.int64(np.floor((py - low[polygon]) * step[polygon]))
            bucket = min(max(first[polygon] + above, first[polygon]), first[polygon + 1] - 1)
            odd, close = False, False
            for edge in range(begin[bucket], begin[bucket + 1]):
                x1, y1, x2, y2 = edges[edge, 0], edges[edge, 1], edges[edge, 2], edges[edge, 3]
                across, up = x2 - x1, y2 - y1
                cross = across * (py - y1) - (px - x1) * up
                # No branches here: which way they go would be a guess for every edge.
                close |= (
                    (abs(cross) <= near * (abs(across) + up))
                    & (py >= y1 - near)
                    & (py <= y2 + near)
                    & (px >= min(x1, x2) - near)
                    & (px <= max(x1, x2) + near)
                )
                odd ^= (y1 <= py) & (py < y2) & (cross > 0.0)
            if close or odd:
                found = NEAR if close else polygon
                count += close
                break
        value[k] = found
    return count


@compiled
def locate_cells(window, table, lat, lon, found):
    """Fill ``found`` from square cells; return how many points are `NEAR`, or -1 at a row that is no place."""
    t, e, s, row, x, y = np.empty((6, BLOCK))
    near = 0
    for start in range(0, lat.size, BLOCK):
        size = min(BLOCK, lat.size - start)
        if not _project(window, lat, lon, start, size, t, e, s, row, x, y):
            return -1
        near += _cells(table, x, y, found[start : start + size])
    return near


@compiled
def locate_shapes(window, table, lat, lon, found):
    """Fill ``found`` from polygons; return how many points are `NEAR`, or -1 at a row that is no place."""
    t, e, s, row, x, y = np.empty((6, BLOCK))
    mixed = np.empty(BLOCK + 1, np.int64)
    near = 0
    for start in range(0, lat.size, BLOCK):
        size = min(BLOCK, lat.size - start)
        if not _project(window, lat, lon, start, size, t, e, s, row, x, y):
            return -1
        value = found[start : start + size]
        near += _polygons(table, x, y, value, mixed[: _pixels(table, x, y, value, mixed)])
    return near
