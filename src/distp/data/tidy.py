"""One block of rows: its columns under their proper names, a place and a time for each row, or a reason why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from distp.data.companions import NOT_UTF8, Companions, mended_category
from distp.data.places import OUTSIDE, REASON, Window, placed
from distp.data.tables import BROKEN, ODD, PREFIX
from distp.data.times import Clock, local_time
from distp.data.venues import COLUMNS, Venues

ROW, REMARK, INDEX, TIME = "distp:row", "distp:remark", "distp:venue", "distp:time"
NO_VENUE = "venue not among the venues"


@dataclass(frozen=True)
class Plan:
    """What the columns of a file mean.

    Attributes
    ----------
    renamed : dict of str to str
        Columns to rename first.
    lat, lon : str
    user, time, offset, zone : str or None
        As in `read_check_ins`.
    clock : Clock or None
        How the times are written.
    local : str or None
        What to call the column with the local time, where the set gives it one.
    numbers : tuple of str
        Columns of a known set that hold whole numbers.
    words : dict of str to dict of str to str
        Columns of a known set whose values are given a meaning.
    columns : tuple of str or None
        The columns to keep besides; None: all.
    venues : bool
        Whether the place is that of a venue in another file.
    """

    renamed: dict[str, str]
    lat: str
    lon: str
    user: str | None
    time: str | None
    offset: str | None
    zone: str | None
    clock: Clock | None
    local: str | None
    numbers: tuple[str, ...]
    words: dict[str, dict[str, str]]
    columns: tuple[str, ...] | None
    venues: bool

    @property
    def utc_only(self) -> bool:
        """Whether nothing says what the local time is."""
        return self.clock is not None and self.clock.utc and self.offset is None and self.zone is None


def tidy(frame: pl.DataFrame, plan: Plan, venues: Venues | None, window: Window | None) -> pl.DataFrame:
    """Return a block's rows with numbers, a local time, ``distp:reason`` (null: usable) and ``distp:remark``.

    What lies outside the area is not looked at further, and not returned: its time may be anything. ``distp:row``
    tells where in the block a row stands.
    """
    frame = _with_all(frame.rename(plan.renamed), plan).with_row_index(ROW)
    frame = frame.with_columns(pl.coalesce(pl.col(BROKEN), _nobody(frame, plan)).alias(BROKEN))
    sound = frame[BROKEN].is_null()
    if plan.venues:
        assert venues is not None  # the reader has refused check-ins whose venues are missing
        at = venues.find(frame["venue"])
        here = ~(pl.Series(venues.outside[at]) & sound)
        place = pl.Series(INDEX, at).filter(here)
        found = pl.when(pl.col(INDEX) >= 0).then(pl.col(INDEX))
        frame = frame.filter(here).with_columns(place).with_columns(found)
        lost = pl.when(pl.col(INDEX).is_null()).then(pl.lit(NO_VENUE)).otherwise(pl.col(REASON))
        frame = frame.with_columns(venues.frame[REASON].gather(frame[INDEX])).with_columns(lost.alias(REASON))
    else:
        frame = placed(frame, plan.lat, plan.lon, window)
        here = ~((frame[REASON] == OUTSIDE).fill_null(value=False) & sound)
        frame = frame.filter(here)
    frame = frame.with_columns(pl.coalesce(pl.col(BROKEN), pl.col(REASON)).alias(REASON))
    if plan.time is not None and plan.clock is not None:
        moment = local_time(plan.time, plan.clock, plan.offset, plan.zone).alias(TIME)
        late = pl.when(pl.col(TIME).is_null()).then(pl.lit(f"{plan.time} not a date and time"))
        frame = frame.with_columns(moment).with_columns(pl.coalesce(pl.col(REASON), late).alias(REASON))
    remark = pl.lit(None, dtype=pl.String)
    if ODD in frame.columns:
        remark = pl.when(pl.col(ODD) & pl.col(REASON).is_null()).then(pl.lit(f"{NOT_UTF8}, kept with a mark instead"))
    return frame.with_columns(remark.alias(REMARK))


def _with_all(frame: pl.DataFrame, plan: Plan) -> pl.DataFrame:
    """Add the columns that this block lacks altogether, as JSON may: they are null in it."""
    named = (plan.lat, plan.lon) if not plan.venues else ()
    lacking = [name for name in (*named, plan.user, plan.time, plan.offset) if name and name not in frame.columns]
    return frame.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in lacking)


def _nobody(frame: pl.DataFrame, plan: Plan) -> pl.Expr:
    """Say which rows name no person: empty, not a number, or no whole number where the set has those."""
    if plan.user is None:
        return pl.lit(None, dtype=pl.String)
    text = (
        pl.col(plan.user) if frame[plan.user].dtype == pl.String else pl.col(plan.user).cast(pl.String, strict=False)
    )
    absent = text.is_null() | (text.str.strip_chars() == "") | (text == "NaN")
    if plan.user in plan.numbers:
        absent = absent | text.str.strip_chars().cast(pl.Int64, strict=False).is_null()
    return pl.when(absent).then(pl.lit(f"no {plan.user}"))


def finished(frame: pl.DataFrame, plan: Plan, venues: Venues | None, companions: Companions) -> pl.DataFrame:
    """Return the rows to keep with the columns to keep: places of venues, profiles, hour and weekday."""
    if plan.venues and venues is not None:
        at = frame[INDEX]
        frame = frame.with_columns(venues.frame[name].gather(at) for name in COLUMNS)
    for other in (companions.people, companions.friends):
        if other is not None and plan.user is not None and plan.local is not None:
            fresh = [name for name in other.columns if name not in frame.columns or name == "user"]
            people = other.select(fresh).rename({"user": plan.user})
            frame = frame.join(people, on=plan.user, how="left", maintain_order="left")
    if TIME in frame.columns:
        clock = pl.col(TIME).dt
        parts = {"hour": clock.hour().cast(pl.Int8), "weekday": clock.weekday().cast(pl.Int8), "date": clock.date()}
        added = [part.alias(name) for name, part in parts.items() if name not in frame.columns and not plan.utc_only]
        if plan.local is not None:
            added.append(pl.col(TIME).alias("time_utc" if plan.utc_only else plan.local))
        frame = frame.with_columns(added)
    made = [_whole(name) for name in plan.numbers if name in frame.columns]
    made += [
        pl.col(name).replace_strict(list(words), list(words.values()), default=None, return_dtype=pl.String)
        for name, words in plan.words.items()
        if name in frame.columns
    ]
    if plan.local is not None and "category" in frame.columns and not plan.venues:
        made.append(mended_category())
    return frame.with_columns(made).select(kept_columns(frame.columns, plan))


def _whole(name: str) -> pl.Expr:
    """Return a column of a known set as whole numbers; 1980.0 is one, and a person's number is never rounded."""
    text = pl.col(name).cast(pl.String).str.strip_chars()
    exact = text.cast(pl.Int64, strict=False)
    return (
        exact
        if name == "user"
        else pl.coalesce(exact, text.cast(pl.Float64, strict=False).cast(pl.Int64, strict=False))
    )


def kept_columns(names: Sequence[str], plan: Plan) -> list[str]:
    """Return which columns stay."""
    hidden = {plan.offset, plan.time} - {plan.local} if plan.local is not None else set()
    always = {plan.lat, plan.lon, plan.user, "hour", "weekday", "date"}
    return [
        name
        for name in names
        if not name.startswith(PREFIX)
        and name not in hidden
        and (plan.columns is None or name in plan.columns or name in always)
    ]
