"""The channel of least expected loss among all that meet a stated privacy, with a proof of how near it is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csgraph

from distp.calibration.pairs import as_pairs
from distp.calibration.programme import LARGEST_FACTOR, Programme, Solution
from distp.calibration.repair import balanced, least_mixed, proven, raised, stochastic
from distp.calibration.spanner import Spanner, greedy_spanner
from distp.certificates.certificate import mean_law
from distp.checks import FloatArray, IntArray, distribution, nonnegative, positive, probability, real
from distp.distributions import Pair
from distp.errors import InfeasibleError, ParameterError, PrecisionError
from distp.mechanisms import Channel, Classwise
from distp.privacy import Bracket, coupling_delta, coupling_epsilon, metric_epsilon
from distp.privacy import delta as exact_delta
from distp.privacy import epsilon as exact_epsilon
from distp.privacy.bracket import largest
from distp.spaces import Regions, Space
from distp.utility import expected_loss

_MUCH = 0.01  # of the reports: so much mixed in, a constant report may be as good
_TINY = 1e-6  # an epsilon below which a mixture has next to no room for a solver's rounding
_NEAR = 1e-7  # of the largest distance: a channel this near to the bound needs no second attempt
_LIGHTEST = 1e-6  # of the heaviest row's weight
_SOLVED = 1e-9  # a delta below this is beside the solver's tolerances, so 0 is solved for
_INSIDE = 1e-6  # a delta that leaves room for rounding in a large programme


@dataclass(frozen=True, eq=False)
class OptimalChannel:
    """A channel, what it is proven to keep to, and what no channel that does has less loss than.

    Attributes
    ----------
    mechanism : Channel or Classwise
        `Classwise` where the device knows the attribute: one channel for each class.
    loss : float
        Expected distance from the input to the report.
    lower : float
        No channel that meets the target has less expected loss: proven by the dual, rounding included.
    realised : Bracket
        Delta at the target's epsilon, worst pair and order, by the accountant; its upper end is at most the target.
    point : Bracket or None
        The realised epsilon of extended DP, where ``point_epsilon`` was asked.
    mixed : float
        Share of reports that ignore the input, which repairs the solver's rounding.
    stretch : float
        Of the spanner; 1 without one. What it is above 1 is part of the gap.
    """

    mechanism: Channel | Classwise
    loss: float
    lower: float
    realised: Bracket
    point: Bracket | None
    mixed: float
    stretch: float

    @property
    def gap(self) -> float:
        """How much less than ``loss`` the least possible loss can be."""
        return max(0.0, self.loss - self.lower)


def optimal_channel(
    p: ArrayLike | Sequence[Pair],
    q: ArrayLike | None,
    space: Space,
    *,
    epsilon: float,
    delta: float = 0.0,
    aware: bool = False,
    prior: ArrayLike | None = None,
    share: float = 0.5,
    point_epsilon: float | None = None,
    dilation: float = 1.1,
) -> OptimalChannel:
    """Find the channel of least expected loss that is (epsilon, delta)-DistP for every pair, both orders.

    Parameters
    ----------
    p, q : array_like, shape (|X|,) or (pairs, |X|)
        As for `calibrate`: row i of ``p`` must not be told from row i of ``q``; or ``p`` a sequence of `Pair`.
    space : Space
        The outputs; of `Regions`, the inputs are its inner part.
    epsilon, delta : float
        The target.
    aware : bool
        The device knows which of the two laws of the one pair its input is drawn from, and has a channel for each.
    prior : array_like, shape (|X|,), optional
        Law of the input for the loss. Default: the mean of all distributions. Not with ``aware``.
    share : float
        With ``aware``: the probability of the first class, for the loss.
    point_epsilon : float, optional
        Also ask for extended DP, ``A(x)[y] <= e^(point_epsilon d(x, x')) A(x')[y]``, per unit of distance; with
        ``aware`` of each channel.
    dilation : float
        How much longer than the distance a way in the spanner may be. Nearer to 1 is less loss and more time; for
        hundreds of inputs at most a few times as much.

    Returns
    -------
    OptimalChannel
        Checked by the accountant whatever the solver did.

    Raises
    ------
    ParameterError, DistributionError
        Bad arguments, by name.
    InfeasibleError
        Not even a report that ignores its input can be shown to meet the target: at epsilon 0 with a delta below
        about 1e-13 the rounding of the pair itself is more than that.
    PrecisionError
        The solver gave up.

    Notes
    -----
    Theory 7.4. What the solver returns is made stochastic and then mixed with a constant report by the least share
    that brings the upper end of the certified bracket to the target: the privacy only improves with that share
    (theory 5.5). An input that no law and no prior has reports from the mean law of reports, which says nothing.

    With ``point_epsilon`` and hundreds of inputs the same programme is solved by an interior point of its own, to a
    gap of 1e-5 of the loss, beside what the stretch costs: for 210 inputs and 276 outputs a minute, with a dilation
    of 1.02 two, with ``aware`` five; and 8 |X|^2 |Y| bytes of memory, with ``aware`` four times that.

    Examples
    --------
    >>> found = optimal_channel([.5, .3, .2], [.3, .5, .2], Space([0., 1., 2.]), epsilon=0.1, delta=0.01)
    >>> round(found.loss, 6), found.gap < 1e-9, found.realised.upper <= 0.01
    (0.301066, True, True)
    """
    epsilon, delta = nonnegative(epsilon, "epsilon"), probability(delta, "delta")
    dilation = real(dilation, "dilation")
    if not (math.isfinite(dilation) and dilation >= 1):
        raise ParameterError(f"dilation must be a finite number >= 1, got {dilation!r}")
    if point_epsilon is not None:
        point_epsilon = positive(point_epsilon, "point_epsilon")
    inputs = space.inputs if isinstance(space, Regions) else space
    pairs = as_pairs(p, q, len(inputs))
    share = probability(share, "share")
    if aware and len(pairs) != 1:
        raise ParameterError(f"aware takes one pair, the attribute that the device knows; got {len(pairs)}")
    if aware and prior is not None:
        raise ParameterError("prior is not used with aware: the input's law follows from the pair and share")
    if aware:
        masses = np.vstack([share * pairs[0].p, (1 - share) * pairs[0].q])
    else:
        law = mean_law(pairs) if prior is None else distribution(prior, len(inputs), "prior")
        masses = law[None, :]
    return _Task(pairs, inputs, space, epsilon, delta, masses, point_epsilon, dilation).run()


@dataclass(frozen=True, eq=False)
class _Task:
    """One call. ``masses`` (classes, |X|) weigh the loss; two classes where the device knows the attribute."""

    pairs: list[Pair]
    inputs: Space
    outputs: Space
    epsilon: float
    delta: float
    masses: FloatArray
    point_epsilon: float | None
    dilation: float
    between: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "between", self.inputs.distances(self.outputs))

    def run(self) -> OptimalChannel:
        programme, spanner = self.programme, self.spanner
        stretch = 1.0 if spanner is None else spanner.stretch
        factors = self._factors(stretch)
        lower = 0.0
        best: OptimalChannel | None = None
        if stretch > 1:
            # Edges alone, at the full epsilon, ask for less than all pairs do: this dual binds every channel.
            # What it allows is not private enough for all pairs, but repaired it sometimes beats the tight one.
            for solution in self._solutions(programme.t, self._factors(1.0), 1):
                lower, best = programme.bound(solution), self._repaired(solution.rows, stretch)
        tight = replace(programme, factors=self._exponentials(stretch))
        reached, failed = 0.0, True
        for solution in self._solutions(programme.t, factors, 1 if programme.large else None):
            failed = False
            lower, reached = max(lower, programme.bound(solution)), max(reached, tight.bound(solution))
            for balance in (False, True):
                found = self._repaired(solution.rows, stretch, balance)
                if best is None or (found is not None and found.loss < best.loss):
                    best = found
                near = best is not None and best.loss - reached <= _NEAR * float(self.between.max())
                if near or len(self.pairs) > 1 or self.epsilon > _TINY:
                    break
            if near:
                break
        if failed:
            raise PrecisionError("the linear programme of the channel was not solved in any way", None)
        if best is None or best.mixed > _MUCH:
            best = min(
                filter(None, (best, self._repaired(self._silent, stretch))), key=lambda one: one.loss, default=None
            )
        if best is None:
            raise InfeasibleError(
                f"no channel can be shown to meet epsilon={self.epsilon:g}, delta={self.delta:g}: not even a "
                "constant one, to the accuracy of floating point; ask for a larger delta"
            )
        return OptimalChannel(best.mechanism, best.loss, lower, best.realised, best.point, best.mixed, stretch)

    @property
    def _silent(self) -> FloatArray:
        """The rows that all report the one output with the least expected distance."""
        cost = self.programme.cost
        rows = np.zeros_like(cost)
        rows[:, int(np.argmin(cost.sum(axis=0)))] = 1.0
        return rows

    def _solutions(self, t: float, factors: FloatArray, most: int | None) -> Iterator[Solution]:
        """Yield solutions, at most ``most``: by another way, or for delta 0, if the last was not good enough."""
        aim = self.delta if self.delta >= _SOLVED else 0.0
        # An interior point needs an inside, which epsilon 0 with a delta of about 0 does not have.
        aims = (aim, 0.0, _INSIDE) if self.programme.large else (aim, 0.0)
        tries = itertools.product(dict.fromkeys(aims), self.programme.ways)
        solved = 0
        for aim, way in tries:
            try:
                solution = self.programme.solve(way, aim, min(t, LARGEST_FACTOR), factors)
            except PrecisionError:
                continue
            yield solution
            solved += 1
            if solved == most:
                return

    @property
    def aware(self) -> bool:
        return len(self.masses) > 1

    @cached_property
    def groups(self) -> IntArray:
        """The group of each input; with point privacy, inputs at distance 0 must have one row."""
        if self.point_epsilon is None:
            return np.arange(len(self.inputs))
        return np.asarray(csgraph.connected_components(self.inputs.distances() == 0)[1], dtype=np.int64)

    @cached_property
    def apart(self) -> FloatArray:
        """The distance of each two groups: of their nearest members."""
        order = np.argsort(self.groups, kind="stable")
        starts = np.searchsorted(self.groups[order], np.arange(self.groups.max() + 1))
        nearest = np.minimum.reduceat(self.inputs.distances()[np.ix_(order, order)], starts, axis=0)
        result = np.minimum.reduceat(nearest, starts, axis=1)
        np.fill_diagonal(result, 0.0)
        return np.asarray(result)

    @cached_property
    def spanner(self) -> Spanner | None:
        return None if self.point_epsilon is None else greedy_spanner(self.apart, self.dilation)

    def _factors(self, stretch: float) -> FloatArray:
        return np.minimum(self._exponentials(stretch), LARGEST_FACTOR)

    def _exponentials(self, stretch: float) -> FloatArray:
        """Return ``e^(epsilon d / stretch)`` of the spanner's edges, for every class."""
        if self.spanner is None or self.point_epsilon is None:
            return np.empty(0)
        with np.errstate(over="ignore"):
            return np.exp(self.point_epsilon / stretch * np.tile(self.spanner.lengths, len(self.masses)))

    @cached_property
    def used(self) -> IntArray:
        """The rows of the programme: all with point privacy, else those that a law or the prior has."""
        heard = self._summed(self._weights)
        return np.flatnonzero(heard.ravel() > 0) if self.point_epsilon is None else np.arange(heard.size)

    @property
    def _weights(self) -> FloatArray:
        """How much each class and input matters, shape (classes, |X|)."""
        if self.aware:
            return (self.masses + np.vstack([self.pairs[0].p, self.pairs[0].q])) / 2
        return (self.masses + mean_law(self.pairs)) / 2

    def _summed(self, values: FloatArray) -> FloatArray:
        """Sum over the members of each group, along the last axis."""
        result = np.zeros((*values.shape[:-1], int(self.groups.max()) + 1))
        np.add.at(np.moveaxis(result, -1, 0), self.groups, np.moveaxis(values, -1, 0))
        return result

    @cached_property
    def programme(self) -> Programme:
        used = self.used
        cost = self._summed((self.masses[:, :, None] * self.between).transpose(0, 2, 1)).transpose(0, 2, 1)
        laws = [self._summed(law) for pair in self.pairs for law in (pair.p, pair.q)]
        if self.aware:
            nothing = np.zeros_like(laws[0])
            first, second = np.concatenate([laws[0], nothing]), np.concatenate([nothing, laws[1]])
            laws = [first, second]
        plus = np.array(laws)
        minus = plus.reshape(-1, 2, plus.shape[1])[:, ::-1].reshape(plus.shape)
        edges = np.empty((0, 2), dtype=np.int64)
        weights = self._summed(self._weights).ravel()[used]
        if self.spanner is not None:
            size = self.apart.shape[0]
            edges = np.vstack([self.spanner.edges + size * t for t in range(len(self.masses))])
            weights = np.ones(used.size)  # alike, for rows to be compared with each other
        # A weight below the solver's tolerance would leave its row open.
        weights = np.maximum(weights, _LIGHTEST * weights.max())
        return Programme(
            cost=cost.reshape(-1, cost.shape[-1])[used],
            plus=plus[:, used],
            minus=minus[:, used],
            t=math.exp(min(self.epsilon, 700.0)),
            delta=self.delta,
            weights=weights / weights.sum(),
            edges=edges,
            factors=self._exponentials(1.0),
        )

    def _repaired(self, rows: FloatArray, stretch: float, balance: bool = False) -> OptimalChannel | None:
        """Return what the solver found as a mechanism that meets the target, if a constant one does."""
        rows = stochastic(rows, self.programme.weights)
        if balance:
            rows = balanced(rows, self.programme.plus[0] - self.programme.minus[0])
        if self.point_epsilon is not None:
            rows = raised(rows, self.point_epsilon, self.apart)
        # Where the programme says nothing of an input, its report shall say nothing either.
        weights = self.programme.weights
        constant = weights @ rows
        constant /= constant.sum()
        size = self.groups.max() + 1
        full = np.tile(constant, (len(self.masses) * size, 1))
        full[self.used] = rows
        matrices = full.reshape(len(self.masses), size, -1)[:, self.groups]

        def made(mixed: float) -> OptimalChannel | None:
            return self._checked((1 - mixed) * matrices + mixed * constant, mixed, stretch)

        return least_mixed(made)

    def _checked(self, matrices: FloatArray, mixed: float, stretch: float) -> OptimalChannel | None:
        """Return the mechanism with its certified privacy, or None where that misses the target."""
        # Divide again: a mixture's sum may be off in the last place.
        channels = [Channel(one / one.sum(axis=1, keepdims=True), self.inputs, self.outputs) for one in matrices]
        point = None
        if self.point_epsilon is not None:
            point = largest([metric_epsilon(channel) for channel in channels])
            if point.upper > self.point_epsilon:
                return None
        mechanism: Channel | Classwise = channels[0]
        if self.aware:
            mechanism = Classwise([self.pairs[0].p, self.pairs[0].q], channels)
        realised = self._delta(mechanism)
        if realised.upper > self.delta:
            return None
        loss = math.fsum(
            float(law.sum()) * expected_loss(channel, law / law.sum())
            for channel, law in zip(channels, self.masses, strict=True)
            if law.sum() > 0
        )
        return OptimalChannel(mechanism, loss, 0.0, realised, point, mixed, stretch)

    def _delta(self, mechanism: Channel | Classwise) -> Bracket:
        """Return delta at the target's epsilon, by the accountant."""
        if isinstance(mechanism, Classwise):
            return proven(
                coupling_delta(mechanism, self.epsilon).value,
                lambda: coupling_epsilon(mechanism, self.delta).value,
                self.epsilon,
                self.delta,
            )
        found = []
        for pair in self.pairs:
            asked = proven(
                exact_delta(mechanism, pair.p, pair.q, self.epsilon),
                lambda pair=pair: exact_epsilon(mechanism, pair.p, pair.q, self.delta),  # type: ignore[misc]
                self.epsilon,
                self.delta,
            )
            found.append(asked)
            if asked.upper > self.delta:
                break
        return largest(found)
