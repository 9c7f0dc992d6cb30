"""What one actual report says about the distribution it came from."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from distp.checks import FloatArray, distribution
from distp.errors import DistributionError, ParameterError
from distp.mechanisms import Mechanism, Tupling


def bayes_factor(mechanism: Mechanism, p: ArrayLike, q: ArrayLike, report: ArrayLike) -> float:
    """Return how many times likelier a report is under ``p`` than under ``q``.

    Parameters
    ----------
    mechanism : Mechanism
    p, q : array_like, shape (|X|,)
    report : int or array_like of int, shape (dummies + 1,)
        One output, or a tuple of them.

    Returns
    -------
    float
        ``inf`` where only p can produce it. Under (epsilon, 0)-DistP it is at most ``e^epsilon``.

    Raises
    ------
    ParameterError
        No report of this mechanism, or one that neither distribution can produce.

    Notes
    -----
    Source: theory, section 2 (Bayes factor) and 3.4: of a tuple, a ratio of sums over its places.

    Examples
    --------
    >>> from distp.mechanisms import Identity
    >>> round(bayes_factor(Tupling(Identity(3), 2), [.5, .3, .2], [.2, .3, .5], [0, 0, 1]), 6)
    1.857143
    """
    with_p, with_q = _likelihoods(mechanism, [p, q], report)
    return math.inf if with_q == 0 else float(with_p / with_q)


def posterior(
    mechanism: Mechanism, distributions: Sequence[ArrayLike], priors: ArrayLike, report: ArrayLike
) -> FloatArray:
    """Return the probability of each distribution of a family, given one report.

    Parameters
    ----------
    mechanism : Mechanism
    distributions : sequence of array_like, each of shape (|X|,)
    priors : array_like, shape (number of distributions,)
    report : int or array_like of int, shape (dummies + 1,)

    Returns
    -------
    ndarray, shape (number of distributions,)

    Examples
    --------
    >>> from distp.mechanisms import Identity
    >>> posterior(Identity(2), [[.9, .1], [.3, .7]], [.5, .5], 0).round(3).tolist()
    [0.75, 0.25]
    """
    law = distribution(priors, len(distributions), "priors")
    weighed = law * _likelihoods(mechanism, distributions, report)
    if weighed.sum() == 0:
        raise ParameterError("no distribution with a positive prior can produce this report")
    result: FloatArray = weighed / weighed.sum()
    return result


def _likelihoods(mechanism: Mechanism, distributions: Sequence[ArrayLike], report: ArrayLike) -> FloatArray:
    """Return the likelihood of a report under each distribution, up to one common factor."""
    if not len(distributions):
        raise DistributionError("there is no distribution to compare")
    laws = np.array([mechanism.lift(law) for law in distributions])
    values = np.atleast_1d(np.asarray(report))
    places = mechanism.dummies + 1 if isinstance(mechanism, Tupling) else 1
    if values.shape != (places,) or not np.issubdtype(values.dtype, np.integer):
        raise ParameterError(f"a report of this mechanism is {places} output numbers, got {report!r}")
    if values.min() < 0 or values.max() >= laws.shape[1]:
        raise ParameterError(f"outputs are numbered 0..{laws.shape[1] - 1}, got {report!r}")
    seen = laws[:, values]
    if isinstance(mechanism, Tupling) and mechanism.dummies:
        nu = mechanism.dummy_distribution[values]
        if not mechanism.replacement:
            if np.unique(values).size < places:
                raise ParameterError("a tuple without replacement names each output at most once")
        elif (nu == 0).sum() == 1:
            seen = seen[:, nu == 0]  # no dummy takes this value: it is the real report
        elif (nu == 0).any():
            raise ParameterError("two values of this tuple can be no dummies: it cannot be produced")
        else:
            seen = seen / nu
    likelihoods: FloatArray = seen.sum(axis=1)
    if not likelihoods.any():
        raise ParameterError("no distribution given can produce this report")
    return likelihoods
