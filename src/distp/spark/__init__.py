"""On Apache Spark: the same policy applied, and the same counts taken, where the check-ins are (extra ``spark``)."""

from distp.spark.cells import CellCounts, cells
from distp.spark.counting import Counted, count
from distp.spark.protecting import protect

__all__ = ["CellCounts", "Counted", "cells", "count", "protect"]
