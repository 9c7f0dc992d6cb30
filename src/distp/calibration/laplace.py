"""The restricted Laplace base of least expected loss that meets a target."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from distp.calibration.feasibility import Progress, Target, weakest
from distp.checks import FloatArray
from distp.mechanisms import Identity, Mechanism, RestrictedLaplace, Tupling
from distp.spaces import Space
from distp.utility import loss_matrix, mean_loss

_COARSE_RADII = 10
_FINE_RADII = 5
_FEW_RESAMPLES = 100  # while radii are compared
_CORRECTION, _MOST_CORRECTIONS = 0.98, 100
_WEAKEST_EPSILON = 60.0  # times the largest distance: by then a report leaves its input's cell no more


def least_laplace(
    target: Target, inputs: Space, space: Space, dummies: int, nu: FloatArray | None, progress: Progress | None = None
) -> Tupling | None:
    """Search radius and epsilon_A of the restricted Laplace base: a coarse row of radii, then near the best.

    For one radius the loss falls as epsilon_A grows, so the best is the largest epsilon_A that meets the
    target, and a radius whose loss cannot beat the best so far at any such epsilon_A costs one check.
    None where no parameter meets the target.
    """
    rough = target
    if target.confidence is None or target.confidence * (_FEW_RESAMPLES + 1) <= _FEW_RESAMPLES:
        rough = target.with_resamples(_FEW_RESAMPLES)
    distances = inputs.distances(space)
    lengths = np.unique(distances[distances > 0])
    if not lengths.size:
        return None
    smallest, largest = float(lengths[0]), float(lengths[-1])
    top = _WEAKEST_EPSILON / smallest
    best: Tupling | None = None
    best_loss, best_radius = np.inf, np.inf

    law = Tupling(Identity(inputs, space), dummies, nu).dummy_distribution
    weights = loss_matrix(distances, dummies, law)

    def loss_of(mechanism: Mechanism) -> float:
        return mean_loss(mechanism, target.prior, weights)

    def make(radius: float) -> Callable[[float], Tupling]:
        return lambda parameter: Tupling(RestrictedLaplace(inputs, parameter, radius, space), dummies, law)

    def attempt(radius: float) -> None:
        nonlocal best, best_loss, best_radius
        start = _epsilon_for_loss(make(radius), loss_of, best_loss, top)
        found = None if start is None else weakest(make(radius), rough, start, top)
        if found is None:
            return
        mechanism = found[1]
        assert isinstance(mechanism, Tupling)
        loss = loss_of(mechanism)
        if loss < best_loss:
            best, best_loss, best_radius = mechanism, loss, radius

    # From the outside in: an unrestricted base always meets the target at some epsilon_A.
    coarse = [*np.geomspace(largest, smallest, _COARSE_RADII).tolist()]
    done = 0
    steps = len(coarse) + 2 * _FINE_RADII
    for radius in coarse:
        attempt(radius)
        done += 1
        if progress:
            progress(done, steps)
    ratio = (largest / smallest) ** (1 / (_COARSE_RADII - 1))
    for fine in _around(best_radius, ratio, largest):
        attempt(fine)
        done += 1
        if progress:
            progress(done, steps)
    return None if best is None else _surely(target, make(best_radius), best)


def _surely(target: Target, make: Callable[[float], Tupling], found: Tupling) -> Tupling | None:
    """Return the found mechanism with as much more noise as certainty asks for: a search looks at less."""
    assert isinstance(found.base, RestrictedLaplace)
    parameter = found.base.epsilon
    for _ in range(_MOST_CORRECTIONS):
        if target.surely_met_by(found):
            return found
        parameter *= _CORRECTION
        found = make(parameter)
    found = make(0.0)
    return found if target.surely_met_by(found) else None


def _around(radius: float, ratio: float, largest: float) -> Iterator[float]:
    """Yield radii between the best one's coarse neighbours."""
    if not np.isfinite(radius):
        return
    for step in np.linspace(-1, 1, 2 * _FINE_RADII + 2)[1:-1].tolist():
        yield min(radius * ratio**step, largest)


def _epsilon_for_loss(
    make: Callable[[float], Tupling], loss_of: Callable[[Mechanism], float], loss: float, top: float
) -> float | None:
    """Return an epsilon_A from which on the loss is below ``loss``; None if it never is."""
    if loss_of(make(0.0)) < loss:
        return 0.0
    if loss_of(make(top)) >= loss:
        return None
    low, high = 0.0, top
    while high - low > 1e-2 * high:  # only a bound: what lies between is not worth a step
        middle = (low + high) / 2 if low > 0 else high / 4
        low, high = (low, middle) if loss_of(make(middle)) < loss else (middle, high)
    return high
