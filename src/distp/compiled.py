"""Compilation of the inner loops, kept on disk where there is a place for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile at the first call, to run beside other threads; without any writable cache, in every process anew."""
    try:
        made: Callable[..., Any] = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # numba found no folder to write to
        made = njit(nogil=True)(function)
    return made
