"""What dummies, loss, epsilon and the place's safety cost each other: the mechanisms that no other one beats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from distp.attacks import LocationAttack, attack_success, location_attack
from distp.calibration.calibrate import calibrate
from distp.calibration.families import units
from distp.calibration.feasibility import Progress, Target
from distp.calibration.optimal_dummies import dummy_laws
from distp.calibration.optimal_tupling import optimal_tupling
from distp.calibration.pairs import as_pairs
from distp.certificates.certificate import mean_law
from distp.checks import FloatArray, count, distribution, nonnegative, probability
from distp.distributions import Pair
from distp.errors import InfeasibleError, ParameterError
from distp.mechanisms import Identity, RestrictedLaplace, Tupling
from distp.privacy import Bracket
from distp.privacy.accountant import best_delta
from distp.privacy.bracket import largest
from distp.spaces import Regions, Space
from distp.utility import expected_loss

TRUE, DISTINCT, LAPLACE = "true region", "true region, distinct dummies", "restricted Laplace"
OPTIMAL, OPTIMAL_DUMMIES = "optimal base", "optimal base and dummies"
KINDS = (TRUE, DISTINCT, LAPLACE, OPTIMAL, OPTIMAL_DUMMIES)
GAP = 0.02


@dataclass(frozen=True)
class Choice:
    """One mechanism that meets its target, and what it costs.

    Attributes
    ----------
    mechanism : str
        One of ``KINDS``.
    epsilon, delta : float
        The target.
    dummies : int
    loss : float
        Expected distance to the nearest element, in the space's unit (km on maps).
    location_error, location_success, blind_error : Bracket
        Of the attacker who looks for the place, see `LocationAttack`; distances in the space's unit.
    realised : Bracket
        Delta at the target's epsilon, the worst pair and order.
    attack_success : Bracket
        Balanced success of the attacker who looks for the attribute, the worst pair.
    parameter : str
        What was chosen, in words.
    efficient : bool
        No other choice is as good in dummies, loss, epsilon and location error, and better in one.
    """

    mechanism: str
    epsilon: float
    delta: float
    dummies: int
    loss: float
    location_error: Bracket
    location_success: Bracket
    blind_error: Bracket
    realised: Bracket
    attack_success: Bracket
    parameter: str
    efficient: bool


def pareto(
    pairs: Sequence[Pair],
    space: Space,
    epsilons: Sequence[float],
    delta: float,
    dummies: Sequence[int],
    *,
    prior: ArrayLike | None = None,
    progress: Progress | None = None,
) -> list[Choice]:
    """Return mechanisms of each kind for every epsilon and number of dummies, and which of them are efficient.

    Parameters
    ----------
    pairs : sequence of Pair
    space : Space
        As for `calibrate`.
    epsilons : sequence of float
    delta : float
        The targets.
    dummies : sequence of int
        Numbers of dummies k >= 0.
    prior : array_like, shape (|X|,), optional
        Law of the input for the loss, which the attacker on the place knows. Default: the mean of all distributions.
    progress : callable, optional
        Called with (steps done, steps in all).

    Returns
    -------
    list of Choice
        Ordered by epsilon, dummies, and then as in ``KINDS``.

    Raises
    ------
    DistributionError, ParameterError
        Bad arguments, by name.
    InfeasibleError
        No mechanism meets any of the targets.

    Notes
    -----
    Every row's mechanism was itself checked by the accountant; what misses its target is left out. "optimal base" is
    `optimal_tupling` to a gap of 2 % (or where that gets no further; the row says which), four times looser than its
    default, as few dummies take it long. "optimal base and dummies" is the same with each of the other `dummy_laws`
    of the true region, a row for each: one saves loss, the other hides the place. The restricted Laplace and the
    optimal base are left out where the true region among as many uniform dummies meets the target, and both optimal
    kinds at ``delta`` 0. They are fitted to the distributions cell by cell: these must be known (theory 4.13).

    The location error counts by its lower end. Where it is sampled, differences below its width may be chance.

    Examples
    --------
    >>> line = Space([0., 1., 2., 3.])
    >>> rows = pareto([Pair("a", np.array([.5, .3, .2, 0]), np.array([.1, .2, .3, .4]))], line, [1], 0.02, [2, 8])
    >>> [(row.dummies, row.mechanism, row.loss) for row in rows if row.efficient]
    [(2, 'true region, distinct dummies', 0.0), (8, 'true region', 0.0)]
    """
    inputs = space.inputs if isinstance(space, Regions) else space
    pairs, delta = as_pairs(list(pairs), None, len(inputs)), probability(delta, "delta")
    law = mean_law(pairs) if prior is None else distribution(prior, len(inputs), "prior")
    targets = [Target(pairs, epsilon, delta) for epsilon in sorted({nonnegative(e, "epsilon") for e in epsilons})]
    numbers = sorted({count(k, "dummies") for k in dummies})
    if not targets or not numbers:
        raise ParameterError("at least one epsilon and one number of dummies are needed")
    search = _Search(inputs, space, law, dummy_laws(pairs, Identity(inputs, space)))
    rows: list[Choice] = []
    steps, done = len(targets) * len(numbers) * len(KINDS), 0
    for target in targets:
        for k in numbers:
            for kind in KINDS:
                for mechanism, words in search.made(kind, target, k):
                    realised = largest([best_delta(mechanism, pair.p, pair.q, target.epsilon) for pair in pairs])
                    if realised.upper <= delta:
                        rows.append(search.row(kind, mechanism, words, target, realised))
                done += 1
                if progress:
                    progress(done, steps)
    if not rows:
        raise InfeasibleError(f"no mechanism was found to meet delta={delta:g}: ask for a larger delta")
    points = np.array([(row.dummies, row.loss, row.epsilon, -row.location_error.lower) for row in rows])
    return [replace(row, efficient=bool(kept)) for row, kept in zip(rows, undominated(points), strict=True)]


def undominated(costs: ArrayLike) -> NDArray[np.bool_]:
    """Return which rows no other row beats: none is at most as large in every column and smaller in one.

    Parameters
    ----------
    costs : array_like, shape (rows, criteria)
        Smaller is better.

    Returns
    -------
    ndarray of bool, shape (rows,)

    Examples
    --------
    >>> undominated([[1, 3], [2, 2], [2, 3], [1, 3]]).tolist()
    [True, True, False, True]
    """
    table = np.asarray(costs, dtype=np.float64)
    no_worse = (table[:, None, :] <= table[None, :, :]).all(axis=2)
    beaten: NDArray[np.bool_] = np.any(no_worse & ~no_worse.T, axis=0)
    return ~beaten


@dataclass(frozen=True, eq=False)
class _Search:
    """What every row is made of. ``attacked`` keeps what does not depend on the target."""

    inputs: Space
    space: Space
    law: FloatArray
    laws: Mapping[str, FloatArray]
    attacked: dict[tuple[str, int], tuple[LocationAttack, Bracket]] = field(default_factory=dict)

    def made(self, kind: str, target: Target, dummies: int) -> Iterator[tuple[Tupling, str]]:
        """Yield the mechanisms of a kind, whether or not they meet the target, with what was chosen in words."""
        plain = Tupling(Identity(self.inputs, self.space), dummies)
        optimal = target.delta > 0  # at 0 a tuple is as private as its real report
        if kind == TRUE:
            yield plain, "uniform dummies"
        elif kind == DISTINCT and 0 < dummies < len(self.space):
            yield Tupling(plain.base, dummies, replacement=False), "uniform dummies, no two places alike"
        elif kind == LAPLACE:
            yield from self._laplace(target, dummies)
        elif kind == OPTIMAL and optimal and not target.met_by(plain):
            yield from self._optimal("uniform", target, dummies)
        elif kind == OPTIMAL_DUMMIES and optimal and dummies:
            for name in self.laws:
                if name != "uniform":
                    yield from self._optimal(name, target, dummies)

    def _laplace(self, target: Target, dummies: int) -> Iterator[tuple[Tupling, str]]:
        try:
            found = calibrate(
                target.pairs,
                None,
                self.space,
                epsilon=target.epsilon,
                delta=target.delta,
                max_dummies=dummies,
                prior=self.law,
            ).mechanism
        except InfeasibleError:
            return
        if isinstance(found.base, RestrictedLaplace):
            unit, per = units(self.space)
            yield found, f"ε_A = {found.base.epsilon:.3g}{per}, r = {found.base.radius:.3g}{unit}"

    def _optimal(self, name: str, target: Target, dummies: int) -> Iterator[tuple[Tupling, str]]:
        try:
            found = optimal_tupling(
                target.pairs,
                self.space,
                dummies,
                epsilon=target.epsilon,
                delta=target.delta,
                prior=self.law,
                dummy_distribution=self.laws[name],
                gap=GAP,
            )
        except InfeasibleError:
            return
        near = "no loss" if found.loss == 0 else f"within {found.gap:.1%} of the least loss"
        yield found.mechanism, f"{name} dummies, {near}"

    def row(self, kind: str, mechanism: Tupling, words: str, target: Target, realised: Bracket) -> Choice:
        """Return what a mechanism costs; whether it is efficient is not known yet."""
        place, attribute = self._attacks(kind, mechanism, target)
        return Choice(
            mechanism=kind,
            epsilon=target.epsilon,
            delta=target.delta,
            dummies=mechanism.dummies,
            loss=expected_loss(mechanism, self.law),
            location_error=place.error,
            location_success=place.success,
            blind_error=place.blind_error,
            realised=realised,
            attack_success=attribute,
            parameter=words,
            efficient=False,
        )

    def _attacks(self, kind: str, mechanism: Tupling, target: Target) -> tuple[LocationAttack, Bracket]:
        key = kind, mechanism.dummies
        if key in self.attacked:
            return self.attacked[key]
        attribute = largest([attack_success(mechanism, pair.p, pair.q).balanced for pair in target.pairs])
        found = location_attack(mechanism, self.law), attribute
        if kind in (TRUE, DISTINCT):  # the same mechanism at every target
            self.attacked[key] = found
        return found
