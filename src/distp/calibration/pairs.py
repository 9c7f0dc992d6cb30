"""Pairs as callers give them, checked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import distribution
from distp.distributions import Pair
from distp.errors import DistributionError

Mixture = Sequence[Pair | tuple[ArrayLike, ArrayLike]]


def as_pairs(p: ArrayLike | Sequence[Pair], q: ArrayLike | None, size: int) -> list[Pair]:
    """Return what a caller gave as ``p`` and ``q`` as pairs over ``size`` inputs."""
    if q is None:
        pairs = list(p) if isinstance(p, (list, tuple)) else []
        if not pairs or not all(isinstance(pair, Pair) for pair in pairs):
            raise DistributionError("without q, p must be a non-empty list of Pair")
        for pair in pairs:
            distribution(pair.p, size, f"p of {pair.name!r}")
        return pairs
    left, right = np.atleast_2d(np.asarray(p, dtype=float)), np.atleast_2d(np.asarray(q, dtype=float))
    if left.shape != right.shape or left.ndim != 2:
        raise DistributionError(f"p and q differ in shape: {left.shape} and {right.shape}")
    return [
        Pair(f"pair {i}", distribution(a, size, f"p[{i}]"), distribution(b, size, f"q[{i}]"))
        for i, (a, b) in enumerate(zip(left, right, strict=True))
    ]


def named_pairs(pairs: Mixture, size: int) -> list[Pair]:
    """Return the pairs as `Pair`, checked to be distributions over ``size`` inputs."""
    if not isinstance(pairs, (list, tuple)) or not pairs:
        raise DistributionError("pairs must be a non-empty list of Pair or of (p, q)")
    made = []
    for i, pair in enumerate(pairs):
        if not isinstance(pair, Pair):
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise DistributionError(f"pairs[{i}] must be a Pair or (p, q)")
            p, q = (distribution(law, size, f"{name} of pairs[{i}]") for law, name in zip(pair, "pq", strict=True))
            pair = Pair(f"pair {i}", p, q)
        made.append(pair)
    return as_pairs(made, None, size)
