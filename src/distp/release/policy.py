"""A policy: everything that a device needs to report, and everything that an auditor needs to doubt it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from distp.certificates import Certificate, certify
from distp.checks import FloatArray, IntArray
from distp.distributions import Pair
from distp.errors import OutsideError, ParameterError
from distp.mechanisms import Tupling
from distp.release import policyfile
from distp.release.sampling import Seeded, Source, SystemEntropy, tuples
from distp.release.weights import Weights, from_weights, quantised
from distp.spaces import Regions

OUTSIDE = ("refuse", "nearest")


@dataclass(frozen=True, eq=False)
class Simulation:
    """Tuples drawn reproducibly: fit for experiments, never for release.

    Attributes
    ----------
    tuples : ndarray of int, shape (n, dummies + 1)
    seed : int
    simulated : bool
        Always ``True``; what `Policy.release` returns has no such stamp.
    """

    tuples: NDArray[np.integer]
    seed: int
    simulated: bool = True


@dataclass(frozen=True, eq=False)
class Policy:
    """Regions, a tupling mechanism in integer weights, its certificate, and the distributions it hides.

    Make one with `Policy.create`, keep it with `save`, get it back with `Policy.load`.

    Attributes
    ----------
    regions : Regions
    channel : Weights
        Row x: the law of the real report of input x.
    dummy_weights : Weights or None
        None: uniform dummies.
    dummies : int
    pairs : tuple of Pair
    expressions : tuple of str
        How each pair's attribute is defined on a data file ("" where it is not).
    prior : ndarray, shape (|X|,)
    certificate : Certificate
        Computed from the integer weights themselves.
    outside : {"refuse", "nearest"}
        What happens to a point outside the input regions; the distributions were counted the same way.
    """

    regions: Regions
    channel: Weights
    dummy_weights: Weights | None
    dummies: int
    pairs: tuple[Pair, ...]
    expressions: tuple[str, ...]
    prior: FloatArray
    certificate: Certificate
    outside: str = "refuse"

    def __post_init__(self) -> None:
        if self.outside not in OUTSIDE:
            raise ParameterError(f"outside must be one of {', '.join(OUTSIDE)}, got {self.outside!r}")
        if len(self.expressions) != len(self.pairs):
            raise ParameterError("one expression is needed for each pair")

    @classmethod
    def create(
        cls,
        mechanism: Tupling,
        regions: Regions,
        pairs: Sequence[Pair],
        *,
        epsilon: float,
        delta: float,
        prior: ArrayLike,
        expressions: Sequence[str] | None = None,
        outside: str = "refuse",
    ) -> Policy:
        """Round a mechanism to integer weights and certify what those weights do.

        Parameters
        ----------
        mechanism : Tupling
            From the inputs of ``regions`` to ``regions``.
        regions : Regions
        pairs : sequence of Pair
        epsilon, delta : float
            The claim.
        prior : array_like, shape (|X|,)
        expressions : sequence of str, optional
        outside : {"refuse", "nearest"}
        """
        exact, channel, dummy_weights = quantised(mechanism)
        law = np.asarray(prior, dtype=np.float64)
        return cls(
            regions,
            channel,
            dummy_weights,
            mechanism.dummies,
            tuple(pairs),
            tuple(expressions or [""] * len(pairs)),
            law,
            certify(exact, pairs, epsilon, delta, law),
            outside,
        )

    @property
    def mechanism(self) -> Tupling:
        """The mechanism that `release` realises, exactly."""
        return from_weights(self.channel, self.dummy_weights, self.dummies, self.regions.inputs, self.regions)

    def recertify(self, pairs: Sequence[Pair] | None = None) -> Certificate:
        """Compute the certificate anew from the weights, for the policy's own pairs or for others."""
        claim = self.certificate
        chosen = self.pairs if pairs is None else pairs
        return certify(self.mechanism, chosen, claim.target_epsilon, claim.target_delta, self.prior)

    def locate(self, lat: ArrayLike, lon: ArrayLike) -> IntArray:
        """Return the input region of each point by the policy's own rule, -1 where it refuses."""
        return self.regions.locate_inputs(lat, lon, nearest=self.outside == "nearest")

    def release(self, lat: ArrayLike, lon: ArrayLike) -> NDArray[np.integer]:
        """Return a fresh tuple for each point, drawn from operating-system entropy.

        Parameters
        ----------
        lat, lon : array_like, shape (n,) or scalar
            Degrees.

        Returns
        -------
        ndarray of int, shape (n, dummies + 1)
            Region numbers; centres are ``policy.regions.lat`` and ``.lon``.

        Raises
        ------
        CoordinateError
            A row that is no place on Earth.
        OutsideError
            A row outside the input regions, if the policy refuses those.
        """
        return self.release_inputs(self._inside(lat, lon))

    def simulate(self, lat: ArrayLike, lon: ArrayLike, *, seed: int) -> Simulation:
        """Return tuples of the same law from a seeded generator, stamped as a simulation."""
        return Simulation(self._draw(self._inside(lat, lon), Seeded(seed)), seed)

    def release_inputs(self, inputs: IntArray) -> NDArray[np.integer]:
        """Return a fresh tuple for each input region (as `locate` gives them, none of them -1)."""
        return self._draw(inputs, SystemEntropy())

    def _draw(self, inputs: IntArray, source: Source) -> NDArray[np.integer]:
        # The narrowest type that holds a region: files of tuples are large.
        kind = np.uint16 if len(self.regions) <= 2**16 else np.uint32
        return tuples(self.channel, self.dummy_weights, self.dummies, inputs, source).astype(kind)

    def _inside(self, lat: ArrayLike, lon: ArrayLike) -> IntArray:
        inputs = self.locate(lat, lon)
        if (inputs < 0).any():
            row = int(np.flatnonzero(inputs < 0)[0])
            raise OutsideError(
                f"{int((inputs < 0).sum())} of {inputs.size} points lie outside the policy's area (first: row {row})"
            )
        return inputs

    def save(self, path: str | Path) -> None:
        """Write the policy to one file, all or nothing. The format is in ``docs/policy-format.md``."""
        policyfile.write(path, self)

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy file.

        Raises
        ------
        PolicyError
            The file is missing, damaged, foreign, or of an unknown version.
        """
        return policyfile.read(path, cls)
