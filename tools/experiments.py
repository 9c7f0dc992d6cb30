"""Run ``distp reproduce`` on the sets that this project is tried on, and keep the aggregates.

Usage: python tools/experiments.py SHARED_FOLDER [--out docs/experiments] [--only NAME] [--quick]

The sets are real check-ins that may not be passed on; they are read from SHARED_FOLDER, brought into files of a
temporary folder, and only aggregates are written. What is too small for a held-out number is not run, and said to be.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from distp.data import CheckIns, Sample
from distp.errors import DistpError
from distp.spaces import Regions

SEED = 20261130
LEAST_PEOPLE, LEAST_CHECK_INS = 10, 100  # of each class in each half: below, a held-out number is noise
BOX = 12.0, 11.0


@dataclass(frozen=True)
class Study:
    """One run of ``distp reproduce``."""

    name: str
    title: str
    files: list[Path]
    words: list[str]


def new_york_193(shared: Path, _: Path) -> Study:
    """Return the check-ins of the 193 most active people of TSMC2014."""
    return Study(
        "new-york-193",
        "New York, Foursquare, 193 people",
        [shared / "foursquare_nyc_193users/checkins.csv.gz"],
        [*options("home", "workplace", "morning"), "--user", "user_id", "--time", "local_time", "--city", "New York"],
    )


def new_york_1083(shared: Path, place: Path) -> Study:
    """Return the visits of 1,083 people to the more popular places, from their minutes since the first check-in."""
    visits = np.load(shared / "stan_nyc_1083users/NYC.npy")
    places = np.load(shared / "stan_nyc_1083users/NYC_POI.npy")
    lat, lon = np.zeros(int(places[:, 0].max()) + 1), np.zeros(int(places[:, 0].max()) + 1)
    lat[places[:, 0].astype(int)], lon[places[:, 0].astype(int)] = places[:, 1], places[:, 2]
    start = np.datetime64("2012-04-03T18:00:00", "us")
    times = start + (visits[:, 2] - 1).astype("timedelta64[m]")
    frame = pl.DataFrame(
        {"user": visits[:, 0], "utc": times, "lat": lat[visits[:, 1]], "lon": lon[visits[:, 1]]}
    ).with_columns(pl.col("utc").dt.replace_time_zone("UTC"))
    path = place / "new_york_1083.parquet"
    frame.write_parquet(path)
    words = [*options("morning", "weekday"), "--user", "user", "--time", "utc", "--zone", "America/New_York"]
    return Study("new-york-1083", "New York, Foursquare, 1,083 people", [path], [*words, "--city", "New York"])


def citi_bike(shared: Path, _: Path) -> Study:
    """Return 10,000 trips of one week."""
    return Study(
        "citi-bike",
        "New York, Citi Bike, trips of a week",
        [shared / "citibike_2018_gender_10k/sample-data.csv"],
        [*options("gender", "member"), "--city", "New York"],
    )


def tokyo_foursquare(shared: Path, _: Path) -> Study:
    """Return the first 13 hours of TSMC2014 Tokyo."""
    return Study(
        "tokyo-foursquare",
        "Tokyo, Foursquare, 13 hours",
        [shared / "tokyo_foursquare_samples/dataset_TSMC2014_TKY_first2000.csv"],
        [*options("morning", "workplace", "home"), "--city", "Tokyo"],
    )


def tokyo_visitors(shared: Path, _: Path) -> Study:
    """Return the sample of WWW2019 that says who is a visitor."""
    return Study(
        "tokyo-visitors",
        "Tokyo, Foursquare, natives and visitors",
        [shared / "tokyo_foursquare_samples/data_com_city.csv"],
        [*options("resident: user_label = 'native'"), "--user", "userId", "--city", "Tokyo"],
    )


def gowalla_brightkite(city: str, ahead: int) -> Callable[[Path, Path], Study]:
    """Return a study of both sets in one city; their people are different people, and their clocks UTC."""

    def make(shared: Path, place: Path) -> Study:
        frames = []
        for number, name in enumerate(("Gowalla", "Brightkite")):
            frame = pl.read_parquet(shared / f"gowalla_brightkite_300users_world/{name}.parquet")
            days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
            at = pl.col("space").cast(pl.String).str.split(" ")
            day = pl.col("day").replace_strict(days, range(7), return_dtype=pl.Int64)
            minutes = day * 1440 + pl.col("time") + 60 * ahead
            frames.append(
                frame.select(
                    user=pl.col("label") + number * 1_000_000,
                    lat=at.list.get(0).cast(pl.Float64),
                    lon=at.list.get(1).cast(pl.Float64),
                    hour=minutes // 60 % 24,
                    weekday=minutes // 1440 % 7 + 1,
                )
            )
        slug = city.lower()
        path = place / f"{slug}.parquet"
        pl.concat(frames).write_parquet(path)
        # Brightkite writes (0, 0) where it does not know: more than one row in a hundred.
        words = [*options("morning", "weekday"), "--user", "user", "--city", city, "--max-bad", "0.05"]
        return Study(f"{slug}-gowalla-brightkite", f"{city}, Gowalla and Brightkite", [path], words)

    return make


STUDIES = [
    new_york_193,
    new_york_1083,
    citi_bike,
    tokyo_foursquare,
    tokyo_visitors,
    gowalla_brightkite("Tokyo", 9),
    gowalla_brightkite("London", 0),  # the sets give no date, so summer time cannot be known: an hour is in doubt
]


def options(*attributes: str) -> list[str]:
    """Return the options that name attributes."""
    return [word for text in attributes for word in ("--attribute", text)]


def opened(words: list[str], files: list[Path]) -> tuple[CheckIns, Regions]:
    """Return the check-ins that a study's attributes need, and its map."""
    from distp.cli.maps import MapOptions, area_of, make_regions
    from distp.cli.steps import DataOptions, read
    from distp.data.readers import MAX_BAD

    def of(option: str) -> str | None:
        return words[words.index(option) + 1] if option in words else None

    place = MapOptions(city=of("--city"))
    area, city = area_of(place, files)
    about = DataOptions(
        user=of("--user"), time=of("--time"), zone=of("--zone"), max_bad=float(of("--max-bad") or MAX_BAD)
    )
    check_ins = read(files, about, named(words), area, None if city is None else city.zone)
    return check_ins, make_regions(place, check_ins, area)


def named(words: list[str]) -> list[str]:
    """Return the attributes that options name."""
    return [words[i + 1] for i, word in enumerate(words) if word == "--attribute"]


def read_sample(make: Callable[[Path, Path], Study], shared: Path, attribute: str) -> tuple[Sample, Regions]:
    """Return the check-ins of a study that an attribute divides, and the map."""
    from distp.cli.steps import sample_attributes

    with tempfile.TemporaryDirectory() as folder:
        study = make(shared, Path(folder))
        check_ins, regions = opened(study.words, study.files)
    (sample,), _ = sample_attributes(check_ins, regions, [attribute], nearest=False, weight="check-ins")
    return sample, regions


def too_small(words: list[str], files: list[Path]) -> str:
    """Return why a study is not worth running, "" if it is: too few people or check-ins of a class in a half."""
    from distp.cli.steps import sample_attributes

    check_ins, regions = opened(words, files)
    few = []
    for attribute in named(words):
        try:
            (sample,), _ = sample_attributes(check_ins, regions, [attribute], nearest=False, weight="check-ins")
        except DistpError as error:
            few.append(str(error))
            continue
        for half in sample.split(SEED):
            for label, chosen in (("with", half.holds), ("without", ~half.holds)):
                people = LEAST_PEOPLE if half.users is None else len(set(half.users[chosen].tolist()))
                if people < LEAST_PEOPLE or chosen.sum() < LEAST_CHECK_INS:
                    known = "" if half.users is None else f" of {people} people"
                    few.append(f"{sample.name}: a half holds {int(chosen.sum())} check-ins{known} {label} it")
    return "; ".join(few)


def main() -> None:
    """Run every study that is large enough, attribute by attribute; say which is not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shared", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments"))
    parser.add_argument("--only", help="name of one study")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    left_out = []
    with tempfile.TemporaryDirectory() as folder:
        for make in STUDIES:
            study = make(given.shared, Path(folder))
            if given.only not in (None, study.name):
                continue
            attributes = named(study.words)
            rest = study.words[2 * len(attributes) :]
            enough = []
            for attribute in attributes:
                why = too_small([*options(attribute), *rest], study.files)
                if why:
                    left_out.append((study.title, attribute, why))
                    print(f"not run: {study.title}, {attribute}: {why}")
                else:
                    enough.append(attribute)
            if not enough:
                continue
            # The files stand under their own names in one folder: what is printed on a page names no other place.
            for file in study.files:
                if file.parent != Path(folder):
                    (Path(folder) / file.name).symlink_to(file.resolve())
            words = ["reproduce", *(file.name for file in study.files), *options(*enough), *rest, "--seed", str(SEED)]
            words += ["--out", str((given.out / study.name).resolve()), *(["--quick"] if given.quick else [])]
            print(f"{study.title}: {', '.join(enough)}", flush=True)
            subprocess.run([Path(sys.executable).with_name("distp"), *words], check=True, cwd=folder)
    if given.only is None:
        rows = pl.DataFrame(left_out, schema=["study", "attribute", "why"], orient="row")
        rows.write_csv(given.out / "not-run.csv")


if __name__ == "__main__":
    main()
