"""What comes beside check-ins: venues with coordinates, cities, profiles of people, friendships."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from distp.data.checkins import SetAside, Tally
from distp.data.formats import (
    CITY_LAYOUT,
    FRIENDS,
    FRIENDS_LAYOUT,
    PEOPLE,
    PEOPLE_LAYOUT,
    VENUE_LAYOUT,
    VENUES,
)
from distp.data.sources import Part
from distp.data.tables import BROKEN, Layout, text_frames
from distp.errors import DataError

REPLACED = "\ufffd"
NOT_UTF8 = "bytes that are not UTF-8"
CAFE = "Café"
# "Café" with its last letter broken: nothing behind "Caf" but what is neither an ASCII letter nor a digit.
_BROKEN_CAFE = r"^Caf[^A-Za-z0-9\s]+$"
GENDERS = ("male", "female")


@dataclass(frozen=True, eq=False)
class Companions:
    """The frames that check-ins are joined to; None where there is no such file.

    Attributes
    ----------
    venues : polars.DataFrame or None
        ``venue``, ``lat`` and ``lon`` (text), ``category``, ``country``.
    people : polars.DataFrame or None
        ``user`` (text), ``gender`` (male, female or null), ``friends``, ``followers``.
    friends : polars.DataFrame or None
        ``user`` (text), ``friends``: number of friends.
    remarks : tuple of SetAside
    """

    venues: pl.DataFrame | None = None
    people: pl.DataFrame | None = None
    friends: pl.DataFrame | None = None
    remarks: tuple[SetAside, ...] = ()


def read_companions(parts: Mapping[str, Sequence[Part]]) -> Companions:
    """Read the companions among the recognised parts, by role."""
    remarks: list[SetAside] = []
    return Companions(
        _venues(parts.get(VENUES, ()), remarks),
        _people(parts.get(PEOPLE, ()), remarks),
        _friends(parts.get(FRIENDS, ()), remarks),
        tuple(remarks),
    )


def read_cities(parts: Sequence[Part]) -> pl.DataFrame:
    """Return the cities of a Foursquare set: ``city``, ``lat``, ``lon``, ``country`` (ISO alpha-2)."""
    frame = _table(parts, CITY_LAYOUT, "cities", [])
    numbers = frame.with_columns(pl.col("lat", "lon").str.strip_chars().cast(pl.Float64, strict=False))
    return numbers.select("city", "lat", "lon", "country").drop_nulls()


def mended_category() -> pl.Expr:
    """Give the categories of a Foursquare set with the one damage that is known for certain undone: ``Café``.

    The names that merely begin so (Cafeteria) have ASCII letters behind and stay as they are.
    """
    column = pl.col("category")
    return pl.when(column.str.contains(_BROKEN_CAFE)).then(pl.lit(CAFE)).otherwise(column).alias("category")


def _table(parts: Sequence[Part], layout: Layout, what: str, remarks: list[SetAside]) -> pl.DataFrame:
    """Read the files of one role; rows that are no rows are counted."""
    frames = []
    tally = Tally(several=len(parts) > 1)
    for part in parts:
        start = 0
        for frame in text_frames(part, layout, None):
            numbered = frame.with_row_index("row", start)
            tally.add(numbered[BROKEN], numbered["row"], part.name)
            frames.append(numbered.filter(pl.col(BROKEN).is_null()).select("row", *layout.columns))
            start += frame.height
    remarks += [SetAside(f"{what}: {kind.reason}", kind.rows, kind.first, kind.files) for kind in tally.found()]
    if not frames or not sum(frame.height for frame in frames):
        raise DataError(f"the file of {what} has no usable row")
    return pl.concat(frames)


def _venues(parts: Sequence[Part], remarks: list[SetAside]) -> pl.DataFrame | None:
    if not parts:
        return None
    frame = _table(parts, VENUE_LAYOUT, "venues", remarks).with_columns(
        mended_category(), odd=pl.col("category").str.contains(REPLACED, literal=True)
    )
    mended = pl.col("category") == CAFE
    bad = f"{NOT_UTF8} in the category"
    _remark(remarks, f"venues: {bad}, read as {CAFE}", frame.filter(pl.col("odd") & mended))
    _remark(remarks, f"venues: {bad}, kept", frame.filter(pl.col("odd") & ~mended))
    first = pl.col("venue").is_first_distinct()
    _remark(remarks, "venues: a venue that was there before, ignored", frame.filter(~first))
    return frame.filter(first).select("venue", "lat", "lon", "category", "country")


def _remark(remarks: list[SetAside], reason: str, rows: pl.DataFrame) -> None:
    if rows.height:
        remarks.append(SetAside.of(reason, rows["row"].cast(pl.Int64).to_numpy() + 1))


def _people(parts: Sequence[Part], remarks: list[SetAside]) -> pl.DataFrame | None:
    if not parts:
        return None
    frame = _table(parts, PEOPLE_LAYOUT, "people", remarks)
    gender = pl.col("gender").str.strip_chars().str.to_lowercase()
    frame = frame.with_columns(
        pl.when(gender.is_in(GENDERS)).then(gender).alias("gender"),
        pl.col("friends", "followers").str.strip_chars().cast(pl.Int64, strict=False),
    )
    unknown = frame.filter(pl.col("gender").is_null())
    _remark(remarks, "people: gender neither male nor female, unknown here", unknown)
    # A person in two city files is one person.
    return frame.unique("user", keep="first", maintain_order=True).select("user", "gender", "friends", "followers")


def _friends(parts: Sequence[Part], remarks: list[SetAside]) -> pl.DataFrame | None:
    if not parts:
        return None
    # Two snapshots of one network: the later one counts.
    latest = [part for part in parts if "_new" in part.name] or list(parts)
    edges = _table(latest, FRIENDS_LAYOUT, "friendships", remarks).select("user", "friend")
    both = pl.concat([edges, edges.select(user="friend", friend="user")]).filter(pl.col("user") != pl.col("friend"))
    return both.unique().group_by("user").agg(friends=pl.len().cast(pl.Int64)).sort("user")
