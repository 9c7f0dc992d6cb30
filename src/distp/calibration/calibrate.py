"""The least loss that a tupling mechanism with a restricted Laplace base can have at a stated privacy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from distp.calibration.feasibility import Target, weakest
from distp.certificates import Certificate, certify
from distp.certificates.certificate import mean_law
from distp.checks import FloatArray, count, distribution, nonnegative, probability
from distp.distributions import Pair
from distp.errors import DistributionError, InfeasibleError
from distp.mechanisms import Identity, Mechanism, RestrictedLaplace, Tupling
from distp.spaces import Regions, Space
from distp.utility import loss_matrix, mean_loss

_COARSE_RADII = 10
_FINE_RADII = 5
_WEAKEST_EPSILON = 60.0  # times the largest distance: by then a report leaves its input's cell no more

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Calibration:
    """A mechanism and what is certified of it."""

    mechanism: Tupling
    certificate: Certificate


def calibrate(
    p: ArrayLike | Sequence[Pair],
    q: ArrayLike | None,
    space: Space,
    *,
    epsilon: float,
    delta: float,
    max_dummies: int,
    prior: ArrayLike | None = None,
    dummy_distribution: ArrayLike | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Find the tupling mechanism of least expected loss that is (epsilon, delta)-DistP for every pair.

    The base is the identity, with as few dummies as suffice, or else a restricted Laplace mechanism, with
    ``max_dummies`` of them (loss and delta both fall with every dummy).

    Parameters
    ----------
    p, q : array_like, shape (|X|,) or (pairs, |X|)
        Row i of ``p`` must not be told from row i of ``q``. Or ``p`` a sequence of `Pair` and ``q`` None.
    space : Space
        The outputs; of `Regions`, the inputs are its inner part.
    epsilon, delta : float
        The target.
    max_dummies : int
        How many dummies a report may carry.
    prior : array_like, shape (|X|,), optional
        Law of the input for the loss. Default: the mean of all distributions.
    dummy_distribution : array_like, shape (|Y|,), optional
        Default: uniform.
    progress : callable, optional
        Called with (steps done, steps in all).

    Returns
    -------
    Calibration
        The mechanism, and its certificate computed anew from the matrix.

    Raises
    ------
    InfeasibleError
        Not even a report that ignores its input meets the target (rounding at delta 0).

    Examples
    --------
    >>> found = calibrate([.5, .3, .2, 0], [.1, .2, .3, .4], Space([0., 1., 2., 3.]),
    ...                   epsilon=1, delta=0.02, max_dummies=10)
    >>> found.mechanism.dummies, found.certificate.loss, found.certificate.holds
    (5, 0.0, True)
    """
    epsilon, delta = nonnegative(epsilon, "epsilon"), probability(delta, "delta")
    max_dummies = count(max_dummies, "max_dummies")
    inputs = space.inputs if isinstance(space, Regions) else space
    pairs = as_pairs(p, q, len(inputs))
    law = mean_law(pairs) if prior is None else distribution(prior, len(inputs), "prior")
    target = Target(pairs, epsilon, delta)

    def tuples(base: Mechanism, dummies: int = max_dummies) -> Tupling:
        return Tupling(base, dummies, dummy_distribution)

    found = _fewest_dummies(lambda k: tuples(Identity(inputs, space), k), target, max_dummies)
    if found is None:
        found = _least_loss(tuples, inputs, space, target, law, progress)
    if found is None:
        raise InfeasibleError(
            f"no mechanism meets epsilon={epsilon:g}, delta={delta:g}: not even a constant one, to the "
            "accuracy of floating point; ask for a larger delta"
        )
    return Calibration(found, certify(found, pairs, epsilon, delta, law))


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


def _fewest_dummies(make: Callable[[int], Tupling], target: Target, most: int) -> Tupling | None:
    """Return the identity among as few dummies as suffice: delta never grows with their number."""
    if not target.met_by(make(most)):
        return None
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if target.met_by(make(middle)) else (middle, high)
    return make(high)


def _least_loss(
    tuples: Callable[[Mechanism], Tupling],
    inputs: Space,
    space: Space,
    target: Target,
    law: FloatArray,
    progress: Progress | None,
) -> Tupling | None:
    """Search radius and epsilon_A of the restricted Laplace base: a coarse row of radii, then near the best.

    For one radius the loss falls as epsilon_A grows, so the best is the largest epsilon_A that meets the
    target, and a radius whose loss cannot beat the best so far at any such epsilon_A costs one check.
    """
    distances = inputs.distances(space)
    lengths = np.unique(distances[distances > 0])
    if not lengths.size:
        return None
    smallest, largest = float(lengths[0]), float(lengths[-1])
    top = _WEAKEST_EPSILON / smallest
    best: Tupling | None = None
    best_loss, best_radius = np.inf, np.inf

    some = tuples(Identity(inputs, space))
    weights = loss_matrix(distances, some.dummies, some.dummy_distribution)

    def loss_of(mechanism: Mechanism) -> float:
        return mean_loss(mechanism, law, weights)

    def make(radius: float) -> Callable[[float], Tupling]:
        return lambda parameter: tuples(RestrictedLaplace(inputs, parameter, radius, space))

    def attempt(radius: float) -> None:
        nonlocal best, best_loss, best_radius
        start = _epsilon_for_loss(make(radius), loss_of, best_loss, top)
        found = None if start is None else weakest(make(radius), target, start, top)
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
    return best


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
