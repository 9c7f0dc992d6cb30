"""What an experiment is run with: grids, targets, sample sizes, the seed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from distp.calibration.curves import DUMMIES
from distp.checks import count, nonnegative, positive, probability
from distp.errors import ParameterError

CLAIMED_EPSILON = 1.0  # the paper's working point, at delta = 0.001


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that decides the numbers of an experiment besides the data.

    Parameters
    ----------
    seed : int
        Of the split, the halves and every simulation. There is no default.
    delta : float
        In (0, 1).
    dummies : int
        Number of dummies k wherever it is not what varies.
    base_epsilon, radius : float
        The restricted Laplace base: eps_A per km, and r in km.
    dummies_grid, distinct_grid : tuple of int
        Numbers of dummies of the curves; the second for dummies without replacement, whose accounting is slower.
    epsilon_grid, radius_grid : tuple of float
        eps_A per km and r in km of the curves.
    response_grid, laplace_grid, gaussian_grid : tuple of float
        Parameters of randomised response (epsilon), planar Laplace (per km) and planar Gaussian (sigma in km).
    targets : tuple of float
        Epsilons to which every mechanism is calibrated; must contain 1, which the paper's claims are about.
    samples : int
        Reports that are simulated for each distribution at each point, for the sampled epsilons.
    reports : int
        Reports that are simulated for each class in each attack.
    most_dummies : int
        Where the search for the least number of dummies gives up.
    runs, timed_reports : int
        How often each time is measured, and how many reports are drawn each time.
    about : float
        An attack success within this of 0.5 counts as "about 0.5".
    few : int
        Up to this many dummies count as "few".

    Examples
    --------
    >>> Settings(seed=7).targets
    (0.1, 0.2, 0.5, 1.0, 2.0)
    """

    seed: int
    delta: float = 0.001
    dummies: int = 10
    base_epsilon: float = 1.0
    radius: float = 2.0
    dummies_grid: tuple[int, ...] = DUMMIES
    distinct_grid: tuple[int, ...] = (2, 5, 10, 20, 40)
    epsilon_grid: tuple[float, ...] = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
    radius_grid: tuple[float, ...] = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 14.0)
    response_grid: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 10.0)
    laplace_grid: tuple[float, ...] = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0)
    gaussian_grid: tuple[float, ...] = (16.0, 10.0, 7.0, 5.0, 4.0, 3.0, 2.5, 2.0, 1.5, 1.2, 1.0, 0.7, 0.5, 0.3)
    targets: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0, 2.0)
    samples: int = 40_000
    reports: int = 20_000
    most_dummies: int = 20_000
    runs: int = 7
    timed_reports: int = 200
    about: float = 0.05
    few: int = 20

    def __post_init__(self) -> None:
        for name, least in (
            ("seed", 0),
            ("dummies", 1),
            ("samples", 100),
            ("reports", 1),
            ("most_dummies", 1),
            ("runs", 1),
            ("timed_reports", 1),
            ("few", 1),
        ):
            object.__setattr__(self, name, count(getattr(self, name), name, least))
        if not 0 < probability(self.delta, "delta") < 1:
            raise ParameterError(f"delta must lie strictly between 0 and 1, got {self.delta!r}")
        for name in ("base_epsilon", "radius"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        object.__setattr__(self, "about", nonnegative(self.about, "about"))
        for one in fields(self):
            if one.name.endswith("_grid") or one.name == "targets":
                self._check_grid(one.name)
        if CLAIMED_EPSILON not in self.targets:
            raise ParameterError("targets must contain 1: the paper's claims are about epsilon = 1")

    def _check_grid(self, name: str) -> None:
        values: Sequence[Any] = getattr(self, name)
        whole = name in ("dummies_grid", "distinct_grid")
        checked = tuple(count(v, name, 1) if whole else positive(v, name) for v in values)
        if not checked or len(set(checked)) < len(checked):
            raise ParameterError(f"{name} must name at least one value, and none twice")
        object.__setattr__(self, name, tuple(sorted(checked, reverse=name == "gaussian_grid")))

    @classmethod
    def quick(cls, seed: int, **others: Any) -> Settings:
        """Return coarser grids and fewer samples: for a first look and for tests."""
        coarse: dict[str, Any] = {
            "dummies_grid": (1, 3, 10, 30),
            "distinct_grid": (2, 4),
            "epsilon_grid": (0.3, 1.0, 3.0),
            "radius_grid": (1.0, 2.0, 4.0),
            "response_grid": (0.5, 1.0, 2.0, 4.0),
            "laplace_grid": (0.1, 0.5, 2.0),
            "gaussian_grid": (5.0, 2.0, 0.7),
            "targets": (0.5, 1.0),
            "samples": 2_000,
            "reports": 2_000,
            "most_dummies": 2_000,
            "runs": 1,
            "timed_reports": 5,
        }
        return cls(seed=seed, **{**coarse, **others})


def derived(seed: int, *words: object) -> int:
    """Return a seed of its own for one purpose, the same whatever else is computed and in whatever order.

    Examples
    --------
    >>> derived(1, "split") == derived(1, "split"), derived(1, "split") == derived(2, "split")
    (True, False)
    """
    text = "\x1f".join(str(word) for word in (seed, *words))
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big")
