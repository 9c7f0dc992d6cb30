"""Noise in the plane: laws with a density, and the exact channel that they put on square cells."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import erfcx, ndtr

from distp.checks import FloatArray, nonnegative, positive, real
from distp.errors import MechanismError, ParameterError, SpaceError
from distp.mechanisms.channels import Channel
from distp.mechanisms.polar import halves, laplace_masses
from distp.spaces import Regions

ROW_ERROR = 1e-12
_EDGE = 1e-6  # of a cell's side: edges that are closer are one edge
_RELATIVE = 1e-12  # of sigma
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_NODES, _WEIGHTS = (_NODES + 1) / 2, _WEIGHTS / 2


class Continuous(ABC):
    """Isotropic noise in the plane with a density that depends on the distance alone.

    It holds no random state: `release_points` and `simulate_points` draw from it, `cells` integrates it.
    """

    @property
    @abstractmethod
    def scale(self) -> float:
        """The length that noise is measured in, km."""

    @property
    @abstractmethod
    def mean_displacement(self) -> float:
        """The expected distance between place and report on the plane, km, before any remapping."""

    @abstractmethod
    def radius(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return displacements in units of `scale`, made of two independent standard exponential variates each."""

    @abstractmethod
    def density(self, radius: FloatArray) -> FloatArray:
        """Return the density at distances in units of `scale`, relative to the density at 0."""

    @abstractmethod
    def masses(self, west: FloatArray, east: FloatArray, south: FloatArray, north: FloatArray) -> FloatArray:
        """Return the mass of each rectangle, shape (n,); edges are km from the noise's centre, or infinite."""

    def cells(self, regions: Regions) -> Channel:
        """Return the channel from input centres to cells.

        Noise is added to the centre of the input's cell, on the plane of the map. What falls outside the map is
        moved to its nearest point, so that a cell on the rim also owns the strip beyond it, and one in a corner the
        quadrant. Nothing is drawn anew: the report stays a function of the noisy place, and so keeps its guarantee.

        Parameters
        ----------
        regions : Regions
            Square cells without holes.

        Returns
        -------
        Channel
            From ``regions.inputs`` to ``regions``. Rows sum to 1 within 1e-12 as integrated, not by division; an
            entry is accurate relative to its own size and 0 only where that is below the doubles.

        Raises
        ------
        SpaceError
            Polygons, or cells that leave parts of the map to nobody.
        MechanismError
            The integration does not reach its accuracy.

        Examples
        --------
        >>> from distp.spaces import Box
        >>> map_ = Regions.grid(Box.around(40.75, -73.97, 3, 3), ring_km=0)
        >>> ContinuousLaplace(1.0).cells(map_).channel()[4].round(4).tolist()  # the middle one
        [0.1294, 0.0931, 0.1294, 0.0931, 0.1097, 0.0931, 0.1294, 0.0931, 0.1294]
        """
        if not regions.square:
            raise SpaceError("noise is integrated over square cells; these regions are polygons")
        if regions.holes:
            raise SpaceError("noise needs cells that tile their box: a mask leaves parts of it to nobody")
        low, side = regions.cells[:, :2], regions.cells[:, 2]
        (west, east), (south, north) = _open(low[:, 0], side), _open(low[:, 1], side)
        x, y = (low + side[:, None] / 2)[: len(regions.inputs)].T
        edges = [(edge - centre[:, None]).ravel() for edge, centre in ((west, x), (east, x), (south, y), (north, y))]
        matrix = self.masses(*edges).reshape(x.size, len(regions))
        error = np.abs(matrix.sum(axis=1) - 1)
        if not error.max() <= ROW_ERROR:
            raise MechanismError(f"row {error.argmax()} sums to 1 only within {error.max():.1e}")
        return Channel(matrix, regions.inputs, regions)


def _open(low: FloatArray, side: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper edges of cells along one axis; those on the rim lie at infinity."""
    high = low + side
    return (
        np.where(low < low.min() + _EDGE * side, -np.inf, low),
        np.where(high > high.max() - _EDGE * side, np.inf, high),
    )


@dataclass(frozen=True)
class ContinuousLaplace(Continuous):
    """Planar Laplace noise: density epsilon^2 / (2 pi) e^(-epsilon r) at distance r.

    On the plane it is epsilon-geo-indistinguishable: a report's density differs by at most e^(epsilon d) between
    places d apart. That holds for `cells` too, which `metric_epsilon` of its channel confirms, while
    `PlanarLaplace`, which normalises over a map, spends up to twice its epsilon.

    Parameters
    ----------
    epsilon : float
        Per km, > 0.

    Notes
    -----
    Source: Andrés et al. 2013 (geo-indistinguishability); theory 8.5. The radius is a Gamma(2) variate, the sum of
    two exponential ones, so no Lambert W is needed.

    Examples
    --------
    >>> ContinuousLaplace(0.5).mean_displacement
    4.0
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))

    @property
    def scale(self) -> float:
        """1 / epsilon."""
        return 1 / self.epsilon

    @property
    def mean_displacement(self) -> float:
        """2 / epsilon."""
        return 2 / self.epsilon

    def radius(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return a Gamma(2) variate."""
        return first + second

    def density(self, radius: FloatArray) -> FloatArray:
        """Return e^-r."""
        fallen: FloatArray = np.exp(-radius)
        return fallen

    def masses(self, west: FloatArray, east: FloatArray, south: FloatArray, north: FloatArray) -> FloatArray:
        """Return masses by `laplace_masses`."""
        return laplace_masses(self.epsilon, west, east, south, north)


@dataclass(frozen=True)
class ContinuousGaussian(Continuous):
    """Planar Gaussian noise: independent normal variates of deviation sigma along both axes.

    Parameters
    ----------
    sigma : float
        km, > 0. `calibrated` finds the least one for a claim about two places.

    Examples
    --------
    >>> round(ContinuousGaussian(2.0).mean_displacement, 4)
    2.5066
    """

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive(self.sigma, "sigma"))

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, distance: float) -> ContinuousGaussian:
        """Return the least noise that makes places up to ``distance`` apart (epsilon, delta)-indistinguishable.

        Parameters
        ----------
        epsilon : float
            >= 0, for the two places as a whole, not per km.
        delta : float
            In (0, 1).
        distance : float
            km, > 0.

        Returns
        -------
        ContinuousGaussian
            Its sigma is least to a relative 1e-12, rounded up.

        Notes
        -----
        Source: Balle and Wang 2018, Theorem 8: with D the distance and s = sigma / D, the exact
        ``delta = Phi(1/(2s) - epsilon s) - e^epsilon Phi(-1/(2s) - epsilon s)``. Noise that looks alike in all
        directions makes two places in the plane the one-dimensional case. The classical
        ``sqrt(2 ln(1.25/delta)) / epsilon`` is proven below epsilon 1 only; at epsilon 20 it is too little.

        Examples
        --------
        >>> round(ContinuousGaussian.calibrated(1.0, 1e-5, 2.0).sigma, 6)
        7.461263
        """
        rate, allowed, apart = nonnegative(epsilon, "epsilon"), real(delta, "delta"), positive(distance, "distance")
        if not 0 < allowed < 1:
            raise ParameterError(f"delta must lie strictly between 0 and 1, got {delta!r}")
        low = high = 1.0
        while _gaussian_delta(rate, high) > allowed:
            high *= 2
        while _gaussian_delta(rate, low) <= allowed:
            low /= 2
        while high > low * (1 + _RELATIVE):
            middle = math.sqrt(low) * math.sqrt(high)
            if _gaussian_delta(rate, middle) > allowed:
                low = middle
            else:
                high = middle
        return cls(high * apart)

    @property
    def scale(self) -> float:
        """Sigma."""
        return self.sigma

    @property
    def mean_displacement(self) -> float:
        """Sigma sqrt(pi / 2)."""
        return self.sigma * math.sqrt(math.pi / 2)

    def radius(self, first: FloatArray, second: FloatArray) -> FloatArray:  # noqa: ARG002 - one variate is enough
        """Return a Rayleigh variate."""
        distance: FloatArray = np.sqrt(2 * first)
        return distance

    def density(self, radius: FloatArray) -> FloatArray:
        """Return e^(-r^2 / 2)."""
        with np.errstate(over="ignore"):
            fallen: FloatArray = np.exp(-(radius**2) / 2)
        return fallen

    def masses(self, west: FloatArray, east: FloatArray, south: FloatArray, north: FloatArray) -> FloatArray:
        """Return products of normal masses along the two axes."""
        return self._axis(west, east) * self._axis(south, north)

    def _axis(self, low: FloatArray, high: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            parts = halves(low / self.sigma, high / self.sigma)
        return sum((_normal(a, b) for a, b in parts), np.zeros_like(low))


def _normal(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return the normal mass between 0 <= a and b (0 where b <= a), accurate relative to itself."""
    width = np.where(b > a, b - np.where(b > a, a, 0.0), 0.0)
    # The density falls by less than e^1.5 over a narrow interval, where distribution functions would cancel.
    with np.errstate(over="ignore"):
        narrow = width * (1 + np.where(np.isfinite(a), a, 0.0)) < 1
    result: FloatArray = np.where(width > 0, ndtr(-a) - ndtr(-b), 0.0)
    x = a[narrow, None] + width[narrow, None] * _NODES
    result[narrow] = width[narrow] * (np.exp(-(x**2) / 2) @ _WEIGHTS) / math.sqrt(math.tau)
    return result


def _gaussian_delta(epsilon: float, s: float) -> float:
    """Return the hockey-stick divergence of two normal laws of deviation s, 1 apart.

    With x = 1/(2s) - epsilon s and y = x - 1/s the densities satisfy ``phi(x) = e^epsilon phi(y)``, so that, with
    Mills' ratio ``R = Phi / phi``, it is ``phi(x) (R(x) - R(y))``: e^epsilon never appears.
    """
    gap = 1 / s
    x = gap / 2 - epsilon * s
    y = x - gap
    peak = math.exp(-x * x / 2) / math.sqrt(math.tau)
    if gap >= 1:
        return float(ndtr(x)) - peak * float(_mills(np.array(y)))
    # Close laws: R(x) - R(y) is the integral of R' = 1 + z R, where the difference would cancel.
    z = y + gap * _NODES
    return peak * gap * float((1 + z * _mills(z)) @ _WEIGHTS)


def _mills(z: FloatArray) -> FloatArray:
    ratio: FloatArray = math.sqrt(math.pi / 2) * erfcx(-z / math.sqrt(2))
    return ratio
