"""The certificate of a mechanism for the pairs of distributions that it was made to hide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from distp.attacks import LocationAttack, attack_success, location_attack, success_limit
from distp.certificates.population import Population, population
from distp.checks import FloatArray, count, nonnegative, probability
from distp.distributions import Pair, Support
from distp.errors import ParameterError
from distp.mechanisms import Identity, Mechanism
from distp.privacy import Bracket, delta, epsilon
from distp.utility import expected_loss, real_report_loss, worst_loss

ASSUMPTIONS = (
    "The attacker sees one report. Repeated reports from the same place, and reports that follow a movement, "
    "are not covered.",
    "The person's location is drawn from one of the stated distributions. Somebody whose home or workplace the "
    "attacker already knows is not covered.",
    "The report is the only thing sent: no account, address or time that gives the attribute away.",
)
IN_SAMPLE = (
    "The distributions are those of the data they were estimated from. For people who were not in the data the "
    "true delta can be many times larger."
)
OF_POPULATION = (
    "The limit for other people holds if those in the data are a random draw from the population. It comes from "
    "resamples of them, which were tested on populations that are known and on held-out people, and are not a proof."
)
OF_RECORDS = "The data name nobody: the limit for others takes every record for a person of its own."


@dataclass(frozen=True)
class PairCertificate:
    """One pair's part of a certificate.

    Attributes
    ----------
    name : str
        The attribute.
    delta : Bracket
        At the certificate's epsilon, the larger of both orders.
    epsilon : Bracket
        At the certificate's delta, the larger of both orders.
    success : Bracket
        Balanced success of the best attacker who sees one report (0.5 is blind guessing).
    recognised : Bracket
        Share of the people with the attribute of whom it is inferred (the paper's ASR).
    success_unprotected : Bracket
        Balanced success where the true region is sent as it is.
    support : tuple of Support or None
        Records and people behind each distribution.
    population : Population or None
        What delta is at most for the population; None where only the sample is spoken of.
    """

    name: str
    delta: Bracket
    epsilon: Bracket
    success: Bracket
    recognised: Bracket
    success_unprotected: Bracket
    support: tuple[Support | None, Support | None] = (None, None)
    population: Population | None = None


@dataclass(frozen=True)
class Certificate:
    """What is claimed of a mechanism: (epsilon, delta)-DistP for every pair listed, and what it costs.

    Attributes
    ----------
    target_epsilon, target_delta : float
        The claim.
    pairs : tuple of PairCertificate
    loss : float
        Expected distance from the true input to the nearest reported value, under the prior.
    real_report_loss : float
        The same to the real report alone, dummies ignored.
    worst_loss : float
    guaranteed_success : float
        Largest balanced success that (epsilon, delta)-DistP allows, whatever the distributions.
    location : LocationAttack or None
        How well the best attacker finds the *place*, before and after one report; None in older files.
    assumptions : tuple of str
    """

    target_epsilon: float
    target_delta: float
    pairs: tuple[PairCertificate, ...]
    loss: float
    real_report_loss: float
    worst_loss: float
    guaranteed_success: float
    location: LocationAttack | None = None
    assumptions: tuple[str, ...] = (*ASSUMPTIONS, IN_SAMPLE)

    @property
    def holds(self) -> bool:
        """Whether every pair's delta is within the target: its upper end, and its limit for the population if any."""
        return self.holds_in_sample and all(
            pair.population is None or pair.population.delta <= self.target_delta for pair in self.pairs
        )

    @property
    def holds_in_sample(self) -> bool:
        """Whether every pair's delta is within the target for the distributions as they were counted."""
        return all(pair.delta.upper <= self.target_delta for pair in self.pairs)

    @property
    def in_sample(self) -> bool:
        """Whether nothing is said of people who are not in the data."""
        return any(pair.population is None for pair in self.pairs)

    @property
    def worst_pair(self) -> PairCertificate:
        """The pair with the largest upper end of delta."""
        return max(self.pairs, key=lambda pair: pair.delta.upper)

    def agrees_with(self, other: Certificate) -> bool:
        """Say whether both give the same figures, up to what another processor's rounding may change (1e-6).

        Of figures that one of the two does not have (a population's limit needs its people; older files have no
        attack on the place) nothing is asked.
        """
        return _alike(_figures(self, other), _figures(other, self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; an infinite epsilon becomes the string "inf"."""
        plain: dict[str, Any] = _jsonable(asdict(self))
        for pair in plain["pairs"]:
            for support in pair["support"]:
                if support is not None:
                    del support["counts"]  # never there: see `certify`
        return plain

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Read what `to_dict` wrote.

        Raises
        ------
        KeyError, TypeError, ValueError
            The data are not a certificate.
        """
        pairs = tuple(
            PairCertificate(
                name=str(pair["name"]),
                population=_population(pair.get("population")),
                support=tuple(None if s is None else Support(**s) for s in pair["support"]),  # type: ignore[arg-type]
                **{key: _bracket(pair[key]) for key in _BRACKETS},
            )
            for pair in data["pairs"]
        )
        numbers = {key: nonnegative(data[key], key) for key in _NUMBERS}
        texts = tuple(str(text) for text in data["assumptions"])
        return cls(pairs=pairs, assumptions=texts, location=_location(data.get("location")), **numbers)


_BRACKETS = ("delta", "epsilon", "success", "recognised", "success_unprotected")
_NUMBERS = (
    "target_epsilon",
    "target_delta",
    "loss",
    "real_report_loss",
    "worst_loss",
    "guaranteed_success",
)


def certify(
    mechanism: Mechanism,
    pairs: Sequence[Pair],
    target_epsilon: float,
    target_delta: float,
    prior: ArrayLike | None = None,
    *,
    confidence: float | None = None,
    held_out: Sequence[Bracket] | None = None,
) -> Certificate:
    """Compute a mechanism's certificate from its matrix; nothing nominal is used.

    Parameters
    ----------
    mechanism : Mechanism
        Its spaces must have distances.
    pairs : sequence of Pair
    target_epsilon, target_delta : float
        The claim to hold it against.
    prior : array_like, shape (|X|,), optional
        For the loss and the attack on the place. Default: the mean of all distributions.
    confidence : float, optional
        Also say what delta is at most for the population, see `Population`; the pairs must say what they were
        counted from.
    held_out : sequence of Bracket, optional
        One for each pair, to keep beside that.

    Examples
    --------
    >>> from distp.mechanisms import Identity, Tupling
    >>> pair = Pair("a", [.5, .3, .2, 0], [.1, .2, .3, .4])
    >>> certify(Tupling(Identity(4), 5), [pair], 1.0, 0.02).holds
    True
    """
    target_epsilon = nonnegative(target_epsilon, "epsilon")
    target_delta = probability(target_delta, "delta")
    law = mean_law(pairs) if prior is None else prior
    # What the pair gives away where nothing is done: the report is the input itself.
    bare = Identity(mechanism.inputs)
    parts = []
    beside: Sequence[Bracket | None] = held_out or [None] * len(pairs)
    for pair, other in zip(pairs, beside, strict=True):
        attack = attack_success(mechanism, pair.p, pair.q)
        found = delta(mechanism, pair.p, pair.q, target_epsilon)
        least = epsilon(mechanism, pair.p, pair.q, target_delta)
        if found.upper <= target_delta:  # which proves the target epsilon, however wide the other bracket is
            least = Bracket(min(least.lower, target_epsilon), min(least.upper, target_epsilon))
        parts.append(
            PairCertificate(
                name=pair.name,
                delta=found,
                epsilon=least,
                success=attack.balanced,
                recognised=attack.recognised,
                success_unprotected=attack_success(bare, pair.p, pair.q).balanced,
                support=(_size(pair.support_p), _size(pair.support_q)),
                population=None
                if confidence is None
                else population(mechanism, pair, target_epsilon, confidence, other),
            )
        )
    return Certificate(
        target_epsilon,
        target_delta,
        tuple(parts),
        expected_loss(mechanism, law),
        real_report_loss(mechanism, law),
        worst_loss(mechanism),
        success_limit(target_epsilon, target_delta),
        location_attack(mechanism, law),
        _assumptions(parts),
    )


def _assumptions(parts: Sequence[PairCertificate]) -> tuple[str, ...]:
    known = [part.population for part in parts if part.population is not None]
    if not known:
        return (*ASSUMPTIONS, IN_SAMPLE)
    unnamed = any(one.people is None for one in known)
    return (*ASSUMPTIONS, OF_POPULATION, *([OF_RECORDS] if unnamed else []))


def mean_law(pairs: Sequence[Pair]) -> FloatArray:
    """Return the mean of all distributions of ``pairs``: the prior where none is given."""
    if not pairs:
        raise ParameterError("pairs is empty: there is nothing to hide")
    return np.asarray(np.mean([law for pair in pairs for law in (pair.p, pair.q)], axis=0))


def _figures(certificate: Certificate, other: Certificate) -> dict[str, Any]:
    plain = certificate.to_dict()
    del plain["assumptions"]
    if certificate.location is None or other.location is None:
        del plain["location"]
    if len(certificate.pairs) == len(other.pairs):
        for part, one, two in zip(plain["pairs"], certificate.pairs, other.pairs, strict=True):
            if one.population is None or two.population is None:
                del part["population"]
    return plain


def _alike(one: Any, two: Any) -> bool:
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_alike(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_alike, one, two))
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-6, abs_tol=1e-9)
    return bool(one == two)


def _size(support: Support | None) -> Support | None:
    """Return how many a distribution was estimated from; how they are spread is the pair's own business."""
    return None if support is None else replace(support, counts=None)


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def _population(data: dict[str, Any] | None) -> Population | None:
    if data is None:
        return None
    people = None if data["people"] is None else count(data["people"], "people")
    proven = None if data["class_delta"] is None else probability(data["class_delta"], "class_delta")
    return Population(
        probability(data["confidence"], "confidence"),
        probability(data["delta"], "delta"),
        people,
        count(data["resamples"], "resamples", 1),
        None if data["held_out"] is None else _bracket(data["held_out"]),
        proven,
    )


def _location(data: dict[str, Any] | None) -> LocationAttack | None:
    if data is None:
        return None
    brackets = {key: _bracket(data[key]) for key in ("error", "success", "blind_error", "blind_success")}
    samples, confidence = count(data["samples"], "samples"), probability(data["confidence"], "confidence")
    return LocationAttack(samples=samples, confidence=confidence, **brackets)


def _bracket(data: dict[str, Any]) -> Bracket:
    return Bracket(float(data["lower"]), float(data["upper"]))
