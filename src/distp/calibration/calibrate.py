"""The least loss that a tupling mechanism can have at a stated privacy, and what a person can pay for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from distp.attacks import location_attack
from distp.calibration.feasibility import Progress, Target
from distp.calibration.laplace import least_laplace
from distp.calibration.optimal_dummies import dummy_laws
from distp.calibration.optimal_tupling import optimal
from distp.calibration.pairs import as_pairs
from distp.calibration.steady import best_dummies, moments_of, wary_prior
from distp.certificates import Certificate, certify, halves
from distp.certificates.certificate import mean_law
from distp.certificates.population import rank
from distp.checks import FloatArray, count, distribution, nonnegative, probability
from distp.distributions import Pair
from distp.distributions.resampling import DRAWS, counted, sizes
from distp.errors import InfeasibleError, ParameterError
from distp.mechanisms import Channel, Identity, Tupling
from distp.privacy import Bracket
from distp.privacy.accountant import best_delta
from distp.spaces import Regions, Space
from distp.utility import expected_loss

BASES = ("laplace", "optimal")
DUMMIES = ("uniform", "mixture", "difference", "chosen")
MOST_PRODUCTS = 200_000_000  # inputs squared times outputs: each of some thousand steps takes so many
FEWEST_PEOPLE = 50  # of either class, below which two parameters are all that is fitted to them


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
    confidence: float | None = None,
    max_loss: float | None = None,
    min_location_error: float | None = None,
    base: str = "laplace",
    prior: ArrayLike | None = None,
    dummy_distribution: ArrayLike | str | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Find the tupling mechanism of least expected loss that is (epsilon, delta)-DistP for every pair.

    The base is the identity, with as few dummies as suffice, or else a noisy one, with ``max_dummies`` of them (loss
    and delta both fall with every dummy).

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
    confidence : float, optional
        Such as 0.95: meet the target at an upper limit for the population that the people of the pairs were drawn
        from, see `Population`. Default: for the distributions as they are.
    max_loss : float, optional
        A budget, in the space's unit: with it, the fewest dummies that keep to it rather than the least loss.
    min_location_error : float, optional
        How far, on average, the best guess of a person's own place must be from it after a report (km on maps;
        `location_attack`).
    base : {"laplace", "optimal"}
        What perturbs the real report where the identity is not enough: a restricted Laplace mechanism, two numbers
        that anybody can check; or the channel that `optimal_tupling` finds. With a confidence, whichever of the two
        serves other people better. Always the first with fewer than 50 people in a class, at ``delta`` 0, and on maps
        of more than about 580 regions, where the other would take too long.
    prior : array_like, shape (|X|,), optional
        Law of the input for the loss. Default: the mean of all distributions.
    dummy_distribution : array_like, shape (|Y|,), or one of "uniform", "mixture", "difference", "chosen"; optional
        By name: `dummy_laws`, or with the optimal base and a confidence those that are found with it. Default:
        uniform, or "chosen" where that is possible.
    progress : callable, optional
        Called with (steps done, steps in all).

    Returns
    -------
    Calibration
        The mechanism, and its certificate computed anew from the matrix.

    Raises
    ------
    InfeasibleError
        Not even a report that ignores its input meets the target (rounding at delta 0), or the budget is too small.

    Examples
    --------
    >>> found = calibrate([.5, .3, .2, 0], [.1, .2, .3, .4], Space([0., 1., 2., 3.]),
    ...                   epsilon=1, delta=0.02, max_dummies=10)
    >>> found.mechanism.dummies, found.certificate.loss, found.certificate.holds
    (5, 0.0, True)
    """
    epsilon, delta = nonnegative(epsilon, "epsilon"), probability(delta, "delta")
    max_dummies = count(max_dummies, "max_dummies")
    if base not in BASES:
        raise ParameterError(f"base must be one of {', '.join(BASES)}, got {base!r}")
    inputs = space.inputs if isinstance(space, Regions) else space
    pairs = as_pairs(p, q, len(inputs))
    if confidence is not None:
        rank(confidence, DRAWS)
    law = None if prior is None else distribution(prior, len(inputs), "prior")
    budget = None if max_loss is None else nonnegative(max_loss, "max_loss")
    least = 0.0 if min_location_error is None else nonnegative(min_location_error, "min_location_error")
    if least > 0:
        _check_blind(least, inputs, mean_law(pairs) if law is None else law)

    def search(chosen: Sequence[Pair], step: Progress | None) -> Tupling:
        target = Target(chosen, epsilon, delta, confidence, least, law)
        nu = _dummies(dummy_distribution, chosen, inputs, space, base == "optimal" and confidence is not None)
        return _Search(target, inputs, space, nu, base).run(max_dummies, budget, step)

    mechanism = search(pairs, progress)
    held_out = None if confidence is None else _held_out(search, pairs, epsilon)
    certificate = certify(mechanism, pairs, epsilon, delta, prior, confidence=confidence, held_out=held_out)
    return Calibration(mechanism, certificate)


def _check_blind(least: float, inputs: Space, law: FloatArray) -> None:
    """Refuse what no mechanism can do: confuse an attacker more than seeing nothing does."""
    silent = Channel(np.ones((len(inputs), 1)), inputs, Space([0.0]))
    blind = location_attack(silent, law).blind_error.lower
    if least > blind:
        raise InfeasibleError(
            f"min_location_error is {least:g}, but an attacker who sees no report at all is off by {blind:.4g}"
        )


def _dummies(
    wanted: ArrayLike | str | None, pairs: Sequence[Pair], inputs: Space, space: Space, choose: bool
) -> FloatArray | None:
    """Return the law of dummies; None where they are found with the base."""
    if wanted is None:
        wanted = "chosen" if choose else "uniform"
    if not isinstance(wanted, str):
        return distribution(wanted, len(space), "dummy_distribution")
    if wanted == "chosen" and choose:
        return None
    if wanted == "chosen":
        raise ParameterError("dummies are chosen with an optimal base and a confidence only")
    if wanted not in DUMMIES:
        raise ParameterError(f"dummy_distribution must be one of {', '.join(DUMMIES)}, or a law, got {wanted!r}")
    laws = dummy_laws(pairs, Identity(inputs, space))
    return laws.get(wanted, laws["uniform"])  # of equal distributions there is no difference


@dataclass(frozen=True, eq=False)
class _Search:
    """What is searched for; ``nu`` None: dummies are found with the base."""

    target: Target
    inputs: Space
    space: Space
    nu: FloatArray | None
    base: str

    def run(self, most: int, budget: float | None, progress: Progress | None) -> Tupling:
        found = self._within(most, budget, progress)
        if budget is None:
            return found
        low, high = -1, found.dummies
        while high - low > 1:
            middle = (low + high) // 2
            try:
                found = self._within(middle, budget, progress)
                high = middle
            except InfeasibleError:
                low = middle
        return found

    def _within(self, dummies: int, budget: float | None, progress: Progress | None) -> Tupling:
        found = self._least_loss(dummies, progress)
        loss = expected_loss(found, self.target.prior) if budget is not None else 0.0
        if budget is not None and loss > budget:
            raise InfeasibleError(
                f"no mechanism was found with a loss of at most {budget:g} and at most {dummies} dummies: the least "
                f"is {loss:.4g}. Allow more dummies, a larger loss, or a larger epsilon or delta"
            )
        return found

    def _least_loss(self, dummies: int, progress: Progress | None) -> Tupling:
        identity = self._identity(dummies)
        if identity is not None:
            return identity
        best = None
        if self.base == "optimal" and self._may_be_fitted():
            best = optimal(self.target, self.space, dummies, self.nu, progress=progress).mechanism
            if self.target.confidence is None:
                return best
        found = least_laplace(self.target, self.inputs, self.space, dummies, self.nu, progress)
        if best is not None:
            prior = wary_prior(self.target.prior, self.target.pairs)
            both = [one for one in (best, found) if one is not None]
            found = min(both, key=lambda one: expected_loss(one, prior))
        if found is None:
            raise InfeasibleError(
                f"no mechanism meets epsilon={self.target.epsilon:g}, delta={self.target.delta:g}: not even a "
                "constant one, to the accuracy of floating point; ask for a larger delta"
            )
        return found

    def _may_be_fitted(self) -> bool:
        """Say whether to fit a channel: one from a handful of people serves nobody else, a huge one takes hours."""
        if self.target.delta == 0 or len(self.inputs) ** 2 * len(self.space) > MOST_PRODUCTS:
            return False
        if self.target.confidence is None:
            return True
        return min(size for pair in self.target.pairs for size in sizes(pair)) >= FEWEST_PEOPLE

    def _identity(self, most: int) -> Tupling | None:
        """Return the identity among as few dummies as suffice: delta never grows with their number."""
        identity = Identity(self.inputs, self.space)
        laws = [self.nu]
        if self.nu is None:  # uniform ones may do, or those that suit the identity
            moments = moments_of(self.target.pairs, self.target.epsilon)
            laws.append(best_dummies(moments, np.eye(len(self.inputs), len(self.space))))
        fewest = None
        for law in laws:
            low, high = -1, most if fewest is None else fewest.dummies - 1
            if high < 0 or not self.target.surely_met_by(Tupling(identity, high, law)):
                continue
            while high - low > 1:
                middle = (low + high) // 2
                met = self.target.surely_met_by(Tupling(identity, middle, law))
                low, high = (low, middle) if met else (middle, high)
            fewest = Tupling(identity, high, law)
        return fewest


def _held_out(
    search: Callable[[Sequence[Pair], Progress | None], Tupling], pairs: Sequence[Pair], epsilon: float
) -> list[Bracket] | None:
    """Return delta for one half of the people of what the other half's search finds; None where nobody is named."""
    parts = halves(pairs)
    if parts is None:
        return None
    try:
        mechanism = search(parts[0], None)
    except InfeasibleError:
        return None
    return [best_delta(mechanism, *counted(pair), epsilon) for pair in parts[1]]
