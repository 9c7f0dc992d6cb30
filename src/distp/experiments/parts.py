"""Who designs, who is held out, and what chance alone makes: one attribute's check-ins divided by people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from distp.data.samples import Sample
from distp.distributions import Pair
from distp.errors import DataError, ParameterError
from distp.experiments.records import Counted
from distp.spaces import Regions

LEAST_PEOPLE = 2
HALVES = {"halves with": True, "halves without": False}


@dataclass(frozen=True, eq=False)
class Parts:
    """One attribute's check-ins and distributions: of train, test and all people, and of halves of one class.

    Attributes
    ----------
    name : str
    samples : mapping of str to Sample
        Keys ``train``, ``test``, ``all``.
    pairs : mapping of str to Pair
        The same keys, and ``halves with``, ``halves without``.
    """

    name: str
    samples: Mapping[str, Sample]
    pairs: Mapping[str, Pair]


def divide(sample: Sample, city: str, seed: int) -> Parts:
    """Divide one attribute's check-ins by people (by check-ins, where the file names nobody).

    Raises
    ------
    DataError
        A class has fewer than two people (check-ins), or they all fell into the same part.
    """
    where = f"{city}, attribute {sample.name!r}"
    for holds in (True, False):
        number = _members(sample, holds)
        if number < LEAST_PEOPLE:
            raise DataError(
                f"{where}: {number} {_noun(sample, number)} {_label(holds)} it in the input regions, but a train "
                f"and a test part need at least {LEAST_PEOPLE}"
            )
    train, test = sample.split(seed)
    for part, divided in (("train", train), ("test", test)):
        for holds in (True, False):
            if _members(divided, holds) == 0:
                number = _members(sample, holds)
                raise DataError(
                    f"{where}: none of the {number} {_noun(sample, number)} {_label(holds)} it fell into the {part} "
                    "part: take another seed, or more data"
                )
    samples = {"train": train, "test": test, "all": sample}
    pairs = {part: one.pair() for part, one in samples.items()}
    for label, holds in HALVES.items():
        pairs[label] = sample.halves(holds, seed)
    return Parts(sample.name, samples, pairs)


def counted(parts: Parts, city: str) -> list[Counted]:
    """Return how much there is in each part and class."""
    rows = []
    for part, pair in parts.pairs.items():
        sample = parts.samples.get(part, parts.samples["all"])
        one, two = pair.support_p, pair.support_q
        assert one is not None  # a pair of a sample says what it was counted from
        assert two is not None
        rows.append(
            Counted(
                city,
                parts.name,
                part,
                "check-ins" if sample.users is None else "people",
                sample.weight,
                one.records,
                one.people,
                two.records,
                two.people,
            )
        )
    return rows


def check_samples(samples: Sequence[Sample], regions: Regions) -> None:
    """Refuse samples that are none, that share a name, or that are not over the regions' inputs."""
    if not samples:
        raise DataError("there is no attribute to experiment with: give at least one sample")
    names = [sample.name for sample in samples]
    if len(set(names)) < len(names):
        raise ParameterError("two attributes have the same name")
    for sample in samples:
        if sample.size != len(regions.inputs):
            raise DataError(
                f"attribute {sample.name!r} was counted over {sample.size} input regions, but the map has "
                f"{len(regions.inputs)}"
            )


def _members(sample: Sample, holds: bool) -> int:
    chosen = sample.holds == holds
    return int(chosen.sum() if sample.users is None else np.unique(sample.users[chosen]).size)


def _noun(sample: Sample, number: int) -> str:
    one, several = ("check-in", "check-ins") if sample.users is None else ("person", "people")
    return one if number == 1 else several


def _label(holds: bool) -> str:
    return "with" if holds else "without"
