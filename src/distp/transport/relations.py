"""Lifted relations: whether a coupling exists that only pairs related values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from distp.errors import SpaceError
from distp.transport.coupling import Lifted, Plan
from distp.transport.masses import whole
from distp.transport.network import Flow, Ground


def lifted(p: ArrayLike, q: ArrayLike, relation: ArrayLike | sparse.csr_array) -> Lifted:
    """Say whether ``(p, q)`` is in the lifted relation, with a coupling on it or a set that violates it.

    Parameters
    ----------
    p, q : array_like, shapes (n,) and (m,)
        Counts, taken exactly, or probabilities, taken to a stated error of about 1e-15.
    relation : array_like of bool, shape (n, m)
        Which pairs of values are related; dense or sparse.

    Raises
    ------
    SpaceError, DistributionError
        Shapes, entries that are not truth values, vectors that are no distributions.

    Notes
    -----
    Source: theory, Definition 7; by Strassen's theorem the relation fails exactly if some set S has
    ``p[S] > q[relation(S)]``: those that reach no output with room left, once as much as can be has been placed.

    Examples
    --------
    >>> relation = [[True, True, False], [False, True, True], [False, False, True]]
    >>> lifted([2, 3, 5], [1, 3, 6], relation).holds
    True
    >>> refused = lifted([2, 2, 6], [3, 3, 4], relation)
    >>> refused.witness.tolist(), refused.excess
    ([2], Fraction(1, 5))
    """
    try:
        array = relation.toarray() if isinstance(relation, sparse.sparray) else np.asarray(relation)
    except ValueError as error:
        raise SpaceError(f"relation is not a matrix: {error}") from None
    if array.ndim != 2 or array.size == 0:
        raise SpaceError(f"relation must be a matrix of truth values, got shape {array.shape}")
    if array.dtype != bool:
        if not np.isin(array, (0, 1)).all():
            raise SpaceError("relation must hold truth values only (True or False, 1 or 0)")
        array = array.astype(bool)
    shape = (int(array.shape[0]), int(array.shape[1]))
    masses = whole(p, q, shape)
    rows, columns = np.flatnonzero(masses.p), np.flatnonzero(masses.q)
    related = array[np.ix_(rows, columns)]
    ground = Ground.of_matrix(np.where(related, 0.0, 1.0))
    flow, near = Flow(ground, masses.p[rows], masses.q[columns]), ground.reach(0.0)
    witness, allowed = None, masses.allowed(0.0)
    # Each cut shows that more has to be left; the last one, all that has to be.
    while (cut := flow.fill(0.0, allowed, near)) is not None:
        witness, allowed = rows[cut[0]], int(flow.supply[cut[0]].sum())
    if witness is not None:
        return Lifted(False, None, witness, Fraction(allowed, masses.total))
    i, j, units = flow.complete()
    return Lifted(True, Plan.of(rows[i], columns[j], units, masses.total, shape), None, Fraction(0))
