"""Readers of check-in files, attribute definitions, and the embedded example."""

from distp.data.attributes import attribute_pair, evaluate
from distp.data.example import Example, load_example
from distp.data.readers import CheckIns, SetAside, read_check_ins

__all__ = ["CheckIns", "Example", "SetAside", "attribute_pair", "evaluate", "load_example", "read_check_ins"]
