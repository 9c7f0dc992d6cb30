"""Brackets for delta and epsilon, and the paper's theorem for comparison."""

from distp.privacy.accountant import delta, epsilon, profile
from distp.privacy.bounds import TupleBounds, tuple_bounds
from distp.privacy.bracket import Bracket
from distp.privacy.classes import class_delta, class_dummies, concentration, density, in_class
from distp.privacy.composition import Composition, compose, compose_epsilon, same_location
from distp.privacy.families import (
    WorstPair,
    family_delta,
    family_epsilon,
    metric_epsilon,
    point_delta,
    point_epsilon,
)
from distp.privacy.theorem3 import Theorem3, theorem3, theorem3_epsilon, theorem3_excess

__all__ = [
    "Bracket",
    "Composition",
    "Theorem3",
    "TupleBounds",
    "WorstPair",
    "class_delta",
    "class_dummies",
    "compose",
    "compose_epsilon",
    "concentration",
    "delta",
    "density",
    "epsilon",
    "family_delta",
    "family_epsilon",
    "in_class",
    "metric_epsilon",
    "point_delta",
    "point_epsilon",
    "profile",
    "same_location",
    "theorem3",
    "theorem3_epsilon",
    "theorem3_excess",
    "tuple_bounds",
]
