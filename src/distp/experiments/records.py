"""The tables of an experiment: one small frozen record for each row, aggregates only.

In every record ``city`` and ``attribute`` say what was asked of whom, and ``evaluated`` on which people: ``train``
(those the mechanism was designed on), ``test`` (others, held out), ``all``, or two random halves of one class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from distp.experiments.settings import Settings

PARTS = ("train", "test", "all")
HELD = ("train", "test")
RL, IDENTITY, DISTINCT, NONE = "TM(RL)", "TM(identity)", "TM(distinct)", "none"
HOLDS, FAILS, PARTLY = "holds", "does not hold", "holds in part"


@dataclass(frozen=True)
class Counted:
    """What was counted in one part of one attribute's check-ins; ``split_by`` says what was divided."""

    city: str
    attribute: str
    part: str
    split_by: str
    weight: str
    check_ins_with: int
    people_with: int | None
    check_ins_without: int
    people_without: int | None


@dataclass(frozen=True)
class CurvePoint:
    """Epsilon at one parameter of the tupling mechanism.

    ``curve`` names what varies (``dummies``, ``eps_A``, ``radius``) and ``parameter`` its value. ``epsilon`` is the
    upper end of the exact bracket, ``theorem3`` the paper's bound for the pair's own beta. From ``samples``
    simulated reports of each distribution: ``quantile``, the (1 - delta)-quantile of the log likelihood ratio (this
    is probabilistic DP, *not* the (epsilon, delta) value), and ``empirical``, an estimate of the (epsilon, delta)
    value.
    """

    city: str
    attribute: str
    curve: str
    mechanism: str
    parameter: float
    dummies: int
    base_epsilon: float | None
    radius: float | None
    evaluated: str
    delta: float
    epsilon_lower: float
    epsilon: float
    beta: float
    theorem3: float
    samples: int
    quantile: float | None
    empirical: float | None
    loss: float


@dataclass(frozen=True)
class DummiesNeeded:
    """The least number of dummies that reaches ``target``: exactly, and by Theorem 3; None beyond ``searched``."""

    city: str
    attribute: str
    mechanism: str
    evaluated: str
    target: float
    delta: float
    exact: int | None
    theorem3: int | None
    searched: int


@dataclass(frozen=True)
class AttackPoint:
    """Success against one report. ``target`` is what the mechanism was calibrated to, None on the curve over dummies.

    ``balanced`` and ``recognised`` (the paper's ASR) are upper ends for the best attacker, who knows the evaluated
    people's own distributions. ``seen_*`` are shares over simulated reports of those people's real check-ins, for an
    attacker who knows the distributions of ``trained_on``; the limits are a 95 % interval over people.
    """

    city: str
    attribute: str
    mechanism: str
    target: float | None
    dummies: int
    trained_on: str
    evaluated: str
    epsilon: float
    balanced: float
    recognised: float
    reports: int
    seen_balanced: float
    seen_balanced_low: float
    seen_balanced_high: float
    seen_recognised: float
    seen_recognised_low: float
    seen_recognised_high: float


@dataclass(frozen=True)
class LossPoint:
    """Epsilon and expected loss at one value of a mechanism's own parameter."""

    city: str
    attribute: str
    mechanism: str
    parameter: str
    value: float
    dummies: int
    evaluated: str
    delta: float
    epsilon: float
    loss: float


@dataclass(frozen=True)
class Calibrated:
    """One mechanism at its least loss for (``target``, ``delta``) on the train people, and what it is on others.

    ``realised_delta`` is at the target's epsilon, ``realised_epsilon`` at the target's delta, both upper ends.
    ``loss`` is to the nearest of the tuple, ``real_loss`` to the real report. ``designed_on`` is ``train``, or
    ``all`` in the rows of all people together. Dummies without replacement, which are slow to account for, are
    listed for epsilon = 1 on train and test only, and without ``recognised``.
    """

    city: str
    attribute: str
    mechanism: str
    target: float
    delta: float
    designed_on: str
    parameter: str
    dummies: int
    evaluated: str
    realised_delta: float
    realised_epsilon: float
    loss: float
    real_loss: float
    balanced: float
    recognised: float | None


@dataclass(frozen=True)
class Matched:
    """A mechanism brought, on the test people, to the epsilon that TM(RL) of ``target`` realises on them.

    What is compared here is as private held out, which mechanisms calibrated on the train people are not.
    """

    city: str
    attribute: str
    mechanism: str
    target: float
    held_out_epsilon: float
    parameter: str
    loss: float


@dataclass(frozen=True)
class NoiseFloor:
    """What chance alone makes: a mechanism between two random halves of the people of one class."""

    city: str
    attribute: str
    halves: str
    people: int | None
    mechanism: str
    target: float | None
    dummies: int
    delta: float
    epsilon: float
    balanced: float


@dataclass(frozen=True)
class Cost:
    """What a mechanism holds: entries of its matrix, and bytes (of 64-bit numbers; CSR with its indices)."""

    city: str
    attribute: str
    mechanism: str
    parameter: str
    inputs: int
    outputs: int
    entries: int
    nonzero: int
    stored: str
    bytes_dense: int
    bytes_csr: int
    bytes_held: int
    bytes_release: int


@dataclass(frozen=True)
class Time:
    """Measured times, each the median of ``runs``: the only numbers that do not repeat with the seed."""

    city: str
    attribute: str
    mechanism: str
    parameter: str
    runs: int
    build_ms: float
    prepare_ms: float
    report_us: float
    bulk_us: float


@dataclass(frozen=True)
class Check:
    """One comparison behind a claim: where it was made, how it came out, on which numbers."""

    city: str
    claim: str
    attribute: str
    evaluated: str
    where: str
    holds: bool
    figures: str


@dataclass(frozen=True)
class Claim:
    """A claim of the paper and what these numbers say of it."""

    city: str
    claim: str
    statement: str
    verdict: str
    where: str
    figures: str


@dataclass(frozen=True)
class Experiment:
    """The paper's experimental section for one city.

    Attributes
    ----------
    city : str
    settings : Settings
    attributes : tuple of str
    inputs, outputs : int
        Regions that a person may be in, and that may be reported.
    counted, curves, dummies, attacks, losses, calibrated, matched, noise, costs, times, checks, claims : tuple
        The tables, of the records of this module.
    """

    city: str
    settings: Settings
    attributes: tuple[str, ...]
    inputs: int
    outputs: int
    counted: tuple[Counted, ...]
    curves: tuple[CurvePoint, ...]
    dummies: tuple[DummiesNeeded, ...]
    attacks: tuple[AttackPoint, ...]
    losses: tuple[LossPoint, ...]
    calibrated: tuple[Calibrated, ...]
    matched: tuple[Matched, ...]
    noise: tuple[NoiseFloor, ...]
    costs: tuple[Cost, ...]
    times: tuple[Time, ...]
    checks: tuple[Check, ...]
    claims: tuple[Claim, ...]

    @property
    def tables(self) -> Mapping[str, Sequence[Any]]:
        """The tables by the name of their file."""
        return {name: getattr(self, one) for name, (one, _) in TABLES.items()}


# File, field of `Experiment`, record: the record gives the columns also where there is no row.
TABLES: Mapping[str, tuple[str, type[Any]]] = {
    "counts": ("counted", Counted),
    "curves": ("curves", CurvePoint),
    "dummies": ("dummies", DummiesNeeded),
    "attack": ("attacks", AttackPoint),
    "loss": ("losses", LossPoint),
    "calibrated": ("calibrated", Calibrated),
    "matched": ("matched", Matched),
    "noise": ("noise", NoiseFloor),
    "cost": ("costs", Cost),
    "times": ("times", Time),
    "checks": ("checks", Check),
    "claims": ("claims", Claim),
}


def columns(record: type[Any]) -> tuple[str, ...]:
    """Return the columns of a table."""
    return tuple(one.name for one in fields(record))
