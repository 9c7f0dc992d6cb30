"""``distp audit``: whether a policy's claim is true."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from distp.certificates import Certificate
from distp.checks import nonnegative, probability
from distp.cli import options, steps
from distp.cli.console import emit, say, table
from distp.data.readers import MAX_BAD
from distp.distributions import Pair
from distp.errors import ParameterError
from distp.privacy import Bracket, close_beliefs, close_beliefs_metric, metric_epsilon
from distp.release import Policy
from distp.transport import wasserstein, wasserstein_inf

NAME = "audit"
EXAMPLE = "distp audit distp-demo/home.policy"


def run(
    policy: Annotated[Path, typer.Argument(help="Policy file.")],
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", help="Other check-ins to hold the claim against, as for fit; repeat it for several."),
    ] = None,
    form: options.Format = None,
    lat: options.Lat = None,
    lon: options.Lon = None,
    user: options.User = None,
    time: options.Time = None,
    utc_offset: options.UtcOffset = None,
    zone: options.Zone = None,
    max_bad: options.MaxBad = MAX_BAD,
    belief_error: Annotated[
        float | None,
        typer.Option(
            "--belief-error",
            help="Total variation, 0 to 1, by which the attacker's idea of each distribution is off: also say what "
            "delta becomes then.",
        ),
    ] = None,
    belief_km: Annotated[
        float | None,
        typer.Option(
            "--belief-km",
            help="How far, in W_inf, the attacker's idea of each distribution is off: also say which epsilon holds "
            "then, if the noise alone proves any.",
        ),
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Recompute the certificate from the policy's weights: exit 0 if the claim holds, 1 if it does not."""
    if belief_error is not None:
        probability(belief_error, "--belief-error")
    if belief_km is not None:
        nonnegative(belief_km, "--belief-km")
    loaded = Policy.load(policy)
    own = loaded.recertify()
    stated = loaded.certificate
    agrees = own.agrees_with(stated)
    other, read = None, []
    described = (form, lat, lon, user, time, utc_offset, zone)
    if not data and any(described):
        raise ParameterError("--format, --lat, --lon, --user, --time and --zone describe --data, which is not given")
    if data:
        if "" in loaded.expressions:
            raise ParameterError(f"{policy} does not say how its attributes are defined on data")
        attributes = [
            f"{pair.name}: {condition}" if pair.name != condition else condition
            for pair, condition in zip(loaded.pairs, loaded.expressions, strict=True)
        ]
        nearest = loaded.outside == "nearest"
        about = steps.DataOptions(*described, max_bad, loaded.weight, loaded.smoothing)
        check_ins = steps.read(data, about, attributes, loaded.regions.box, nearest=nearest)
        samples, counted = steps.sample_attributes(
            check_ins, loaded.regions, attributes, nearest=nearest, weight=loaded.weight
        )
        pairs = steps.count_pairs(samples, loaded.smoothing)
        read = [*steps.read_lines(check_ins), *counted]
        known = [pair.population for pair in stated.pairs]
        level = max((one.confidence for one in known if one is not None), default=None)
        other = loaded.recertify(pairs, level)
    apart = [_apart(pair, loaded, own.target_delta) for pair in loaded.pairs]
    believed = (
        {}
        if belief_error is None
        else {pair.name: close_beliefs(own.target_epsilon, pair.delta, belief_error) for pair in own.pairs}
    )
    moved = {} if belief_km is None else _moved(loaded, apart, belief_km)
    # Of other people, what they are is held against the claim: what they leave open about yet others is only shown.
    kept = other is None or other.holds_in_sample
    holds = own.holds and agrees and stated.holds and kept
    if json_output:
        emit(
            {
                "holds": holds,
                "agrees_with_file": agrees,
                "recomputed": own.to_dict(),
                "stated_of_others": {
                    pair.name: None if pair.population is None else asdict(pair.population) for pair in stated.pairs
                },
                "on_data": None if other is None else other.to_dict(),
                "read": read,
                "distances": {pair.name: asdict(one) for pair, one in zip(loaded.pairs, apart, strict=True)},
                "believed": {name: asdict(bracket) for name, bracket in believed.items()},
                "believed_km": {name: "inf" if math.isinf(value) else value for name, value in moved.items()},
            }
        )
    else:
        _show(loaded, own, agrees, other, read)
        _show_distances(loaded, apart, own.target_delta)
        for name, bracket in believed.items():
            say(
                f"{name}: an attacker whose beliefs are off by up to {belief_error:g} in total variation: delta at "
                f"{own.target_epsilon:g} is at most {bracket.claim()}"
            )
        for name, value in moved.items():
            said = (
                "nothing follows from the noise, which rules out some reports altogether"
                if math.isinf(value)
                else f"epsilon {Bracket(0, value).claim()} follows from the noise alone, with delta 0"
            )
            say(f"{name}: an attacker whose beliefs are off by up to {belief_km:g} km: {said}")
    if not holds:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Apart:
    """How far apart an attribute's two distributions are, in km."""

    w_inf: float
    w_inf_with_slack: float
    w_1: float


def _apart(pair: Pair, policy: Policy, slack: float) -> _Apart:
    inputs = policy.regions.inputs
    return _Apart(
        wasserstein_inf(pair.p, pair.q, inputs).value,
        wasserstein_inf(pair.p, pair.q, inputs, slack).value,
        wasserstein(pair.p, pair.q, inputs).value,
    )


def _moved(policy: Policy, apart: list[_Apart], belief: float) -> dict[str, float]:
    """Return what extended DP of the base gives against beliefs off by so many km in W_inf (Proposition 1)."""
    rate = metric_epsilon(policy.mechanism).upper
    if math.isinf(rate):
        return {pair.name: math.inf for pair in policy.pairs}
    return {
        pair.name: close_beliefs_metric(rate, one.w_inf, belief, closed=True).epsilon
        for pair, one in zip(policy.pairs, apart, strict=True)
    }


def _show_distances(policy: Policy, apart: list[_Apart], slack: float) -> None:
    say("distance between the distributions, km (what noise alone would have to cover):")
    table(
        ["attribute", "W_inf", f"W_inf but for {slack:g}", "W_1"],
        [
            [pair.name, f"{one.w_inf:.3f}", f"{one.w_inf_with_slack:.3f}", f"{one.w_1:.3f}"]
            for pair, one in zip(policy.pairs, apart, strict=True)
        ],
    )


def _show(policy: Policy, own: Certificate, agrees: bool, other: Certificate | None, read: list[str]) -> None:
    e, d = own.target_epsilon, own.target_delta
    say(f"claim: epsilon {e:g}, delta {d:g} for {', '.join(pair.name for pair in policy.pairs)}")
    say("recomputed from the policy's integer weights:")
    steps.show_certificate(own)
    if not agrees:
        say("  these figures are NOT the ones stated in the file")
    say(f"claim {'holds' if own.holds and agrees else 'does NOT hold'} for the policy's own distributions")
    for pair in policy.certificate.pairs:
        if pair.population is not None:
            say(f"{pair.name}: stated of others when the policy was made, from people whom it does not hold:")
            for line in steps.population_lines(pair.population, e):
                say(f"   {line}")
    if other is not None:
        for line in read:
            say(line)
        say("on these data:")
        steps.show_certificate(other)
        say(f"claim {'holds' if other.holds_in_sample else 'does NOT hold'} for the distributions of these data")
