"""From options to an area, and from check-ins to regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from distp.cli.options import numbers
from distp.data import CheckIns
from distp.data.cities import City, find_city
from distp.errors import ParameterError
from distp.spaces import Box, Regions, median_box, read_outlines

MOST_REGIONS = 5_000  # beyond, a search would take hours


@dataclass(frozen=True)
class MapOptions:
    """The options that describe a map."""

    kind: str = "quadtree"
    box: str | None = None
    center: str | None = None
    city: str | None = None
    size_km: str = "12,11"
    cell_km: float = 1.0
    regions: int | None = None
    cap: float | None = None
    mask: Path | None = None
    ring_km: float | None = None

    def check(self) -> None:
        """Refuse options that exclude each other."""
        given = [name for name in ("box", "center", "city") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ParameterError(f"--{given[0]} and --{given[1]} exclude each other")
        if self.regions is not None and self.cap is not None:
            raise ParameterError("--regions and --cap exclude each other")
        if self.kind != "quadtree" and (self.regions is not None or self.cap is not None):
            raise ParameterError(f"--regions and --cap are for --map quadtree, not {self.kind!r}")
        if self.kind.startswith("h3:") and not self.kind.removeprefix("h3:").isdecimal():
            raise ParameterError(f"--map h3:RESOLUTION needs a whole number, got {self.kind!r}")
        for path in (self.outlines, self.mask):
            if path is not None and not path.is_file():
                what = (
                    "--mask must be" if path is self.mask else "--map must be 'quadtree', 'grid', 'h3:RESOLUTION' or"
                )
                raise ParameterError(f"{what} a GeoJSON file that is there, got '{path}'")

    @property
    def outlines(self) -> Path | None:
        """The file of polygons, if the map is made of those."""
        plain = self.kind in ("quadtree", "grid") or self.kind.startswith("h3:")
        return None if plain else Path(self.kind)


def area_of(options: MapOptions, files: Sequence[Path]) -> tuple[Box | None, City | None]:
    """Return the area that the options name, and the city; None where the data shall say."""
    options.check()
    if options.box is not None:
        return Box.from_degrees(*numbers(options.box, 4, "--box SOUTH,WEST,NORTH,EAST")), None
    width, height = numbers(options.size_km, 2, "--size-km WIDTH,HEIGHT")
    if options.city is not None:
        city = find_city(options.city, files)
        return Box.around(city.lat, city.lon, width, height), city
    if options.center is not None:
        lat, lon = numbers(options.center, 2, "--center LAT,LON")
        return Box.around(lat, lon, width, height), None
    return (None if options.outlines is None else _regions_of(options.outlines).box), None


def make_regions(options: MapOptions, check_ins: CheckIns, area: Box | None) -> Regions:
    """Return the regions of a map for these check-ins."""
    if options.outlines is not None:
        return _regions_of(options.outlines)
    mask = None if options.mask is None else read_outlines(options.mask)
    if area is None and mask is None:
        width, height = numbers(options.size_km, 2, "--size-km WIDTH,HEIGHT")
        area = median_box(check_ins.lat, check_ins.lon, width, height)
    if options.kind == "grid":
        return _bounded(Regions.grid(area, options.cell_km, options.ring_km, mask))
    if options.kind.startswith("h3:"):
        return _bounded(Regions.h3(area, int(options.kind.removeprefix("h3:")), options.ring_km, mask))
    return _bounded(
        Regions.quadtree(
            check_ins.lat,
            check_ins.lon,
            box=area,
            cell_km=options.cell_km,
            regions=options.regions,
            ring_km=options.ring_km,
            cap=options.cap,
            mask=mask,
        )
    )


def _regions_of(path: Path) -> Regions:
    return _bounded(Regions.polygons(read_outlines(path)))


def _bounded(regions: Regions) -> Regions:
    if len(regions) > MOST_REGIONS:
        raise ParameterError(f"{len(regions):,} regions are more than the {MOST_REGIONS:,} that can be searched")
    return regions
