"""From a target to a mechanism: parameter search, and what it buys beside the known mechanisms."""

from distp.calibration.calibrate import Calibration, calibrate
from distp.calibration.compare import Compared, compare

__all__ = ["Calibration", "Compared", "calibrate", "compare"]
