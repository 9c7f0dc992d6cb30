"""Readers of check-in files, attribute definitions, and the embedded example."""

from distp.data.attributes import attribute_sample, evaluate
from distp.data.checkins import CheckIns, SetAside
from distp.data.example import Example, load_example
from distp.data.readers import read_check_ins
from distp.data.samples import Sample

__all__ = [
    "CheckIns",
    "Example",
    "Sample",
    "SetAside",
    "attribute_sample",
    "evaluate",
    "load_example",
    "read_check_ins",
]
