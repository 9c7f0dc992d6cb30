"""Attributes with a name: each a written rule, turned into a condition on the columns."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from distp.data.checkins import CheckIns
from distp.data.people import RULES, with_people
from distp.errors import DataError

RESIDENT_DAYS = 30


@dataclass(frozen=True)
class Preset:
    """A named attribute.

    Attributes
    ----------
    name, rule : str
    condition : str
        SQL; ``{median}`` stands for the median over people of ``column``.
    column : str or None
    needs : str
        What a file must have for it.
    """

    name: str
    rule: str
    condition: str
    needs: str
    column: str | None = None


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("home", "check-ins at a venue of category Home (private)", "category = 'Home (private)'", "category"),
        Preset("workplace", "check-ins at a venue of category Office", "category = 'Office'", "category"),
        Preset("gender", "check-ins of men (against women; others are unknown)", "gender = 'male'", "gender"),
        Preset("morning", "check-ins before noon, local time", "hour < 12", "hour"),
        Preset("weekday", "check-ins from Monday to Friday, local time", "weekday <= 5", "weekday"),
        Preset(
            "north",
            "people whose home cell lies north of the median person's; home_lat: " + RULES["home_lat"],
            "home_lat > {median}",
            "home_lat",
            "home_lat",
        ),
        Preset(
            "social", "people with more friends than the median person", "friends > {median}", "friends", "friends"
        ),
        Preset(
            "followed",
            "people with more followers than the median person",
            "followers > {median}",
            "followers",
            "followers",
        ),
        Preset(
            "resident",
            f"people whose first and last check-in on the map are more than {RESIDENT_DAYS} days apart (others: "
            "visitors)",
            f"days_here > {RESIDENT_DAYS}",
            "days_here",
        ),
        Preset("member", "trips of subscribers (against casual riders)", "user_type = 'member'", "user_type"),
        Preset("at-home", "check-ins in the person's inferred home cell; " + RULES["at_home"], "at_home", "at_home"),
        Preset("at-work", "check-ins in the person's inferred work cell; " + RULES["at_work"], "at_work", "at_work"),
    )
}


def resolve(check_ins: CheckIns, text: str) -> str:
    """Return the condition that a preset means on these data; any other text is a condition already.

    A median is written into the condition as a number: held against other data, it stays the same rule.

    Examples
    --------
    >>> PRESETS["morning"].condition
    'hour < 12'
    """
    name = text.strip()
    preset = PRESETS.get(name)
    if preset is None or check_ins.frame.schema.get(name) == pl.Boolean:
        return text  # a column that is true or false is a condition of its own
    frame = with_people(check_ins, {preset.needs})
    if preset.needs not in frame.columns:
        raise DataError(
            f"attribute {preset.name!r} ({preset.rule}) needs a column {preset.needs!r}, which these data lack"
            f"{time_hint(check_ins, preset.needs)}"
        )
    if preset.column is None:
        return preset.condition
    if check_ins.user is None:
        raise DataError(f"attribute {preset.name!r} needs the person of each check-in: name the column with --user")
    if not frame[preset.column].dtype.is_numeric():
        raise DataError(f"attribute {preset.name!r} needs numbers in the column {preset.column!r}")
    each = (
        frame.select(who=check_ins.user, value=pl.col(preset.column)).unique("who")["value"].drop_nulls().drop_nans()
    )
    if not each.len():
        raise DataError(f"attribute {preset.name!r}: {preset.column} is known of nobody")
    median = each.median()
    assert isinstance(median, float)
    return preset.condition.format(median=repr(median).removesuffix(".0"))


def time_hint(check_ins: CheckIns, column: str) -> str:
    """Return how to come by the columns that are made from the time."""
    if column not in ("hour", "weekday", "date"):
        return ""
    return "; the times are in UTC: name the --zone" if check_ins.utc else "; name the time column with --time"
