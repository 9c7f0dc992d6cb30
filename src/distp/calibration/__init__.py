"""From a target to a mechanism: parameter search, and what it buys beside the known mechanisms."""

from distp.calibration.calibrate import Calibration, calibrate
from distp.calibration.compare import Compared, compare
from distp.calibration.optimal_channel import OptimalChannel, optimal_channel
from distp.calibration.optimal_dummies import optimal_dummies
from distp.calibration.optimal_tupling import OptimalTupling, optimal_tupling
from distp.calibration.pareto import Choice, pareto

__all__ = [
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
]
