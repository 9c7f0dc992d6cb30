"""Maximum flow between two distributions over all pairs within a distance: the compiled core.

Forward arcs have no capacity limit, so a search only asks for "some point within r that still matters"
(`nearness.find`): a scan of a list of neighbours, or where the lists would be too long a walk through a tree of boxes
whose every node knows the best label below it. Backward arcs are those that carry flow, a few per point.
Levels are distances *to*
outputs with demand left, so one search shows which inputs can place what they have left, and which never will.
Blocking flows along such levels are Dinic's algorithm; that geometry can replace the arcs is the idea of Efrat, Itai
and Katz for bottleneck matching, here for masses in whole units.
"""

from __future__ import annotations

import numpy as np

from distp.compiled import compiled
from distp.transport.nearness import distance, find, remove, summarise, within

FEW = 16  # points that are looked at one by one rather than in a tree
MOST = 1 << 30  # labels of outputs are this minus their level, so that the best is the largest


@compiled
def _by_input(n, source, target, units):
    """List the flow by input: where each input's arcs start, their targets and units."""
    first = np.zeros(n + 1, np.int64)
    for i in source:
        first[i + 1] += 1
    for i in range(n):
        first[i + 1] += first[i]
    free = first.copy()
    to, amount = np.empty_like(target), np.empty_like(units)
    for arc in range(source.size):
        place = free[source[arc]]
        to[place], amount[place] = target[arc], units[arc]
        free[source[arc]] += 1
    return first, to, amount


@compiled
def _merged(n, m, source, target, units, out_i, out_j, out, used):
    """Return old arcs and ``used`` new ones as arcs sorted by output, each pair once, none empty."""
    size = source.size + used
    first = np.zeros(m + 1, np.int64)
    for arc in range(size):
        j = target[arc] if arc < source.size else out_j[arc - source.size]
        first[j + 1] += 1
    for j in range(m):
        first[j + 1] += first[j]
    free = first.copy()
    from_i, amount = np.empty(size, np.int64), np.empty(size, np.int64)
    for arc in range(size):
        new = arc - source.size
        i, j, units_here = (out_i[new], out_j[new], out[new]) if new >= 0 else (source[arc], target[arc], units[arc])
        from_i[free[j]], amount[free[j]] = i, units_here
        free[j] += 1
    seen = np.full(n, -1, np.int64)  # where the input's arc to the output at hand was kept
    to = np.empty(size, np.int64)
    kept = 0
    for j in range(m):
        start = kept
        for arc in range(first[j], first[j + 1]):
            i = from_i[arc]
            if amount[arc] == 0:
                continue
            if seen[i] >= start:
                amount[seen[i]] += amount[arc]
            else:
                seen[i] = kept
                from_i[kept], to[kept], amount[kept] = i, j, amount[arc]
                kept += 1
    return from_i[:kept].copy(), to[:kept].copy(), amount[:kept].copy()


@compiled
def _search(r, near, transposed, inputs, outputs, metric, demand, first, target, units):
    """Level inputs and outputs by how many steps they are from an output with demand left; -1: cut off from all.

    ``first``, ``target`` and ``units`` list the flow by input.
    """
    n, m = first.size - 1, demand.size
    level, level_out, label = np.full(n, -1, np.int32), np.full(m, -1, np.int32), np.ones(n, np.int32)
    listed = near.first.size > 1
    if not listed:
        summarise(inputs, label)
    queue, stack = np.empty(m, np.int64), np.empty(128, np.int64)
    unseen, place_of, left = np.arange(n), np.arange(n), n
    taken = np.empty(n, np.int64)
    head, tail = 0, 0
    for j in range(m):
        if demand[j] > 0:
            level_out[j] = 0
            queue[tail] = j
            tail += 1
    while head < tail and left:
        j = queue[head]
        head += 1
        count = 0
        # Whichever is least work: the neighbours, those that nobody has reached yet, or the tree.
        if left <= (near.first[j + 1] - near.first[j] if listed else FEW):
            for place in range(left):
                i = unseen[place]
                away = transposed[j, i] if transposed.size else distance(outputs.points, j, inputs.points, i, metric)
                if away <= r:
                    taken[count] = i
                    count += 1
        elif listed:
            for place in range(near.first[j], near.first[j + 1]):
                i = np.int64(near.other[place])
                if label[i] > 0 and near.length[place] <= r:
                    taken[count] = i
                    count += 1
        else:
            count = within(outputs.points, j, inputs, label, r, metric, stack, taken)
        for i in taken[:count]:
            remove(inputs, near, label, i)
            left -= 1
            unseen[place_of[i]] = unseen[left]
            place_of[unseen[left]] = place_of[i]
            level[i] = level_out[j] + 1
            for arc in range(first[i], first[i + 1]):
                other = target[arc]
                if units[arc] > 0 and level_out[other] < 0:
                    level_out[other] = level[i] + 1
                    queue[tail] = other
                    tail += 1
    return level, level_out


@compiled
def _block(
    r, near, inputs, outputs, metric, supply, demand, level, level_out, first, origin, units, needed,
    out_i, out_j, out,
):  # fmt: skip
    """Push a blocking flow down the levels, at most ``needed`` units; return how much, and how many arcs it took.

    ``first``, ``origin`` and ``units`` list the flow by output; changes them, supply, demand and the levels.
    Forward flow is appended to ``out_i``, ``out_j``, ``out``.
    """
    n, m = supply.size, demand.size
    label = np.empty(m, np.int32)
    for j in range(m):
        label[j] = MOST - level_out[j] if level_out[j] >= 0 else -1
    if near.first.size == 1:
        summarise(outputs, label)
    stack, pointer, back = np.empty(128, np.int64), near.first[:-1].copy(), first[:m].copy()
    path_i, path_j, path_arc = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    pushed, used = np.int64(0), 0
    for root in range(n):
        if level[root] < 0 or supply[root] == 0:
            continue
        depth, at_output = 0, False
        path_i[0] = root
        while True:
            if at_output:
                j = path_j[depth]
                while back[j] < first[j + 1]:
                    arc = back[j]
                    if units[arc] > 0 and level[origin[arc]] == level_out[j] - 1:
                        break
                    back[j] += 1
                if back[j] < first[j + 1]:
                    path_arc[depth] = back[j]
                    depth += 1
                    path_i[depth] = origin[back[j]]
                else:
                    remove(outputs, near, label, j)
                at_output = False
                continue
            i = path_i[depth]
            wanted = MOST - (level[i] - 1)
            j = find(near, inputs.points, i, outputs, label, wanted, r, metric, stack, pointer)
            if j < 0:
                level[i] = -2
                if depth == 0:
                    break
                depth -= 1
                at_output = True
                continue
            path_j[depth] = j
            if level_out[j] > 0:
                at_output = True
                continue
            amount = min(min(supply[root], demand[j]), needed - pushed)
            for step in range(depth):
                amount = min(amount, units[path_arc[step]])
            if used + depth + 1 > out.size:
                return pushed, used  # no room to note more: the next search goes on from here
            for step in range(depth + 1):
                out_i[used], out_j[used], out[used] = path_i[step], path_j[step], amount
                used += 1
            supply[root] -= amount
            demand[j] -= amount
            pushed += amount
            cut = depth
            for step in range(depth):
                units[path_arc[step]] -= amount
                if units[path_arc[step]] == 0 and cut == depth:
                    cut = step
            if demand[j] == 0:
                remove(outputs, near, label, j)
            if pushed == needed:
                return pushed, used
            if supply[root] == 0:
                break
            at_output = cut < depth
            depth = cut
    return pushed, used


@compiled
def fill(r, allowed, near, transposed, inputs, outputs, metric, supply, demand, source, target, units):
    """Augment over pairs at most ``r`` apart until no more than ``allowed`` units are missing, or it cannot be.

    Changes supply and demand; returns the flow sorted by output, whether it suffices, and the last levels.
    """
    n, m = supply.size, demand.size
    room = 4 * (n + m) + 1024
    out_i, out_j, out = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    level, level_out = np.zeros(n, np.int32), np.zeros(m, np.int32)
    while True:
        needed = supply.sum() - allowed
        if needed <= 0:
            return source, target, units, True, level, level_out
        first, to, amount = _by_input(n, source, target, units)
        level, level_out = _search(r, near[1], transposed, inputs, outputs, metric, demand, first, to, amount)
        stuck = np.int64(0)
        for i in range(n):
            if level[i] < 0:
                stuck += supply[i]
        if stuck > allowed:
            return source, target, units, False, level, level_out
        first = np.searchsorted(target, np.arange(m + 1))
        _, used = _block(
            r, near[0], inputs, outputs, metric, supply, demand, level, level_out, first, source, units, needed,
            out_i, out_j, out,
        )  # fmt: skip
        source, target, units = _merged(n, m, source, target, units, out_i, out_j, out, used)
