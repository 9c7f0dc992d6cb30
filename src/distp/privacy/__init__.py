"""Brackets for delta and epsilon, and the paper's theorem for comparison."""

from distp.privacy.accountant import delta, epsilon
from distp.privacy.bracket import Bracket
from distp.privacy.theorem3 import Theorem3, theorem3, theorem3_epsilon

__all__ = ["Bracket", "Theorem3", "delta", "epsilon", "theorem3", "theorem3_epsilon"]
