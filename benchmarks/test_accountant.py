"""The accountant beside Fourier transforms of 2^16 points in the same run: look at the ratios."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import fft

from distp import Identity, Tupling, delta, epsilon


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.full(276, 0.5)), rng.dirichlet(np.full(276, 0.5))


def test_fourier_round_trip_of_2_16_points(benchmark):
    signal = np.random.default_rng(0).random(1 << 16)
    benchmark(lambda: fft.irfft(fft.rfft(signal), 1 << 16))


@pytest.mark.parametrize("dummies", [10, 100])
def test_delta(benchmark, pair, dummies):
    mechanism = Tupling(Identity(276), dummies)
    benchmark(lambda: delta(mechanism, *pair, 0.5))


@pytest.mark.parametrize("dummies", [10, 100])
def test_epsilon(benchmark, pair, dummies):
    mechanism = Tupling(Identity(276), dummies)
    benchmark(lambda: epsilon(mechanism, *pair, 0.001))
