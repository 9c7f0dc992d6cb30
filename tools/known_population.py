"""A made population whose two distributions are known exactly, as every person of it is listed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distp.checks import FloatArray, IntArray
from distp.data import Sample
from distp.spaces import Space

PEOPLE = 200_000
SIDE = 8  # cells of 1 km
_MOST_PLACES = 8


@dataclass(frozen=True, eq=False)
class Known:
    """Every visit of a population, person by person: those of person i lie in ``[starts[i], starts[i + 1])``."""

    space: Space
    starts: IntArray
    cells: IntArray
    holds: NDArray[np.bool_]

    def laws(self, alike: bool) -> tuple[FloatArray, FloatArray]:
        """Return the two distributions: of all visits, or where every person of a class has the same weight."""
        people = self.starts.size - 1
        whole = self._sample(np.arange(people), "users" if alike else "check-ins").pair()
        return whole.p, whole.q

    def sample(self, people: int, rng: np.random.Generator, weight: str) -> Sample:
        """Draw people, with replacement: whoever is drawn twice is two people."""
        return self._sample(rng.integers(0, self.starts.size - 1, people), weight)

    def records(self, size: int, rng: np.random.Generator) -> Sample:
        """Draw single visits, with replacement, of nobody in particular."""
        chosen = rng.integers(0, self.cells.size, size)
        return Sample("made", len(self.space), self.cells[chosen], self.holds[chosen])

    def _sample(self, people: IntArray, weight: str) -> Sample:
        lengths = np.diff(self.starts)[people]
        users = np.repeat(np.arange(people.size), lengths)
        offsets = np.arange(users.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        chosen = np.repeat(self.starts[:-1][people], lengths) + offsets
        return Sample("made", len(self.space), self.cells[chosen], self.holds[chosen], users, weight)


def known_population(seed: int, people: int = PEOPLE) -> Known:
    """Make people who have a home, a few favourite places and a taste.

    Homes spread over the map, denser in the south; places lie near home or in the centre. How many visits a person
    makes is log-normal (a tenth of them makes nearly half of all visits), most visits go to the first of the places,
    and a visit has the attribute more often in the centre, with some people, and at some of a person's places: the
    visits of both classes go to the same places, in different shares.
    """
    rng = np.random.default_rng(seed)
    across = np.arange(SIDE, dtype=np.float64)
    xy = np.stack(np.meshgrid(across, across), axis=-1).reshape(-1, 2)
    homes = xy[rng.choice(xy.shape[0], people, p=_law(-0.15 * xy[:, 1]))]
    places = np.empty((people, _MOST_PLACES, 2))
    near = homes[:, None] + rng.laplace(scale=0.8, size=places.shape)
    centre = np.array([4.0, 4.5]) + rng.normal(scale=1.2, size=places.shape)
    places = np.where(rng.random((people, _MOST_PLACES, 1)) < 0.6, near, centre)
    places[:, 0] = homes
    inside = np.clip(np.rint(places), 0, SIDE - 1).astype(np.int64)
    cells = inside[:, :, 1] * SIDE + inside[:, :, 0]

    visits = np.ceil(rng.lognormal(np.log(12), 1.2, people)).astype(np.int64).clip(1, 2000)
    taste = rng.dirichlet(1.5 / np.arange(1, _MOST_PLACES + 1), people)
    whose = np.repeat(np.arange(people), visits)
    which = (np.cumsum(taste, axis=1)[whose] < rng.random(whose.size)[:, None]).sum(axis=1).clip(0, _MOST_PLACES - 1)
    downtown = np.linalg.norm(xy[cells] - np.array([4.0, 4.5]), axis=-1) < 2
    logit = -1.4 + 3 * downtown + rng.normal(scale=0.7, size=(people, 1)) + rng.normal(size=cells.shape)
    holds = rng.random(whose.size) < (1 / (1 + np.exp(-logit)))[whose, which]
    starts = np.concatenate([[0], np.cumsum(visits)])
    return Known(Space(xy), starts, cells[whose, which], holds)


def _law(logits: FloatArray) -> FloatArray:
    weights = np.exp(logits)
    return np.asarray(weights / weights.sum())
