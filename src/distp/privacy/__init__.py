"""Brackets for delta and epsilon, what guarantees imply, and the paper's theorems."""

from distp.privacy.accountant import delta, epsilon, profile
from distp.privacy.aware import coupling_delta, coupling_epsilon
from distp.privacy.beliefs import close_beliefs, close_beliefs_chain, close_beliefs_metric
from distp.privacy.bounds import TupleBounds, tuple_bounds
from distp.privacy.bracket import Bracket
from distp.privacy.classes import class_delta, class_dummies, concentration, density, in_class
from distp.privacy.composition import Composition, compose, compose_epsilon, same_location
from distp.privacy.divergences import hellinger_distance, kl_divergence, renyi_divergence, total_variation
from distp.privacy.extended import xdistp
from distp.privacy.families import (
    WorstPair,
    family_delta,
    family_epsilon,
    point_delta,
    point_epsilon,
)
from distp.privacy.guarantees import Guarantee, mixed, preprocessed, theorem1, theorem2
from distp.privacy.metric import metric_epsilon
from distp.privacy.theorem3 import Theorem3, theorem3, theorem3_epsilon, theorem3_excess
from distp.privacy.transported import earth_mover_bound, transported_delta

__all__ = [
    "Bracket",
    "Composition",
    "Guarantee",
    "Theorem3",
    "TupleBounds",
    "WorstPair",
    "class_delta",
    "class_dummies",
    "close_beliefs",
    "close_beliefs_chain",
    "close_beliefs_metric",
    "compose",
    "compose_epsilon",
    "concentration",
    "coupling_delta",
    "coupling_epsilon",
    "delta",
    "density",
    "earth_mover_bound",
    "epsilon",
    "family_delta",
    "family_epsilon",
    "hellinger_distance",
    "in_class",
    "kl_divergence",
    "metric_epsilon",
    "mixed",
    "point_delta",
    "point_epsilon",
    "preprocessed",
    "profile",
    "renyi_divergence",
    "same_location",
    "theorem1",
    "theorem2",
    "theorem3",
    "theorem3_epsilon",
    "theorem3_excess",
    "total_variation",
    "transported_delta",
    "tuple_bounds",
    "xdistp",
]
