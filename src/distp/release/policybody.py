"""What a policy's file says, and back: every part is checked by the constructor of its own type."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from distp.certificates import Certificate
from distp.checks import IntArray, count, distribution
from distp.distributions import Pair, Support
from distp.distributions.people import WEIGHTS
from distp.errors import PolicyError
from distp.release import regionfile
from distp.release.weights import BITS, FEW_BITS, Weights

if TYPE_CHECKING:
    from distp.release.policy import Policy

MAX_DUMMIES = 1_000_000  # a file must not make its reader fill the memory


def to_body(policy: Policy) -> dict[str, Any]:
    """Return what a policy's file says."""
    return {
        "written_by": f"distp {version('distp')}",
        "regions": regionfile.to_body(policy.regions),
        "outside": policy.outside,
        **drawn_by(policy),
        "attributes": [
            {
                "name": pair.name,
                "expression": expression,
                "p": pair.p.tolist(),
                "q": pair.q.tolist(),
                "support_p": _support(pair.support_p),
                "support_q": _support(pair.support_q),
            }
            for pair, expression in zip(policy.pairs, policy.expressions, strict=True)
        ],
        "counting": {"weight": policy.weight, "smoothing": policy.smoothing},
        "prior": policy.prior.tolist(),
        "certificate": policy.certificate.to_dict(),
    }


def says_no_more(policy: Policy, body: dict[str, Any]) -> bool:
    """Tell whether a body that was read says nothing but what its policy would write: nothing in it is ignored."""
    ours = json.loads(json.dumps(to_body(policy)))
    ours["regions"].setdefault("holes", False)
    # Rounded centres may differ by a digit between machines: the reader of the regions compares those.
    place = {key: value for key, value in body["regions"].items() if key != "centres"}
    return _says(ours, {key: value for key, value in body.items() if key != "written_by"} | {"regions": place})


def _says(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, dict):
        return isinstance(ours, dict) and all(
            key in ours and _says(ours[key], value) for key, value in theirs.items()
        )
    if isinstance(theirs, list):
        return (
            isinstance(ours, list)
            and len(ours) == len(theirs)
            and all(_says(one, other) for one, other in zip(ours, theirs, strict=True))
        )
    return bool(ours == theirs) and isinstance(ours, bool) is isinstance(theirs, bool)


def drawn_by(policy: Policy) -> dict[str, Any]:
    """Return what a draw depends on, once the region is known."""
    return {
        "total": policy.channel.total,
        "channel": _rows(policy.channel),
        "dummies": {
            "count": policy.dummies,
            "weights": None if policy.dummy_weights is None else _rows(policy.dummy_weights)[0],
            "replacement": policy.replacement,
        },
    }


def from_body(body: dict[str, Any]) -> dict[str, Any]:
    """Read a policy's fields back; everything is checked by the constructor of its own type."""
    regions = regionfile.from_body(body["regions"])
    bits = next((bits for bits in (FEW_BITS, BITS) if body["total"] == 1 << bits), None)
    if bits is None:
        raise PolicyError(f"weights of total {body['total']!r} are not known")
    channel = _weights(body["channel"], len(regions), bits)
    size = len(regions.inputs)
    if channel.starts.size - 1 != size:
        raise PolicyError(f"{channel.starts.size - 1} rows in the channel, but {size} inputs")
    dummies = body["dummies"]
    if count(dummies["count"], "the number of dummies") > MAX_DUMMIES:
        raise PolicyError(f"the number of dummies is {dummies['count']}, more than {MAX_DUMMIES:,}")
    if not isinstance(dummies["replacement"], bool):
        raise PolicyError(f"replacement must be true or false, not {dummies['replacement']!r}")
    law = None if dummies["weights"] is None else _weights([dummies["weights"]], len(regions), bits)
    pairs = [
        Pair(
            str(item["name"]),
            distribution(item["p"], size, "p"),
            distribution(item["q"], size, "q"),
            None if item["support_p"] is None else Support(**item["support_p"]),
            None if item["support_q"] is None else Support(**item["support_q"]),
        )
        for item in body["attributes"]
    ]
    certificate = Certificate.from_dict(body["certificate"])
    if not pairs or [pair.name for pair in pairs] != [pair.name for pair in certificate.pairs]:
        raise PolicyError("the certificate is not about the attributes of the policy")
    return {
        "regions": regions,
        "channel": channel,
        "dummy_weights": law,
        "dummies": dummies["count"],
        "pairs": tuple(pairs),
        "expressions": tuple(_text(item["expression"]) for item in body["attributes"]),
        "prior": distribution(body["prior"], size, "prior"),
        "certificate": certificate,
        "outside": body["outside"],
        "replacement": dummies["replacement"],
        **_counting(body),
    }


def _counting(body: dict[str, Any]) -> dict[str, Any]:
    """Return how the distributions were counted; the first policies did not say, and counted check-ins."""
    counting = body.get("counting", {"weight": WEIGHTS[0], "smoothing": 0.0})
    if type(counting["smoothing"]) not in (int, float):
        raise PolicyError("the smoothing must be a number")
    return {"weight": counting["weight"], "smoothing": float(counting["smoothing"])}


def _rows(weights: Weights) -> list[dict[str, list[int]]]:
    return [
        {"regions": weights.columns[a:b].tolist(), "weights": weights.values[a:b].tolist()}
        for a, b in zip(weights.starts[:-1], weights.starts[1:], strict=True)
    ]


def _weights(rows: list[dict[str, list[int]]], width: int, bits: int) -> Weights:
    columns = [_integers(row["regions"]) for row in rows]
    values = [_integers(row["weights"]) for row in rows]
    if any(c.shape != v.shape for c, v in zip(columns, values, strict=True)):
        raise PolicyError("a row has more regions than weights, or fewer")
    starts = np.concatenate([[0], np.cumsum([c.size for c in columns])]).astype(np.int64)
    return Weights(starts, np.concatenate(columns), np.concatenate(values), width, bits)


def _integers(values: list[int]) -> IntArray:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise PolicyError("weights and regions must be whole numbers")
    return np.array(values, dtype=np.int64)


def _text(value: str) -> str:
    if not isinstance(value, str):
        raise PolicyError("the expression of an attribute must be text")
    return value


def _support(support: Support | None) -> dict[str, Any] | None:
    if support is None:
        return None
    counts = None if support.counts is None else list(support.counts)
    return {"records": support.records, "people": support.people, "counts": counts}
