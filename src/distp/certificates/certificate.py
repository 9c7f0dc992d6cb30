"""The certificate of a mechanism for the pairs of distributions that it was made to hide."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from distp.attacks import attack_success, success_limit
from distp.checks import FloatArray, nonnegative, probability
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
    "The distributions are those of the data they were estimated from. For people who were not in the data the "
    "true delta can be several times larger.",
    "The report is the only thing sent: no account, address or time that gives the attribute away.",
)


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
    """

    name: str
    delta: Bracket
    epsilon: Bracket
    success: Bracket
    recognised: Bracket
    success_unprotected: Bracket
    support: tuple[Support | None, Support | None] = (None, None)


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
    assumptions : tuple of str
    """

    target_epsilon: float
    target_delta: float
    pairs: tuple[PairCertificate, ...]
    loss: float
    real_report_loss: float
    worst_loss: float
    guaranteed_success: float
    assumptions: tuple[str, ...] = ASSUMPTIONS

    @property
    def holds(self) -> bool:
        """Whether the upper end of every pair's delta is within the target."""
        return all(pair.delta.upper <= self.target_delta for pair in self.pairs)

    @property
    def worst_pair(self) -> PairCertificate:
        """The pair with the largest upper end of delta."""
        return max(self.pairs, key=lambda pair: pair.delta.upper)

    def agrees_with(self, other: Certificate) -> bool:
        """Say whether both say the same, up to what another processor's rounding may change (1e-6)."""
        mine, theirs = self.to_dict(), other.to_dict()
        return _alike(mine, theirs)

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
                support=tuple(None if s is None else Support(**s) for s in pair["support"]),  # type: ignore[arg-type]
                **{key: _bracket(pair[key]) for key in _BRACKETS},
            )
            for pair in data["pairs"]
        )
        numbers = {key: nonnegative(data[key], key) for key in _NUMBERS}
        return cls(pairs=pairs, assumptions=tuple(str(text) for text in data["assumptions"]), **numbers)


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
        For the loss. Default: the mean of all distributions.

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
    for pair in pairs:
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
    )


def mean_law(pairs: Sequence[Pair]) -> FloatArray:
    """Return the mean of all distributions of ``pairs``: the prior where none is given."""
    if not pairs:
        raise ParameterError("pairs is empty: there is nothing to hide")
    return np.asarray(np.mean([law for pair in pairs for law in (pair.p, pair.q)], axis=0))


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


def _bracket(data: dict[str, Any]) -> Bracket:
    return Bracket(float(data["lower"]), float(data["upper"]))
