"""The policy file as a container: JSON, a version and a checksum. ``docs/policy-format.md`` documents it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from distp.errors import PolicyError
from distp.files import replacing

FORMAT, VERSION = "distp-policy", 1
MAX_BYTES = 1 << 28


def write(path: str | Path, body: dict[str, Any]) -> None:
    """Write the policy ``body`` to ``path``, all or nothing."""
    document = {"format": FORMAT, "version": VERSION, "sha256": digest(body), "policy": body}
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(document, allow_nan=False) + "\n", encoding="utf-8")


def read(path: str | Path) -> dict[str, Any]:
    """Read a policy's body from ``path``: whole, of this version, with the checksum it was written with.

    Raises
    ------
    PolicyError
        The file is missing, too large, damaged, foreign, or of an unknown version.
    """
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyError(f"cannot read policy {path}: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise PolicyError(f"{path} is larger than {MAX_BYTES >> 20} MiB: not a policy")
    try:
        document = json.loads(raw.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise PolicyError(f"{path} is not a distp policy, or is damaged: it is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PolicyError(f"{path} is not a distp policy: it does not say 'format: {FORMAT}'")
    if type(document.get("version")) is not int or document["version"] != VERSION:
        raise PolicyError(
            f"{path} is a policy of version {document.get('version')!r}; this release reads version {VERSION}"
        )
    body = document.get("policy")
    if not isinstance(body, dict) or document.get("sha256") != digest(body):
        raise PolicyError(f"{path} is damaged: its checksum does not match")
    return body


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that names a key twice: readers differ in which one they believe."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is named twice")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not allowed")


def digest(body: Any) -> str:
    """Return the SHA-256 of ``body`` as JSON with sorted keys, no spaces, ASCII only."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()
