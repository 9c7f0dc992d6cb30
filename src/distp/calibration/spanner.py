"""A few pairs of inputs whose point privacy implies that of all pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from distp.checks import FloatArray, IntArray

_TIE = 1e-12  # relative: a way round that is longer by no more than rounding is as short


@dataclass(frozen=True, eq=False)
class Spanner:
    """A graph on the inputs whose shortest ways are at most ``stretch`` times the distance.

    Attributes
    ----------
    edges : ndarray of int, shape (edges, 2)
        Each once, the smaller number first.
    lengths : ndarray, shape (edges,)
    stretch : float
        The largest ratio of shortest way to distance, >= 1.
    """

    edges: IntArray
    lengths: FloatArray
    stretch: float


def greedy_spanner(distances: FloatArray, dilation: float) -> Spanner:
    """Return the spanner that takes pairs from near to far, each whose way so far is too long.

    Parameters
    ----------
    distances : ndarray, shape (n, n)
        Symmetric, > 0 off the diagonal; no triangle inequality is asked.
    dilation : float
        >= 1: what the stretch may be.

    Notes
    -----
    ``ln A(x)[y] - ln A(x')[y] <= epsilon d / stretch`` on the edges adds up, along the shortest way, to at most
    ``epsilon d`` for every pair. Althöfer et al., On sparse spanners of weighted graphs (1993); Bordenabe et al.,
    Optimal geo-indistinguishable mechanisms for location privacy (2014), for its use in a linear programme.

    Examples
    --------
    >>> line = np.abs(np.subtract.outer([0.0, 1.0, 3.0], [0.0, 1.0, 3.0]))
    >>> greedy_spanner(line, 1.0).edges.tolist()
    [[0, 1], [1, 2]]
    """
    n = distances.shape[0]
    i, j = np.triu_indices(n, 1)
    order = np.argsort(distances[i, j], kind="stable")
    way = np.where(np.eye(n, dtype=bool), 0.0, np.inf)
    edges = []
    for a, b in zip(i[order].tolist(), j[order].tolist(), strict=True):
        length = float(distances[a, b])
        if way[a, b] <= dilation * length * (1 + _TIE):
            continue
        edges.append((a, b))
        # All shortest ways stay known, so that the next pair's is one look-up.
        over = np.minimum(np.add.outer(way[:, a], way[b] + length), np.add.outer(way[:, b], way[a] + length))
        np.minimum(way, over, out=way)
    chosen = np.array(edges, dtype=np.int64).reshape(-1, 2)
    stretch = float((way[i, j] / distances[i, j]).max(initial=1.0))
    return Spanner(chosen, distances[chosen[:, 0], chosen[:, 1]], stretch)
