"""Distribution privacy where the device knows the attribute and applies a different channel for each value."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from numpy.typing import ArrayLike

from distp.checks import FloatArray, distribution, positive, probability
from distp.errors import DistributionError
from distp.mechanisms import Classwise, Coupling
from distp.privacy.accountant import RTOL, SingleReport, check_epsilon, lifting_error, underflow
from distp.privacy.bracket import Bracket
from distp.privacy.families import WorstPair
from distp.privacy.single import UNIT


def coupling_delta(
    coupling: Coupling | Classwise, epsilon: float, laws: Sequence[ArrayLike] | None = None, *, rtol: float = RTOL
) -> WorstPair:
    """Return the least delta for which no two classes' reports differ by more than (epsilon, delta).

    Parameters
    ----------
    coupling : Coupling or Classwise
    epsilon : float
        >= 0.
    laws : sequence of array_like, each of shape (|X|,), optional
        What the classes' laws really are. Default: what the coupling was built for, where only rounding is left.
    rtol : float
        Relative width that the bracket must reach, unless rounding leaves more.

    Notes
    -----
    Source: theory 7.3, approximate information. Reports of class t have the law ``C_t^#(laws[t])``.

    Examples
    --------
    >>> made = Coupling([0.0, 1.0, 2.0], [[0.2, 0.3, 0.5], [0.3, 0.5, 0.2]])
    >>> coupling_delta(made, 0.0).value.upper < 1e-14
    True
    >>> really = [[0.25, 0.3, 0.45], [0.3, 0.5, 0.2]]
    >>> found = coupling_delta(made, 0.0, really)
    >>> round(found.value.upper, 9)
    0.05
    """
    epsilon, _ = check_epsilon(epsilon), positive(rtol, "rtol")
    return _worst(coupling, laws, lambda report: report.at(epsilon, rtol).bracket)


def coupling_epsilon(
    coupling: Coupling | Classwise, delta: float, laws: Sequence[ArrayLike] | None = None, *, rtol: float = RTOL
) -> WorstPair:
    """Return the least epsilon at ``delta`` for which no two classes' reports differ by more; as `coupling_delta`."""
    delta, rtol = probability(delta, "delta"), positive(rtol, "rtol")
    return _worst(coupling, laws, lambda report: report.epsilon(delta, rtol))


def _worst(
    coupling: Coupling | Classwise, laws: Sequence[ArrayLike] | None, ask: Callable[[SingleReport], Bracket]
) -> WorstPair:
    real: list[FloatArray] = list(coupling.laws)
    if laws is not None:
        if len(laws) != len(real):
            raise DistributionError(f"laws has {len(laws)} classes, but the coupling was built for {len(real)}")
        real = [distribution(law, len(coupling.inputs), f"laws[{t}]") for t, law in enumerate(laws)]
    reports = [channel.lift(law) for channel, law in zip(coupling.channels, real, strict=True)]
    # An entry of a coupling's row is one division away from exact, and its lifting a few roundings more.
    slack = max(lifting_error(channel) for channel in coupling.channels) + 4 * UNIT
    lost = max(underflow(c, law, out) for c, law, out in zip(coupling.channels, real, reports, strict=True))
    best = WorstPair(Bracket(0.0, 0.0), (0, 1))
    for i, P in enumerate(reports):
        for j, Q in enumerate(reports):
            if i != j:
                found = ask(SingleReport(P, Q, slack, lost))
                best = best.joined(found, (i, j))
    return best
