"""Probability distributions of an attribute's two classes, with the counts they were estimated from."""

from distp.distributions.pair import Pair, Support
from distp.distributions.people import People
from distp.distributions.resampling import resampled, second_moments

__all__ = ["Pair", "People", "Support", "resampled", "second_moments"]
