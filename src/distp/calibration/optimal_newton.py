"""A primal-dual interior-point method for the base mechanism of least loss under delta's smooth constraints.

Minimise ``<cost, A>`` over channels A subject to ``F_j(A) <= delta`` for every ordered pair j. The constraints see A
only through ``excess_j = C_j A`` (|Y| numbers a pair), and the barrier's part of a Newton step is diagonal, so
a step needs one dense system of (ordered pairs x |Y|) unknowns, whatever the number of inputs. Noise that
smooths the tests shrinks as the gap does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from distp.calibration.optimal_tests import TupleTests, Weighed
from distp.checks import FloatArray

_LEAST = 1e-40  # of entries: keeps products out of the subnormal range
_NEGLIGIBLE = 1e-20  # of terms in sums: smaller ones only slow the algebra down, as subnormal numbers
_TO_BOUNDARY = 0.95
_TRACKING = 0.2  # of a full step: shorter ones say that the method has lost the path, and noise must wait
_MISSED = 0.1  # of delta
_FIRST_NOISE = 0.3  # in standard deviations of the sum
_NOISE_SHARE = 3e-4  # of the loss: what noise may cost


@dataclass(frozen=True, eq=False)
class Programme:
    """``cost`` has shape (|X|, |Y|), ``contrast`` (ordered pairs, |X|): P - t Q; ``weight`` (|X|,) scales rows."""

    cost: FloatArray
    contrast: FloatArray
    weight: FloatArray
    tests: TupleTests
    t: float
    delta: float


class Iterate(NamedTuple):
    """A channel, its smoothed deltas, and the multipliers that price its tests."""

    channel: FloatArray
    values: FloatArray
    multipliers: FloatArray
    tested: list[Weighed]


@dataclass(eq=False)
class _State:
    """Channel A, reduced costs S, row prices, slacks of delta and their multipliers, and the noise of the tests."""

    A: FloatArray
    S: FloatArray
    price: FloatArray
    slack: FloatArray
    mu: FloatArray
    noise: FloatArray


class _Move(NamedTuple):
    A: FloatArray
    S: FloatArray
    price: FloatArray
    slack: FloatArray
    mu: FloatArray


def iterates(programme: Programme, steps: int) -> Iterator[Iterate]:
    """Yield ever better channels; the first is uniform, which ignores its input. Not all meet the constraints."""
    state = _start(programme)
    pairs, outputs = programme.contrast.shape[0], programme.cost.shape[1]
    centring, tracking = 0.2, True
    for done in range(steps):
        excess = programme.contrast @ state.A
        state.noise = np.minimum(state.noise, [_FIRST_NOISE * programme.tests.spread(e) for e in excess])
        state.noise = np.maximum(state.noise, _LEAST)
        tested = [programme.tests.at(e, float(s)) for e, s in zip(excess, state.noise, strict=True)]
        values = np.array([one.value for one in tested])
        if done == 0:
            state.slack = np.maximum(programme.delta - values, 0.5 * programme.delta)
            state.mu = state.mu / state.slack
        yield Iterate(state.A, values, state.mu, tested)
        complementarity = float((state.A * state.S).sum())
        if tracking:
            _less_noise(programme, state, tested, excess, complementarity)
        aim = centring * (complementarity + float(state.mu @ state.slack)) / (outputs + pairs)
        with np.errstate(all="ignore"):  # a step that leaves the numbers ends the search; what was found stays valid
            move = _newton(programme, state, tested, aim)
        if move is None:
            return
        primal, dual = _advance(programme, state, move, values)
        if max(primal, dual) < 1e-6:
            return
        centring, tracking = max(0.1, min(0.9, 1 - min(primal, dual))), min(primal, dual) > _TRACKING


def _start(programme: Programme) -> _State:
    inputs, outputs = programme.cost.shape
    pairs, k = programme.contrast.shape[0], programme.tests.dummies
    A = np.full((inputs, outputs), 1.0 / outputs)
    aim = 0.3 * float(programme.cost.sum()) / outputs**2
    S = aim * programme.weight[:, None] / A
    noise = max((k + 1) * (programme.t - 1) / 4, (k + 1) * programme.delta)
    return _State(A, S, (programme.cost - S).mean(axis=1), np.ones(pairs), np.full(pairs, aim), np.full(pairs, noise))


def _less_noise(
    programme: Programme, state: _State, tested: list[Weighed], excess: FloatArray, complementarity: float
) -> None:
    """Shrink the noise of a pair where what it adds to delta costs more than the rest of the gap allows."""
    added = np.array([one.value - one.weights @ e for one, e in zip(tested, excess, strict=True)])
    missed = np.array([one.value for one in tested]) + state.slack - programme.delta
    added[missed > _MISSED * programme.delta] = (
        0.0  # sharper tests would only make a step that overshot harder to mend
    )
    allowed = max(_NOISE_SHARE * float((programme.cost * state.A).sum()), 0.1 * complementarity)
    state.noise = np.where(state.mu * added > allowed, 0.7 * state.noise, state.noise)


def _newton(programme: Programme, state: _State, tested: list[Weighed], aim: float) -> _Move | None:
    """Return the Newton step towards complementarity ``aim``; None where rounding leaves none."""
    C, A, S, mu, slack = programme.contrast, state.A, state.S, state.mu, state.slack
    J, Y = C.shape[0], A.shape[1]
    W = np.array([one.weights for one in tested])
    barrier = aim * programme.weight[:, None] / A
    # Row by row, (S/A) dA + C'dU - dprice = pull, where U_j = mu_j w_j: solve for dA, then for dprice.
    pull = barrier - S - (programme.cost + C.T @ (mu[:, None] * W) - state.price[:, None] - S)
    E = A / S
    E[_NEGLIGIBLE * E.max() > E] = 0.0
    rows = E.sum(axis=1)
    base = (1 - A.sum(axis=1) - (E * pull).sum(axis=1)) / rows
    free = C @ (E * (pull + base[:, None]))
    response = _response(C, E, rows)
    system = np.eye(J * Y)
    tests = np.zeros((J * Y, J))
    for j, one in enumerate(tested):
        block = slice(j * Y, (j + 1) * Y)
        assert one.curvature is not None
        system[:, block] += response[:, block] @ (mu[j] * one.curvature)
        tests[block, j] = one.weights
    system[np.abs(system) < _NEGLIGIBLE] = 0.0
    try:
        solved = np.linalg.solve(system, np.column_stack([free.ravel(), -response @ tests]))
    except np.linalg.LinAlgError:
        return None
    # dexcess = solved[0] + solved[1:] dmu; then the constraints w.dexcess + dslack = what is missing.
    missing = programme.delta - np.array([one.value for one in tested]) - slack
    towards = aim / mu - slack
    prices = tests.T @ solved[:, 1:] - np.diag(slack / mu)
    if not np.isfinite(prices).all():
        return None
    dmu = np.linalg.lstsq(prices, missing - tests.T @ solved[:, 0] - towards)[0]
    dexcess = (solved[:, 0] + solved[:, 1:] @ dmu).reshape(J, Y)
    curved = [mu[j] * (one.curvature @ dexcess[j]) for j, one in enumerate(tested) if one.curvature is not None]
    push = C.T @ (dmu[:, None] * W + np.array(curved))
    dprice = base + (E * push).sum(axis=1) / rows
    dA = E * (pull - push + dprice[:, None])
    if not np.isfinite(dA).all():
        return None
    return _Move(dA, barrier - S - S / A * dA, dprice, towards - slack / mu * dmu, dmu)


def _response(C: FloatArray, E: FloatArray, rows: FloatArray) -> FloatArray:
    """Return how the excess answers to the tests' prices, shape (pairs |Y|, pairs |Y|), symmetric."""
    J, Y = C.shape[0], E.shape[1]
    result = np.empty((J * Y, J * Y))
    for i in range(J):
        for j in range(i, J):
            both = C[i] * C[j]
            block = -(E * (both / rows)[:, None]).T @ E
            block[np.diag_indices(Y)] += both @ E
            result[i * Y : (i + 1) * Y, j * Y : (j + 1) * Y] = block
            result[j * Y : (j + 1) * Y, i * Y : (i + 1) * Y] = block.T
    return result


def _advance(programme: Programme, state: _State, move: _Move, values: FloatArray) -> tuple[float, float]:
    """Take the step, short of the boundary and of where delta's curvature makes it useless; return both lengths."""
    primal = min(_length(state.A, move.A), _length(state.slack, move.slack))
    dual = min(_length(state.S, move.S), _length(state.mu, move.mu))
    tolerated = max(float((values + state.slack).max()) - programme.delta, 2 * programme.delta)
    for _ in range(6):
        trial = programme.contrast @ (state.A + primal * move.A)
        found = [programme.tests.at(e, float(s), False).value for e, s in zip(trial, state.noise, strict=True)]
        slack = state.slack + primal * move.slack
        if float((np.array(found) + slack).max()) - programme.delta <= max(tolerated, 0.5 * float(slack.max())):
            break
        primal *= 0.6
    state.A = np.maximum(state.A + primal * move.A, _LEAST)
    state.slack = state.slack + primal * move.slack
    state.S = np.maximum(state.S + dual * move.S, _LEAST)
    state.mu, state.price = state.mu + dual * move.mu, state.price + dual * move.price
    return primal, dual


def _length(values: FloatArray, move: FloatArray) -> float:
    """Return the longest step in [0, 1] that keeps ``values`` positive with a margin."""
    falling = move < 0
    if not falling.any():
        return 1.0
    return min(1.0, _TO_BOUNDARY * float((-values[falling] / move[falling]).min()))
