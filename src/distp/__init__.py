"""Distribution privacy: hide which distribution a reported value was drawn from.

Start with `calibrate` (target in, mechanism and certificate out) or with the ``distp`` command. Names load
when used, so that ``import distp`` needs nothing but numpy and scipy.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distp.attacks import AttackSuccess as AttackSuccess
    from distp.attacks import LocationAttack as LocationAttack
    from distp.attacks import attack_success as attack_success
    from distp.attacks import bayes_factor as bayes_factor
    from distp.attacks import location_attack as location_attack
    from distp.attacks import posterior as posterior
    from distp.attacks import success_limit as success_limit
    from distp.calibration import Calibration as Calibration
    from distp.calibration import Choice as Choice
    from distp.calibration import Compared as Compared
    from distp.calibration import OptimalChannel as OptimalChannel
    from distp.calibration import OptimalTupling as OptimalTupling
    from distp.calibration import calibrate as calibrate
    from distp.calibration import compare as compare
    from distp.calibration import optimal_channel as optimal_channel
    from distp.calibration import optimal_dummies as optimal_dummies
    from distp.calibration import optimal_tupling as optimal_tupling
    from distp.calibration import pareto as pareto
    from distp.certificates import Certificate as Certificate
    from distp.certificates import certify as certify
    from distp.distributions import Pair as Pair
    from distp.mechanisms import Channel as Channel
    from distp.mechanisms import Classwise as Classwise
    from distp.mechanisms import ContinuousGaussian as ContinuousGaussian
    from distp.mechanisms import ContinuousLaplace as ContinuousLaplace
    from distp.mechanisms import Coupling as Coupling
    from distp.mechanisms import Exponential as Exponential
    from distp.mechanisms import Identity as Identity
    from distp.mechanisms import Mechanism as Mechanism
    from distp.mechanisms import PlanarGaussian as PlanarGaussian
    from distp.mechanisms import PlanarLaplace as PlanarLaplace
    from distp.mechanisms import RandomizedResponse as RandomizedResponse
    from distp.mechanisms import RestrictedLaplace as RestrictedLaplace
    from distp.mechanisms import Tupling as Tupling
    from distp.privacy import Bracket as Bracket
    from distp.privacy import Composition as Composition
    from distp.privacy import Guarantee as Guarantee
    from distp.privacy import WorstPair as WorstPair
    from distp.privacy import class_delta as class_delta
    from distp.privacy import class_dummies as class_dummies
    from distp.privacy import close_beliefs as close_beliefs
    from distp.privacy import close_beliefs_chain as close_beliefs_chain
    from distp.privacy import close_beliefs_metric as close_beliefs_metric
    from distp.privacy import compose as compose
    from distp.privacy import compose_epsilon as compose_epsilon
    from distp.privacy import concentration as concentration
    from distp.privacy import coupling_delta as coupling_delta
    from distp.privacy import coupling_epsilon as coupling_epsilon
    from distp.privacy import delta as delta
    from distp.privacy import density as density
    from distp.privacy import earth_mover_bound as earth_mover_bound
    from distp.privacy import epsilon as epsilon
    from distp.privacy import family_delta as family_delta
    from distp.privacy import family_epsilon as family_epsilon
    from distp.privacy import hellinger_distance as hellinger_distance
    from distp.privacy import in_class as in_class
    from distp.privacy import kl_divergence as kl_divergence
    from distp.privacy import metric_epsilon as metric_epsilon
    from distp.privacy import mixed as mixed
    from distp.privacy import point_delta as point_delta
    from distp.privacy import point_epsilon as point_epsilon
    from distp.privacy import preprocessed as preprocessed
    from distp.privacy import profile as profile
    from distp.privacy import renyi_divergence as renyi_divergence
    from distp.privacy import same_location as same_location
    from distp.privacy import theorem1 as theorem1
    from distp.privacy import theorem2 as theorem2
    from distp.privacy import theorem3 as theorem3
    from distp.privacy import theorem3_epsilon as theorem3_epsilon
    from distp.privacy import theorem3_excess as theorem3_excess
    from distp.privacy import total_variation as total_variation
    from distp.privacy import transported_delta as transported_delta
    from distp.privacy import tuple_bounds as tuple_bounds
    from distp.privacy import xdistp as xdistp
    from distp.release import Policy as Policy
    from distp.release import release_points as release_points
    from distp.release import simulate_points as simulate_points
    from distp.spaces import Box as Box
    from distp.spaces import Regions as Regions
    from distp.spaces import Space as Space
    from distp.transport import Lifted as Lifted
    from distp.transport import Plan as Plan
    from distp.transport import Transport as Transport
    from distp.transport import barycenter as barycenter
    from distp.transport import lifted as lifted
    from distp.transport import transport_cost as transport_cost
    from distp.transport import wasserstein as wasserstein
    from distp.transport import wasserstein_inf as wasserstein_inf
    from distp.utility import expected_loss as expected_loss
    from distp.utility import real_report_loss as real_report_loss
    from distp.utility import worst_loss as worst_loss

_ROOMS = {
    "spaces": ("Box", "Regions", "Space"),
    "distributions": ("Pair",),
    "transport": (
        "Lifted",
        "Plan",
        "Transport",
        "barycenter",
        "lifted",
        "transport_cost",
        "wasserstein",
        "wasserstein_inf",
    ),
    "mechanisms": (
        "Channel",
        "Classwise",
        "ContinuousGaussian",
        "ContinuousLaplace",
        "Coupling",
        "Exponential",
        "Identity",
        "Mechanism",
        "PlanarGaussian",
        "PlanarLaplace",
        "RandomizedResponse",
        "RestrictedLaplace",
        "Tupling",
    ),
    "privacy": (
        "Bracket",
        "Composition",
        "Guarantee",
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
    ),
    "utility": ("expected_loss", "real_report_loss", "worst_loss"),
    "attacks": (
        "AttackSuccess",
        "LocationAttack",
        "attack_success",
        "bayes_factor",
        "location_attack",
        "posterior",
        "success_limit",
    ),
    "certificates": ("Certificate", "certify"),
    "calibration": (
        "Calibration",
        "Choice",
        "Compared",
        "OptimalChannel",
        "OptimalTupling",
        "calibrate",
        "compare",
        "optimal_channel",
        "optimal_dummies",
        "optimal_tupling",
        "pareto",
    ),
    "release": ("Policy", "release_points", "simulate_points"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted(_HOME)
__version__ = version("distp")


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'distp' has no attribute {name!r}")
    value = getattr(import_module(f"distp.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
