"""Slow, plain versions of what the library computes fast: the oracles of the tests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

SHARED = Path(os.environ.get("DISTP_SHARED", Path(__file__).parents[2] / "shared")) / "data"


def shared(name: str) -> Path:
    """Return a file of the real data that is not part of the project, or skip the test."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not here")
    return path


def fractions(values: Sequence[float]) -> list[Fraction]:
    return [Fraction(float(value)) for value in values]


def tuple_laws(
    P: Sequence[Fraction], Q: Sequence[Fraction], nu: Sequence[Fraction], k: int
) -> dict[tuple[int, ...], tuple[Fraction, Fraction]]:
    """Return both probabilities of every tuple of Algorithm 1, by following it: place, value, dummies."""
    laws = {}
    for values in itertools.product(range(len(P)), repeat=k + 1):
        pair = []
        for law in (P, Q):
            total = Fraction(0)
            for place in range(k + 1):
                term = law[values[place]] / (k + 1)
                for other, value in enumerate(values):
                    if other != place:
                        term *= nu[value]
                total += term
            pair.append(total)
        laws[values] = (pair[0], pair[1])
    return laws


def brute_delta(P: Sequence[float], Q: Sequence[float], nu: Sequence[float], k: int, t: float) -> Fraction:
    """Return the hockey-stick divergence of the whole tuple at t = e^epsilon, in rational arithmetic."""
    laws = tuple_laws(fractions(P), fractions(Q), fractions(nu), k)
    return sum((max(p - Fraction(t) * q, Fraction(0)) for p, q in laws.values()), Fraction(0))


@st.composite
def distributions(draw: st.DrawFn, size: int) -> np.ndarray:
    """Draw a distribution with zeros, ties and tiny masses, summing to exactly what its floats sum to."""
    kind = draw(st.sampled_from(["counts", "floats", "tiny", "point"]))
    if kind == "point":
        weights = np.zeros(size)
        weights[draw(st.integers(0, size - 1))] = 1
    elif kind == "counts":
        weights = np.array(draw(st.lists(st.integers(0, 5), min_size=size, max_size=size)), dtype=float)
    elif kind == "floats":
        weights = np.array(draw(st.lists(st.floats(0, 1), min_size=size, max_size=size)))
    else:
        exponents = draw(st.lists(st.integers(-18, 0), min_size=size, max_size=size))
        weights = 10.0 ** np.array(exponents)
    if weights.sum() <= 1e-300:
        weights = np.ones(size)
    return weights / weights.sum()
