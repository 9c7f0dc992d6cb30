"""Mechanisms: frozen parameters and the channel they define. No mechanism holds random state."""

from distp.mechanisms.base import Matrix, Mechanism
from distp.mechanisms.channels import Channel, Identity, RandomizedResponse
from distp.mechanisms.classwise import Classwise
from distp.mechanisms.continuous import Continuous, ContinuousGaussian, ContinuousLaplace
from distp.mechanisms.coupling import Coupling
from distp.mechanisms.kernels import Exponential, PlanarGaussian, PlanarLaplace, RestrictedLaplace
from distp.mechanisms.tupling import Tupling

__all__ = [
    "Channel",
    "Classwise",
    "Continuous",
    "ContinuousGaussian",
    "ContinuousLaplace",
    "Coupling",
    "Exponential",
    "Identity",
    "Matrix",
    "Mechanism",
    "PlanarGaussian",
    "PlanarLaplace",
    "RandomizedResponse",
    "RestrictedLaplace",
    "Tupling",
]
