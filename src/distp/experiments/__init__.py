"""The paper's experimental section as one function: every number in-sample, held out, and beside pure chance."""

from distp.experiments.records import Experiment
from distp.experiments.run import reproduce
from distp.experiments.settings import Settings

__all__ = ["Experiment", "Settings", "reproduce"]
