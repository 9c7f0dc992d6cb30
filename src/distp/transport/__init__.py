"""Transport between distributions: W_inf, W_1, couplings, lifted relations, barycentres."""

from distp.transport.barycenter import Barycenter, barycenter
from distp.transport.bottleneck import wasserstein_inf
from distp.transport.coupling import Lifted, Plan, Transport
from distp.transport.earth import transport_cost, wasserstein
from distp.transport.relations import lifted

__all__ = [
    "Barycenter",
    "Lifted",
    "Plan",
    "Transport",
    "barycenter",
    "lifted",
    "transport_cost",
    "wasserstein",
    "wasserstein_inf",
]
