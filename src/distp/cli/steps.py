"""What several commands do, step by step: read, count, design, show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from distp.calibration import Compared, calibrate, compare
from distp.calibration.calibrate import BASES, DUMMIES
from distp.calibration.compare import describe
from distp.calibration.curves import dummies_curve
from distp.certificates import Certificate, Population, mean_law
from distp.certificates.population import rank
from distp.checks import count, nonnegative, probability
from distp.cli.console import progress, say, table
from distp.cli.maps import MOST_REGIONS
from distp.data import CheckIns, Sample, attribute_sample, read_check_ins
from distp.data.attributes import columns_of, split_name
from distp.data.formats import FORMATS, GENERIC, WORLDWIDE
from distp.data.presets import PRESETS
from distp.data.readers import MAX_BAD, find_format
from distp.distributions import Pair
from distp.distributions.people import WEIGHTS, check_weight
from distp.distributions.resampling import DRAWS
from distp.errors import ParameterError
from distp.privacy import Bracket
from distp.release import Policy
from distp.spaces import Box, Regions

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0)
MOST_DUMMIES = 10_000  # beyond, a search would take hours
FEW_PEOPLE, FEW_RECORDS = 10, 30
CONFIDENCE, BASE = 0.95, "optimal"


@dataclass(frozen=True)
class DataOptions:
    """The options that describe check-ins."""

    format: str | None = None
    lat: str | None = None
    lon: str | None = None
    user: str | None = None
    time: str | None = None
    utc_offset: str | None = None
    zone: str | None = None
    max_bad: float = MAX_BAD
    weight: str = WEIGHTS[0]
    smoothing: float = 0.0

    def check(self) -> None:
        """Refuse what no file could make good."""
        check_weight(self.weight, "--weight")
        nonnegative(self.smoothing, "smoothing")


def read(
    files: Sequence[Path],
    options: DataOptions,
    attributes: Sequence[str],
    area: Box | None,
    zone: str | None = None,
    *,
    nearest: bool = False,
) -> CheckIns:
    """Read what the attributes need, with a progress bar; all of it where what is outside counts too."""
    if not attributes:
        raise ParameterError("at least one --attribute is needed: what is to be hidden?")
    options.check()
    needed = sorted({column for text in attributes for column in columns_of(text)})
    form = find_format(files, options.format)
    if area is None and form in WORLDWIDE:
        raise ParameterError(
            "this set covers the world: say where, with --city, --center, --box or a map of polygons"
        )
    with progress("reading") as step:
        return read_check_ins(
            files,
            format=options.format,
            lat=options.lat,
            lon=options.lon,
            user=options.user,
            time=options.time,
            utc_offset=options.utc_offset,
            zone=options.zone or (zone if form in FORMATS else None),
            columns=needed,
            area=None if nearest else area,
            max_bad=options.max_bad,
            progress=step,
        )


def read_lines(check_ins: CheckIns) -> list[str]:
    """Say what was read and what was set aside."""
    people = "" if check_ins.user is None else f", {check_ins.user.n_unique():,} people"
    here = check_ins.frame.height
    usable = f"{here:,} usable{people}"
    if check_ins.elsewhere:
        usable = f"{here:,} usable in or near the area{people}, {check_ins.elsewhere:,} elsewhere"
    kind = "" if check_ins.format in GENERIC else f" ({check_ins.format})"
    lines = [f"{check_ins.path}{kind}: {check_ins.rows:,} rows, {usable}"]
    lines += [f"set aside: {kind}" for kind in check_ins.set_aside]
    lines += [f"note: {kind}" for kind in check_ins.remarks]
    return lines + [f"not read, as it is none of the set: {file}" for file in check_ins.unread]


def sample_attributes(
    check_ins: CheckIns, regions: Regions, attributes: Sequence[str], *, nearest: bool, weight: str
) -> tuple[list[Sample], list[str]]:
    """Locate every attribute's check-ins; return them and what to say."""
    names = [split_name(text)[0] for text in attributes]
    if len(set(names)) < len(names):
        raise ParameterError("two attributes have the same name")
    samples, lines = [], []
    for text in attributes:
        sample, aside = attribute_sample(check_ins, regions, text, nearest=nearest, weight=weight)
        samples.append(sample)
        lines += [f"set aside: {kind}" for kind in aside if f"set aside: {kind}" not in lines]
        parts = []
        for label, chosen in (("with", sample.holds), ("without", ~sample.holds)):
            people = "" if sample.users is None else f" of {len(set(sample.users[chosen].tolist())):,} people"
            parts.append(f"{int(chosen.sum()):,} check-ins{people} {label}")
        rule = PRESETS.get(split_name(text)[1])
        said = "" if rule is None else f" [{sample.condition}: {rule.rule}]"
        lines.append(f"{sample.name}: {', '.join(parts)}{said}")
    if weight == "users":
        lines.append("every person counts alike: a person's check-ins of a class share a weight of 1")
    return samples, lines


def count_pairs(samples: Sequence[Sample], smoothing: float) -> list[Pair]:
    """Count every attribute's two distributions."""
    return [sample.pair(smoothing) for sample in samples]


@dataclass(frozen=True)
class Wishes:
    """What a mechanism is to do, and what a person can pay for it: see `calibrate`."""

    epsilon: float
    delta: float
    max_dummies: int
    confidence: float | None = CONFIDENCE
    base: str = BASE
    dummy_law: str | None = None
    max_loss: float | None = None
    min_location_error: float | None = None

    def check(self) -> None:
        """Refuse what no data could make good, before any are read."""
        if self.base not in BASES:
            raise ParameterError(f"--base must be one of {', '.join(BASES)}, got {self.base!r}")
        if self.dummy_law is not None and self.dummy_law not in DUMMIES:
            raise ParameterError(f"--dummy-law must be one of {', '.join(DUMMIES)}, got {self.dummy_law!r}")
        if self.dummy_law == "chosen" and (self.base != "optimal" or self.confidence is None):
            raise ParameterError("--dummy-law chosen needs --base optimal and a confidence")
        if self.confidence is not None:
            rank(self.confidence, DRAWS)
        for name, value in (("--max-loss", self.max_loss), ("--min-location-error", self.min_location_error)):
            if value is not None:
                nonnegative(value, name)


def design(
    pairs: Sequence[Pair],
    expressions: Sequence[str],
    regions: Regions,
    wishes: Wishes,
    *,
    outside: str,
    weight: str = WEIGHTS[0],
    smoothing: float = 0.0,
) -> tuple[Policy, str]:
    """Calibrate, round to integer weights, certify; return the policy and its mechanism in words."""
    with progress("calibrating") as step:
        found = calibrate(
            list(pairs),
            None,
            regions,
            epsilon=wishes.epsilon,
            delta=wishes.delta,
            max_dummies=wishes.max_dummies,
            confidence=wishes.confidence,
            max_loss=wishes.max_loss,
            min_location_error=wishes.min_location_error,
            base=wishes.base,
            dummy_distribution=wishes.dummy_law,
            progress=step,
        )
    populations = [pair.population for pair in found.certificate.pairs]
    held_out = [one.held_out for one in populations if one is not None and one.held_out is not None]
    policy = Policy.create(
        found.mechanism,
        regions,
        pairs,
        epsilon=wishes.epsilon,
        delta=wishes.delta,
        prior=mean_law(pairs),
        expressions=expressions,
        outside=outside,
        weight=weight,
        smoothing=smoothing,
        confidence=wishes.confidence,
        held_out=held_out if len(held_out) == len(pairs) else None,
    )
    return policy, describe(found.mechanism)


def compared(
    pairs: Sequence[Pair], regions: Regions, epsilons: Sequence[float], delta: float, max_dummies: int
) -> list[Compared]:
    """Compare the mechanisms, with a progress bar."""
    with progress("comparing mechanisms") as step:
        return compare(pairs, regions, sorted(set(epsilons)), delta, max_dummies, progress=step)


def report(
    folder: Path,
    title: str,
    policy: Policy,
    words: str,
    rows: Sequence[Compared],
    read: Sequence[str],
) -> Path:
    """Compute the curves and write the report."""
    from distp.report import Study, write_report  # loads what draws figures

    curves = []
    with progress("drawing the report") as step:
        for pair in policy.pairs:
            curves.append(dummies_curve(policy.mechanism, pair, policy.certificate.target_delta, progress=step))
    return write_report(
        folder, Study(title, policy.regions, policy.pairs, words, policy.certificate, curves, rows, read)
    )


def show_certificate(certificate: Certificate) -> None:
    """Print the certificate as a table."""
    e, d = certificate.target_epsilon, certificate.target_delta
    table(
        ["attribute", f"delta at {e:g}", f"epsilon at {d:g}", "attack success", "unprotected", "recognised"],
        [
            [
                pair.name,
                pair.delta.claim(),
                pair.epsilon.claim(),
                pair.success.claim(),
                pair.success_unprotected.claim(),
                pair.recognised.claim(3),
            ]
            for pair in certificate.pairs
        ],
    )
    say(
        f"   expected loss {certificate.loss:.3f} km (real report alone {certificate.real_report_loss:.3f} km, "
        f"worst {certificate.worst_loss:.2f} km)"
    )
    if certificate.location is not None:
        found = certificate.location
        say(
            f"   the place itself: the best guess is off by {math.floor(100 * found.error.lower) / 100:.2f} km "
            f"(without any report {found.blind_error.lower:.2f} km) and right {found.success.upper:.1%} of the time "
            f"({found.blind_success.upper:.1%})"
        )
    for pair in certificate.pairs:
        if pair.population is not None:
            for line in population_lines(pair.population, e):
                say(f"   {pair.name}: {line}")


def population_lines(known: Population, epsilon: float) -> list[str]:
    """Say what is known about people who are not in the data."""
    who = "records, each taken for a person" if known.people is None else f"{known.people:,} people"
    lines = [
        f"for others, delta at {epsilon:g} is at most {Bracket(0, known.delta).claim()}, confidence "
        f"{known.confidence:g} (resampling {who})"
    ]
    if known.held_out is not None:
        lines.append(f"delta on one half of the people, mechanism from the other half: {known.held_out.claim()}")
    if known.class_delta is not None:
        lines.append(
            f"proven, with the same confidence, if every {'person' if known.people is not None else 'record'} is an "
            f"independent draw: {Bracket(0, known.class_delta).claim()}"
        )
    return lines


def show_comparison(rows: Sequence[Compared]) -> None:
    """Print the comparison as a table."""
    table(
        ["mechanism", "epsilon", "delta realised", "loss km", "attack success", "parameter"],
        [
            [
                row.mechanism,
                f"{row.epsilon:g}",
                row.realised.claim(least=1e-12),
                f"{row.loss:.3f}",
                row.success.claim(),
                row.parameter,
            ]
            for row in rows
        ],
    )


def check_numbers(epsilon: float, delta: float, max_dummies: int, regions: int | None = None) -> None:
    """Refuse bad targets before a file is read."""
    nonnegative(epsilon, "epsilon")
    probability(delta, "delta")
    regions = 1 if regions is None else regions
    for name, value, most in (("max_dummies", max_dummies, MOST_DUMMIES), ("regions", regions, MOST_REGIONS)):
        if count(value, name) > most:
            raise ParameterError(f"{name} must be at most {most:,}, got {value:,}")


def small_classes(pairs: Sequence[Pair]) -> list[str]:
    """Warn of distributions that a handful of people make: they say more about those than about a population."""
    lines = []
    for pair in pairs:
        for label, support in (("with", pair.support_p), ("without", pair.support_q)):
            if support is None:
                continue
            few_people = support.people is not None and support.people < FEW_PEOPLE
            if few_people or support.records < FEW_RECORDS:
                people = "" if support.people is None else f" of {support.people:,} people"
                lines.append(
                    f"warning: {pair.name}: only {support.records:,} check-ins{people} {label} it. The certificate "
                    "says little about others, and the policy holds where these were"
                )
    return lines


def check_outside(outside: str) -> bool:
    """Return whether points outside go to the nearest region; refuse any other word."""
    if outside not in ("refuse", "nearest"):
        raise ParameterError(f"--outside must be 'refuse' or 'nearest', got {outside!r}")
    return outside == "nearest"
