"""Finite sets of points with a metric, and regions of a map."""

from distp.spaces.boxes import median_box
from distp.spaces.geojson import Outlines, read_outlines
from distp.spaces.projection import Box
from distp.spaces.regions import Regions
from distp.spaces.space import Space, as_space

__all__ = ["Box", "Outlines", "Regions", "Space", "as_space", "median_box", "read_outlines"]
