"""``distp audit``: whether a policy's claim is true."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from distp.certificates import Certificate
from distp.cli import options, steps
from distp.cli.console import emit, say
from distp.data import read_check_ins
from distp.data.readers import MAX_BAD
from distp.errors import ParameterError
from distp.release import Policy

NAME = "audit"
EXAMPLE = "distp audit distp-demo/home.policy"


def run(
    policy: Annotated[Path, typer.Argument(help="Policy file.")],
    data: Annotated[Path | None, typer.Option("--data", help="Other check-ins to hold the claim against.")] = None,
    lat: Annotated[str | None, typer.Option("--lat", help="Column with the latitude (with --data).")] = None,
    lon: Annotated[str | None, typer.Option("--lon", help="Column with the longitude (with --data).")] = None,
    user: options.User = None,
    time: options.Time = None,
    max_bad: options.MaxBad = MAX_BAD,
    json_output: options.Json = False,
) -> None:
    """Recompute the certificate from the policy's weights: exit 0 if the claim holds, 1 if it does not."""
    loaded = Policy.load(policy)
    own = loaded.recertify()
    stated = loaded.certificate
    agrees = own.agrees_with(stated)
    other, read = None, []
    if data is None and (lat or lon or user or time):
        raise ParameterError("--lat, --lon, --user and --time describe --data, which is not given")
    if data is not None:
        if lat is None or lon is None:
            raise ParameterError("--data needs --lat and --lon: the columns with the coordinates")
        if "" in loaded.expressions:
            raise ParameterError(f"{policy} does not say how its attributes are defined on data")
        check_ins = read_check_ins(data, lat=lat, lon=lon, user=user, time=time, max_bad=max_bad)
        attributes = [
            f"{pair.name}: {condition}" if pair.name != condition else condition
            for pair, condition in zip(loaded.pairs, loaded.expressions, strict=True)
        ]
        pairs, counted = steps.count_pairs(check_ins, loaded.regions, attributes, nearest=loaded.outside == "nearest")
        read = [*steps.read_lines(check_ins), *counted]
        other = loaded.recertify(pairs)
    holds = own.holds and agrees and (other is None or other.holds)
    if json_output:
        emit(
            {
                "holds": holds,
                "agrees_with_file": agrees,
                "recomputed": own.to_dict(),
                "on_data": None if other is None else other.to_dict(),
                "read": read,
            }
        )
    else:
        _show(loaded, own, agrees, other, read)
    if not holds:
        raise typer.Exit(1)


def _show(policy: Policy, own: Certificate, agrees: bool, other: Certificate | None, read: list[str]) -> None:
    e, d = own.target_epsilon, own.target_delta
    say(f"claim: epsilon {e:g}, delta {d:g} for {', '.join(pair.name for pair in policy.pairs)}")
    say("recomputed from the policy's integer weights:")
    steps.show_certificate(own)
    if not agrees:
        say("  these figures are NOT the ones stated in the file")
    say(f"claim {'holds' if own.holds and agrees else 'does NOT hold'} for the policy's own distributions")
    if other is not None:
        for line in read:
            say(line)
        say("on these data:")
        steps.show_certificate(other)
        say(f"claim {'holds' if other.holds else 'does NOT hold'} for the distributions of these data")
