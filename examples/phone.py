"""A reader of distp policies in plain Python: what an app needs to send one tuple, and nothing else.

No numpy, no other package: read it as the specification of a port to another language (docs/policy-format.md has the
format). Usage: python examples/phone.py home.policy 40.7484 -73.9857
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import secrets
import sys
from pathlib import Path

Ring = list[list[float]]


class Policy:
    """A policy that was read and checked, and the two things done with it: `locate` and `report`."""

    def __init__(self, path: str) -> None:
        raw = Path(path).read_bytes()
        document = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        if document.get("format") != "distp-policy" or document.get("version") != 1:
            raise ValueError("not a distp policy of version 1")
        body = document["policy"]
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        if hashlib.sha256(canonical.encode("ascii")).hexdigest() != document["sha256"]:
            raise ValueError("the policy is damaged: its checksum does not match")
        self.total: int = body["total"]
        self.channel: list[dict[str, list[int]]] = body["channel"]
        self.dummies: dict = body["dummies"]
        self.regions: dict = body["regions"]
        self.nearest: bool = body["outside"] == "nearest"
        rows = [
            *self.channel,
            *([{"weights": self.dummies["weights"]["weights"]}] if self.dummies["weights"] else []),
        ]
        if self.total not in (2**32, 2**53) or any(sum(row["weights"]) != self.total for row in rows):
            raise ValueError("the policy is damaged: a row of weights has another sum")

    def __len__(self) -> int:
        return len(self.regions["centres"])

    def locate(self, lat: float, lon: float) -> int:
        """Return the input region of a place; -1 where the policy has none for it."""
        if not (abs(lat) <= 90 and abs(lon) <= 180):
            raise ValueError("no place on Earth")
        x, y = to_km(*self.regions["anchor"], lat, lon)
        inputs = self.regions["inputs"]
        for region in range(len(self)):
            if self._holds(region, x, y):
                if region < inputs:
                    return region
                break
        if not self.nearest:
            return -1
        centres = [to_km(*self.regions["anchor"], *centre) for centre in self.regions["centres"][:inputs]]
        return min(range(inputs), key=lambda region: math.dist(centres[region], (x, y)))

    def _holds(self, region: int, x: float, y: float) -> bool:
        if "cells_km" in self.regions:
            west, south, side = self.regions["cells_km"][region]
            return west <= x < west + side and south <= y < south + side
        rings = [ring for piece in self.regions["polygons_km"][region] for ring in piece]
        return sum(crossings(ring, x, y) for ring in rings) % 2 == 1

    def report(self, region: int) -> list[int]:
        """Return a fresh tuple for an input region: its own report at a random place among the dummies."""
        real, count = self._weighted(self.channel[region]), self.dummies["count"]
        if not self.dummies["replacement"]:
            others = [output for output in range(len(self)) if output != real]
            for place in range(count):  # the first places of a fair shuffle
                swap = place + secrets.randbelow(len(others) - place)
                others[place], others[swap] = others[swap], others[place]
            return sorted([real, *others[:count]])
        law = self.dummies["weights"]
        drawn = [secrets.randbelow(len(self)) if law is None else self._weighted(law) for _ in range(count)]
        drawn.insert(secrets.randbelow(count + 1), real)
        return drawn

    def _weighted(self, row: dict[str, list[int]]) -> int:
        """Return a region by its integer weight: no rounding, so exactly the law that was certified."""
        left = secrets.randbelow(self.total)
        for region, weight in zip(row["regions"], row["weights"], strict=True):
            left -= weight
            if left < 0:
                return region
        raise AssertionError("the weights sum to the total")


def crossings(ring: Ring, x: float, y: float) -> int:
    """Return how many edges of a ring a ray to the east crosses."""
    count = 0
    for (x1, y1), (x2, y2) in zip(ring, ring[1:] + ring[:1], strict=True):
        if y1 > y2:
            x1, y1, x2, y2 = x2, y2, x1, y1
        if y1 <= y < y2 and (x2 - x1) * (y - y1) - (x - x1) * (y2 - y1) > 0:
            count += 1
    return count


def to_km(lat0: float, lon0: float, lat: float, lon: float) -> tuple[float, float]:
    """Project degrees to km east and north of an anchor: azimuthal equidistant on WGS 84.

    That is distance and direction on the ellipsoid, by Vincenty's inverse formula (1975): to a millimetre for
    anything but places on the other side of the Earth, which no policy has.
    """
    a, f = 6378.137, 1 / 298.257223563
    b, away = (1 - f) * a, math.radians((lon - lon0 + 180) % 360 - 180)
    u1, u2 = (math.atan((1 - f) * math.tan(math.radians(value))) for value in (lat0, lat))
    s1, c1, s2, c2 = math.sin(u1), math.cos(u1), math.sin(u2), math.cos(u2)
    turn = away
    for _ in range(200):
        east, north = c2 * math.sin(turn), c1 * s2 - s1 * c2 * math.cos(turn)
        sine, cosine = math.hypot(east, north), s1 * s2 + c1 * c2 * math.cos(turn)
        if sine == 0:
            return 0.0, 0.0
        arc = math.atan2(sine, cosine)
        alpha = c1 * c2 * math.sin(turn) / sine
        square = 1 - alpha * alpha
        middle = cosine - 2 * s1 * s2 / square if square else 0.0
        c = f / 16 * square * (4 + f * (4 - 3 * square))
        before, bend = turn, middle + c * cosine * (2 * middle * middle - 1)
        turn = away + (1 - c) * f * alpha * (arc + c * sine * bend)
        if abs(turn - before) < 1e-13:
            break
    v = square * (a * a - b * b) / (b * b)
    g = 1 + v / 16384 * (4096 + v * (-768 + v * (320 - 175 * v)))
    h = v / 1024 * (256 + v * (-128 + v * (74 - 47 * v)))
    fourth = cosine * (2 * middle * middle - 1) - h / 6 * middle * (4 * sine * sine - 3) * (4 * middle * middle - 3)
    km = b * g * (arc - h * sine * (middle + h / 4 * fourth))
    return km * east / sine, km * north / sine


def main() -> None:
    """Print the centres of one tuple as JSON."""
    policy = Policy(sys.argv[1])
    region = policy.locate(float(sys.argv[2]), float(sys.argv[3]))
    if region < 0:
        sys.exit("that place is outside the policy's area")
    print(json.dumps([policy.regions["centres"][number] for number in policy.report(region)]))


if __name__ == "__main__":
    main()
