"""The coupling mechanism: a channel for each attribute value, all with the same law of reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from distp.checks import FloatArray, distribution, frozen
from distp.errors import DistributionError, MechanismError
from distp.mechanisms.base import Mechanism
from distp.mechanisms.channels import Channel
from distp.mechanisms.tupling import Tupling
from distp.spaces import Space, as_space
from distp.transport import Plan, barycenter, transport_cost


@dataclass(frozen=True, eq=False, init=False)
class Coupling:
    """Hide an attribute that the device knows: map every class to one common law of reports, by optimal transport.

    The device must know the attribute's value ``t``, and applies ``channels[t]``. The mechanism protects the
    attribute only: where the plan does not split an input's mass, the report gives the input away. It is no
    `Mechanism`: there is no single channel.

    Parameters
    ----------
    inputs : Space, int or points
    laws : sequence of array_like, each of shape (|X|,)
        What is known of the input's law for each attribute value (the auxiliary information).
    outputs : Space, optional
        Default: the inputs.
    target : array_like, shape (|Y|,), optional
        The common law of reports. Default: the Wasserstein barycentre of the laws; of two classes that is the
        heavier one itself.
    weights : array_like, shape (len(laws),), optional
        Share of each class, for the barycentre. Default: all alike.
    behind : Mechanism, optional
        Applied to what the coupling reports. An extended-DP mechanism here covers what the auxiliary information
        gets wrong (theory 7.3).

    Attributes
    ----------
    plans : tuple of Plan
        The optimal couplings of each law with the target.
    distances : tuple of float
        W_1 from each law to the target: its expected loss, without ``behind``.

    Notes
    -----
    Source: theory 7.2 and 7.3. Where the laws are exact, reports have the same law whatever the attribute:
    (0, 0)-DistP. Where they are not, no divergence between reports exceeds that between the laws and what they
    really are; `distp.coupling_delta` computes the realised one.

    Examples
    --------
    >>> made = Coupling([0.0, 1.0, 2.0], [[0.2, 0.3, 0.5], [0.3, 0.5, 0.2]])
    >>> made.target.tolist(), [round(float(w), 9) for w in made.distances]
    ([0.2, 0.3, 0.5], [0.0, 0.4])
    >>> made.channels[1].lift([0.3, 0.5, 0.2]).round(12).tolist()
    [0.2, 0.3, 0.5]
    """

    inputs: Space
    outputs: Space
    laws: tuple[FloatArray, ...] = field(repr=False)
    target: FloatArray = field(repr=False)
    weights: FloatArray = field(repr=False)
    behind: Mechanism | None
    plans: tuple[Plan, ...] = field(repr=False)
    distances: tuple[float, ...]

    def __init__(
        self,
        inputs: Space | int | ArrayLike,
        laws: Sequence[ArrayLike],
        outputs: Space | ArrayLike | None = None,
        target: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        behind: Mechanism | None = None,
    ) -> None:
        source = as_space(inputs, "inputs")
        reported = source if outputs is None else as_space(outputs, "outputs")
        count = len(laws) if isinstance(laws, Sequence | np.ndarray) else 0
        if count < 2:
            raise DistributionError(f"a coupling needs the laws of at least two classes, got {count}")
        known = tuple(frozen(distribution(law, len(source), f"laws[{t}]").copy()) for t, law in enumerate(laws))
        share = np.full(count, 1 / count) if weights is None else distribution(weights, count, "weights").copy()
        if target is None:
            common = _common(known, share, source, reported)
        else:
            common = distribution(target, len(reported), "target").copy()
        if isinstance(behind, Tupling):
            raise MechanismError("the mechanism behind a coupling sends one report, not a tuple")
        if behind is not None and len(behind.inputs) != len(reported):
            raise MechanismError(
                f"the mechanism behind takes {len(behind.inputs)} inputs, the coupling has {len(reported)} outputs"
            )
        between = source.distances(reported)
        found = [transport_cost(law, common, between) for law in known]
        for name, value in (
            ("inputs", source),
            ("outputs", reported),
            ("laws", known),
            ("target", frozen(common)),
            ("weights", frozen(share)),
            ("behind", behind),
            ("plans", tuple(one.coupling for one in found)),
            ("distances", tuple(one.value for one in found)),
        ):
            object.__setattr__(self, name, value)

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """What the device applies for each attribute value, ``behind`` included.

        An input that the auxiliary information gave no mass reports from the target, which says nothing of it.
        """
        return tuple(self._channel(law, plan) for law, plan in zip(self.laws, self.plans, strict=True))

    def _channel(self, law: FloatArray, plan: Plan) -> Channel:
        left = plan.marginals()[0]
        matrix = sparse.csr_array(
            (plan.units / left[plan.sources], (plan.sources, plan.targets)), shape=plan.shape, dtype=np.float64
        )
        unknown = np.flatnonzero(left == 0)
        if unknown.size:
            fill = sparse.csr_array((np.ones(unknown.size), (unknown, np.zeros(unknown.size, int))), (law.size, 1))
            matrix = sparse.csr_array(matrix + fill @ sparse.csr_array((self.target / self.target.sum())[None, :]))
        outputs = self.outputs
        if self.behind is not None:
            product = matrix @ self.behind.channel()
            matrix = product.toarray() if isinstance(product, sparse.sparray) else np.asarray(product)
            outputs = self.behind.outputs
        return Channel(matrix, self.inputs, outputs)


def _common(laws: Sequence[FloatArray], weights: FloatArray, inputs: Space, outputs: Space) -> FloatArray:
    """Return the barycentre on the outputs; a class with half the weight is one, where outputs hold every input."""
    heaviest = int(np.argmax(weights))
    if inputs is outputs:
        return barycenter(laws, inputs, weights).target
    if weights[heaviest] >= 0.5 and outputs.points is not None:
        target = np.zeros(len(outputs))
        target[inputs.positions_in(outputs)] = laws[heaviest]
        return target
    return barycenter(laws, inputs.distances(outputs), weights).target
