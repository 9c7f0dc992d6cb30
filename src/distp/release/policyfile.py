"""The policy file: JSON with a checksum, documented in ``docs/policy-format.md``."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from distp.certificates import Certificate
from distp.checks import IntArray, distribution
from distp.distributions import Pair, Support
from distp.errors import DistpError, PolicyError
from distp.files import replacing
from distp.release.weights import TOTAL, Weights
from distp.spaces import Box, Regions

if TYPE_CHECKING:
    from distp.release.policy import Policy

FORMAT, VERSION = "distp-policy", 1
MAX_BYTES = 1 << 28


def write(path: str | Path, policy: Policy) -> None:
    """Write ``policy`` to ``path``, all or nothing."""
    body = _body(policy)
    document = {"format": FORMAT, "version": VERSION, "sha256": _digest(body), "policy": body}
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(document, allow_nan=False) + "\n", encoding="utf-8")


def read(path: str | Path, kind: type[Policy]) -> Policy:
    """Read a policy from ``path``; everything in it is checked before it is used."""
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyError(f"cannot read policy {path}: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise PolicyError(f"{path} is larger than {MAX_BYTES >> 20} MiB: not a policy")
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise PolicyError(f"{path} is not a distp policy, or is damaged: it is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PolicyError(f"{path} is not a distp policy: it does not say 'format: {FORMAT}'")
    if document.get("version") != VERSION:
        raise PolicyError(
            f"{path} is a policy of version {document.get('version')!r}; this release reads version {VERSION}"
        )
    body = document.get("policy")
    if not isinstance(body, dict) or document.get("sha256") != _digest(body):
        raise PolicyError(f"{path} is damaged: its checksum does not match")
    try:
        return _policy(body, kind)
    except (DistpError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise PolicyError(f"{path} is damaged: {type(error).__name__}: {error}") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not allowed")


def _digest(body: Any) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def _body(policy: Policy) -> dict[str, Any]:
    regions, box = policy.regions, policy.regions.box
    return {
        "written_by": f"distp {version('distp')}",
        "regions": {
            "projection": box.proj,
            "anchor": [box.lat, box.lon],
            "box_km": [box.west, box.south, box.width, box.height],
            "cell_km": regions.cell_km,
            "inputs": len(regions.inputs),
            "cells_km": regions.cells.tolist(),
            "centres": np.round(np.column_stack([regions.lat, regions.lon]), 7).tolist(),
        },
        "outside": policy.outside,
        "total": TOTAL,
        "channel": _rows(policy.channel),
        "dummies": {
            "count": policy.dummies,
            "weights": None if policy.dummy_weights is None else _rows(policy.dummy_weights)[0],
        },
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
        "prior": policy.prior.tolist(),
        "certificate": policy.certificate.to_dict(),
    }


def _policy(body: dict[str, Any], kind: type[Policy]) -> Policy:
    place = body["regions"]
    box = Box(*_floats(place["anchor"], 2), *_floats(place["box_km"], 4))
    regions = Regions(box, float(place["cell_km"]), np.array(place["cells_km"], dtype=float), place["inputs"])
    if body["total"] != TOTAL:
        raise PolicyError(f"weights of total {body['total']!r} are not known")
    channel = _weights(body["channel"], len(regions))
    size = len(regions.inputs)
    if channel.starts.size - 1 != size:
        raise PolicyError(f"{channel.starts.size - 1} rows in the channel, but {size} inputs")
    dummies = body["dummies"]
    if not isinstance(dummies["count"], int) or isinstance(dummies["count"], bool) or dummies["count"] < 0:
        raise PolicyError(f"the number of dummies is {dummies['count']!r}")
    law = None if dummies["weights"] is None else _weights([dummies["weights"]], len(regions))
    pairs = [
        Pair(
            str(item["name"]),
            distribution(item["p"], size, "p"),
            distribution(item["q"], size, "q"),
            *(None if item[key] is None else Support(**item[key]) for key in ("support_p", "support_q")),
        )
        for item in body["attributes"]
    ]
    return kind(
        regions,
        channel,
        law,
        dummies["count"],
        tuple(pairs),
        tuple(str(item["expression"]) for item in body["attributes"]),
        distribution(body["prior"], size, "prior"),
        Certificate.from_dict(body["certificate"]),
        body["outside"],
    )


def _rows(weights: Weights) -> list[dict[str, list[int]]]:
    return [
        {"regions": weights.columns[a:b].tolist(), "weights": weights.values[a:b].tolist()}
        for a, b in zip(weights.starts[:-1], weights.starts[1:], strict=True)
    ]


def _weights(rows: list[dict[str, list[int]]], width: int) -> Weights:
    columns = [_integers(row["regions"]) for row in rows]
    values = [_integers(row["weights"]) for row in rows]
    if any(c.shape != v.shape for c, v in zip(columns, values, strict=True)):
        raise PolicyError("a row has more regions than weights, or fewer")
    starts = np.concatenate([[0], np.cumsum([c.size for c in columns])]).astype(np.int64)
    return Weights(starts, np.concatenate(columns), np.concatenate(values), width)


def _integers(values: list[int]) -> IntArray:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise PolicyError("weights and regions must be whole numbers")
    return np.array(values, dtype=np.int64)


def _floats(values: list[float], size: int) -> list[float]:
    if len(values) != size:
        raise PolicyError(f"expected {size} numbers, found {len(values)}")
    return [float(value) for value in values]


def _support(support: Support | None) -> dict[str, int | None] | None:
    return None if support is None else {"records": support.records, "people": support.people}
