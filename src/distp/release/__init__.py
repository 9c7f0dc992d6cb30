"""What may leave: tuples of a policy, by integer-exact sampling, and noisy points; from the system's entropy."""

from distp.release.batch import Protected, protect_file
from distp.release.ledger import Ledger
from distp.release.memory import Memory, open_secret
from distp.release.points import SimulatedPoints, release_points, simulate_points
from distp.release.policy import Policy, Simulation
from distp.release.sampling import Sampler
from distp.release.weights import quantised

__all__ = [
    "Ledger",
    "Memory",
    "Policy",
    "Protected",
    "Sampler",
    "SimulatedPoints",
    "Simulation",
    "open_secret",
    "protect_file",
    "quantised",
    "release_points",
    "simulate_points",
]
