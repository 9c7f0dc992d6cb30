"""Who is near whom: distances, lists of neighbours, and trees of boxes with labels; compiled.

A tree's every node knows the best label of the points below it, so that "some point within r that still matters" is
found without looking at those that do not.
"""

from __future__ import annotations

import numpy as np

from distp.compiled import compiled


@compiled
def distance(a, i, b, j, metric):
    """Return the distance of two points, rounded as `scipy.spatial.distance.cdist` rounds it."""
    total = 0.0
    for axis in range(a.shape[1]):
        gap = abs(a[i, axis] - b[j, axis])
        if metric == 0:
            total += gap * gap
        elif metric == 1:
            total += gap
        else:
            total = max(total, gap)
    return np.sqrt(total) if metric == 0 else total


@compiled
def _to_box(a, i, cloud, node, metric):
    """Return the distance to a box: rounding is monotone, so never more than to a point in it."""
    total = 0.0
    for axis in range(a.shape[1]):
        gap = max(max(cloud.low[node, axis] - a[i, axis], a[i, axis] - cloud.high[node, axis]), 0.0)
        if metric == 0:
            total += gap * gap
        elif metric == 1:
            total += gap
        else:
            total = max(total, gap)
    return np.sqrt(total) if metric == 0 else total


@compiled
def summarise(cloud, label):
    """Set every node's best label from its points' labels."""
    leaves = cloud.leaf_start.size - 1
    for leaf in range(leaves):
        top = np.int32(-1)
        for j in range(cloud.leaf_start[leaf], cloud.leaf_start[leaf + 1]):
            top = max(top, label[j])
        cloud.best[leaves + leaf] = top
    for node in range(leaves - 1, 0, -1):
        cloud.best[node] = max(cloud.best[2 * node], cloud.best[2 * node + 1])


@compiled
def remove(cloud, near, label, j):
    """Take a point's label away, and from the boxes above it where there are any."""
    label[j] = -1
    if near.first.size > 1:
        return
    leaves = cloud.leaf_start.size - 1
    leaf = cloud.leaf_of[j]
    top = np.int32(-1)
    for other in range(cloud.leaf_start[leaf], cloud.leaf_start[leaf + 1]):
        top = max(top, label[other])
    node = leaves + leaf
    while cloud.best[node] != top:
        cloud.best[node] = top
        if node == 1:
            break
        node >>= 1
        top = max(cloud.best[2 * node], cloud.best[2 * node + 1])


@compiled
def find(near, points, i, cloud, label, wanted, r, metric, stack, pointer):
    """Return a point of ``cloud`` within ``r`` of point ``i`` with a label of at least ``wanted``, or -1."""
    if near.first.size > 1:
        for place in range(pointer[i], near.first[i + 1]):  # labels only fall while a pointer stands
            if label[near.other[place]] >= wanted and near.length[place] <= r:
                pointer[i] = place
                return near.other[place]
        pointer[i] = near.first[i + 1]
        return -1
    leaves = cloud.leaf_start.size - 1
    depth = 1
    stack[0] = 1
    while depth:
        depth -= 1
        node = stack[depth]
        if cloud.best[node] < wanted or _to_box(points, i, cloud, node, metric) > r:
            continue
        if node >= leaves:
            for j in range(cloud.leaf_start[node - leaves], cloud.leaf_start[node - leaves + 1]):
                if label[j] >= wanted and distance(points, i, cloud.points, j, metric) <= r:
                    return j
        else:
            stack[depth] = 2 * node
            stack[depth + 1] = 2 * node + 1
            depth += 2
    return -1


@compiled
def within(points, i, cloud, label, r, metric, stack, taken):
    """List all points of ``cloud`` within ``r`` of point ``i`` that have a label above 0; return how many."""
    leaves = cloud.leaf_start.size - 1
    count, depth = 0, 1
    stack[0] = 1
    while depth:
        depth -= 1
        node = stack[depth]
        if cloud.best[node] <= 0 or _to_box(points, i, cloud, node, metric) > r:
            continue
        if node >= leaves:
            for j in range(cloud.leaf_start[node - leaves], cloud.leaf_start[node - leaves + 1]):
                if label[j] > 0 and distance(points, i, cloud.points, j, metric) <= r:
                    taken[count] = j
                    count += 1
        else:
            stack[depth] = 2 * node
            stack[depth + 1] = 2 * node + 1
            depth += 2
    return count


@compiled
def neighbours(inputs, outputs, r, metric, most, first, other, length):
    """List the outputs within ``r`` of every input; with no room for them, only count them into ``first``.

    Returns how many there are, or some number beyond ``most`` if there are more.
    """
    leaves = outputs.leaf_start.size - 1
    stack = np.empty(128, np.int64)
    total = 0
    for i in range(inputs.points.shape[0]):
        first[i] = total
        if total > most:
            break
        depth = 1
        stack[0] = 1
        while depth:
            depth -= 1
            node = stack[depth]
            if _to_box(inputs.points, i, outputs, node, metric) > r:
                continue
            if node < leaves:
                stack[depth] = 2 * node
                stack[depth + 1] = 2 * node + 1
                depth += 2
                continue
            for j in range(outputs.leaf_start[node - leaves], outputs.leaf_start[node - leaves + 1]):
                away = distance(inputs.points, i, outputs.points, j, metric)
                if away <= r:
                    if other.size:
                        other[total], length[total] = j, away
                    total += 1
    first[inputs.points.shape[0]] = total
    return total


@compiled
def listed(matrix, r):
    """List for each row the columns whose entry is at most ``r``: where they start, which, and the entries."""
    n, m = matrix.shape
    first = np.zeros(n + 1, np.int64)
    for i in range(n):
        count = 0
        for j in range(m):
            count += matrix[i, j] <= r
        first[i + 1] = first[i] + count
    # Written whether it counts or not, as a branch that cannot be foreseen costs more.
    other, length = np.empty(first[n] + 1, np.int32), np.empty(first[n] + 1)
    for i in range(n):
        place = first[i]
        for j in range(m):
            other[place], length[place] = j, matrix[i, j]
            place += matrix[i, j] <= r
    return first, other[:-1], length[:-1]


@compiled
def shorter(near, r):
    """Return the part of the lists within ``r``."""
    n = near.first.size - 1
    first = np.zeros(n + 1, np.int64)
    other, length = np.empty(near.other.size + 1, np.int32), np.empty(near.other.size + 1)
    place = 0
    for i in range(n):
        for old in range(near.first[i], near.first[i + 1]):
            other[place], length[place] = near.other[old], near.length[old]
            place += near.length[old] <= r
        first[i + 1] = place
    return first, other[:place], length[:place]


@compiled
def nearest_in(matrix, chosen, outputs, found):
    """Set ``found[i]`` to the least entry of each chosen row over some columns."""
    columns = np.flatnonzero(outputs)
    for i in range(chosen.size):
        if chosen[i]:
            for j in columns:
                found[i] = min(found[i], matrix[i, j])


@compiled
def transpose(near, first, other, length):
    """List the same pairs from the other side; ``first`` comes as zeros."""
    for j in near.other:
        first[j + 1] += 1
    for j in range(first.size - 1):
        first[j + 1] += first[j]
    free = first.copy()
    for i in range(near.first.size - 1):
        for place in range(near.first[i], near.first[i + 1]):
            j = near.other[place]
            other[free[j]], length[free[j]] = i, near.length[place]
            free[j] += 1


@compiled
def nearest(inputs, chosen, outputs, label, bound, metric, found):
    """Set ``found[i]`` to the least distance from each chosen input to an output with a label > 0.

    Distances of ``bound`` or more are not looked for; returns the least of all. With an infinite ``bound`` the
    distance of each input is exact.
    """
    leaves = outputs.leaf_start.size - 1
    stack = np.empty(128, np.int64)
    summarise(outputs, label)
    least = bound
    for i in range(chosen.size):
        if not chosen[i]:
            continue
        limit = bound if np.isinf(bound) else least
        depth = 1
        stack[0] = 1
        while depth:
            depth -= 1
            node = stack[depth]
            if outputs.best[node] <= 0 or _to_box(inputs.points, i, outputs, node, metric) >= limit:
                continue
            if node >= leaves:
                for j in range(outputs.leaf_start[node - leaves], outputs.leaf_start[node - leaves + 1]):
                    if label[j] > 0:
                        limit = min(limit, distance(inputs.points, i, outputs.points, j, metric))
                continue
            near, far = 2 * node, 2 * node + 1
            if _to_box(inputs.points, i, outputs, near, metric) > _to_box(inputs.points, i, outputs, far, metric):
                near, far = far, near
            stack[depth] = far
            stack[depth + 1] = near
            depth += 2
        found[i] = limit
        least = min(least, limit)
    return least


@compiled
def lengths(inputs, outputs, metric, i, j):
    """Return the distance of each pair (i, j), shape (arcs,)."""
    result = np.empty(i.size)
    for arc in range(i.size):
        result[arc] = distance(inputs.points, i[arc], outputs.points, j[arc], metric)
    return result
