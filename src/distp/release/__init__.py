"""What may leave: tuples of a policy, by integer-exact sampling, and noisy points; from the system's entropy.

What reads and writes files loads when it is used: who draws a tuple does not wait for it.
"""

from typing import TYPE_CHECKING, Any

from distp.release.ledger import Ledger
from distp.release.memory import Memory, open_secret
from distp.release.points import SimulatedPoints, release_points, simulate_points
from distp.release.policy import Policy, Simulation
from distp.release.sampling import Sampler
from distp.release.weights import quantised

if TYPE_CHECKING:
    from distp.release.batch import Protected as Protected
    from distp.release.batch import protect_file as protect_file

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


def __getattr__(name: str) -> Any:
    if name not in ("Protected", "protect_file"):
        raise AttributeError(f"module 'distp.release' has no attribute {name!r}")
    from distp.release import batch

    return getattr(batch, name)


def __dir__() -> list[str]:
    return __all__
