"""The two distributions that an attribute distinguishes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, count, distribution, frozen
from distp.distributions.people import People
from distp.errors import DistributionError


@dataclass(frozen=True)
class Support:
    """What a distribution was estimated from.

    Attributes
    ----------
    records : int
    people : int or None
        None where nobody is named.
    counts : tuple of int, or None
        Records in each input; None where only the distribution is known.
    """

    records: int
    people: int | None = None
    counts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        count(self.records, "records")
        if self.people is not None:
            count(self.people, "people")
        if self.counts is not None:
            object.__setattr__(self, "counts", tuple(count(value, "counts") for value in self.counts))
            if sum(self.counts) != self.records:
                raise DistributionError(f"counts sum to {sum(self.counts)}, but there are {self.records} records")


@dataclass(frozen=True, eq=False)
class Pair:
    """Two distributions over the inputs that a report must not tell apart.

    Parameters
    ----------
    name : str
        The attribute, in words.
    p, q : ndarray, shape (|X|,)
        The distribution with the attribute, and the one without.
    support_p, support_q : Support, optional
        What they were estimated from.
    people : People, optional
        Who: what a statement about other people rests on. It stays in memory; no policy file holds it.

    Examples
    --------
    >>> pair = Pair.from_counts("home", [3, 1], [1, 1])
    >>> pair.p.tolist(), pair.support_q.records
    ([0.75, 0.25], 2)
    """

    name: str
    p: FloatArray = field(repr=False)
    q: FloatArray = field(repr=False)
    support_p: Support | None = None
    support_q: Support | None = None
    people: People | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        p = distribution(self.p, None, f"p of {self.name!r}")
        q = distribution(self.q, p.size, f"q of {self.name!r}")
        for support in (self.support_p, self.support_q):
            if support is not None and support.counts is not None and len(support.counts) != p.size:
                raise DistributionError(f"{len(support.counts)} counts of {self.name!r}, but {p.size} inputs")
        if self.people is not None:
            for law, known in zip((p, q), self.people.laws(), strict=True):
                if law.shape != known.shape or not np.allclose(law, known, rtol=1e-6, atol=1e-9):
                    raise DistributionError(f"the people of {self.name!r} have other distributions than the pair")
        object.__setattr__(self, "p", frozen(p.copy()))
        object.__setattr__(self, "q", frozen(q.copy()))

    @classmethod
    def from_counts(
        cls,
        name: str,
        with_attribute: ArrayLike,
        without: ArrayLike,
        people: tuple[int, int] | None = None,
    ) -> Pair:
        """Make a pair from the number of records in each input, shape (|X|,) both."""
        parts = []
        for counts, which in ((with_attribute, "with"), (without, "without")):
            array = np.asarray(counts, dtype=np.float64)
            if array.ndim != 1 or not np.isfinite(array).all() or (array < 0).any():
                raise DistributionError(f"counts {which} {name!r} must be a vector of numbers >= 0")
            if array.sum() <= 0:
                raise DistributionError(f"no record {which} the attribute {name!r} lies in an input region")
            parts.append(array)
        known = (None, None) if people is None else people
        return cls(
            name,
            parts[0] / parts[0].sum(),
            parts[1] / parts[1].sum(),
            Support(int(parts[0].sum()), known[0], _whole(parts[0])),
            Support(int(parts[1].sum()), known[1], _whole(parts[1])),
        )


def _whole(counts: FloatArray) -> tuple[int, ...] | None:
    """Return counts as they are, unless they are fractions."""
    return tuple(counts.astype(int).tolist()) if not (counts % 1).any() else None
