"""Probability distributions of an attribute's two classes, with the counts they were estimated from."""

from distp.distributions.pair import Pair, Support

__all__ = ["Pair", "Support"]
