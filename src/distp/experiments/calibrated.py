"""Every mechanism brought to the same (epsilon, delta) on the train people, and what it is on others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from distp.calibration import calibrate
from distp.calibration.compare import describe
from distp.calibration.families import SINGLE, families, scaled_laplace
from distp.calibration.feasibility import Target, weakest
from distp.certificates.certificate import mean_law
from distp.checks import FloatArray
from distp.distributions import Pair
from distp.experiments.curves import distinct_guess
from distp.experiments.measure import delta_at, epsilon_at, fewest, losses, success
from distp.experiments.parts import Parts
from distp.experiments.records import DISTINCT, IDENTITY, RL, Calibrated, Matched
from distp.experiments.settings import CLAIMED_EPSILON, Settings
from distp.experiments.tuples import plain_tuples
from distp.mechanisms import Coupling, Mechanism
from distp.privacy import Bracket, coupling_delta, coupling_epsilon
from distp.spaces import Regions
from distp.transport import wasserstein_inf

THEOREM2, COUPLING = "PL/W_inf", "coupling"


@dataclass(frozen=True, eq=False)
class Design:
    """A mechanism found for a target, with its parameter in words."""

    name: str
    target: float
    mechanism: Mechanism
    words: str
    dummies: int


@dataclass(frozen=True, eq=False)
class Designer:
    """What every design for one pair shares: W_inf and the coupling do not depend on the target."""

    pair: Pair
    regions: Regions
    settings: Settings
    furthest: float
    coupling: Coupling
    held_out: bool

    @classmethod
    def of(cls, pair: Pair, regions: Regions, settings: Settings, held_out: bool) -> Designer:
        """Compute W_inf of the pair and its coupling."""
        return cls(
            pair,
            regions,
            settings,
            wasserstein_inf(pair.p, pair.q, regions.inputs).value,
            Coupling(regions.inputs, [pair.p, pair.q], regions),
            held_out,
        )

    def designs(self, epsilon: float) -> list[Design]:
        """Return RR, PL, PG, PL/W_inf and tuples, each at its least loss for ``epsilon``.

        Dummies without replacement, slow to account for, only for the paper's epsilon and where others are held out.
        """
        target, s = Target([self.pair], epsilon, self.settings.delta), self.settings
        found: list[Design] = []
        for name in SINGLE:
            family = families(self.regions.inputs, self.regions)[name]
            result = weakest(family.weaker, target, family.low, family.high)
            if result is not None:
                number, mechanism = result
                found.append(Design(name, epsilon, mechanism, family.words(family.ordered(number)), 0))
        scaled = scaled_laplace(self.regions.inputs, self.regions, epsilon, self.furthest)
        words = f"ε = {scaled.epsilon:.3g}/km, W∞ = {self.furthest:.3g} km"
        found.append(Design(THEOREM2, epsilon, scaled, words, 0))
        best = calibrate(
            [self.pair],
            None,
            self.regions,
            epsilon=epsilon,
            delta=s.delta,
            max_dummies=s.dummies,
            prior=mean_law([self.pair]),
        ).mechanism
        found.append(Design(RL, epsilon, best, describe(best), best.dummies))
        number_plain = fewest(lambda k: plain_tuples(self.regions, k), target, s.most_dummies)
        if number_plain is not None:
            made = plain_tuples(self.regions, number_plain)
            found.append(Design(IDENTITY, epsilon, made, describe(made), number_plain))
        if epsilon != CLAIMED_EPSILON or not self.held_out:
            return found
        most = len(self.regions) - 1
        number_distinct = fewest(
            lambda k: plain_tuples(self.regions, k, False), target, most, distinct_guess(number_plain, most + 1)
        )
        if number_distinct is not None:
            made = plain_tuples(self.regions, number_distinct, False)
            found.append(Design(DISTINCT, epsilon, made, f"{describe(made)}, all distinct", number_distinct))
        return found


def calibrated_rows(
    designer: Designer, designs: list[Design], parts: Parts, city: str, target: float, evaluated: Mapping[str, str]
) -> list[Calibrated]:
    """Evaluate designs on parts. ``evaluated`` maps each part to what the design was made on (``train``, ``all``)."""
    delta, rows = designer.settings.delta, []
    for part, origin in evaluated.items():
        pair = parts.pairs[part]
        for design in designs:
            made = design.mechanism
            known = epsilon_at(made, pair, delta).upper
            loss, real = losses(made, pair)
            balanced, recognised = success(made, pair)
            rows.append(
                Calibrated(
                    city,
                    parts.name,
                    design.name,
                    target,
                    delta,
                    origin,
                    design.words,
                    design.dummies,
                    part,
                    delta_at(made, pair, target).upper,
                    known,
                    loss,
                    real,
                    balanced,
                    recognised,
                )
            )
        rows.append(_coupled(designer, parts.name, city, target, origin, part, pair))
    return rows


def _coupled(
    designer: Designer, attribute: str, city: str, target: float, origin: str, part: str, pair: Pair
) -> Calibrated:
    """Return the row of the mechanism that knows the attribute: no single channel, so it is accounted for apart."""
    made, delta, laws = designer.coupling, designer.settings.delta, [pair.p, pair.q]
    told = coupling_delta(made, 0.0, laws).value
    between = made.inputs.distances(made.outputs)
    loss = sum(_mean(law, channel.channel() * between) for law, channel in zip(laws, made.channels, strict=True)) / 2
    reports = [channel.lift(law) for law, channel in zip(laws, made.channels, strict=True)]
    return Calibrated(
        city,
        attribute,
        COUPLING,
        target,
        delta,
        origin,
        f"device knows the attribute, W₁ = {sum(made.distances):.3g} km",
        0,
        part,
        coupling_delta(made, target, laws).value.upper,
        coupling_epsilon(made, delta, laws).value.upper,
        loss,
        loss,
        Bracket((1 + told.lower) / 2, (1 + told.upper) / 2).upper,
        _recognised(reports[0], reports[1]),
    )


def _mean(law: FloatArray, weighted: object) -> float:
    return float(law @ weighted.sum(axis=1))  # type: ignore[attr-defined]


def _recognised(p: FloatArray, q: FloatArray) -> float:
    """Return p's mass where it is likelier than q, and half of it where they are level up to rounding."""
    level = abs(p - q) <= 1e-12 * (p + q)
    return float(p[(p > q) & ~level].sum() + 0.5 * p[level].sum())


def matched(
    calibrated: list[Calibrated], parts: Parts, city: str, regions: Regions, settings: Settings
) -> list[Matched]:
    """Bring RR, PL and PG, on the *test* people, to the epsilon that TM(RL) realises on them.

    They are tuned on the very people they are judged by, which favours them over TM(RL), tuned on others.
    """
    pair, rows = parts.pairs["test"], []
    for row in calibrated:
        if row.mechanism != RL or row.evaluated != "test":
            continue
        rows.append(Matched(city, parts.name, RL, row.target, row.realised_epsilon, row.parameter, row.loss))
        for name, family in families(regions.inputs, regions).items():
            if row.realised_epsilon == float("inf"):
                number, made = family.high, family.weaker(family.high)
            else:
                target = Target([pair], row.realised_epsilon, settings.delta)
                result = weakest(family.weaker, target, family.low, family.high)
                if result is None:
                    continue
                number, made = result
            words = family.words(family.ordered(number))
            rows.append(
                Matched(city, parts.name, name, row.target, row.realised_epsilon, words, losses(made, pair)[0])
            )
    return rows
