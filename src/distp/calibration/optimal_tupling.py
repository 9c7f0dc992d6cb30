"""The tupling mechanism of least expected loss for given dummies, with a bound that no mechanism goes below.

For a fixed number and law of dummies the loss is linear in the base mechanism's channel, and delta is convex in it
(theory 4.12). `optimal_tupling` solves this convex programme by an interior-point method
(`distp.calibration.optimal_newton`). Nothing that it claims rests on that having converged: the mechanism is checked
by the certified accountant, and the bound on the loss holds for whatever multipliers it is computed from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from distp.calibration.feasibility import Progress, Target
from distp.calibration.optimal_newton import Iterate, Programme, iterates
from distp.calibration.optimal_tests import TupleTests
from distp.calibration.pairs import Mixture, named_pairs
from distp.calibration.steady import Designer, cheapest, moments_of, wary_prior
from distp.certificates import Population, population
from distp.certificates.certificate import mean_law
from distp.checks import FloatArray, count, distribution, nonnegative, positive, probability
from distp.errors import InfeasibleError, ParameterError
from distp.mechanisms import Channel, Tupling
from distp.privacy import Bracket
from distp.privacy.accountant import best_delta
from distp.privacy.single import UNIT
from distp.spaces import Regions, Space
from distp.utility import loss_matrix

STEPS = 120
GAP = 0.005
_NOTHING = 1e-12  # of the largest loss: a gap this small is none
_TRIMMED = 1e-13  # entries below this become 0
_STALLED = 20  # steps without progress


@dataclass(frozen=True, eq=False)
class OptimalTupling:
    """A mechanism that meets its target, and how far from the least loss it can be.

    Attributes
    ----------
    mechanism : Tupling
    loss : float
        Its expected loss.
    lower : float
        No base mechanism that meets the target with these dummies has a smaller expected loss.
    deltas : tuple of Bracket
        Delta at the target's epsilon, one for each pair, the larger of both orders.
    epsilon, delta : float
        The target.
    populations : tuple of Population, or None
        Where a confidence was asked: what delta is at most for the population, one for each pair.
    """

    mechanism: Tupling
    loss: float
    lower: float
    deltas: tuple[Bracket, ...]
    epsilon: float
    delta: float
    populations: tuple[Population, ...] | None = None

    @property
    def gap(self) -> float:
        """The share of the loss that a better mechanism might save at most; 0 where nothing is lost."""
        return (self.loss - self.lower) / self.loss if self.loss > 0 else 0.0


def optimal_tupling(
    pairs: Mixture,
    space: Space,
    dummies: int,
    *,
    epsilon: float,
    delta: float,
    prior: ArrayLike | None = None,
    dummy_distribution: ArrayLike | None = None,
    confidence: float | None = None,
    gap: float = GAP,
    steps: int = STEPS,
    progress: Progress | None = None,
) -> OptimalTupling:
    """Return the tupling mechanism of least expected loss that is (epsilon, delta)-DistP for every pair.

    Parameters
    ----------
    pairs : sequence of Pair or (p, q)
        Distributions over the inputs, shape (|X|,), that a report must not tell apart.
    space : Space
        The outputs; of `Regions`, the inputs are its inner part.
    dummies : int
        Number of dummies k >= 0.
    epsilon, delta : float
        The target; ``delta`` > 0.
    prior : array_like, shape (|X|,), optional
        Law of the input for the loss. Default: the mean of all distributions.
    dummy_distribution : array_like, shape (|Y|,), optional
        Default: uniform; with ``confidence``, chosen with the base.
    confidence : float, optional
        Such as 0.95: meet the target not for the pairs as they were counted but at an upper limit for the population
        that their people were drawn from. Each `Pair` must have its people, or at least its numbers of records.
    gap : float
        Stop where the loss is within this share of the bound.
    steps : int
        Stop after this many Newton steps, whatever the gap.
    progress : callable, optional
        Called with (steps done, steps at most).

    Returns
    -------
    OptimalTupling
        The mechanism, its loss, the bound below every loss, and the certified deltas.

    Raises
    ------
    DistributionError, ParameterError
        Bad arguments, by name.
    InfeasibleError
        Rounding alone exceeds ``delta``.

    Notes
    -----
    Without ``confidence`` the mechanism is fitted to the distributions cell by cell: they must be known, not
    estimated from a few people (theory 4.13). With it, base and dummies come from `distp.calibration.steady`, as
    strong as the limit asks for; ``lower`` is then what no mechanism goes below that serves everybody as well as it
    can, and ``gap`` and ``steps`` are not used. Source: theory 4.12; without dummies, 7.4.

    Examples
    --------
    >>> pairs = [([.5, .3, .2, 0], [.1, .2, .3, .4])]
    >>> found = optimal_tupling(pairs, Space([0., 1., 2., 3.]), 2, epsilon=1, delta=0.02)
    >>> round(found.loss, 3), found.gap < 0.005, found.deltas[0].upper <= 0.02
    (0.044, True, True)
    """
    inputs = space.inputs if isinstance(space, Regions) else space
    epsilon, delta = nonnegative(epsilon, "epsilon"), probability(delta, "delta")
    named = named_pairs(pairs, len(inputs))
    law = mean_law(named) if prior is None else distribution(prior, len(inputs), "prior")
    target = Target(named, epsilon, delta, confidence, given_prior=law)
    nu = None if dummy_distribution is None else distribution(dummy_distribution, len(space), "dummy_distribution")
    if confidence is None and nu is None:
        nu = np.full(len(space), 1.0 / len(space))
    return optimal(target, space, count(dummies, "dummies"), nu, gap, steps, progress)


def optimal(
    target: Target,
    space: Space,
    dummies: int,
    nu: FloatArray | None,
    gap: float = GAP,
    steps: int = STEPS,
    progress: Progress | None = None,
) -> OptimalTupling:
    """Return `optimal_tupling` of a target; with ``nu`` None, which needs a confidence, dummies are chosen too."""
    inputs = space.inputs if isinstance(space, Regions) else space
    if target.delta == 0:
        raise ParameterError("delta must be > 0: at 0 dummies lower no epsilon, and a single report does as well")
    search = _Search.of(target, inputs, space, dummies, np.full(len(space), 1.0 / len(space)) if nu is None else nu)
    if target.confidence is not None:
        return _steady(search, nu is None, progress)
    nearest = search.nearest()
    if target.surely_met_by(nearest):
        return search.result(nearest, search.floor())
    best, lower = search.run(positive(gap, "gap"), count(steps, "steps", 1), progress)
    return search.result(search.repaired(best), lower)


def _steady(search: _Search, choose: bool, progress: Progress | None) -> OptimalTupling:
    """Return the mechanism that meets the target at the limit for the population, with the limits."""
    target, nearest = search.target, search.nearest()
    if target.surely_met_by(nearest):
        return search.result(nearest, search.floor())
    designer = Designer(
        search.inputs.distances(search.space),
        search.dummies,
        wary_prior(search.prior, target.pairs),
        moments_of(target.pairs, target.epsilon),
        None if choose else search.nu,
    )
    done = 0

    def met(price: float) -> bool:
        nonlocal done
        channel, nu = designer.at(price)
        done += 1
        if progress:
            progress(min(done, STEPS - 1), STEPS)
        return target.met_by(Tupling(search.base(channel), search.dummies, nu))

    scale = float((search.prior @ search.weights).mean())
    price = cheapest(met, scale)
    channel, nu = designer.at(scale * 1e12 if price is None else price)
    # Inputs where nobody of the sample was keep the rows that were designed for them: others will be there.
    made = replace(search.with_dummies(nu), live=np.ones(search.prior.size, dtype=bool))
    return made.result(made.repaired(channel), search.floor())


@dataclass(frozen=True, eq=False)
class _Search:
    """The programme of one call. ``live`` marks the inputs whose rows it decides: those that some pair can have."""

    target: Target
    inputs: Space
    space: Space
    dummies: int
    nu: FloatArray
    prior: FloatArray
    weights: FloatArray
    live: NDArray[np.bool_]
    programme: Programme

    @classmethod
    def of(cls, target: Target, inputs: Space, space: Space, dummies: int, nu: FloatArray) -> _Search:
        law = target.prior
        weights = loss_matrix(inputs.distances(space), dummies, nu)
        t = math.exp(min(target.epsilon, 300.0))  # larger ones allow no more: delta(t) only falls
        ordered = [(a, b) for pair in target.pairs for a, b in ((pair.p, pair.q), (pair.q, pair.p))]
        contrasts = np.unique(
            [a - t * b for a, b in ordered if not np.array_equal(a, b)] or np.zeros((1, law.size)), axis=0
        )
        mean = mean_law(target.pairs)
        live = mean > 0
        programme = Programme(
            (law[:, None] * weights)[live],
            contrasts[:, live],
            ((law + mean) / 2)[live],
            TupleTests(nu, dummies),
            t,
            target.delta,
        )
        return cls(target, inputs, space, dummies, nu, law, weights, live, programme)

    def with_dummies(self, nu: FloatArray) -> _Search:
        """Return the same search with other dummies."""
        return _Search.of(self.target, self.inputs, self.space, self.dummies, nu)

    def base(self, matrix: FloatArray) -> Channel:
        return Channel(sparse.csr_array(matrix), self.inputs, self.space)

    def tuples(self, matrix: FloatArray) -> Tupling:
        return Tupling(self.base(matrix), self.dummies, self.nu)

    def nearest(self) -> Tupling:
        """Return the base that serves each input best, whatever it tells."""
        return self.tuples(self._rows(self.weights.argmin(axis=1)))

    def floor(self) -> float:
        """Return the loss that no mechanism at all goes below."""
        return float(self.prior @ self.weights.min(axis=1)) * (1 - self.prior.size * UNIT)

    def result(self, mechanism: Tupling, lower: float) -> OptimalTupling:
        """Return the mechanism with its numbers, the deltas computed anew."""
        epsilon, matrix = self.target.epsilon, mechanism.channel()
        loss = float(self.prior @ np.asarray((matrix * self.weights).sum(axis=1)).ravel())
        deltas = tuple(best_delta(mechanism, pair.p, pair.q, epsilon) for pair in self.target.pairs)
        level = self.target.confidence
        known = (
            None
            if level is None
            else tuple(population(mechanism, pair, epsilon, level) for pair in self.target.pairs)
        )
        return OptimalTupling(mechanism, loss, min(lower, loss), deltas, epsilon, self.target.delta, known)

    def run(self, gap: float, steps: int, progress: Progress | None) -> tuple[FloatArray, float]:
        """Return the channel that is best once repaired, on the live inputs, and the best bound."""
        programme = self.programme
        safe = float(programme.cost.sum(axis=0).min())
        best, least, lower, stalled = np.empty(0), math.inf, self.floor(), 0
        for done, iterate in enumerate(iterates(programme, steps)):
            loss = float((programme.cost * iterate.channel).sum())
            repaired = loss + _share(float(iterate.values.max()), programme.delta) * (safe - loss)
            bound = lower_bound(programme, iterate)  # inputs that no pair has cost nothing: they report themselves
            stalled = 0 if repaired < least - _NOTHING or bound > lower + 1e-5 * abs(lower) else stalled + 1
            lower = max(lower, bound)
            if repaired < least:
                best, least = iterate.channel.copy(), repaired
            if progress:
                progress(done + 1, steps)
            if least - lower <= max(gap * least, _NOTHING * float(self.weights.max())):
                break
            if stalled == _STALLED:
                break
        return best, lower

    def repaired(self, channel: FloatArray) -> Tupling:
        """Return the channel mixed with as little of a constant report as the certified accountant asks for."""
        matrix = self._rows(self.weights.argmin(axis=1))
        channel = np.where(channel < _TRIMMED, 0.0, channel)
        matrix[self.live] = channel / channel.sum(axis=1, keepdims=True)
        constant = self._rows(np.full(self.prior.size, int((self.prior @ self.weights).argmin())))

        def mixed(share: float) -> Tupling:
            return self.tuples((1 - share) * matrix + share * constant)

        if self.target.surely_met_by(made := mixed(0.0)):
            return made
        low, high = 0.0, 1e-9
        while not self.target.surely_met_by(made := mixed(high)):
            if high == 1:
                raise InfeasibleError(
                    f"no mechanism was found to meet delta={self.target.delta:g}, to the accuracy of floating point; "
                    "ask for a larger delta"
                )
            low, high = high, min(1.0, 8 * high)
        while high - low > 0.02 * high:  # by convexity every larger share meets the target too
            middle = (low + high) / 2
            if self.target.surely_met_by(trial := mixed(middle)):
                high, made = middle, trial
            else:
                low = middle
        return made

    def _rows(self, reports: NDArray[np.int64]) -> FloatArray:
        matrix = np.zeros(self.weights.shape)
        matrix[np.arange(self.prior.size), reports] = 1.0
        return matrix


def lower_bound(programme: Programme, iterate: Iterate) -> float:
    """Return a number that ``<cost, A>`` reaches for no channel A within the constraints: weak duality.

    Notes
    -----
    Each ``w_j`` is a test, so ``sum_y w_j(y) excess_j(y) <= delta_j(A) <= delta`` for *every* channel A that meets
    the target. With prices ``mu_j >= 0``, ``<cost, A> >= <cost, A> + sum_j mu_j (<w_j, excess_j(A)> - delta)``,
    and the right side is linear in A: its least value puts each row on its cheapest output. What the weights may
    be off by (``slip``) and the rounding of this sum itself are taken off.
    """
    mu, tested, t = iterate.multipliers, iterate.tested, programme.t
    prices = np.array([m * one.weights for m, one in zip(mu, tested, strict=True)])
    reduced = programme.cost + programme.contrast.T @ prices
    size = float(np.abs(programme.contrast).sum(axis=1) @ mu)
    slip = sum(float(m) * one.slip for m, one in zip(mu, tested, strict=True)) * (1 + t) * (1 + 1e-6)
    terms = float(programme.cost.max(axis=1).sum()) + size + programme.delta * float(mu.sum())
    rounding = UNIT * 4 * (sum(programme.cost.shape) + len(mu) + 8) * terms
    return float(reduced.min(axis=1).sum()) - programme.delta * float(mu.sum()) - slip - rounding


def _share(value: float, delta: float) -> float:
    """Return how much of a report that tells nothing brings a delta of ``value`` down to ``delta`` (convexity)."""
    return 1 - delta / value if value > delta else 0.0
