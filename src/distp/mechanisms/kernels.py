"""Mechanisms whose probabilities fall with distance, each row normalised over the outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from distp.checks import FloatArray, nonnegative, positive
from distp.errors import MechanismError
from distp.mechanisms.base import Matrix, Mechanism, set_spaces
from distp.spaces import Space

_NEARBY = 1e-9  # relative; a point at distance exactly `radius` is inside whatever the rounding of d


def _softmin(cost: FloatArray) -> FloatArray:
    # The cost is relative to the row's least: the largest weight is exactly 1, so nothing over- or underflows
    # in a way that matters, and no row is 0/0 however large epsilon is.
    weight: FloatArray = np.exp(-cost)
    rows: FloatArray = weight / weight.sum(axis=1, keepdims=True)
    return rows


def _excess(distances: FloatArray) -> FloatArray:
    excess: FloatArray = distances - distances.min(axis=1, keepdims=True)
    return excess


def _scaled(excess: FloatArray, factor: float) -> FloatArray:
    with np.errstate(over="ignore"):
        return excess * factor  # inf at worst, and exp(-inf) = 0 is right


@dataclass(frozen=True, eq=False)
class _ByDistance(Mechanism):
    """Inputs, an epsilon per unit of distance, outputs."""

    inputs: Space
    epsilon: float
    outputs: Space = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        set_spaces(self, self.inputs, self.outputs)
        object.__setattr__(self, "epsilon", nonnegative(self.epsilon, "epsilon"))


@dataclass(frozen=True, eq=False)
class Exponential(_ByDistance):
    """The exponential mechanism with utility -d: probability proportional to exp(-epsilon d(x, y) / 2).

    Parameters
    ----------
    inputs : Space, int or points
    epsilon : float
        Per unit of distance, >= 0. The halving makes it (epsilon, d, 0)-XDP on any space.
    outputs : Space, optional
        Default: the inputs.

    Notes
    -----
    Source: theory, Definitions 3 and 11 (note ii).

    Examples
    --------
    >>> Exponential([0.0, 1.0], 2.0).channel().round(4).tolist()
    [[0.7311, 0.2689], [0.2689, 0.7311]]
    """

    def _build(self) -> FloatArray:
        return _softmin(_scaled(_excess(self.inputs.distances(self.outputs)), self.epsilon / 2))


@dataclass(frozen=True, eq=False)
class PlanarLaplace(_ByDistance):
    """Planar Laplace on a finite space: probability proportional to exp(-epsilon d(x, y)).

    Parameters
    ----------
    inputs : Space, int or points
    epsilon : float
        Per unit of distance, >= 0. Nominal: normalising over a bounded map makes the realised epsilon up to
        twice this (`distp.delta` and the certificates work from the matrix and never use it).
    outputs : Space, optional
        Default: the inputs.

    Notes
    -----
    Source: the paper's comparison (theory 6.4; Definition 11, note ii).

    Examples
    --------
    >>> PlanarLaplace([0.0, 1.0], 1.0).channel().round(4).tolist()
    [[0.7311, 0.2689], [0.2689, 0.7311]]
    """

    def _build(self) -> FloatArray:
        return _softmin(_scaled(_excess(self.inputs.distances(self.outputs)), self.epsilon))


@dataclass(frozen=True, eq=False)
class PlanarGaussian(Mechanism):
    """Planar Gaussian on a finite space: probability proportional to exp(-d(x, y)^2 / (2 sigma^2)).

    Parameters
    ----------
    inputs : Space, int or points
    sigma : float
        Standard deviation along one axis, > 0, in the space's unit.
    outputs : Space, optional
        Default: the inputs.

    Notes
    -----
    Source: the paper's comparison (theory 6.4).

    Examples
    --------
    >>> PlanarGaussian([0.0, 1.0], 1.0).channel().round(4).tolist()
    [[0.6225, 0.3775], [0.3775, 0.6225]]
    """

    inputs: Space
    sigma: float
    outputs: Space = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        set_spaces(self, self.inputs, self.outputs)
        object.__setattr__(self, "sigma", positive(self.sigma, "sigma"))

    def _build(self) -> FloatArray:
        distances = self.inputs.distances(self.outputs)
        nearest = distances.min(axis=1, keepdims=True)
        # (d - m)(d + m) = d^2 - m^2 without cancellation, and divided by sigma before the product: a tiny
        # sigma gives inf, a huge distance does not.
        with np.errstate(over="ignore"):
            left = (distances - nearest) / self.sigma
            right = (distances + nearest) / self.sigma
            cost = np.where(left == 0, 0.0, left * np.where(left == 0, 0.0, right)) / 2
        return _softmin(cost)


@dataclass(frozen=True, eq=False)
class RestrictedLaplace(Mechanism):
    """Planar Laplace among the outputs within ``radius``: the loss of a report never exceeds it.

    Only those entries are stored. For a finite radius it has no point privacy of its own (supports differ);
    it is the base of the tupling mechanism, whose dummies hide the attribute.

    Parameters
    ----------
    inputs : Space, int or points
    epsilon : float
        Per unit of distance, >= 0; nominal, as for `PlanarLaplace`.
    radius : float
        > 0, in the space's unit; ``math.inf`` for no restriction.
    outputs : Space, optional
        Default: the inputs.

    Raises
    ------
    MechanismError
        An input has no output within the radius.

    Notes
    -----
    Source: theory, Definition 11.

    Examples
    --------
    >>> RestrictedLaplace([0.0, 1.0, 2.0, 3.0], 1.0, 1.0).channel().toarray()[1].round(4).tolist()
    [0.2119, 0.5761, 0.2119, 0.0]
    """

    inputs: Space
    epsilon: float
    radius: float
    outputs: Space = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        set_spaces(self, self.inputs, self.outputs)
        object.__setattr__(self, "epsilon", nonnegative(self.epsilon, "epsilon"))
        if self.radius != float("inf"):
            object.__setattr__(self, "radius", positive(self.radius, "radius"))

    def _build(self) -> Matrix:
        distances = self.inputs.distances(self.outputs)
        near = distances <= self.radius * (1 + _NEARBY)
        empty = np.flatnonzero(~near.any(axis=1))
        if empty.size:
            raise MechanismError(
                f"input {empty[0]} has no output within radius {self.radius:g}: the nearest is at "
                f"{distances[empty[0]].min():g}"
            )
        # Only the entries within the radius are computed: rows are runs of one flat array.
        columns = np.nonzero(near)[1]
        starts = np.concatenate([[0], np.cumsum(near.sum(axis=1))])
        weight = np.exp(-_scaled(_excess(distances)[near], self.epsilon))
        weight /= np.repeat(np.add.reduceat(weight, starts[:-1]), np.diff(starts))
        return sparse.csr_array((weight, columns, starts), shape=distances.shape)
