"""Tuples over the regions of a map, by their parameters."""

from __future__ import annotations

from distp.mechanisms import Identity, RestrictedLaplace, Tupling
from distp.spaces import Regions


def laplace_tuples(regions: Regions, dummies: int, eps_a: float, radius: float) -> Tupling:
    """Return the paper's mechanism: a restricted Laplace report among uniform dummies."""
    return Tupling(RestrictedLaplace(regions.inputs, eps_a, radius, regions), dummies)


def plain_tuples(regions: Regions, dummies: int, replacement: bool = True) -> Tupling:
    """Return the true region among dummies; without replacement as many as there are other regions at most."""
    most = dummies if replacement else min(dummies, len(regions) - 1)
    return Tupling(Identity(regions.inputs, regions), most, replacement=replacement)
