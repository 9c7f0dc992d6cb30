"""Small files in the exact format of each data set we read, clean and dirty, with what must come out of them.

Nobody in them exists. Every function takes a folder and returns a `FileSet`; with ``dirty=True`` the same good
rows come with bad ones among them, each with one kind of dirt (the empty lines of Brightkite alone lack all but
the user). Rows are counted from 1 without a header, through all check-in files in their order, every line that a
text file has counting as one: a blank line too.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl


@dataclass(frozen=True)
class FileSet:
    """Files of one format.

    Attributes
    ----------
    files : list of Path
        What a person would pass to the reader.
    format : str
    rows : int
        Data rows of the check-in files.
    good : list of dict
        Each usable row: its number as ``row`` and, as far as the format has them, ``user`` (text), ``lat``, ``lon``,
        ``time`` (local) and ``utc`` (without zone), ``venue``, ``category``, ``country``, ``gender``; None where
        it is unknown.
    bad : dict of str to list of int
        Rows that cannot be used, by kind.
    bad_bytes : list of int
        Usable rows with bytes that are not UTF-8 (in the row, or in the line of its venue).
    misplaced : list of int
        Usable rows whose latitude and longitude are swapped but both in range: they come out as they are written.
    """

    files: list[Path]
    format: str
    rows: int
    good: list[dict[str, Any]]
    bad: dict[str, list[int]] = field(default_factory=dict)
    bad_bytes: list[int] = field(default_factory=list)
    misplaced: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Row:
    """One line or record, and what it must come out as: ``good``, or a kind of dirt."""

    content: Any
    good: dict[str, Any] | None = None
    kind: str = ""
    bad_bytes: bool = False
    misplaced: bool = False


@dataclass(frozen=True)
class _Place:
    venue: str
    lat: float
    lon: float
    category: str
    country: str
    city: str
    category_id: str = "4bf58dd8d48988d1e7931735"


_PLACES = {
    "bar": _Place("3fd66200f964a52000e71ee3", 40.733596, -74.003139, "Jazz Club", "US", "NYC"),
    "gym": _Place("3fd66200f964a52000e81ee3", 40.758102, -73.975734, "Gym / Fitness Center", "US", "NYC"),
    "flat": _Place("4c0b2a9ea1b32d7f3a9d97f0", 40.727345, -73.984212, "Home (private)", "US", "NYC"),
    "shop": _Place("4b1a7a3df964a5201aeb23e3", 40.741120, -73.989455, "Men's Store", "US", "NYC"),
    "deli": _Place("4a1c6a3df964a520aaeb23e4", 40.705001, -74.009999, "Deli / Bodega", "US", "NYC"),
    "cafe": _Place(
        "4bf47064706e20a1ef5ca998", 35.563375, 139.715022, "Café", "JP", "TKY", "4bf58dd8d48988d16d941735"
    ),
    "ramen": _Place("4b7b884ff964a5207d662fe3", 35.715581, 139.800317, "Ramen /  Noodle House", "JP", "TKY"),
    "train": _Place("4b59fedcf964a520a0a428e3", 35.690921, 139.700258, "Train Station", "JP", "TKY"),
    "work": _Place("4ae01a8cf964a520b37d21e3", 51.515419, -0.141588, "Office", "GB", "LDN"),
    "canteen": _Place("4cbd4c6bf964a5206c3e24e3", 41.085640, 29.045610, "College Cafeteria", "TR", "IST"),
    "net": _Place("4d0f1c2bf964a5206c3e24e5", 41.008238, 28.978359, "Internet Cafe", "TR", "IST"),
    "cape": _Place("4b9f1364f964a520ab1237e3", -16.850000, 179.980000, "Scenic Lookout", "FJ", "FJI"),
    "shore": _Place("4b9f1364f964a520ab1237e4", -16.849000, -179.990000, "Beach", "FJ", "FJI"),
}

# Person, place, UTC, minutes that the local time is ahead. In order of time, as the files are.
_VISITS = [
    ("50756", "bar", "2012-04-03T18:00:06", -240),
    ("190571", "train", "2012-04-03T18:30:07", 540),  # Tuesday in UTC, Wednesday 03:30 in Tokyo
    ("221021", "cafe", "2012-04-04T04:59:59", 540),
    ("50756", "flat", "2012-04-05T03:59:59", -240),  # 23:59:59 of the day before
    ("50756", "gym", "2012-04-05T04:00:00", -240),  # 00:00:00
    ("3002", "work", "2012-07-02T08:15:00", 60),
    ("3002", "canteen", "2012-08-15T11:59:59", 180),
    ("3002", "net", "2012-08-15T12:00:00", 180),
    ("190571", "ramen", "2012-10-10T03:00:00", 540),
    ("77", "flat", "2012-11-04T03:30:00", -240),  # 23:30 on Saturday, summer time
    ("77", "bar", "2012-11-04T05:30:00", -240),  # 01:30, for the first time
    ("77", "shop", "2012-11-04T06:30:00", -300),  # 01:30, for the second time
    ("77", "flat", "2012-11-05T04:30:00", -300),  # 23:30 on Sunday, standard time
    ("8", "cape", "2012-12-31T10:30:00", 780),
    ("8", "shore", "2012-12-31T11:30:00", 780),
    ("221021", "deli", "2013-01-15T14:20:30", -300),
    ("50756", "deli", "2013-09-15T22:10:11", -240),
]
_GENDERS = {"NYC": {"50756": "male", "77": "female"}, "TKY": {"190571": "female", "221021": "male"}}
_BAD_TIMES = [
    "Tue Apr 03 18:00:06 2012",  # a word is missing
    "Mon Apr 31 18:00:06 +0000 2012",
    "Tue Foo 03 18:00:06 +0000 2012",
    "Tue Apr 03 25:00:06 +0000 2012",
    "NULL",
    "",
]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _foursquare_time(moment: datetime) -> str:
    """Write a time as these files do, whatever the locale."""
    days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    month = months[moment.month - 1]
    return f"{days[moment.weekday()]} {month} {moment.day:02d} {moment:%H:%M:%S} +0000 {moment.year}"


def _line(fields: Iterable[object], encoding: str = "utf-8") -> bytes:
    """Join fields with tabs; what is bytes already stays as it is."""
    return b"\t".join(part if isinstance(part, bytes) else str(part).encode(encoding) for part in fields)


def _comma_line(fields: Sequence[object], *, quote_all: bool = False) -> bytes:
    """Join fields with commas, quoted where needed (or all of them)."""
    marked = [f"\udcff{i}\udcff" if isinstance(part, bytes) else part for i, part in enumerate(fields)]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL, lineterminator="").writerow(marked)
    text = out.getvalue().encode("utf-8", "surrogateescape")
    for i, part in enumerate(fields):
        if isinstance(part, bytes):
            text = text.replace(b"\xff%d\xff" % i, part)
    return text


def _mix(good: list[_Row], dirt: list[_Row]) -> list[_Row]:
    """Put the bad rows evenly among the good ones; the first row is good, as in every file we know."""
    cuts = [len(dirt) * i // len(good) for i in range(len(good) + 1)]
    rows = []
    for i, row in enumerate(good):
        rows += [row, *dirt[cuts[i] : cuts[i + 1]]]
    return rows


def _write(path: Path, rows: Iterable[_Row | bytes], header: bytes | None = None) -> Path:
    lines = [row.content if isinstance(row, _Row) else row for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in ([header] if header is not None else []) + lines))
    return path


def _file_set(files: list[Path], name: str, rows: Sequence[_Row]) -> FileSet:
    bad: dict[str, list[int]] = {}
    for number, row in enumerate(rows, start=1):
        if row.good is None:
            bad.setdefault(row.kind, []).append(number)
    return FileSet(
        files,
        name,
        len(rows),
        [{"row": number, **row.good} for number, row in enumerate(rows, start=1) if row.good is not None],
        bad,
        [number for number, row in enumerate(rows, start=1) if row.bad_bytes],
        [number for number, row in enumerate(rows, start=1) if row.misplaced],
    )


def _gender(user: str) -> str | None:
    return next((people[user] for people in _GENDERS.values() if user in people), None)


def _visit(user: str, place: _Place, utc: datetime, offset: int, **more: Any) -> dict[str, Any]:
    """Return what a check-in must come out as."""
    return {
        "user": user,
        "lat": place.lat,
        "lon": place.lon,
        "time": utc + timedelta(minutes=offset),
        "utc": utc,
        "venue": place.venue,
        "category": place.category,
        **more,
    }


# The check-ins of Foursquare: one file of visits, one of venues.

# Venue, what stands in its line after the identifier, and the kind of dirt of its check-ins (or what is right).
_BAD_VENUES: list[tuple[str, list[Any], str | dict[str, Any]]] = [
    ("500000000000000000000001", ["0", "0", "Bar", "US"], "zero coordinates"),
    ("500000000000000000000002", ["0.000000", "0.000000", "Bar", "US"], "zero coordinates"),
    ("500000000000000000000003", ["95.200000", "-73.975734", "Bar", "US"], "out of range"),
    ("500000000000000000000004", ["40.758102", "200.500000", "Bar", "US"], "out of range"),
    ("500000000000000000000005", ["139.700258", "35.690921", "Bar", "JP"], "swapped"),
    ("500000000000000000000006", ["nan", "-73.975734", "Bar", "US"], "not a number"),
    ("500000000000000000000007", ["40.758102", "inf", "Bar", "US"], "not a number"),
    ("500000000000000000000008", ["40.758102", "abc", "Bar", "US"], "not a number"),
    ("500000000000000000000009", ["", "", "Bar", "US"], "missing coordinates"),
    ("50000000000000000000000a", ["40.758102", "", "Bar", "US"], "missing coordinates"),
    ("50000000000000000000000b", ["40.710000", "-74.000000", b"Caf\xe9", "US"], {"category": "Café"}),
    ("50000000000000000000000c", ["40.710000", "-74.000000", b"Caf\xc3", "US"], {"category": "Café"}),
    (
        "50000000000000000000000d",
        ["40.710000", "-74.000000", b"Karaok\xe9 Bar", "US"],
        {"category": "Karaok\ufffd Bar"},
    ),
    ("50000000000000000000000e", ["40.710000", "-74.000000", "CafÃ©", "US"], {"category": "Café"}),
    ("50000000000000000000000f", ["40.710000", "-74.000000", "Caf\ufffd", "US"], {"category": "Café"}),
    ("500000000000000000000010", ["40.710000", "-74.000000", "Bar"], {"category": "Bar", "country": None}),
    ("500000000000000000000011", ["-74.000000", "40.710000", "Bar", "US"], {"category": "Bar"}),  # in Antarctica
]


def _check_ins(*, dirty: bool, genders: bool) -> list[_Row]:
    good = []
    for user, key, when, offset in _VISITS:
        place, utc = _PLACES[key], _moment(when)
        right = _visit(user, place, utc, offset, country=place.country)
        if genders:
            right["gender"] = _gender(user)
        good.append(_Row(_line([user, place.venue, _foursquare_time(utc), offset]), right))
    if not dirty:
        return good
    venue, utc = _PLACES["bar"].venue, _moment("2012-06-01T12:00:00")
    time = _foursquare_time(utc)
    dirt = [
        _Row(_line(["50756", venue, time]), kind="short line"),
        _Row(_line(["50756", venue]), kind="short line"),
        _Row(b"50756", kind="short line"),
        _Row(_line(["50756", venue, time, "-240", "x"]), kind="long line"),
        *(_Row(_line(["50756", venue, bad, "-240"]), kind="bad time") for bad in _BAD_TIMES),
        _Row(_line(["50756", venue, time, "abc"]), kind="bad time"),  # no local time without an offset
        _Row(_line(["50756", "5fffffffffffffffffffffff", time, "-240"]), kind="no such venue"),
        _Row(_line(["50756", "", time, "-240"]), kind="no such venue"),
        _Row(_line(["", venue, time, "-240"]), kind="no user"),
        _Row(b"", kind="blank line"),
    ]
    for venue, fields, outcome in _BAD_VENUES:
        content = _line(["50756", venue, time, "-240"])
        if isinstance(outcome, str):
            dirt.append(_Row(content, kind=outcome))
            continue
        lat, lon = float(fields[0]), float(fields[1])
        place = _Place(venue, lat, lon, "", "US", "NYC")
        right = _visit("50756", place, utc, -240, country="US") | outcome
        if genders:
            right["gender"] = _gender("50756")
        not_utf8 = isinstance(fields[2], bytes)
        dirt.append(_Row(content, right, bad_bytes=not_utf8, misplaced=lat < -60))
    return _mix(good, dirt)


def _venues(*, dirty: bool) -> list[bytes]:
    lines = [
        _line([place.venue, f"{place.lat:.6f}", f"{place.lon:.6f}", place.category, place.country])
        for place in _PLACES.values()
    ]
    if dirty:
        # The second line of a venue must not double its check-ins.
        lines += [_line([venue, *fields]) for venue, fields, _ in _BAD_VENUES] + [lines[0], b""]
    return sorted(lines)


def tist2015(folder: Path, *, dirty: bool = False) -> FileSet:
    """Write dataset_TIST2015 and the profiles of dataset_UbiComp2016."""
    rows = _check_ins(dirty=dirty, genders=True)
    cities = [
        _line(["New York", "40.750000", "-73.980000", "US", "United States", "Other"]),
        _line(["Tokyo", "35.685000", "139.751400", "JP", "Japan", "National and provincial capital"]),
        _line(["London", "51.507200", "-0.127500", "GB", "United Kingdom", "National capital"]),
        _line(["Istanbul", "41.013800", "28.949700", "TR", "Turkey", "Provincial capital"]),
        _line(["Suva", "-18.141600", "178.441900", "FJ", "Fiji", "National capital"]),
        _line(["St. John's", "47.561500", "-52.712600", "CA", "Canada", "Provincial capital"]),
    ]
    files = [
        _write(folder / "dataset_TIST2015_Checkins.txt", rows),
        _write(folder / "dataset_TIST2015_POIs.txt", _venues(dirty=dirty)),
        _write(folder / "dataset_TIST2015_Cities.txt", cities),
    ]
    for tag, people in _GENDERS.items():
        lines = [_line([user, gender, 345, 1039]) for user, gender in people.items()]
        lines.append(_line([f"9{len(tag)}0{tag == 'TKY':d}", "male", 0, 2]))  # who never checks in
        if dirty and tag == "NYC":
            lines += [_line(["3002", "", 1, 1]), _line(["8", "unknown", 1, 1])]
        files.append(_write(folder / f"dataset_UbiComp2016_UserProfile_{tag}.txt", lines))
    return _file_set(files, "tist2015", rows)


def www2019(folder: Path, *, dirty: bool = False, filtered: bool = False) -> FileSet:
    """Write the WWW2019 set; ``filtered`` returns its smaller check-in file instead of the raw one."""
    raw = _check_ins(dirty=dirty, genders=False)
    small = raw[2:]  # what its authors kept
    files = [
        _write(folder / "raw_Checkins_anonymized.txt", raw),
        _write(folder / "dataset_WWW_Checkins_anonymized.txt", small),
        _write(folder / "raw_POIs.txt", _venues(dirty=dirty)),
        _write(folder / "dataset_WWW_friendship_old.txt", [_line(["50756", "77"]), _line(["77", "190571"])]),
        _write(
            folder / "dataset_WWW_friendship_new.txt",
            [_line(["50756", "77"]), _line(["77", "190571"]), _line(["8", "3002"])],
        ),
    ]
    del files[0 if filtered else 1]
    return _file_set(files, "www2019", small if filtered else raw)


# Formats with the coordinates in the row.


def _row_dirt(
    make: Callable[[dict[str, Any]], bytes],
    base: dict[str, Any],
    right: dict[str, Any],
    *,
    bad_times: Sequence[str],
    separator: bytes,
    user: bool = True,
    category: str | None = "category",
    latin_1: bool = False,
) -> list[_Row]:
    """Return every kind of bad row, made from a good one; ``base`` is what ``make`` writes down."""
    whole = make(base)
    quoted = whole.startswith(b'"')

    def spoilt(kind: str, **changes: Any) -> _Row:
        return _Row(make(base | changes), kind=kind)

    lat, lon = base["lat"], base["lon"]
    dirt = [
        _Row(separator.join(whole.split(separator)[:2]), kind="short line"),
        _Row(whole + separator + (b'"x"' if quoted else b"x"), kind="long line"),
        *(spoilt("bad time", time=bad) for bad in bad_times),
        spoilt("zero coordinates", lat="0", lon="0"),
        spoilt("zero coordinates", lat="0.0", lon="-0.0"),
        spoilt("out of range", lat="95.2"),
        spoilt("out of range", lon="-200.5"),
        spoilt("swapped", lat="139.700258", lon="35.690921"),
        spoilt("not a number", lat="nan"),
        spoilt("not a number", lon="inf"),
        spoilt("not a number", lat="abc"),
        spoilt("missing coordinates", lat="", lon=""),
        spoilt("missing coordinates", lon=""),
        _Row(b"", kind="blank line"),
    ]
    if abs(float(lon)) <= 90:
        elsewhere = right | {"lat": float(lon), "lon": float(lat)}
        dirt.append(_Row(make(base | {"lat": lon, "lon": lat}), elsewhere, misplaced=True))
    if user:
        dirt.append(spoilt("no user", user=""))
    if category is not None and latin_1:
        dirt.append(_Row(make(base | {category: "Café".encode()}), right | {"category": "Café"}))
        dirt.append(_Row(make(base | {category: b"Caf\xe9"}), right | {"category": "Café"}, bad_bytes=True))
    elif category is not None:
        dirt.append(_Row(make(base | {category: b"Caf\xe9"}), right | {category: "Café"}, bad_bytes=True))
        broken = b"Karaok\xe9 Bar"
        dirt.append(_Row(make(base | {category: broken}), right | {category: "Karaok\ufffd Bar"}, bad_bytes=True))
    return dirt


_TSMC_COLUMNS = [
    "userId",
    "venueId",
    "venueCategoryId",
    "venueCategory",
    "latitude",
    "longitude",
    "timezoneOffset",
    "utcTimestamp",
]


def tsmc2014(folder: Path, *, dirty: bool = False, city: str = "NYC", as_csv: bool = False) -> FileSet:
    """Write dataset_TSMC2014 of NYC or TKY: tabs, latin-1, no header; or as CSV in UTF-8 with a header.

    The two cities number their people separately: they are two sets, not one in two files.
    """

    def make(parts: dict[str, Any]) -> bytes:
        names = ["user", "venue", "category_id", "category", "lat", "lon", "offset", "time"]
        fields = [parts[name] for name in names]
        return _comma_line(fields) if as_csv else _line(fields, "latin-1")

    good: list[_Row] = []
    base: dict[str, Any] = {}
    first_right: dict[str, Any] = {}
    for user, key, when, offset in _VISITS:
        place, utc = _PLACES[key], _moment(when)
        if place.city != city:
            continue
        parts = {
            "user": user,
            "venue": place.venue,
            "category_id": place.category_id,
            "category": place.category,
            "lat": str(place.lat),
            "lon": str(place.lon),
            "offset": offset,
            "time": _foursquare_time(utc),
        }
        right = _visit(user, place, utc, offset)
        # In latin-1 the é of the real file is one byte, which is not UTF-8.
        good.append(_Row(make(parts), right, bad_bytes=not as_csv and not place.category.isascii()))
        if not base:
            base, first_right = parts, right
    dirt = []
    if dirty:
        separator = b"," if as_csv else b"\t"
        # The time is the last field: without it, a line without marks ends early.
        bad_times = [bad for bad in _BAD_TIMES if bad or as_csv]
        dirt = _row_dirt(make, base, first_right, bad_times=bad_times, separator=separator, latin_1=True)
        dirt.append(_Row(make(base | {"offset": "abc"}), kind="bad time"))
    rows = _mix(good, dirt)
    header = _comma_line(_TSMC_COLUMNS) if as_csv else None
    path = _write(folder / f"dataset_TSMC2014_{city}.{'csv' if as_csv else 'txt'}", rows, header)
    return _file_set([path], "tsmc2014", rows)


def _snap(folder: Path, name: str, location_ids: dict[str, str], *, dirty: bool) -> tuple[list[Path], list[_Row]]:
    """Write check-ins person by person, newest first, and the friendships."""

    def make(parts: dict[str, Any]) -> bytes:
        return _line([parts[key] for key in ("user", "time", "lat", "lon", "venue")])

    users = list(dict.fromkeys(visit[0] for visit in _VISITS))
    good: list[_Row] = []
    base: dict[str, Any] = {}
    first_right: dict[str, Any] = {}
    newest = _VISITS[::-1]
    for user, key, when, _ in sorted(newest, key=lambda visit: users.index(visit[0])):
        place, utc = _PLACES[key], _moment(when)
        number = str(users.index(user))
        parts = {
            "user": number,
            "time": f"{utc:%Y-%m-%dT%H:%M:%S}Z",
            "lat": f"{place.lat:.10f}".rstrip("0"),
            "lon": f"{place.lon:.10f}".rstrip("0"),
            "venue": location_ids[key],
        }
        right = {
            "user": number,
            "lat": place.lat,
            "lon": place.lon,
            "time": None,
            "utc": utc,
            "venue": parts["venue"],
        }
        good.append(_Row(make(parts), right))
        if not base:
            base, first_right = parts, right
    dirt = []
    if dirty:
        bad_times = ["2010-10-19", "2010-13-19T23:55:27Z", "2010-02-30T23:55:27Z", "2010-10-19T25:55:27Z", "NULL", ""]
        dirt = _row_dirt(make, base, first_right, bad_times=bad_times, separator=b"\t", category=None)
        if name == "Brightkite":
            nowhere = base | {"lat": "0.0", "lon": "0.0", "venue": "0" * 32}
            dirt.append(_Row(make(nowhere), kind="zero coordinates"))
            dirt.append(_Row(b"4\t\t\t\t", kind="missing coordinates"))
    rows = _mix(good, dirt)
    edges = [_line([0, 1]), _line([1, 0]), _line([0, 2]), _line([2, 0])]
    return [
        _write(folder / f"{name}_totalCheckins.txt", rows),
        _write(folder / f"{name}_edges.txt", edges),
    ], rows


def gowalla(folder: Path, *, dirty: bool = False) -> FileSet:
    """Write the SNAP Gowalla files; they say UTC only, so ``time`` is None."""
    ids = {key: str(22847 + 37 * i) for i, key in enumerate(_PLACES)}
    return _file_set(*_named(_snap(folder, "Gowalla", ids, dirty=dirty), "gowalla"))


def brightkite(folder: Path, *, dirty: bool = False) -> FileSet:
    """Write the SNAP Brightkite files, dirty with the empty lines and the (0, 0) that they are known for."""
    ids = {key: f"{i + 1:02x}" * (20 if i % 3 == 0 else 16) for i, key in enumerate(_PLACES)}
    return _file_set(*_named(_snap(folder, "Brightkite", ids, dirty=dirty), "brightkite"))


def _named(made: tuple[list[Path], list[_Row]], name: str) -> tuple[list[Path], str, list[_Row]]:
    return made[0], name, made[1]


# Citi Bike: trips instead of check-ins, no person; the start of a trip is the place.

_OLD_COLUMNS = [
    "tripduration",
    "starttime",
    "stoptime",
    "start station id",
    "start station name",
    "start station latitude",
    "start station longitude",
    "end station id",
    "end station name",
    "end station latitude",
    "end station longitude",
    "bikeid",
    "usertype",
    "birth year",
    "gender",
]
_SPELT_COLUMNS = [
    "Trip Duration",
    "Start Time",
    "Stop Time",
    "Start Station ID",
    "Start Station Name",
    "Start Station Latitude",
    "Start Station Longitude",
    "End Station ID",
    "End Station Name",
    "End Station Latitude",
    "End Station Longitude",
    "Bike ID",
    "User Type",
    "Birth Year",
    "Gender",
]
_NEW_COLUMNS = [
    "ride_id",
    "rideable_type",
    "started_at",
    "ended_at",
    "start_station_name",
    "start_station_id",
    "end_station_name",
    "end_station_id",
    "start_lat",
    "start_lng",
    "end_lat",
    "end_lng",
    "member_casual",
]
_STATIONS = [
    ("3244", "University Pl & E 8 St", 40.73143724, -73.99490342),
    ("483", "E 12 St & 3 Ave", 40.73223272, -73.98889957),
    ("2000", 'Front St, "The Corner" & Washington St', 40.70255088, -73.98940236),
]
# Start, seconds, from, to, user type, year of birth, gender (0 unknown, 1 male, 2 female).
_TRIPS = [
    ("2015-09-01T00:00:25", 238, 0, 1, "Subscriber", "1986", 1),
    ("2015-09-01T11:59:59", 529, 1, 2, "Subscriber", "1981", 2),
    ("2015-09-05T12:00:00", 1064, 2, 0, "Customer", "", 0),
    ("2015-09-06T23:30:10", 119, 0, 0, "Subscriber", "1997", 2),
    ("2015-10-10T08:05:07", 700, 2, 1, "Customer", "", 0),
]
CITIBIKE_STYLES = ("2013", "2015", "2016", "2018")


def _trip_time(style: str, moment: datetime) -> str:
    if style == "2015":
        return f"{moment.month}/{moment.day}/{moment.year} {moment:%H:%M:%S}"
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (".5410" if style == "2018" else "")


def citibike(folder: Path, *, dirty: bool = False, style: str = "2015") -> FileSet:
    r"""Write trips in the format of up to January 2021; the years differ.

    2013: all fields quoted, ``\N`` for an unknown year of birth. 2015: times such as 9/1/2015 00:00:25. 2016: column
    names with capitals (Trip Duration, ...), quoted. 2018: fractions of seconds.
    """

    def make(parts: dict[str, Any]) -> bytes:
        return _comma_line([parts[name] for name in order], quote_all=style in ("2013", "2016"))

    order = ["seconds", "time", "stop", "id", "name", "lat", "lon", "to id", "to name", "to lat", "to lon"]
    order += ["bike", "user type", "born", "gender"]
    good: list[_Row] = []
    base: dict[str, Any] = {}
    first_right: dict[str, Any] = {}
    for i, (when, seconds, start, end, user_type, born, gender) in enumerate(_TRIPS):
        begin = _moment(when)
        values = [seconds, _trip_time(style, begin), _trip_time(style, begin + timedelta(seconds=seconds))]
        values += [*_STATIONS[start], *_STATIONS[end], 17585 + i, user_type]
        values += [born or ("\\N" if style == "2013" else ""), gender]
        parts = dict(zip(order, values, strict=True))
        right = {
            "lat": _STATIONS[start][2],
            "lon": _STATIONS[start][3],
            "time": begin + timedelta(microseconds=541_000 if style == "2018" else 0),
            "gender": (None, "male", "female")[gender],
            "user_type": user_type,
            "end_lat": _STATIONS[end][2],
            "end_lon": _STATIONS[end][3],
        }
        good.append(_Row(make(parts), right))
        if not base:
            base, first_right = parts, right
    dirt = []
    if dirty:
        bad_times = ["31/31/2015 00:00:25", "2015-02-30 00:00:25", "2015-09-01 25:00:25", "yesterday", ""]
        dirt = _row_dirt(make, base, first_right, bad_times=bad_times, separator=b",", user=False, category=None)
        dirt.append(_Row(make(base | {"name": b"Caf\xe9 & 3 Ave"}), first_right, bad_bytes=True))
    rows = _mix(good, dirt)
    header = _comma_line(_SPELT_COLUMNS if style == "2016" else _OLD_COLUMNS, quote_all=style in ("2013", "2016"))
    return _file_set([_write(folder / f"{style}09-citibike-tripdata.csv", rows, header)], "citibike", rows)


def citibike_2021(folder: Path, *, dirty: bool = False) -> FileSet:
    """Write trips in the format since February 2021: no gender; a bike that is never returned has no end."""

    def make(parts: dict[str, Any]) -> bytes:
        return _comma_line(list(parts.values()))

    good: list[_Row] = []
    base: dict[str, Any] = {}
    first_right: dict[str, Any] = {}
    for i, (when, seconds, start, end, user_type, _, _) in enumerate(_TRIPS):
        begin = _moment(when).replace(year=2022)
        lost = i == 3
        a, b = _STATIONS[start], ("", "", "", "") if lost else _STATIONS[end]
        kind = "member" if user_type == "Subscriber" else "casual"
        parts = {
            "ride": f"{0xA847FADBBC638E45 + i:016X}",
            "bike": "electric_bike" if i % 2 else "classic_bike",
            "time": f"{begin:%Y-%m-%d %H:%M:%S}" + (".207" if i == 4 else ""),  # since 2024 with fractions
            "stop": f"{begin + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}",
            "from": a[1],
            "from id": f"{a[0]}.0{i}",
            "to": b[1],
            "to id": b[0],
            "lat": a[2],
            "lon": a[3],
            "end lat": b[2],
            "end lon": b[3],
            "kind": kind,
        }
        right = {
            "lat": a[2],
            "lon": a[3],
            "time": begin + timedelta(microseconds=207_000 if i == 4 else 0),
            "user_type": kind,
            "end_lat": None if lost else b[2],
            "end_lon": None if lost else b[3],
        }
        good.append(_Row(make(parts), right))
        if not base:
            base, first_right = parts, right
    dirt = []
    if dirty:
        bad_times = ["2022-02-30 00:00:25", "2022-09-01 25:00:25", "yesterday", ""]
        dirt = _row_dirt(make, base, first_right, bad_times=bad_times, separator=b",", user=False, category=None)
        dirt.append(_Row(make(base | {"from": b"Caf\xe9 & 3 Ave"}), first_right, bad_bytes=True))
    rows = _mix(good, dirt)
    header = _comma_line(_NEW_COLUMNS)
    return _file_set([_write(folder / "202209-citibike-tripdata.csv", rows, header)], "citibike", rows)


# Tables of one's own: columns user, lat, lon, time (local), category.


def _table() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return what is written and what must come out, row by row."""
    rows = []
    for user, key, when, offset in _VISITS:
        place, local = _PLACES[key], _moment(when) + timedelta(minutes=offset)
        category = 'Store, "Men\'s"' if key == "shop" else place.category
        right = {"user": user, "lat": place.lat, "lon": place.lon, "time": local, "category": category}
        written = right | {"lat": str(place.lat), "lon": str(place.lon), "time": f"{local:%Y-%m-%d %H:%M:%S}"}
        rows.append((written, right))
    return rows


_OWN_COLUMNS = ["user", "lat", "lon", "time", "category"]
_OWN_BAD_TIMES = ["2012-02-30 10:00:00", "2012-04-03 25:00:00", "yesterday", ""]


def _text_table(folder: Path, name: str, separator: bytes, *, dirty: bool) -> FileSet:
    def make(parts: dict[str, Any]) -> bytes:
        fields = [parts[column] for column in _OWN_COLUMNS]
        if separator == b",":
            return _comma_line(fields)
        return _line(part.replace('"', "") if isinstance(part, str) else part for part in fields)

    good = []
    for written, right in _table():
        if separator == b"\t":
            right["category"] = right["category"].replace('"', "")
        good.append(_Row(make(written), right))
    dirt = []
    if dirty:
        base, right = _table()[0]
        dirt = _row_dirt(make, base, right, bad_times=_OWN_BAD_TIMES, separator=separator)
    rows = _mix(good, dirt)
    path = _write(folder / f"check_ins.{name}", rows, separator.join(column.encode() for column in _OWN_COLUMNS))
    return _file_set([path], name, rows)


def comma_table(folder: Path, *, dirty: bool = False) -> FileSet:
    """Write CSV with a header, quoted where needed."""
    return _text_table(folder, "csv", b",", dirty=dirty)


def tab_table(folder: Path, *, dirty: bool = False) -> FileSet:
    """Write TSV with a header, without quotes."""
    return _text_table(folder, "tsv", b"\t", dirty=dirty)


def _record_dirt(base: dict[str, Any], right: dict[str, Any]) -> list[_Row]:
    """Return bad records whose coordinates are numbers."""
    lat, lon = right["lat"], right["lon"]
    bad: list[tuple[str, dict[str, Any]]] = [
        ("zero coordinates", {"lat": 0.0, "lon": 0.0}),
        ("out of range", {"lat": 95.2}),
        ("out of range", {"lon": -200.5}),
        ("swapped", {"lat": 139.700258, "lon": 35.690921}),
        ("missing coordinates", {"lat": None, "lon": None}),
        ("missing coordinates", {"lon": None}),
        ("no user", {"user": None}),
        ("bad time", {"time": None}),
    ]
    rows = [_Row(base | changes, kind=kind) for kind, changes in bad]
    return [*rows, _Row(base | {"lat": lon, "lon": lat}, right | {"lat": lon, "lon": lat}, misplaced=True)]


def parquet(folder: Path, *, dirty: bool = False) -> FileSet:
    """Write Parquet: whole numbers, floats and times of their own types."""
    good = [_Row(right | {"user": int(right["user"])}, right) for _, right in _table()]
    dirt = []
    if dirty:
        base, right = good[0].content, _table()[0][1]
        dirt = _record_dirt(base, right)
        dirt.append(_Row(base | {"lat": float("nan")}, kind="not a number"))
        dirt.append(_Row(base | {"lon": float("inf")}, kind="not a number"))
    rows = _mix(good, dirt)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "check_ins.parquet"
    schema: dict[str, Any] = {
        "user": pl.Int64,
        "lat": pl.Float64,
        "lon": pl.Float64,
        "time": pl.Datetime("us"),
        "category": pl.String,
    }
    pl.DataFrame([row.content for row in rows], schema=schema).write_parquet(path)
    return _file_set([path], "parquet", rows)


def _json_records(dirty: bool) -> list[_Row]:
    good = []
    for written, right in _table():
        content = written | {"lat": right["lat"], "lon": right["lon"]}
        good.append(_Row(content, right))
    if not dirty:
        return good
    base, right = good[0].content, _table()[0][1]
    dirt = _record_dirt(base, right)
    dirt += [_Row(base | {"time": bad}, kind="bad time") for bad in _OWN_BAD_TIMES]
    dirt.append(_Row(base | {"lat": "abc"}, kind="not a number"))
    return _mix(good, dirt)


def json_lines(folder: Path, *, dirty: bool = False) -> FileSet:
    """Write one JSON object a line."""
    rows = [
        replace(row, content=json.dumps(row.content, ensure_ascii=False).encode()) for row in _json_records(dirty)
    ]
    if dirty:
        written, right = _table()[-1]
        record = written | {"lat": right["lat"], "lon": right["lon"]}
        whole = json.dumps(record).encode()
        no_lon = {key: value for key, value in record.items() if key != "lon"}
        rows += [
            _Row(json.dumps(no_lon).encode(), kind="missing coordinates"),
            _Row(whole[:30], kind="short line"),
            _Row(whole.replace(b"Deli / Bodega", b"Caf\xe9"), right | {"category": "Café"}, bad_bytes=True),
            _Row(b"", kind="blank line"),
            _Row(whole, right),
        ]
    return _file_set([_write(folder / "check_ins.jsonl", rows)], "jsonl", rows)


def geojson(folder: Path, *, dirty: bool = False) -> FileSet:
    """Write a FeatureCollection of Points: longitude first, one of them with a height."""
    rows = _json_records(dirty)
    features = []
    for i, row in enumerate(rows):
        place = [row.content["lon"], row.content["lat"]]
        features.append(
            {
                "type": "Feature",
                "geometry": None
                if place == [None, None]
                else {"type": "Point", "coordinates": place + [12.5] * (i == 1)},
                "properties": {name: row.content[name] for name in ("user", "time", "category")},
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "check_ins.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}, ensure_ascii=False), "utf-8")
    return _file_set([path], "geojson", rows)


# The same, packed.


def gzipped(made: FileSet) -> FileSet:
    """Replace every file by its .gz."""
    packed = []
    for path in made.files:
        target = path.with_name(path.name + ".gz")
        target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()
        packed.append(target)
    return replace(made, files=packed)


def zipped(made: FileSet, *, folder: str = "", extras: bool = False) -> FileSet:
    """Replace the files by one .zip; ``extras`` adds what a Mac and the real archives add: a readme, ._ files."""
    target = made.files[0].parent / f"{made.format}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        if extras:
            archive.writestr(f"{folder}dataset_readme.txt", "Please cite.\tThis is no table.\n")
            archive.writestr("__MACOSX/", b"")
        for path in made.files:
            archive.write(path, folder + path.name)
            if extras:
                archive.writestr(f"__MACOSX/{folder}._{path.name}", b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X")
            path.unlink()
    return replace(made, files=[target])


FORMATS: dict[str, Callable[..., FileSet]] = {
    "tist2015": tist2015,
    "www2019": www2019,
    "tsmc2014": tsmc2014,
    "tsmc2014 Tokyo": lambda folder, dirty=False: tsmc2014(folder, dirty=dirty, city="TKY"),
    "tsmc2014 as CSV": lambda folder, dirty=False: tsmc2014(folder, dirty=dirty, as_csv=True),
    "gowalla": gowalla,
    "brightkite": brightkite,
    **{
        f"citibike {style}": lambda folder, dirty=False, style=style: citibike(folder, dirty=dirty, style=style)
        for style in CITIBIKE_STYLES
    },
    "citibike 2021": citibike_2021,
    "csv": comma_table,
    "tsv": tab_table,
    "parquet": parquet,
    "jsonl": json_lines,
    "geojson": geojson,
}
