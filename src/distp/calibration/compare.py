"""The known mechanisms and tupling at the same (epsilon, delta), each at its least loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from distp.attacks import attack_success
from distp.calibration.calibrate import calibrate
from distp.calibration.families import families, scaled_laplace, units
from distp.calibration.feasibility import Progress, Target, weakest
from distp.certificates.certificate import mean_law
from distp.checks import count, nonnegative, probability
from distp.distributions import Pair
from distp.mechanisms import (
    Channel,
    Coupling,
    Identity,
    Mechanism,
    RestrictedLaplace,
    Tupling,
)
from distp.privacy import Bracket, coupling_delta
from distp.privacy import delta as exact_delta
from distp.privacy.bracket import largest
from distp.spaces import Regions, Space
from distp.transport import wasserstein_inf
from distp.utility import expected_loss

MECHANISMS = ("RR", "PL", "PG", "PL/W_inf", "coupling", "tupling")


@dataclass(frozen=True)
class Compared:
    """One mechanism at its least loss for one target.

    Attributes
    ----------
    mechanism : str
        One of ``MECHANISMS``.
    epsilon, delta : float
        The target.
    parameter : str
        What was calibrated, in words.
    dummies : int
    loss : float
    realised : Bracket
        Delta at the target's epsilon, the worst pair and order.
    success : Bracket
        Balanced attack success against the worst pair.
    """

    mechanism: str
    epsilon: float
    delta: float
    parameter: str
    dummies: int
    loss: float
    realised: Bracket
    success: Bracket


def compare(
    pairs: Sequence[Pair],
    space: Space,
    epsilons: Sequence[float],
    delta: float,
    max_dummies: int,
    prior: ArrayLike | None = None,
    progress: Progress | None = None,
) -> list[Compared]:
    """Bring the known mechanisms, the coupling mechanism and tupling to each target, each at its least loss.

    Parameters
    ----------
    pairs : sequence of Pair
    space : Space
        As for `calibrate`.
    epsilons : sequence of float
    delta : float
    max_dummies : int
        For tupling; the others send one report.
    prior : array_like, shape (|X|,), optional
    progress : callable, optional
        Called with (steps done, steps in all).

    Returns
    -------
    list of Compared
        Ordered by epsilon, then as in ``MECHANISMS``.

    Notes
    -----
    RR, PL and PG are found by bisection on the *realised* privacy; each row's mechanism was itself checked.
    "PL/W_inf" is planar Laplace with the noise that Theorem 2 asks for: its rate of extended DP times the largest
    W_inf of the pairs is the target's epsilon. "coupling" knows the attribute, as no other row does; it is
    (0, 0)-DistP whatever the target, and listed for a single pair only.
    """
    delta, max_dummies = probability(delta, "delta"), count(max_dummies, "max_dummies")
    inputs = space.inputs if isinstance(space, Regions) else space
    law = mean_law(pairs) if prior is None else prior
    unit, per = units(space)
    known = families(inputs, space)
    furthest = max(wasserstein_inf(pair.p, pair.q, inputs).value for pair in pairs)
    aware = _coupled(pairs[0], inputs, space) if len(pairs) == 1 else None
    rows = []
    steps, done = len(epsilons) * len(MECHANISMS), 0
    for epsilon in epsilons:
        target = Target(pairs, nonnegative(epsilon, "epsilon"), delta)
        for name in MECHANISMS:
            mechanism: Mechanism | None = None
            words, dummies = "", 0
            if name == "tupling":
                found = calibrate(
                    list(pairs), None, space, epsilon=epsilon, delta=delta, max_dummies=max_dummies, prior=law
                ).mechanism
                mechanism, words, dummies = found, describe(found), found.dummies
            elif name == "PL/W_inf":
                mechanism = scaled_laplace(inputs, space, target.epsilon, furthest)
                words = f"ε = {mechanism.epsilon:.3g}{per}, W∞ = {furthest:.3g}{unit}"
            elif name == "coupling":
                if aware is not None:
                    rows.append(replace(aware, epsilon=target.epsilon, delta=delta))
            else:
                family = known[name]
                result = weakest(family.weaker, target, family.low, family.high)
                if result is not None:
                    mechanism, words = result[1], family.words(family.ordered(result[0]))
            if mechanism is not None:
                rows.append(_row(name, mechanism, words, dummies, pairs, target, law))
            done += 1
            if progress:
                progress(done, steps)
    return rows


def _coupled(pair: Pair, inputs: Space, outputs: Space) -> Compared:
    """Return the coupling mechanism's row, the target left open."""
    made = Coupling(inputs, [pair.p, pair.q], outputs)
    told = coupling_delta(made, 0.0).value
    return Compared(
        mechanism="coupling",
        epsilon=0.0,
        delta=0.0,
        parameter=f"device knows the attribute, W₁ = {sum(made.distances):.3g}{units(outputs)[0]}",
        dummies=0,
        loss=sum(made.distances) / 2,
        realised=told,
        success=Bracket((1 + told.lower) / 2, (1 + told.upper) / 2),
    )


def describe(mechanism: Mechanism) -> str:
    """Say in a few words what a tupling mechanism does."""
    if not isinstance(mechanism, Tupling):
        return type(mechanism).__name__
    base = mechanism.base
    if isinstance(base, Identity):
        words = "true region"
    elif isinstance(base, RestrictedLaplace):
        unit, per = units(base.outputs)
        words = f"restricted Laplace (ε_A = {base.epsilon:.3g}{per}, r = {base.radius:.3g}{unit})"
    else:
        words = "channel of its own" if isinstance(base, Channel) else type(base).__name__
    uneven = np.ptp(mechanism.dummy_distribution) > 1e-9
    return f"{words} among {mechanism.dummies} dummies{', drawn where they hide best' if uneven else ''}"


def _row(
    name: str,
    mechanism: Mechanism,
    words: str,
    dummies: int,
    pairs: Sequence[Pair],
    target: Target,
    law: ArrayLike,
) -> Compared:
    return Compared(
        mechanism=name,
        epsilon=target.epsilon,
        delta=target.delta,
        parameter=words,
        dummies=dummies,
        loss=expected_loss(mechanism, law),
        realised=largest([exact_delta(mechanism, pair.p, pair.q, target.epsilon) for pair in pairs]),
        success=largest([attack_success(mechanism, pair.p, pair.q).balanced for pair in pairs]),
    )
