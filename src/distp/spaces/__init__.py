"""Finite sets of points with a metric, and regions of a map."""

from distp.spaces.projection import Box
from distp.spaces.regions import Regions, median_box
from distp.spaces.space import Space, as_space

__all__ = ["Box", "Regions", "Space", "as_space", "median_box"]
