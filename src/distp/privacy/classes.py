"""Guarantees for distributions that are not known, but are known to be spread out.

The class is ``Lambda_{beta, 0, A}``: every lambda whose lifted law satisfies ``A^#(lambda)[y] <= B nu[y]`` for all
outputs y, with ``B = beta |Y|`` for uniform dummies (theory, section 2 and 4.11).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import count, nonnegative, positive, probability
from distp.errors import ParameterError
from distp.mechanisms import Mechanism, Tupling
from distp.privacy.accountant import RTOL, SingleReport
from distp.privacy.bracket import Bracket
from distp.privacy.single import UNIT, exp
from distp.privacy.tuples import TupleSum, as_single_report

MOST_DUMMIES = 1 << 24


def class_delta(dummies: int, epsilon: float, cap: float, *, rtol: float = RTOL) -> Bracket:
    """Return the largest delta of any pair of distributions whose density is at most ``cap``.

    Parameters
    ----------
    dummies : int
        k >= 0.
    epsilon : float
        >= 0.
    cap : float
        B >= 1: every output's probability is at most B times the dummy's (B = beta |Y| for uniform dummies).
    rtol : float
        Relative width that the bracket must reach.

    Returns
    -------
    Bracket
        Of the bound. It holds for every ordered pair of the class, and is attained where 1/beta is a whole
        number and 2/beta <= |Y|: by two uniform distributions on disjoint sets.

    Notes
    -----
    Source: theory 4.11. The densities of the worst pair take the values 0 and B only, as disjointly as their
    means allow, so the bound is the tuple's delta for four kinds of outputs.

    Examples
    --------
    >>> class_delta(30, 1.0, 2.0).upper < 0.001 < class_delta(29, 1.0, 2.0).lower
    True
    """
    k, epsilon = count(dummies, "dummies"), nonnegative(epsilon, "epsilon")
    B = positive(cap, "cap")
    if not 1 <= B < math.inf:
        raise ParameterError(f"cap must be a finite number >= 1, got {cap!r}: no density stays below 1 everywhere")
    # Rational, so that each weight is rounded once, whatever cancels; k + 1 factors carry that.
    q = 1 / Fraction(B)
    both = max(Fraction(0), 2 * q - 1)
    weight = np.array([float(w) for w in (q - both, q - both, both, 1 - 2 * q + both)])
    a, b = np.array([B, 0.0, B, 0.0]), np.array([0.0, B, B, 0.0])
    kept, nothing = weight > 0, np.zeros(0)
    terms = TupleSum(a[kept], b[kept], weight[kept], nothing, nothing, k + 1, UNIT * (2 * k + 6), (1.0, 1.0, 1.0))
    listed = as_single_report(terms)
    return (terms.delta(exp(epsilon), rtol) if listed is None else SingleReport(*listed).at(epsilon)).bracket


def class_dummies(epsilon: float, delta: float, cap: float) -> int:
    """Return the least number of dummies with ``class_delta(dummies, epsilon, cap) <= delta``.

    Parameters
    ----------
    epsilon : float
        >= 0.
    delta : float
        In (0, 1].
    cap : float
        B >= 1.

    Raises
    ------
    ParameterError
        No number up to 2^24 suffices.

    Examples
    --------
    >>> class_dummies(1.0, 0.001, 2.0)
    30
    """
    delta = positive(probability(delta, "delta"), "delta")

    def enough(k: int) -> bool:
        return class_delta(k, epsilon, cap, rtol=1e-3).upper <= delta

    high = 1
    if enough(0):
        return 0
    while not enough(high):
        high *= 2
        if high > MOST_DUMMIES:
            raise ParameterError(
                f"more than {MOST_DUMMIES:,} dummies are needed for epsilon={epsilon:g}, delta={delta:g}, cap={cap:g}"
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def density(mechanism: Mechanism, p: ArrayLike) -> float:
    """Return the cap B that one distribution needs: the largest ratio of its lifted law to the dummies' law.

    ``inf`` where it reaches an output that no dummy does. Without dummies the uniform law stands for them.
    """
    law = mechanism.lift(p)
    nu = mechanism.dummy_distribution if isinstance(mechanism, Tupling) else np.full(law.size, 1 / law.size)
    if ((law > 0) & (nu == 0)).any():
        return math.inf
    covered = nu > 0
    return float((law[covered] / nu[covered]).max())


def in_class(mechanism: Mechanism, p: ArrayLike, beta: float, eta: float = 0.0) -> bool:
    """Say whether ``p`` is in Lambda_{beta, eta, A}: output mass on values above ``beta`` is at most ``eta``.

    Parameters
    ----------
    mechanism : Mechanism
        Its report's channel is A.
    p : array_like, shape (|X|,)
    beta, eta : float
        In [0, 1].

    Notes
    -----
    Reading M of theory, section 2. At eta = 0 it says ``max_y A^#(p)[y] <= beta``, and the other reading
    agrees; for eta >= 1/|Y| the other reading supports no guarantee (theory 3.8).

    Examples
    --------
    >>> from distp.mechanisms import Identity
    >>> in_class(Identity(4), [0.4, 0.2, 0.2, 0.2], 0.3), in_class(Identity(4), [0.4, 0.2, 0.2, 0.2], 0.3, eta=0.4)
    (False, True)
    """
    beta, eta = probability(beta, "beta"), probability(eta, "eta")
    law = mechanism.lift(p)
    # Lifting rounds: a value at beta exactly must not fall out because of it.
    above = law > beta * (1 + 4 * len(mechanism.inputs) * UNIT)
    return float(law[above].sum()) <= eta


def concentration(mechanism: Mechanism) -> float:
    """Return ``c = max_y sum_x A(x)[y]``: ``max_x p[x] <= beta`` puts p into the class of ``beta c``.

    Source: theory 3.9, the correct form of the paper's Proposition 12 (which holds where c <= 1).

    Examples
    --------
    >>> from distp.mechanisms import Channel, Identity
    >>> concentration(Identity(3)), concentration(Channel([[1, 0], [1, 0]]))
    (1.0, 2.0)
    """
    matrix = mechanism.channel()
    return float(np.asarray(matrix.sum(axis=0)).max())
