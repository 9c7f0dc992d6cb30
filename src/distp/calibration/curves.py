"""How privacy and attack success change with the number of dummies: the numbers behind the figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from distp.attacks import attack_success
from distp.calibration.feasibility import Progress
from distp.distributions import Pair
from distp.mechanisms import Identity, Tupling
from distp.privacy import Bracket, epsilon, theorem3_epsilon

DUMMIES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100)
MORE_DUMMIES = (*DUMMIES, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 7000, 10_000)


@dataclass(frozen=True)
class DummiesCurve:
    """What each number of dummies gives one pair.

    Attributes
    ----------
    dummies : tuple of int
    base, identity : tuple of Bracket
        Exact epsilon at ``delta`` with the mechanism's own base, and with the true region as it is.
    theorem3 : tuple of (int, float)
        Dummies, and the epsilon that the paper's Theorem 3 proves for the same base, where it proves any.
    success : tuple of Bracket
        Balanced attack success with the mechanism's own base.
    delta : float
    """

    dummies: tuple[int, ...]
    base: tuple[Bracket, ...]
    identity: tuple[Bracket, ...]
    theorem3: tuple[tuple[int, float], ...]
    success: tuple[Bracket, ...]
    delta: float


def dummies_curve(
    mechanism: Tupling,
    pair: Pair,
    delta: float,
    dummies: Sequence[int] = DUMMIES,
    progress: Progress | None = None,
) -> DummiesCurve:
    """Compute the curve of one pair for the base and the law of dummies of a mechanism.

    The paper's Theorem 3 is about uniform dummies: its line is for those.
    """
    base, law = mechanism.base, mechanism.dummy_distribution
    beta = float(max(base.lift(pair.p).max(), base.lift(pair.q).max()))
    plain = Identity(base.inputs, base.outputs)
    exact, bare, success = [], [], []
    for done, k in enumerate(dummies, start=1):
        exact.append(epsilon(Tupling(base, k, law), pair.p, pair.q, delta, rtol=1e-3))
        bare.append(epsilon(Tupling(plain, k, law), pair.p, pair.q, delta, rtol=1e-3))
        success.append(attack_success(Tupling(base, k, law), pair.p, pair.q).balanced)
        if progress:
            progress(done, len(dummies))
    proven = [(k, theorem3_epsilon(k, len(base.outputs), beta, delta)) for k in MORE_DUMMIES]
    return DummiesCurve(
        tuple(dummies),
        tuple(exact),
        tuple(bare),
        tuple((k, bound) for k, bound in proven if math.isfinite(bound)),
        tuple(success),
        delta,
    )
