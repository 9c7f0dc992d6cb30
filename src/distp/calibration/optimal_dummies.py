"""Laws of dummies to try, and the best optimal mechanism among them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from distp.calibration.optimal_tupling import GAP, OptimalTupling, optimal_tupling
from distp.calibration.pairs import Mixture, named_pairs
from distp.checks import FloatArray, count, probability
from distp.mechanisms import Identity, Mechanism
from distp.spaces import Regions, Space

FLOOR = 0.2


def dummy_laws(pairs: Mixture, base: Mechanism, floor: float = FLOOR) -> Mapping[str, FloatArray]:
    """Return laws of dummies by name, shape (|Y|,) each, for reports that ``base`` makes.

    "uniform"; "mixture", the mean of all the pairs' reports; "difference", proportional to ``|P - Q|`` summed over
    pairs, which is best to first order for one pair (theory 4.5). The last two are mixed with a share ``floor`` of
    the uniform law: outputs that no dummy takes hide nobody.

    Examples
    --------
    >>> laws = dummy_laws([([1, 0, 0], [0, 1, 0])], Identity(3), floor=0.3)
    >>> laws["difference"].round(2).tolist()
    [0.45, 0.45, 0.1]
    """
    floor = probability(floor, "floor")
    lifted = [(base.lift(pair.p), base.lift(pair.q)) for pair in named_pairs(pairs, len(base.inputs))]
    uniform = np.full(len(base.outputs), 1.0 / len(base.outputs))
    mixture = np.mean([law for both in lifted for law in both], axis=0)
    difference = np.sum([np.abs(P - Q) for P, Q in lifted], axis=0)
    laws = {"uniform": uniform}
    for name, law in (("mixture", mixture), ("difference", difference)):
        if law.sum() > 0:
            mixed = floor * uniform + (1 - floor) * law / law.sum()
            laws[name] = mixed / mixed.sum()
    return laws


def optimal_dummies(
    pairs: Mixture,
    space: Space,
    dummies: int,
    *,
    epsilon: float,
    delta: float,
    prior: ArrayLike | None = None,
    floor: float = FLOOR,
    rounds: int = 2,
    gap: float = GAP,
) -> tuple[str, OptimalTupling]:
    """Return the best of `optimal_tupling` over several laws of dummies, and that law's name.

    Delta is not convex in channel and dummies together, so this alternates: the laws of the second round come from
    the reports of the first round's best mechanism. The bound of the result is for *its* dummies only.

    Parameters
    ----------
    pairs, space, dummies, epsilon, delta, prior, gap
        As for `optimal_tupling`.
    floor : float
        The share of uniform dummies, see `dummy_laws`.
    rounds : int

    Examples
    --------
    >>> name, found = optimal_dummies([([.5, .3, .2, 0], [.1, .2, .3, .4])], Space([0., 1., 2., 3.]), 2,
    ...                               epsilon=1, delta=0.02)
    >>> name, found.deltas[0].upper <= 0.02
    ('mixture', True)
    """
    inputs = space.inputs if isinstance(space, Regions) else space
    base: Mechanism = Identity(inputs, space)
    best: tuple[str, OptimalTupling] | None = None
    for number in range(count(rounds, "rounds", 1)):
        for name, law in dummy_laws(pairs, base, floor).items():
            if number and name == "uniform":
                continue
            found = optimal_tupling(
                pairs, space, dummies, epsilon=epsilon, delta=delta, prior=prior, dummy_distribution=law, gap=gap
            )
            if best is None or found.loss < best[1].loss:
                best = name, found
        assert best is not None
        base = best[1].mechanism.base
    assert best is not None
    return best
