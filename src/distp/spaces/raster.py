"""Polygons drawn into pixels: each pixel in one polygon, in none, or mixed with a list of candidates; compiled."""

from __future__ import annotations

import numpy as np

from distp.compiled import compiled


@compiled
def _touched(frame, columns, rows, slack, side, out):
    """List the pixels that an edge comes within ``slack`` of, some perhaps twice; return how many."""
    west, south, per = frame[0], frame[1], frame[2]
    x1, y1, x2, y2 = side[0], side[1], side[2], side[3]
    low = max(int(np.floor((y1 - slack - south) * per)), 0)
    high = min(int(np.floor((y2 + slack - south) * per)), rows - 1)
    count = 0
    for row in range(low, high + 1):
        xa, xb = x1, x2
        if y2 > y1:
            bottom = south + row / per - slack
            top = south + (row + 1) / per + slack
            if y1 < bottom:
                xa = x1 + (x2 - x1) * ((bottom - y1) / (y2 - y1))
            if y2 > top:
                xb = x1 + (x2 - x1) * ((top - y1) / (y2 - y1))
        first = max(int(np.floor((min(xa, xb) - slack - west) * per)), 0)
        last = min(int(np.floor((max(xa, xb) + slack - west) * per)), columns - 1)
        for column in range(first, last + 1):
            out[count] = row * columns + column
            count += 1
    return count


@compiled
def _stamp(frame, columns, rows, slack, sides, owner, stamp, out, fresh):
    """Stamp the pixels on a polygon's rim; list each once in ``fresh`` and return how many."""
    count = 0
    for k in range(sides.shape[0]):
        size = _touched(frame, columns, rows, slack, sides[k], out)
        for pixel in out[:size]:
            if stamp[pixel] != owner:
                stamp[pixel] = owner
                fresh[count] = pixel
                count += 1
    return count


@compiled
def _crossings(frame, rows, sides):
    """Return where a polygon's edges cross the middle of pixel rows: its first row, starts per row, x sorted."""
    south, per = frame[1], frame[2]
    low, high = rows, -1
    for k in range(sides.shape[0]):
        low = min(low, int(np.floor((sides[k, 1] - south) * per)))
        high = max(high, int(np.floor((sides[k, 3] - south) * per)))
    low, high = max(low, 0), min(high, rows - 1)
    size = max(high - low + 1, 0)
    begin = np.zeros(size + 1, np.int64)
    x = np.empty(0)
    for turn in range(2):  # count, then fill
        if turn == 1:
            for row in range(size):
                begin[row + 1] += begin[row]
            x = np.empty(begin[size])
            free = begin[:size].copy()
        for k in range(sides.shape[0]):
            x1, y1, x2, y2 = sides[k, 0], sides[k, 1], sides[k, 2], sides[k, 3]
            first = max(int(np.floor((y1 - south) * per - 0.5)), low)
            last = min(int(np.ceil((y2 - south) * per - 0.5)), high)
            for row in range(first, last + 1):
                y = south + (row + 0.5) / per
                if y1 <= y and y < y2:
                    if turn == 0:
                        begin[row - low + 1] += 1
                    else:
                        x[free[row - low]] = x1 + (x2 - x1) * ((y - y1) / (y2 - y1))
                        free[row - low] += 1
    for row in range(size):
        x[begin[row] : begin[row + 1]].sort()
    return low, begin, x


@compiled
def paint(frame, columns, rows, slack, sides, first_side):
    """Return pixels (a polygon, -1, or -2 - m for mixed pixel m), and the candidates of mixed pixels, ascending.

    A pixel is mixed if an edge touches it or comes within ``slack`` of it. The others lie in a polygon or outside it
    as a whole, as their middle does.
    """
    west, per = frame[0], frame[2]
    shapes = first_side.size - 1
    stamp = np.full(rows * columns, -1, np.int32)
    count = np.zeros(rows * columns, np.int32)
    pixels = np.full(rows * columns, -1, np.int32)
    out = np.empty(2 * columns + 6 * rows + 64, np.int64)
    fresh = np.empty(rows * columns, np.int64)
    for p in range(shapes):
        mine = sides[first_side[p] : first_side[p + 1]]
        for pixel in fresh[: _stamp(frame, columns, rows, slack, mine, p, stamp, out, fresh)]:
            count[pixel] += 1
    starts = np.zeros(1, np.int64)
    candidates = np.empty(0, np.int32)
    free = np.empty(0, np.int64)
    for turn in range(2):  # polygons that hold a whole mixed pixel are candidates too: count them, then list all
        if turn == 1:
            mixed = 0
            for pixel in range(pixels.size):
                mixed += count[pixel] > 0
            starts = np.zeros(mixed + 1, np.int64)
            mixed = 0
            for pixel in range(pixels.size):
                if count[pixel] > 0:
                    pixels[pixel] = -2 - mixed
                    starts[mixed + 1] = starts[mixed] + count[pixel]
                    mixed += 1
            candidates = np.empty(starts[mixed], np.int32)
            free = starts[:mixed].copy()
        stamp[:] = -1
        for p in range(shapes):
            mine = sides[first_side[p] : first_side[p + 1]]
            rim = _stamp(frame, columns, rows, slack, mine, p, stamp, out, fresh)
            if turn == 1:
                for pixel in fresh[:rim]:
                    m = -2 - pixels[pixel]
                    candidates[free[m]] = p
                    free[m] += 1
            low, begin, x = _crossings(frame, rows, mine)
            for row in range(begin.size - 1):
                for k in range(begin[row], begin[row + 1] - 1, 2):
                    first = max(int(np.ceil((x[k] - west) * per - 0.5)), 0)
                    last = min(int(np.ceil((x[k + 1] - west) * per - 0.5)) - 1, columns - 1)
                    for column in range(first, last + 1):
                        pixel = (low + row) * columns + column
                        if stamp[pixel] == p:
                            continue
                        if turn == 0:
                            if count[pixel] > 0:
                                count[pixel] += 1
                            elif pixels[pixel] == -1:
                                pixels[pixel] = p
                        elif pixels[pixel] < -1:
                            m = -2 - pixels[pixel]
                            candidates[free[m]] = p
                            free[m] += 1
    return pixels, starts, candidates
