"""Reports drawn by the release sampler, and what they show: likelihood ratios and an attacker's guesses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from distp.checks import FloatArray, IntArray
from distp.data.samples import Sample
from distp.distributions import Pair
from distp.experiments.settings import derived
from distp.mechanisms import Mechanism, Tupling
from distp.release.entropy import Seeded, Source
from distp.release.sampling import Sampler, Tuples
from distp.release.weights import Weights

CHUNK = 1 << 22  # places of tuples held at once
NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, eq=False)
class Drawer:
    """A mechanism as the release draws it: integer weights of its channel and of its dummies."""

    mechanism: Mechanism
    sampler: Sampler

    @classmethod
    def of(cls, mechanism: Mechanism) -> Drawer:
        """Round the mechanism to integer weights; one that sends a single report has no dummies."""
        if isinstance(mechanism, Tupling):
            return cls(mechanism, Sampler.of(mechanism))
        return cls(mechanism, Sampler(Weights.of(mechanism.channel()), None, 0))

    def draw(self, inputs: IntArray, source: Source) -> Tuples:
        """Return one report for each input, shape (n, dummies + 1)."""
        return self.sampler.draw(inputs, source)

    def evidence(self, inputs: IntArray, pair: Pair, source: Source) -> tuple[FloatArray, FloatArray]:
        """Draw a report for each input; return how likely it is under ``pair.p`` and ``pair.q``, up to a factor.

        Of a tuple that is the sum over its places of the real report's probability over the dummies' (theory 3.4), of
        a set of distinct outputs the sum of the real report's probabilities (theory 4.7).
        """
        scores = [self.mechanism.lift(law) for law in (pair.p, pair.q)]
        if isinstance(self.mechanism, Tupling) and self.sampler.count:
            nu = self.mechanism.dummy_distribution
            scores = [np.divide(score, nu, out=np.zeros_like(score), where=nu > 0) for score in scores]
        size = max(1, CHUNK // (self.sampler.count + 1))
        found: list[tuple[FloatArray, FloatArray]] = []
        for first in range(0, inputs.size, size):
            report = self.draw(inputs[first : first + size], source)
            found.append((scores[0][report].sum(axis=1), scores[1][report].sum(axis=1)))
        return np.concatenate([one for one, _ in found]), np.concatenate([two for _, two in found])


@dataclass(frozen=True)
class Sampled:
    """What simulated reports say of epsilon: two estimates that mean different things (theory 6.3)."""

    samples: int
    quantile: float
    empirical: float


def sampled_epsilon(mechanism: Mechanism, pair: Pair, delta: float, samples: int, seed: int) -> Sampled:
    """Estimate epsilon from ``samples`` simulated reports of each distribution, the larger of both orders."""
    drawer, ratios = Drawer.of(mechanism), []
    for order, law in enumerate((pair.p, pair.q)):
        inputs = np.random.default_rng(derived(seed, "inputs", order)).choice(law.size, samples, p=law)
        one, two = drawer.evidence(inputs, pair, Seeded(derived(seed, "reports", order)))
        ratios.append(log_ratios(one, two) if order == 0 else log_ratios(two, one))
    return Sampled(
        samples,
        max(quantile_epsilon(ratio, delta) for ratio in ratios),
        max(empirical_epsilon(ratio, delta) for ratio in ratios),
    )


def log_ratios(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return ``ln(one / two)``, infinite where only ``one`` is possible."""
    with np.errstate(divide="ignore"):
        result: FloatArray = np.log(one) - np.log(two)
    return result


def quantile_epsilon(ratios: FloatArray, delta: float) -> float:
    """Return the least epsilon >= 0 that at most a share ``delta`` of the log likelihood ratios exceeds.

    This is *probabilistic* DP, larger than the (epsilon, delta) value. Source: theory 6.3.

    Examples
    --------
    >>> quantile_epsilon(np.array([0.0, 1.0, 2.0, 3.0]), 0.25)
    2.0
    """
    exceed = math.floor(delta * ratios.size * (1 + 1e-12))
    place = ratios.size - 1 - exceed
    return max(0.0, float(np.partition(ratios, place)[place])) if place >= 0 else 0.0


def empirical_epsilon(ratios: FloatArray, delta: float) -> float:
    """Return the least epsilon >= 0 at which the mean of ``(1 - e^(epsilon - ratio))_+`` is at most ``delta``.

    Examples
    --------
    >>> round(empirical_epsilon(np.array([1.0, 0.0]), 0.25), 6)  # 1 + ln(1/2)
    0.306853
    """
    falling = np.sort(ratios)[::-1]
    with np.errstate(over="ignore"):
        inverse = np.exp(-falling)
    # With the j largest ratios in the mean it is a line in e^epsilon; the mean is the largest of those lines.
    above = np.arange(1, ratios.size + 1) - delta * ratios.size
    kept = above > 0
    with np.errstate(divide="ignore", over="ignore"):
        roots = np.log(above[kept]) - np.log(np.cumsum(inverse)[kept])
    return max(0.0, float(roots.max(initial=0.0)))


@dataclass(frozen=True)
class Guessed:
    """An attacker's shares of right guesses over simulated reports, each with a 95 % interval over people."""

    reports: int
    balanced: tuple[float, float, float]
    recognised: tuple[float, float, float]


def guess(mechanism: Mechanism, trained: Pair, attacked: Sample, samples: int, seed: int) -> Guessed:
    """Let an attacker who knows the distributions ``trained`` guess from reports of the real check-ins of others.

    Every check-in is reported equally often, about ``samples`` reports in all for each class. A tie counts as half a
    right guess: a fair coin.
    """
    drawer = Drawer.of(mechanism)
    classes, reports = [], 0
    for holds in (True, False):
        chosen = np.flatnonzero(attacked.holds == holds)
        times = max(1, round(samples / chosen.size))
        inputs = np.repeat(attacked.inputs[chosen], times)
        one, two = drawer.evidence(inputs, trained, Seeded(derived(seed, "attack", holds)))
        right = (one > two if holds else one < two) + 0.5 * (one == two)
        classes.append((chosen, right.reshape(chosen.size, times).mean(axis=1)))
        reports += inputs.size
    shares: list[float] = []
    influence: list[FloatArray] = []
    people = np.arange(len(attacked)) if attacked.users is None else attacked.users
    for chosen, right in classes:
        weight = _weights(attacked, chosen)
        share = float(weight @ right)
        shares.append(share)
        summed = np.bincount(people[chosen], weights=weight * (right - share), minlength=int(people.max()) + 1)
        influence.append(summed.astype(np.float64))
    own = [int(np.unique(people[chosen]).size) for chosen, _ in classes]
    everybody = int(np.unique(people).size)
    return Guessed(
        reports,
        # The same people are in both classes, so their errors are added before they are squared.
        _interval(sum(shares) / 2, (influence[0] + influence[1]) / 2, everybody),
        _interval(shares[0], influence[0], own[0]),
    )


def _weights(sample: Sample, chosen: IntArray) -> FloatArray:
    """Return each check-in's share of its class, as the sample weighs it."""
    if sample.weight != "users":
        return np.full(chosen.size, 1 / chosen.size)
    assert sample.users is not None  # the constructor of Sample sees to it
    people = sample.users[chosen]
    each = 1 / np.bincount(people)[people]
    result: FloatArray = each / each.sum()
    return result


def _interval(share: float, influence: FloatArray, people: int) -> tuple[float, float, float]:
    if people < 2:
        return share, 0.0, 1.0
    error = NORMAL_95 * math.sqrt(people / (people - 1) * float(np.square(influence).sum()))
    return share, max(0.0, share - error), min(1.0, share + error)
