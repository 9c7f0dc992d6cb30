"""What all accounting by Fourier transforms shares: its tails, its round-off, its powers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TAIL = 34.0  # -ln of the probability left outside a window, about 1e-15
ERROR_PER_LEVEL = 8.0  # of a transform, in round-offs (6.7 for radix-2 butterflies)


def power(base: NDArray[Any], exponent: int) -> NDArray[Any]:
    """Return ``base**exponent`` by repeated squaring, to a relative error of about 3 ``exponent`` round-offs."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result
