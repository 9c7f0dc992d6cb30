"""From a policy to tuples that may leave: integer-exact sampling from operating-system entropy."""

from distp.release.batch import Protected, protect_file
from distp.release.policy import Policy, Simulation
from distp.release.sampling import Sampler
from distp.release.weights import quantised

__all__ = ["Policy", "Protected", "Sampler", "Simulation", "protect_file", "quantised"]
