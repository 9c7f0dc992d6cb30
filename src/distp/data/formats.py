"""The check-in sets of the field: how each is laid out, and how a file of it is recognised."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from distp.data.sources import Part
from distp.data.tables import Layout, header, json_kind
from distp.data.times import TWITTER, US_FORMS
from distp.errors import DataError

CHECK_INS, VENUES, CITIES, PEOPLE, FRIENDS = "check-ins", "venues", "cities", "people", "friends"
WORLDWIDE = ("tist2015", "www2019", "snap")
GENERIC = ("csv", "tsv", "parquet", "arrow", "jsonl", "geojson")


@dataclass(frozen=True)
class Format:
    """What a known set of check-ins looks like.

    Attributes
    ----------
    name : str
    layout : Layout or None
        Of the check-ins; None where a header names the columns.
    renamed : dict of str to str
        Column of the file (letters and digits of it, in lower case) to the name used here.
    user, time : str or None
        Columns (by the name used here).
    offset : str or None
        Column with the minutes that local time is ahead of UTC.
    times : tuple of str
        Forms of the time column, where only these are right.
    one_file : bool
        Whether two files cannot be read together, since their person numbers are different people.
    words : dict of str to dict of str to str
        Column (by the name used here) to what its values mean; any other value is unknown.
    """

    name: str
    layout: Layout | None
    renamed: dict[str, str]
    user: str | None
    time: str | None
    offset: str | None = None
    times: tuple[str, ...] = ()
    one_file: bool = False
    words: dict[str, dict[str, str]] = field(default_factory=dict)


_FOURSQUARE = Layout(("user", "venue", "utc_time", "offset"), required=4)
_TSMC = Layout(
    ("user", "venue", "category_id", "category", "lat", "lon", "offset", "utc_time"), latin=True, required=8
)
_CITIBIKE = {
    "starttime": "time",
    "startedat": "time",
    "startstationlatitude": "lat",
    "startstationlongitude": "lon",
    "startlat": "lat",
    "startlng": "lon",
    "usertype": "user_type",
    "membercasual": "user_type",
    "gender": "gender",
    "birthyear": "birth_year",
    "startstationid": "venue",
    "tripduration": "duration_s",
}
_TSMC_NAMES = {
    "userid": "user",
    "venueid": "venue",
    "venuecategoryid": "category_id",
    "venuecategory": "category",
    "latitude": "lat",
    "longitude": "lon",
    "timezoneoffset": "offset",
    "utctimestamp": "utc_time",
}
FORMATS = {
    known.name: known
    for known in (
        Format(
            "tist2015",
            _FOURSQUARE,
            {},
            "user",
            "utc_time",
            "offset",
            (TWITTER,),
        ),
        Format(
            "www2019",
            _FOURSQUARE,
            {},
            "user",
            "utc_time",
            "offset",
            (TWITTER,),
            one_file=True,
        ),
        Format(
            "tsmc2014",
            _TSMC,
            _TSMC_NAMES,
            "user",
            "utc_time",
            "offset",
            (TWITTER,),
            one_file=True,
        ),
        Format(
            "snap",
            Layout(("user", "utc_time", "lat", "lon", "venue")),
            {},
            "user",
            "utc_time",
            one_file=True,
        ),
        Format(
            "citibike",
            None,
            _CITIBIKE,
            None,
            "time",
            times=("%Y-%m-%d %H:%M:%S%.f", *US_FORMS),
            words={
                "gender": {"1": "male", "2": "female"},
                "user_type": {
                    "Subscriber": "member",
                    "member": "member",
                    "Customer": "casual",
                    "casual": "casual",
                },
            },
        ),
    )
}
ALIASES = {"gowalla": "snap", "brightkite": "snap"}
VENUE_LAYOUT = Layout(("venue", "lat", "lon", "category", "country"), required=4)
CITY_LAYOUT = Layout(("city", "lat", "lon", "country", "country_name", "type"), required=4)
PEOPLE_LAYOUT = Layout(("user", "gender", "friends", "followers"), required=2)
FRIENDS_LAYOUT = Layout(("user", "friend"), required=2)

_HEX = r"[0-9a-f]{24}"
_NUMBER = r"-?\d+(?:\.\d+)?"
_TWITTER = r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d [+-]\d{4} \d{4}"
# Of text without a header: what a line of it looks like. The first that most lines fit is it.
_LINES = (
    ("foursquare", CHECK_INS, re.compile(rf"\d+\t{_HEX}\t{_TWITTER}\t-?\d+")),
    ("tsmc2014", CHECK_INS, re.compile(rf"\d+\t{_HEX}\t{_HEX}\t[^\t]*\t{_NUMBER}\t{_NUMBER}\t-?\d+\t{_TWITTER}")),
    ("snap", CHECK_INS, re.compile(rf"\d+\t\d{{4}}-\d\d-\d\dT[\d:]+Z\t{_NUMBER}\t{_NUMBER}\t\w+")),
    ("", VENUES, re.compile(rf"{_HEX}\t{_NUMBER}\t{_NUMBER}\t[^\t]*(?:\t[^\t]*)?")),
    ("", CITIES, re.compile(rf"[^\t]+\t{_NUMBER}\t{_NUMBER}\t[A-Z]{{2}}\t[^\t]*\t[^\t]*")),
    ("", PEOPLE, re.compile(r"\d+\t(?:male|female)\t\d*\t\d*", re.IGNORECASE)),
    ("", FRIENDS, re.compile(r"\d+\t\d+")),
)
_LOOKED_AT = 200
_ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".geojson": "geojson",
    ".geojsonl": "jsonl",
    ".geojsons": "jsonl",
}


@dataclass(frozen=True)
class Known:
    """What a part was recognised as: a format (known or generic), and its role in it."""

    format: str
    role: str = CHECK_INS


def recognise(part: Part) -> Known | None:
    """Return what a part is, None where it is nothing that can be read (a readme, say)."""
    head = part.head()
    if head.startswith(b"PAR1"):
        return Known("parquet")
    if head.startswith(b"ARROW1"):
        return Known("arrow")
    ending = next((kind for end, kind in _ENDINGS.items() if part.name.endswith(end)), None)
    if ending in ("parquet", "arrow", "geojson", "jsonl"):
        return Known(ending)
    if part.name.endswith(".json"):
        kind = json_kind(part)
        return None if kind is None else Known(kind)
    lines = head.decode("utf-8", "replace").splitlines()
    if len(head) >= 1 << 16:
        lines = lines[:-1]
    lines = [line for line in lines if line.strip()][:_LOOKED_AT]
    for name, role, form in _LINES:
        if 2 * sum(bool(form.fullmatch(line)) for line in lines) > len(lines):
            return Known(_family(part, name), role)
    if ending is not None:
        names = [_bare(name) for name in header(part, "," if ending == "csv" else "\t")]
        for known in ("citibike", "tsmc2014"):
            renamed = FORMATS[known].renamed
            found = {renamed[name] for name in names if name in renamed}
            if {"lat", "lon", FORMATS[known].time} <= found and (known == "citibike" or "category_id" in found):
                return Known(known)
        return Known(ending)
    return None


def canonical(known: Format, names: Sequence[str]) -> dict[str, str]:
    """Return how the columns of a header are called here."""
    return {name: known.renamed[_bare(name)] for name in names if _bare(name) in known.renamed}


def check_format(name: str) -> str:
    """Return the proper name of a format."""
    proper = ALIASES.get(name.lower(), name.lower())
    if proper not in FORMATS and proper not in GENERIC:
        raise DataError(f"format {name!r} is unknown: use one of {', '.join([*FORMATS, *ALIASES, *GENERIC])}")
    return proper


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _family(part: Part, name: str) -> str:
    """Tell the two Foursquare sets of the same form apart by their file names."""
    if name != "foursquare":
        return name
    return "www2019" if "www" in part.name or part.name.startswith("raw_") else "tist2015"
