"""The policy file as a container: JSON in gzip, a version and a checksum. ``docs/policy-format.md`` documents it."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from distp.errors import PolicyError
from distp.files import replacing

FORMAT, VERSION = "distp-policy", 1
MAX_BYTES = 1 << 28


def write(path: str | Path, body: dict[str, Any]) -> None:
    """Write the policy ``body`` to ``path``, all or nothing."""
    document = {"format": FORMAT, "version": VERSION, "sha256": digest(body), "policy": body}
    text = json.dumps(document, allow_nan=False, separators=(",", ":")) + "\n"
    with replacing(path) as temporary:
        # No time of writing and no name in it: the same policy gives the same bytes.
        temporary.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))


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
    if raw.startswith(b"\x1f\x8b"):
        raw = _unpacked(path, raw)
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


def _unpacked(path: str | Path, raw: bytes) -> bytes:
    """Return the one member of a gzip file, or a little more than is allowed: a small file may hold a huge one."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        text = inflate.decompress(raw, MAX_BYTES + 1)
    except zlib.error:
        raise PolicyError(f"{path} is damaged: it cannot be decompressed") from None
    if len(text) <= MAX_BYTES and (not inflate.eof or inflate.unused_data):
        raise PolicyError(f"{path} is damaged: it ends too early, or something follows")
    return text


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
