"""The compiled loops that turn uniform words into tuples, with integers only.

One word of 64 bits makes one draw. A *bounded* draw is the upper half of word times bound (Lemire 2019); fewer words
than the bound, of 2^64, would favour some outcome, and whoever meets one must draw again. A *weighted* draw takes the
word to an alias table, whose slots share out all 2^64 words: one comparison, whatever the law, and none is refused.
"""

from __future__ import annotations

import numpy as np

from distp.compiled import compiled

_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@compiled
def _bounded(word, bound):
    """Return the upper 64 bits of ``word * bound``, for a bound below 2^32, and the lower 64."""
    low = (word & _LOW) * bound
    high = (word >> _HALF) * bound + (low >> _HALF)
    return high >> _HALF, word * bound


@compiled
def _favoured(bound):
    """Return 2^64 modulo a bound: words whose lower half lies below it would make some outcomes likelier."""
    return (np.uint64(0) - bound) % bound


@compiled
def _weighted(word, start, shift, threshold, columns):
    """Return a column of the row whose slots begin at ``start``; each slot holds 2^shift words."""
    slot = start + np.int64(word >> shift)
    rest = word & ((np.uint64(1) << shift) - np.uint64(1))
    # No branch: which way it went would be a guess for every draw, and would take longer when wrong.
    return columns[2 * slot + np.int64(rest >= threshold[slot])]


@compiled
def alias_tables(starts, columns, values, bits, slots, shift, threshold, pairs):
    """Fill the slots of every row: exact, since weights, slots and what is left of them are integers (Vose 1991).

    A row's weights sum to 2^bits, and each unit of weight is worth 2^(64 - bits) words.
    """
    worth = np.uint64(64 - bits)
    small = np.empty(1 + np.diff(slots).max(), np.int64)
    large = np.empty_like(small)
    for row in range(starts.size - 1):
        first, size = slots[row], slots[row + 1] - slots[row]
        capacity = np.int64(1) << (np.int64(shift[row]) - np.int64(worth))
        left = np.zeros(size, np.int64)
        entries = starts[row + 1] - starts[row]
        left[:entries] = values[starts[row] : starts[row + 1]]
        few, many = 0, 0
        for slot in range(size):
            pairs[2 * (first + slot) : 2 * (first + slot + 1)] = columns[starts[row] + min(slot, entries - 1)]
            threshold[first + slot] = np.uint64(1) << shift[row]
            if left[slot] < capacity:
                small[few] = slot
                few += 1
            else:
                large[many] = slot
                many += 1
        while few and many:
            few -= 1
            slot, giver = small[few], large[many - 1]
            threshold[first + slot] = np.uint64(left[slot]) << worth
            pairs[2 * (first + slot) + 1] = pairs[2 * (first + giver)]
            left[giver] -= capacity - left[slot]
            if left[giver] < capacity:
                many -= 1
                small[few] = giver
                few += 1


@compiled
def uniform_dummies(words, width, out):
    """Fill ``out`` with one uniform output for each word; return whether some word would favour an output."""
    bound, least = np.uint64(width), np.uint64(0xFFFFFFFFFFFFFFFF)
    for i in range(words.size):
        drawn, low = _bounded(words[i], bound)
        out[i] = drawn
        least = min(least, low)
    return least < _favoured(bound)


@compiled
def weighted_dummies(words, shift, threshold, columns, out):
    """Fill ``out`` with one output for each word, by weight."""
    for i in range(words.size):
        out[i] = _weighted(words[i], 0, shift[0], threshold, columns)


@compiled
def insert_real(words, inputs, slots, shift, threshold, columns, out):
    """Put the real report of each row, shape (n, places), in a random place; return whether to refuse the words.

    What was there is lost: a dummy, drawn like those that stay.
    """
    places, least = np.uint64(out.shape[1]), np.uint64(0xFFFFFFFFFFFFFFFF)
    for i in range(out.shape[0]):
        row = inputs[i]
        place, low = _bounded(words[i, 0], places)
        out[i, np.int64(place)] = _weighted(words[i, 1], slots[row], shift[row], threshold, columns)
        least = min(least, low)
    return least < _favoured(places)


@compiled
def distinct_tuples(words, inputs, width, slots, shift, threshold, columns, out):
    """Fill ``out``, shape (n, k + 1), with the real report and k distinct others, ascending: sets without an order.

    Floyd's method (Bentley and Floyd 1987): of the numbers below ``width - 1``, for j = width - 1 - k, ...,
    width - 2, draw one of 0..j, and take j itself if that one is taken already. Every subset is equally likely.
    Returns whether some word would favour an output.
    """
    taken = np.zeros(width, np.bool_)
    dummies, refuse = out.shape[1] - 1, False
    for i in range(out.shape[0]):
        row = inputs[i]
        real = np.int64(_weighted(words[i, 0], slots[row], shift[row], threshold, columns))
        for step in range(dummies):
            j = width - 1 - dummies + step
            bound = np.uint64(j + 1)
            drawn, low = _bounded(words[i, step + 1], bound)
            if low < bound:  # a division less for nearly every word
                refuse |= low < _favoured(bound)
            found = np.int64(drawn)
            found += found >= real  # the outputs other than the real report, in order
            if taken[found]:
                found = j + (real <= j)
            taken[found] = True
        taken[real] = True
        filled = 0
        for output in range(width):
            if taken[output]:
                out[i, filled] = output
                filled += 1
        taken[:] = False
    return refuse
