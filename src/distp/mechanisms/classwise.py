"""One channel for each value of an attribute that the device knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from numpy.typing import ArrayLike

from distp.checks import FloatArray, distribution, frozen
from distp.errors import DistributionError, MechanismError
from distp.mechanisms.channels import Channel
from distp.spaces import Space


@dataclass(frozen=True, eq=False, init=False)
class Classwise:
    """What a device applies that knows the attribute: ``channels[t]`` where its value is ``t``.

    Like `Coupling` it is no `Mechanism`, for there is no single channel; unlike there, the classes' reports need
    not have the same law. `distp.coupling_delta` says by how much they differ.

    Parameters
    ----------
    laws : sequence of array_like, each of shape (|X|,)
        The input's law for each attribute value.
    channels : sequence of Channel
        All from the same inputs to the same outputs.

    Examples
    --------
    >>> made = Classwise([[1, 0], [0, 1]], [Channel([[1, 0], [1, 0]]), Channel([[1, 0], [1, 0]])])
    >>> [channel.lift(law).tolist() for channel, law in zip(made.channels, made.laws)]
    [[1.0, 0.0], [1.0, 0.0]]
    """

    inputs: Space
    outputs: Space
    laws: tuple[FloatArray, ...] = field(repr=False)
    channels: tuple[Channel, ...] = field(repr=False)

    def __init__(self, laws: Sequence[ArrayLike], channels: Sequence[Channel]) -> None:
        if len(laws) != len(channels) or len(laws) < 2:
            raise DistributionError(f"got {len(laws)} laws and {len(channels)} channels: give one each, two at least")
        shapes = {channel.channel().shape for channel in channels}
        if len(shapes) > 1:
            raise MechanismError(f"the channels differ in shape: {', '.join(map(str, sorted(shapes)))}")
        inputs, outputs = channels[0].inputs, channels[0].outputs
        known = tuple(frozen(distribution(law, len(inputs), f"laws[{t}]").copy()) for t, law in enumerate(laws))
        for name, value in (
            ("inputs", inputs),
            ("outputs", outputs),
            ("laws", known),
            ("channels", tuple(channels)),
        ):
            object.__setattr__(self, name, value)
