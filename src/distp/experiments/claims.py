"""The paper's claims, judged from the tables by stated rules. Nothing is computed here but comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from distp.experiments.records import (
    FAILS,
    HOLDS,
    IDENTITY,
    NONE,
    PARTLY,
    RL,
    AttackPoint,
    Calibrated,
    Check,
    Claim,
    Cost,
    DummiesNeeded,
    Matched,
)
from distp.experiments.settings import CLAIMED_EPSILON, Settings

LEVEL = 0.005  # losses closer than this, relatively, are level: neither is better

STATEMENTS = {
    "a": "At equal distribution privacy tupling, TM(RL), loses less than randomised response, planar Laplace and "
    "planar Gaussian.",
    "b": "Planar Gaussian is weaker than planar Laplace: at equal privacy it loses more.",
    "c": "Planar Laplace is better than randomised response: at equal privacy it loses less.",
    "d": "(1, 0.001)-distribution privacy is enough for an attack success of about 0.5.",
    "e": "A few dummies suffice for epsilon = 1.",
    "f": "Tupling needs less memory than planar Laplace.",
}


def judge(
    city: str,
    settings: Settings,
    calibrated: Sequence[Calibrated],
    matched: Sequence[Matched],
    attacks: Sequence[AttackPoint],
    dummies: Sequence[DummiesNeeded],
    costs: Sequence[Cost],
) -> tuple[list[Check], list[Claim]]:
    """Return every comparison behind the claims, and the verdicts over all attributes."""
    checks = [
        *_orders(city, calibrated, matched),
        *_success(city, settings, attacks),
        *_few(city, settings, dummies),
        *_memory(city, costs),
    ]
    return checks, [verdict(city, key, [one for one in checks if one.claim == key]) for key in STATEMENTS]


def verdict(city: str, key: str, checks: Sequence[Check]) -> Claim:
    """Sum up the comparisons of one claim: it holds, does not, or in part, and then where not."""
    if not checks:
        return Claim(city, key, STATEMENTS[key], "not judged", "nothing to compare", "")
    good = [one for one in checks if one.holds]
    result = HOLDS if len(good) == len(checks) else PARTLY if good else FAILS
    shown = [one for one in checks if not one.holds] or list(checks)
    where = f"in {len(good)} of {len(checks)} comparisons"
    if result == PARTLY:
        where += f"; not: {_listed(shown)}"
    worst = "; ".join(f"{one.attribute}, {one.evaluated}, {one.where}: {one.figures}" for one in shown[:6])
    more = f"; and {len(shown) - 6} more in checks.csv" if len(shown) > 6 else ""
    return Claim(city, key, STATEMENTS[key], result, where, worst + more)


def _listed(checks: Sequence[Check]) -> str:
    """Name the places, those of one attribute and part together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in checks:
        groups.setdefault((one.attribute, one.evaluated), []).append(one.where)
    return "; ".join(f"{a} {part} ({', '.join(places)})" for (a, part), places in groups.items())


def _orders(city: str, calibrated: Sequence[Calibrated], matched: Sequence[Matched]) -> Iterator[Check]:
    """Compare losses at equal privacy: on the train people as calibrated, held out at equal held-out epsilon."""
    duels = [("a", RL, name) for name in ("RR", "PL", "PG")] + [("b", "PL", "PG"), ("c", "PL", "RR")]
    sides: dict[tuple[str, str, float], dict[str, tuple[float, float]]] = {}
    for row in calibrated:
        if row.evaluated == "train":
            place = sides.setdefault((row.attribute, "in-sample", row.target), {})
            place[row.mechanism] = (row.loss, row.target)
    for one in matched:
        place = sides.setdefault((one.attribute, "held out", one.target), {})
        place[one.mechanism] = (one.loss, one.held_out_epsilon)
    for (attribute, side, target), losses in sides.items():
        for key, better, worse in duels:
            if better not in losses or worse not in losses:
                continue
            (low, reached), (high, _) = losses[better], losses[worse]
            at = f"ε = {target:g}" if side == "in-sample" else f"ε = {_number(reached)} held out"
            yield Check(
                city,
                key,
                attribute,
                side,
                f"{better} against {worse} at {target:g}",
                low < high * (1 - LEVEL),
                f"{better} {low:.3f} km, {worse} {high:.3f} km at {at}",
            )


def _success(city: str, settings: Settings, attacks: Sequence[AttackPoint]) -> Iterator[Check]:
    """Look at TM(RL) calibrated to epsilon = 1: the best attacker exactly, and one who learnt from others."""
    bare = {(one.attribute, one.evaluated): one for one in attacks if one.mechanism == NONE}
    for one in attacks:
        if one.mechanism != RL or one.target != CLAIMED_EPSILON or one.evaluated not in ("train", "test"):
            continue
        before = bare.get((one.attribute, one.evaluated))
        side = "in-sample" if one.evaluated == "train" else "held out"
        for where, value, open_, interval in (
            ("best attacker: balanced", one.balanced, before and before.balanced, None),
            ("best attacker: recognised", one.recognised, before and before.recognised, None),
            (
                "attacker from train: balanced",
                one.seen_balanced,
                before and before.seen_balanced,
                (one.seen_balanced_low, one.seen_balanced_high),
            ),
            (
                "attacker from train: recognised",
                one.seen_recognised,
                before and before.seen_recognised,
                (one.seen_recognised_low, one.seen_recognised_high),
            ),
        ):
            if interval and side == "in-sample":
                continue  # the best attacker once more, by simulation
            text = f"{value:.3f}"
            if interval:
                text += f" (95 %: {interval[0]:.3f} to {interval[1]:.3f})"
            if open_ is not None:
                text += f", unprotected {open_:.3f}"
            yield Check(city, "d", one.attribute, side, where, abs(value - 0.5) <= settings.about + 1e-9, text)


def _few(city: str, settings: Settings, dummies: Sequence[DummiesNeeded]) -> Iterator[Check]:
    for one in dummies:
        if one.target != CLAIMED_EPSILON or one.mechanism not in (RL, IDENTITY) or one.evaluated == "all":
            continue
        exact = f"{one.exact:,}" if one.exact is not None else f"more than {one.searched:,}"
        proven = f"{one.theorem3:,}" if one.theorem3 is not None else f"more than {one.searched:,}"
        yield Check(
            city,
            "e",
            one.attribute,
            "in-sample" if one.evaluated == "train" else "held out",
            one.mechanism,
            one.exact is not None and one.exact <= settings.few,
            f"{exact} dummies (exact), {proven} (Theorem 3)",
        )


def _memory(city: str, costs: Sequence[Cost]) -> Iterator[Check]:
    full = {one.attribute: one for one in costs if one.mechanism == "PL"}
    for one in costs:
        other = full.get(one.attribute)
        if other is None or not one.mechanism.startswith("TM("):
            continue
        yield Check(
            city,
            "f",
            one.attribute,
            "in-sample",
            one.mechanism,
            one.bytes_held < other.bytes_held,
            f"{one.bytes_held:,} bytes for {one.nonzero:,} entries, PL {other.bytes_held:,} for {other.nonzero:,}",
        )


def _number(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.3g}"
