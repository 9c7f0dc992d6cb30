"""The tupling mechanism: the (slightly perturbed) value among random dummies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, count, distribution, frozen
from distp.errors import MechanismError, ParameterError
from distp.mechanisms.base import Matrix, Mechanism
from distp.spaces import Space


@dataclass(frozen=True, eq=False, init=False)
class Tupling(Mechanism):
    """Send the base mechanism's report at a random place among ``dummies`` random draws.

    Parameters
    ----------
    base : Mechanism
        Perturbs the real value.
    dummies : int
        Number of dummies k >= 0; a tuple has k + 1 places. Without replacement at most the number of outputs less 1.
    dummy_distribution : array_like, shape (|Y|,), optional
        Law of a dummy. Default: uniform over the outputs.
    replacement : bool
        Whether dummies are independent draws. If ``False``, they are distinct, uniform over the outputs other
        than the real report, and the tuple is an unordered set: neither delta nor the loss is ever larger, and
        the pure epsilon falls with k (theory 4.7). No other ``dummy_distribution`` is possible then.

    Raises
    ------
    MechanismError
        The base is a tuple itself, or ``replacement=False`` comes with dummies that are not uniform.
    ParameterError
        ``dummies`` is not a whole number >= 0, or too many to be distinct.

    Notes
    -----
    `channel` and `lift` describe the *real report* of the tuple (one place of k + 1); the privacy, loss and
    attack functions account for the whole tuple. Source: theory 3.3, Algorithm 1; without replacement, 4.7.

    Examples
    --------
    >>> from distp.mechanisms import Identity
    >>> Tupling(Identity(4), dummies=2).dummy_distribution.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    base: Mechanism
    dummies: int
    dummy_distribution: FloatArray
    replacement: bool

    def __init__(
        self,
        base: Mechanism,
        dummies: int,
        dummy_distribution: ArrayLike | None = None,
        replacement: bool = True,
    ) -> None:
        if not isinstance(base, Mechanism) or isinstance(base, Tupling):
            raise MechanismError(f"base must be a mechanism with one report, got {type(base).__name__}")
        size = len(base.outputs)
        law = (
            np.full(size, 1.0 / size)
            if dummy_distribution is None
            else distribution(dummy_distribution, size, "dummy_distribution").copy()
        )
        dummies = count(dummies, "dummies")
        if not replacement:
            if not np.allclose(law, 1.0 / size, rtol=1e-9, atol=0.0):
                raise MechanismError("replacement=False: dummy_distribution must be uniform (leave it out)")
            if dummies > size - 1:
                raise ParameterError(
                    f"dummies must be at most {size - 1} without replacement, as there are {size} outputs, "
                    f"got {dummies}"
                )
            law = np.full(size, 1.0 / size)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "dummies", dummies)
        object.__setattr__(self, "dummy_distribution", frozen(law))
        object.__setattr__(self, "replacement", bool(replacement))

    @property
    def inputs(self) -> Space:  # type: ignore[override]
        """The base's inputs."""
        return self.base.inputs

    @property
    def outputs(self) -> Space:  # type: ignore[override]
        """What each place of the tuple may hold."""
        return self.base.outputs

    def _build(self) -> Matrix:
        return self.base.channel()
