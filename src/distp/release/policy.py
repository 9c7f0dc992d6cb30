"""A policy: everything that a device needs to report, and everything that an auditor needs to doubt it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from distp.certificates import Certificate, certify
from distp.checks import FloatArray, IntArray, nonnegative
from distp.distributions import Pair
from distp.distributions.people import WEIGHTS, check_weight
from distp.errors import DistpError, OutsideError, ParameterError, PolicyError
from distp.mechanisms import Tupling
from distp.privacy import Bracket
from distp.release import policyfile, regionfile
from distp.release.entropy import Seeded, SystemEntropy
from distp.release.policybody import drawn_by, from_body, says_no_more, to_body
from distp.release.sampling import Sampler, Tuples
from distp.release.weights import BITS, Weights, enough_bits, from_weights, quantised
from distp.spaces import Regions

OUTSIDE = ("refuse", "nearest")


@dataclass(frozen=True, eq=False)
class Simulation:
    """Tuples drawn reproducibly: fit for experiments, never for release.

    Attributes
    ----------
    tuples : ndarray of int, shape (n, dummies + 1)
    seed : int
    generator : str
        What the seed was given to.
    simulated : bool
        Always ``True``; what `Policy.release` returns has no such stamp.
    """

    tuples: Tuples
    seed: int
    generator: str = Seeded.generator
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
    replacement : bool
        Whether dummies are independent; if not, they are distinct and the tuple is a set.
    weight : {"check-ins", "users"}
        What counted alike in the distributions.
    smoothing : float
        What was added to every input region of them.
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
    replacement: bool = True
    weight: str = WEIGHTS[0]
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_weight(self.weight)
        nonnegative(self.smoothing, "smoothing")
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
        weight: str = WEIGHTS[0],
        smoothing: float = 0.0,
        confidence: float | None = None,
        held_out: Sequence[Bracket] | None = None,
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
        weight : {"check-ins", "users"}
        smoothing : float
        confidence, held_out
            As for `certify`.
        """
        law = np.asarray(prior, dtype=np.float64)
        for bits in sorted({enough_bits(mechanism), BITS}):
            exact, channel, dummy_weights = quantised(mechanism, bits)
            certificate = certify(exact, pairs, epsilon, delta, law, confidence=confidence, held_out=held_out)
            if certificate.holds:
                break  # a target that is met to the last digit may take finer weights
        return cls(
            regions,
            channel,
            dummy_weights,
            mechanism.dummies,
            tuple(pairs),
            tuple(expressions or [""] * len(pairs)),
            law,
            certificate,
            outside,
            mechanism.replacement,
            weight,
            smoothing,
        )

    @property
    def mechanism(self) -> Tupling:
        """The mechanism that `release` realises, exactly."""
        return from_weights(
            self.channel, self.dummy_weights, self.dummies, self.regions.inputs, self.regions, self.replacement
        )

    @cached_property
    def sampler(self) -> Sampler:
        """What draws: the policy's weights, and nothing that could be shared between two draws."""
        return Sampler(self.channel, self.dummy_weights, self.dummies, self.replacement)

    @cached_property
    def identity(self) -> str:
        """What tells its draws from those of other policies: a checksum of map and weights, and of nothing else.

        Neither the certificate nor the release that reads the file is in it: remembered tuples stay what they are.
        """
        place = regionfile.to_body(self.regions)
        del place["centres"], place["projection"]
        return policyfile.digest({"regions": place, **drawn_by(self)})

    def recertify(self, pairs: Sequence[Pair] | None = None, confidence: float | None = None) -> Certificate:
        """Compute the certificate anew from the weights, for the policy's own pairs or for others.

        What delta is at most for a population takes its people, whom no policy holds: ``confidence`` asks for it
        where ``pairs`` have them.
        """
        claim = self.certificate
        chosen = self.pairs if pairs is None else pairs
        return certify(
            self.mechanism, chosen, claim.target_epsilon, claim.target_delta, self.prior, confidence=confidence
        )

    def locate(self, lat: ArrayLike, lon: ArrayLike) -> IntArray:
        """Return the input region of each point by the policy's own rule, -1 where it refuses."""
        return self.regions.locate_inputs(lat, lon, nearest=self.outside == "nearest")

    def release(self, lat: ArrayLike, lon: ArrayLike) -> Tuples:
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
        return Simulation(self.sampler.draw(self._inside(lat, lon), Seeded(seed)), seed)

    def release_inputs(self, inputs: IntArray) -> Tuples:
        """Return a fresh tuple for each input region (as `locate` gives them, none of them -1).

        Raises
        ------
        OutsideError
            An entry that is no input region.
        """
        return self.sampler.draw(self.check_inputs(inputs), SystemEntropy())

    def check_inputs(self, inputs: IntArray) -> IntArray:
        """Return a vector of input regions, each of which there is.

        Raises
        ------
        OutsideError
            An entry that is no input region.
        """
        regions = np.asarray(inputs)
        if regions.ndim != 1 or not np.issubdtype(regions.dtype, np.integer):
            raise ParameterError(
                f"inputs must be a vector of whole numbers, got shape {regions.shape}, {regions.dtype}"
            )
        known = len(self.regions.inputs)
        if regions.size and not 0 <= regions.min() <= regions.max() < known:
            bad = np.flatnonzero((regions < 0) | (regions >= known))
            raise OutsideError(f"{bad.size} of {regions.size} entries are no input region (first: row {bad[0]})")
        return regions.astype(np.int64, copy=False)

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
        policyfile.write(path, to_body(self))

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy file.

        Raises
        ------
        PolicyError
            The file is missing, damaged, foreign, or of an unknown version.
        """
        body = policyfile.read(path)
        try:
            policy = cls(**from_body(body))
            _ = policy.sampler  # which refuses what cannot be drawn
            if not says_no_more(policy, body):
                raise PolicyError("it says something that this release does not know, or that cannot be so")
            return policy
        except DistpError as error:
            raise PolicyError(f"{path} is damaged: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else "a part of it is not what it should be"
            raise PolicyError(f"{path} is damaged: {what}") from None
