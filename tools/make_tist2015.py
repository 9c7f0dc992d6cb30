"""Write synthetic check-ins in the exact format of dataset_TIST2015, of any size, clean or dirty.

Usage: python tools/make_tist2015.py FOLDER --seed 1 [--checkins N] [--venues N] [--users N] [--dirt 0.001]
       [--profiles] [--verify]

Nobody in these files exists: people, venues and visits are drawn at random around city centres, by the seed.
The folder gets dataset_TIST2015_{Checkins,POIs,Cities}.txt, with --profiles also the gender files of
dataset_UbiComp2016, and dirt.json: how many rows of each kind of dirt were put in, and the first of each.
No row has two kinds of dirt (its own or its venue's), so a reader's counts must be the same in whatever order
it looks.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[Any]

BLOCK = 1_000_000  # check-ins (or venues) made at once
CITIES = 415
HOUR, DAY, WEEK = 3600, 86400, 7 * 86400
BEGIN = np.datetime64("2012-04-03T18:00:00")
END = np.datetime64("2013-09-16T03:00:00")
SHOWN = 3  # example rows named for each kind of dirt
NEW_YORK_PROFILES, TOKYO_PROFILES, ALL_USERS = 18_201, 11_874, 266_909
LATE = 0.25  # share of check-ins at home at night

# name | latitude | longitude | country | country name | type | time zone | share of all check-ins in percent
PLACES = """
Istanbul|41.0138|28.9497|TR|Turkey|Provincial capital|Europe/Istanbul|5.5
Ankara|39.9272|32.8644|TR|Turkey|National and provincial capital|Europe/Istanbul|1.2
Izmir|38.4127|27.1384|TR|Turkey|Provincial capital|Europe/Istanbul|1.2
Jakarta|-6.1744|106.8294|ID|Indonesia|National and provincial capital|Asia/Jakarta|4.0
Bandung|-6.9127|107.6098|ID|Indonesia|Provincial capital|Asia/Jakarta|1.3
Denpasar|-8.6500|115.2167|ID|Indonesia|Provincial capital|Asia/Makassar|0.4
Tokyo|35.6850|139.7514|JP|Japan|National and provincial capital|Asia/Tokyo|5.0
Osaka|34.6937|135.5022|JP|Japan|Provincial capital|Asia/Tokyo|1.3
New York|40.7500|-73.9800|US|United States|Other|America/New_York|5.0
Los Angeles|34.0522|-118.2437|US|United States|Other|America/Los_Angeles|0.9
Chicago|41.8781|-87.6298|US|United States|Other|America/Chicago|0.9
Phoenix|33.4484|-112.0740|US|United States|Provincial capital|America/Phoenix|0.2
Denver|39.7392|-104.9903|US|United States|Provincial capital|America/Denver|0.2
Honolulu|21.3069|-157.8583|US|United States|Provincial capital|Pacific/Honolulu|0.2
Birmingham|33.5207|-86.8025|US|United States|Other|America/Chicago|0.1
Washington|38.9072|-77.0369|US|United States|National capital|America/New_York|0.6
Kuala Lumpur|3.1667|101.7000|MY|Malaysia|National capital|Asia/Kuala_Lumpur|3.5
George Town|5.4141|100.3288|MY|Malaysia|Provincial capital|Asia/Kuala_Lumpur|0.5
Sao Paulo|-23.5587|-46.6250|BR|Brazil|Provincial capital|America/Sao_Paulo|3.0
Rio de Janeiro|-22.9068|-43.1729|BR|Brazil|Provincial capital|America/Sao_Paulo|1.0
Manaus|-3.1190|-60.0217|BR|Brazil|Provincial capital|America/Manaus|0.3
Mexico City|19.4326|-99.1332|MX|Mexico|National capital and provincial capital enclave|America/Mexico_City|2.0
Tijuana|32.5149|-117.0382|MX|Mexico|Other|America/Tijuana|0.2
Bangkok|13.7563|100.5018|TH|Thailand|National and provincial capital|Asia/Bangkok|2.5
London|51.5072|-0.1275|GB|United Kingdom|National capital|Europe/London|1.5
Birmingham|52.4862|-1.8904|GB|United Kingdom|Other|Europe/London|0.2
Moscow|55.7558|37.6173|RU|Russia|National capital and provincial capital enclave|Europe/Moscow|2.0
Saint Petersburg|59.9311|30.3609|RU|Russia|Provincial capital enclave|Europe/Moscow|0.9
Vladivostok|43.1155|131.8855|RU|Russia|Provincial capital|Asia/Vladivostok|0.1
Santiago|-33.4489|-70.6693|CL|Chile|National and provincial capital|America/Santiago|1.8
Santiago|19.4517|-70.6970|DO|Dominican Republic|Provincial capital|America/Santo_Domingo|0.1
Santo Domingo|18.4861|-69.9312|DO|Dominican Republic|National capital|America/Santo_Domingo|0.2
Singapore|1.3521|103.8198|SG|Singapore|National capital|Asia/Singapore|1.6
Manila|14.5995|120.9842|PH|Philippines|National capital|Asia/Manila|1.6
Seoul|37.5665|126.9780|KR|South Korea|National capital|Asia/Seoul|0.7
Suva|-18.1416|178.4419|FJ|Fiji|National capital|Pacific/Fiji|0.1
Taveuni|-16.8500|179.9800|FJ|Fiji|Other|Pacific/Fiji|0.1
Auckland|-36.8485|174.7633|NZ|New Zealand|Other|Pacific/Auckland|0.2
Sydney|-33.8688|151.2093|AU|Australia|Provincial capital|Australia/Sydney|0.5
Adelaide|-34.9285|138.6007|AU|Australia|Provincial capital|Australia/Adelaide|0.1
Toronto|43.6532|-79.3832|CA|Canada|Provincial capital|America/Toronto|0.6
St. John's|47.5615|-52.7126|CA|Canada|Provincial capital|America/St_Johns|0.1
Beijing|39.9042|116.4074|CN|China|National capital|Asia/Shanghai|0.4
Xi'an|34.3416|108.9398|CN|China|Provincial capital|Asia/Shanghai|0.1
Hong Kong|22.3193|114.1694|HK|Hong Kong|Other|Asia/Hong_Kong|0.5
Taipei|25.0330|121.5654|TW|Taiwan|National capital|Asia/Taipei|0.4
Ha Noi|21.0278|105.8342|VN|Vietnam|National capital|Asia/Ho_Chi_Minh|0.2
Phnom Penh|11.5564|104.9282|KH|Cambodia|National capital|Asia/Phnom_Penh|0.1
Bandar Seri Begawan|4.9031|114.9398|BN|Brunei|National capital|Asia/Brunei|0.2
Mumbai|19.0760|72.8777|IN|India|Provincial capital|Asia/Kolkata|0.3
New Delhi|28.6139|77.2090|IN|India|National capital|Asia/Kolkata|0.3
Kathmandu|27.7172|85.3240|NP|Nepal|National capital|Asia/Kathmandu|0.1
Colombo|6.9271|79.8612|LK|Sri Lanka|National capital|Asia/Colombo|0.1
Male|4.1755|73.5093|MV|Maldives|National capital|Indian/Maldives|0.1
Karachi|24.8607|67.0011|PK|Pakistan|Provincial capital|Asia/Karachi|0.1
Dhaka|23.8103|90.4125|BD|Bangladesh|National capital|Asia/Dhaka|0.1
Dubai|25.2048|55.2708|AE|United Arab Emirates|Provincial capital|Asia/Dubai|0.3
Riyadh|24.7136|46.6753|SA|Saudi Arabia|National capital|Asia/Riyadh|0.5
Kuwait|29.3759|47.9774|KW|Kuwait|National capital|Asia/Kuwait|0.7
Doha|25.2854|51.5310|QA|Qatar|National capital|Asia/Qatar|0.1
Manama|26.2285|50.5860|BH|Bahrain|National capital|Asia/Bahrain|0.1
Muscat|23.5880|58.3829|OM|Oman|National capital|Asia/Muscat|0.1
Jerusalem|31.7683|35.2137|IL|Israel|National capital|Asia/Jerusalem|0.1
Baku|40.4093|49.8671|AZ|Azerbaijan|National capital|Asia/Baku|0.1
Tbilisi|41.7151|44.8271|GE|Georgia|National capital|Asia/Tbilisi|0.1
Almaty|43.2220|76.8512|KZ|Kazakhstan|Other|Asia/Almaty|0.1
Cairo|30.0444|31.2357|EG|Egypt|National and provincial capital|Africa/Cairo|0.3
Casablanca|33.5731|-7.5898|MA|Morocco|Other|Africa/Casablanca|0.1
Nairobi|-1.2921|36.8219|KE|Kenya|National capital|Africa/Nairobi|0.1
Johannesburg|-26.2041|28.0473|ZA|South Africa|Other|Africa/Johannesburg|0.2
Paris|48.8566|2.3522|FR|France|National capital|Europe/Paris|0.7
Berlin|52.5200|13.4050|DE|Germany|National capital and provincial capital enclave|Europe/Berlin|0.4
Amsterdam|52.3702|4.8952|NL|Netherlands|National capital|Europe/Amsterdam|0.4
Antwerp|51.2194|4.4025|BE|Belgium|Provincial capital|Europe/Brussels|0.3
Zurich|47.3769|8.5417|CH|Switzerland|Provincial capital|Europe/Zurich|0.1
Madrid|40.4168|-3.7038|ES|Spain|National capital and provincial capital enclave|Europe/Madrid|0.4
Valencia|39.4699|-0.3763|ES|Spain|Provincial capital|Europe/Madrid|0.1
Lisbon|38.7223|-9.1393|PT|Portugal|National capital|Europe/Lisbon|0.2
Milan|45.4642|9.1900|IT|Italy|Provincial capital|Europe/Rome|0.3
Athens|37.9838|23.7275|GR|Greece|National capital|Europe/Athens|0.2
Sofia|42.6977|23.3219|BG|Bulgaria|National capital|Europe/Sofia|0.1
Bucharest|44.4268|26.1025|RO|Romania|National capital|Europe/Bucharest|0.1
Budapest|47.4979|19.0402|HU|Hungary|National capital and provincial capital enclave|Europe/Budapest|0.3
Belgrade|44.7866|20.4489|RS|Serbia|National capital|Europe/Belgrade|0.1
Zagreb|45.8150|15.9819|HR|Croatia|National capital|Europe/Zagreb|0.1
Prague|50.0755|14.4378|CZ|Czech Republic|National capital and provincial capital enclave|Europe/Prague|0.1
Warsaw|52.2297|21.0122|PL|Poland|National capital|Europe/Warsaw|0.1
Kiev|50.4501|30.5234|UA|Ukraine|National capital|Europe/Kiev|0.4
Minsk|53.9006|27.5590|BY|Belarus|National capital|Europe/Minsk|0.2
Riga|56.9496|24.1052|LV|Latvia|National capital|Europe/Riga|0.2
Tallinn|59.4370|24.7536|EE|Estonia|National capital|Europe/Tallinn|0.1
Helsinki|60.1699|24.9384|FI|Finland|National capital|Europe/Helsinki|0.2
Stockholm|59.3293|18.0686|SE|Sweden|National capital|Europe/Stockholm|0.2
Dublin|53.3498|-6.2603|IE|Ireland|National capital|Europe/Dublin|0.1
Buenos Aires|-34.6037|-58.3816|AR|Argentina|National capital|America/Argentina/Buenos_Aires|0.5
Asuncion|-25.2637|-57.5759|PY|Paraguay|National capital|America/Asuncion|0.6
Lima|-12.0464|-77.0428|PE|Peru|National capital|America/Lima|0.3
Bogota|4.7110|-74.0721|CO|Colombia|National capital|America/Bogota|0.3
Quito|-0.1807|-78.4678|EC|Ecuador|National capital|America/Guayaquil|0.2
Caracas|10.4806|-66.9036|VE|Venezuela|National capital|America/Caracas|0.3
Valencia|10.1620|-68.0077|VE|Venezuela|Provincial capital|America/Caracas|0.1
San Jose|9.9281|-84.0907|CR|Costa Rica|National capital|America/Costa_Rica|0.5
Panama|8.9824|-79.5199|PA|Panama|National capital|America/Panama|0.2
Guatemala City|14.6349|-90.5069|GT|Guatemala|National capital|America/Guatemala|0.1
"""

# name | relative number of venues | how much likelier than others its venues are visited
CATEGORIES = """
Home (private)|80|0.05
Office|60|0.6
Train Station|8|9
Subway|8|7
Bus Station|8|3
Airport|1|25
Café|45|1.5
Coffee Shop|35|2
Cafeteria|8|1
College Cafeteria|6|1
Internet Cafe|5|1
Bar|35|1.2
Pub|12|1
Nightclub|10|1.5
Jazz Club|2|1
Karaoke Bar|3|1
Restaurant|30|1
Fast Food Restaurant|25|1.5
Japanese Restaurant|14|1
Ramen /  Noodle House|10|1.2
Turkish Restaurant|10|1
Indonesian Restaurant|12|1
Malaysian Restaurant|10|1
Brazilian Restaurant|8|1
Mexican Restaurant|10|1
Italian Restaurant|12|1
Chinese Restaurant|14|1
Food & Drink Shop|20|1
Gastropub|2|1
Bakery|14|1
Burger Joint|12|1.2
Diner|6|1
Deli / Bodega|8|1
Ice Cream Shop|8|1
Bubble Tea Shop|3|1
Mall|8|12
Department Store|8|3
Clothing Store|18|0.8
Convenience Store|25|1.5
Electronics Store|8|0.8
Bookstore|6|1
Men's Store|2|0.6
Women's Store|3|0.6
Kids' Store|1|0.6
Farmers' Market|2|1
Salon / Barbershop|16|0.6
Gym|8|2
Gym / Fitness Center|14|2.5
Stadium|2|6
Movie Theater|4|6
Theater|3|1.5
Museum|4|1.5
Park|12|2
Plaza|5|2.5
Beach|4|2.5
Scenic Lookout|4|1
Bridge|4|1
Road|18|1.5
Neighborhood|12|2
Building|30|0.8
Government Building|14|0.8
College Academic Building|25|1.5
University|14|4
High School|14|2.5
Elementary School|8|0.8
Medical Center|14|1
Hospital|10|1.5
Dentist's Office|4|0.4
Doctor's Office|8|0.4
Bank|12|0.8
Hotel|20|1.5
Residential Building (Apartment / Condo)|40|0.8
Mosque|8|1
Church|8|1
Synagogue|1|1
Temple|3|1
Gas Station / Garage|14|1
Parking|8|0.5
Taxi|3|0.6
General Travel|4|1
Other Great Outdoors|10|1
Professional & Other Places|10|0.6
"""

# What a person does by the hour of the day (local).
AWAKE = np.array([4, 2, 1, 1, 1, 2, 4, 7, 9, 8, 7, 8, 11, 11, 9, 8, 8, 10, 12, 13, 12, 10, 8, 6], dtype=float)
AT_HOME = LATE * np.array([1, 1, 1, 1, 1, 1, 0.8, 0.5] + [0.2] * 10 + [0.3, 0.5, 0.6, 0.8, 1, 1])
AT_WORK = np.array([0.0] * 8 + [0.35, 0.3, 0.2, 0.15, 0.1, 0.15, 0.15, 0.15, 0.15, 0.1] + [0.0] * 6)

CHECK_IN_KINDS = ("short line", "bad time", "no such venue")
VENUE_KINDS = (
    "bad bytes",
    "garbled",
    "no country",
    "zero coordinates",
    "out of range",
    "swapped",
    "not a number",
    "missing coordinates",
)
USABLE = ("bad bytes", "garbled", "no country", "swapped, in range")
# Told apart only after the fact: most swapped pairs are still places on Earth, and no range shows them.
IN_RANGE = len(VENUE_KINDS) + 1
VENUE_NAMES = ("", *VENUE_KINDS, "swapped, in range")

BROKEN = (b"Caf\xe9", b"Caf\xc3", b"Caf\xe9\x20", b"Caf\x82", b"Caf\xc3\xc3\xa9")  # not UTF-8
GARBLED = ("CafÃ©".encode(), b"Caf\xef\xbf\xbd", "CafÃƒÂ©".encode())  # UTF-8, but nothing to read
NOT_NUMBERS = (b"nan", b"NaN", b"inf", b"-inf", b"null", b"40,75", b"N/A")
NOT_TIMES = (
    b"Tue Apr 03 18:00:06 2012",  # five words
    b"Tue Apr 31 18:00:06 +0000 2012",
    b"Tue Apx 03 18:00:06 +0000 2012",
    b"Tue Apr 03 25:00:06 +0000 2012",
    b"Tue Apr 03 18:60:06 +0000 2012",
    b"NULL",
    b"",
)

DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_DAYS, _MONTHS = f"(?:{'|'.join(DAYS)})".encode(), f"(?:{'|'.join(MONTHS)})".encode()
_PAST_30 = rb"(?!Feb 3|(?:Feb|Apr|Jun|Sep|Nov) 31)"
_TEXT = rb"(?:[\x20-\x7e]|[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})+"
_LATITUDE, _LONGITUDE = rb"-?[1-8]?\d\.\d{6}", rb"-?(?:1[0-7]\d|[1-9]?\d)\.\d{6}"
STRICT = {
    "dataset_TIST2015_Checkins.txt": rb"[1-9]\d*\t[0-9a-f]{24}\t"
    + (_DAYS + b" " + _PAST_30 + _MONTHS + rb" (?:0[1-9]|[12]\d|3[01]) ")
    + rb"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d \+0000 201[23]\t(?:0|-?[1-9]\d{1,2})",
    "dataset_TIST2015_POIs.txt": rb"[0-9a-f]{24}\t(?!-?0\.0{6}\t-?0\.0{6}\t)"
    + (_LATITUDE + rb"\t(?:" + _LONGITUDE + rb"|-180\.000000)\t" + _TEXT + rb"\t[A-Z]{2}"),
    "dataset_TIST2015_Cities.txt": _TEXT
    + rb"\t"
    + _LATITUDE
    + rb"\t"
    + _LONGITUDE
    + rb"\t[A-Z]{2}\t"
    + _TEXT
    # the six types that the real file has
    + rb"\t(?:Other|(?:National|Provincial|National and provincial) capital|Provincial capital enclave"
    + rb"|National capital and provincial capital enclave)",
    "dataset_UbiComp2016_UserProfile_NYC.txt": rb"[1-9]\d*\t(?:fe)?male\t\d+\t\d+",
    "dataset_UbiComp2016_UserProfile_TKY.txt": rb"[1-9]\d*\t(?:fe)?male\t\d+\t\d+",
}


@dataclass
class Tally:
    """How many rows of a kind, and the first of them (counted from 1)."""

    rows: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, numbers: Array) -> None:
        """Count rows; they come in order."""
        self.rows += int(numbers.size)
        self.first += numbers[: max(0, SHOWN - len(self.first))].tolist()


@dataclass
class World:
    """Cities, venues and people; venues and people are kept city by city."""

    cities: pl.DataFrame
    share: Array  # (cities,)
    zone: Array  # (cities,) row of `offsets`
    offsets: Array  # (zones, hours) minutes
    venue_id: Array  # (venues,) 24 hex digits
    venue_city: Array
    venue_kind: Array  # 0 clean, otherwise its place in VENUE_NAMES
    venue_sum: Array  # running sum of how much each is visited
    venue_start: Array  # (cities + 1,)
    category: Array
    user_text: Array
    user_city: Array
    second_city: Array
    user_sum: Array
    user_start: Array
    home: Array  # venue, or -1
    work: Array
    salt: Array  # one number per person: decides favourite places and weeks away


def text_table(numbers: range) -> Array:
    """Return the numbers as bytes, to be looked up by position."""
    return np.array([str(number).encode() for number in numbers])


def lines(columns: list[Array], cut: tuple[Array, Array] | None = None) -> bytes:
    """Join columns of bytes with tabs; ``cut`` names lines and how many fields each of them keeps."""
    layout = [
        (f"{part}{i}", column.dtype if part == "f" else "S1") for i, column in enumerate(columns) for part in "ft"
    ]
    table = np.zeros(columns[0].size, dtype=layout)
    for i, column in enumerate(columns):
        table[f"f{i}"] = column
        table[f"t{i}"] = b"\t" if i < len(columns) - 1 else b"\n"
    if cut is not None:
        rows, kept = cut
        for i in range(len(columns)):
            table[f"f{i}"][rows[kept <= i]] = b""
            table[f"t{i}"][rows[kept <= i]] = b""
            table[f"t{i}"][rows[kept == i + 1]] = b"\n"
    flat: NDArray[np.uint8] = table.view(np.uint8)
    packed: bytes = flat[flat != 0].tobytes()  # what is shorter than its column was padded with zero bytes
    return packed


def degrees(microdegrees: Array) -> Array:
    """Write whole millionths of a degree with six decimals."""
    size = np.abs(microdegrees)
    whole, part = size // 10**6, size % 10**6
    table = np.zeros(size.size, dtype=[("sign", "S1"), ("whole", "S3"), ("point", "S1"), ("a", "S3"), ("b", "S3")])
    thousand = np.array([b"%03d" % i for i in range(1000)])
    table["sign"] = np.where(microdegrees < 0, b"-", b"")
    table["whole"] = text_table(range(361))[whole]
    table["point"] = b"."
    table["a"], table["b"] = thousand[part // 1000], thousand[part % 1000]
    flat: NDArray[np.uint8] = table.view(np.uint8).reshape(size.size, table.dtype.itemsize)
    lengths = (flat != 0).sum(axis=1)
    packed = np.zeros((size.size, flat.shape[1]), dtype=np.uint8)  # moved to the left: S11 must not start with a zero
    packed[np.arange(flat.shape[1]) < lengths[:, None]] = flat[flat != 0]
    return packed.reshape(-1).view(f"S{flat.shape[1]}")


def make_cities(rng: np.random.Generator) -> pl.DataFrame:
    """Return 415 cities: the real centres above, and made-up towns around them."""
    rows = [line.split("|") for line in PLACES.strip().splitlines()]
    known = pl.DataFrame(
        {
            "name": [row[0] for row in rows],
            "lat": [float(row[1]) for row in rows],
            "lon": [float(row[2]) for row in rows],
            "code": [row[3] for row in rows],
            "country": [row[4] for row in rows],
            "type": [row[5] for row in rows],
            "zone": [row[6] for row in rows],
            "share": [float(row[7]) for row in rows],
        }
    )
    alone = np.isin(known["code"].to_numpy(), ["SG", "HK", "BH", "MV", "FJ", "KW", "BN", "QA"])
    chance = np.where(alone, 0, np.sqrt(known["share"].to_numpy()))
    parents = np.sort(rng.choice(known.height, CITIES - known.height, p=chance / chance.sum()))
    bearing = rng.random(parents.size) * 2 * np.pi
    distance = rng.uniform(0.5, 2.5, parents.size)  # degrees
    towns: pl.DataFrame = known[parents.tolist()]
    order = np.arange(parents.size) - np.searchsorted(parents, parents)
    words = ["North", "East", "South", "West", "New", "Old", "Upper", "Lower", "Port", "Mount", "Lake", "Saint"]
    towns = towns.with_columns(
        name=pl.Series(
            [
                f"{words[k % len(words)]} {name}" + (f" {k // len(words) + 1}" if k >= len(words) else "")
                for k, name in zip(order.tolist(), towns["name"], strict=True)
            ]
        ),
        lat=towns["lat"] + pl.Series(distance * np.sin(bearing)),
        lon=towns["lon"] + pl.Series(distance * np.cos(bearing)),
        type=pl.lit("Other"),
        share=0.02 + 0.1 * pl.Series(rng.random(parents.size)),
    )
    return pl.concat([known, towns])


def make_offsets(zones: list[str], hours: int) -> Array:
    """Return local time minus UTC in minutes, by zone and hour since the beginning."""
    utc = pl.Series(
        (BEGIN + np.arange(hours) * np.timedelta64(HOUR, "s")).astype("datetime64[ms]")
    ).dt.replace_time_zone("UTC")
    rows = []
    for zone in zones:
        local = utc.dt.convert_time_zone(zone)
        rows.append(((local.dt.base_utc_offset() + local.dt.dst_offset()).dt.total_minutes()).to_numpy())
    return np.array(rows, dtype=np.int32)


def make_ids(rng: np.random.Generator, count: int) -> Array:
    """Return different 24-digit identifiers that look like the real ones (a time, a machine, a number)."""
    raw = np.zeros((count, 3), dtype=">u4")
    raw[:, 0] = rng.integers(0x49000000, 0x52000000, count)
    raw[:, 1] = np.where(rng.random(count) < 0.4, 0xF964A520, 0xE4B00000 + rng.integers(0, 1 << 16, count))
    raw[:, 2] = (np.arange(count, dtype=np.uint64) * np.uint64(2654435761)) & np.uint64(0xFFFFFFFF)  # all different
    return np.frombuffer(raw.tobytes().hex().encode(), dtype="S24")


def starts(sorted_city: Array) -> Array:
    """Return where each city's rows start."""
    return np.searchsorted(sorted_city, np.arange(CITIES + 1))


def make_world(rng: np.random.Generator, venues: int, users: int) -> World:
    """Draw the cities, venues and people."""
    cities = make_cities(rng)
    share = cities["share"].to_numpy() / cities["share"].sum()
    zones = sorted(set(cities["zone"]))
    hours = int((END - BEGIN) / np.timedelta64(HOUR, "s"))

    venue_city = np.sort(rng.choice(CITIES, venues, p=share)).astype(np.int16)
    table = [line.split("|") for line in CATEGORIES.strip().splitlines()]
    number = np.array([float(row[1]) for row in table])
    category = rng.choice(len(table), venues, p=number / number.sum()).astype(np.int16)
    visits = (rng.pareto(1.4, venues) + 0.5) * np.array([float(row[2]) for row in table])[category]

    # A city without a venue (in a small set) gets no people either.
    lived = np.where(np.bincount(venue_city, minlength=CITIES) > 0, share, 0)
    lived /= lived.sum()
    user_city = np.sort(rng.choice(CITIES, users, p=lived)).astype(np.int16)
    active = np.where(np.bincount(user_city, minlength=CITIES) > 0, share, 0)
    user_start = starts(user_city)
    rank = np.arange(users) - user_start[user_city]
    places = []
    for kind in (0, 1):  # homes are shared by as few as there are homes, offices are shared
        pool = np.flatnonzero(category == kind)
        first = starts(venue_city[pool])
        size = np.diff(first)[user_city]
        chosen = rank if kind == 0 else (rng.random(users) ** 2 * size).astype(np.int64)
        place = first[:-1][user_city] + chosen % np.maximum(size, 1)
        places.append(np.where(size > 0, pool[np.minimum(place, pool.size - 1)] if pool.size else -1, -1))
    return World(
        cities,
        active / active.sum(),
        np.array([zones.index(zone) for zone in cities["zone"]]),
        make_offsets(zones, hours),
        make_ids(rng, venues + 1000)[rng.permutation(venues + 1000)],  # the last thousand are nobody's
        venue_city,
        np.zeros(venues, dtype=np.int8),
        np.concatenate([[0], np.cumsum(visits)]),
        starts(venue_city),
        category,
        (rng.permutation(users) + 1).astype("S9"),
        user_city,
        rng.choice(CITIES, users, p=lived).astype(np.int16),
        np.concatenate([[0], np.cumsum(rng.lognormal(0, 1.3, users))]),
        user_start,
        places[0],
        places[1],
        rng.random(users),
    )


def write_cities(world: World, path: Path) -> None:
    """Write the file of cities."""
    cities = world.cities
    text = [
        f"{name}\t{lat:.6f}\t{lon:.6f}\t{code}\t{country}\t{kind}\n"
        for name, lat, lon, code, country, kind in cities.select(
            "name", "lat", "lon", "code", "country", "type"
        ).iter_rows()
    ]
    path.write_bytes("".join(text).encode())


def write_venues(world: World, path: Path, rng: np.random.Generator, dirt: float) -> dict[str, Tally]:
    """Write the file of venues in the order of their identifiers; return the dirt that went in."""
    count = world.venue_city.size
    names = np.array([line.split("|")[0].encode() for line in CATEGORIES.strip().splitlines()], dtype="S48")
    codes = world.cities["code"].to_numpy().astype("S2")
    centres = world.cities.select("lat", "lon").to_numpy()
    # Every city has a dozen quarters; the first is the centre, and the largest.
    quarters = rng.normal(0, 0.04, (CITIES, 12, 2))
    quarters[:, 0] = 0
    each = max(1, round(dirt * count / len(VENUE_KINDS))) if dirt else 0
    order = np.argsort(world.venue_id[:count])
    plan = plan_venue_dirt(world, names, order, rng, each)
    world.venue_kind[order[plan > 0]] = plan[plan > 0]
    tallies = {name: Tally() for name in VENUE_NAMES[1:]}
    with path.open("wb") as out:
        for start in range(0, count, BLOCK):
            chosen = order[start : start + BLOCK]
            city = world.venue_city[chosen]
            quarter = (rng.random(chosen.size) ** 2 * 12).astype(np.int64)
            spread = rng.normal(0, 0.012, (chosen.size, 2)) + quarters[city, quarter]
            where = centres[city] + spread / np.stack(
                [np.ones(chosen.size), np.cos(np.radians(centres[city, 0]))], axis=1
            )
            micro = np.rint(where * 1e6).astype(np.int64)
            micro[:, 1] = (micro[:, 1] + 180 * 10**6) % (360 * 10**6) - 180 * 10**6  # Taveuni lies on both sides
            lat, lon = degrees(micro[:, 0]), degrees(micro[:, 1])
            category, country = names[world.category[chosen]], codes[city]
            kind = plan[start : start + BLOCK]
            soil_venues(kind, lat, lon, category, micro, rng)
            for number, name in enumerate(VENUE_NAMES[1:], start=1):
                tallies[name].add(np.flatnonzero(kind == number) + start + 1)
            world.venue_kind[chosen] = kind
            cut = np.flatnonzero(kind == VENUE_NAMES.index("no country"))
            out.write(lines([world.venue_id[chosen], lat, lon, category, country], (cut, np.full(cut.size, 4))))
    return tallies


def plan_venue_dirt(world: World, names: Array, order: Array, rng: np.random.Generator, each: int) -> Array:
    """Choose the lines of each kind of dirt, in the order of the file; cafés are wanted for bad bytes."""
    plan = np.zeros(order.size, dtype=np.int8)
    if not each:
        return plan
    cafes = np.flatnonzero(names[world.category[order]] == "Café".encode())
    for number, name in enumerate(VENUE_KINDS, start=1):
        free = cafes if name in ("bad bytes", "garbled") else np.arange(order.size)
        free = free[plan[free] == 0]
        plan[rng.choice(free, min(each, free.size // 2), replace=False)] = number
    return plan


def soil_venues(kind: Array, lat: Array, lon: Array, category: Array, micro: Array, rng: np.random.Generator) -> None:
    """Spoil the lines whose kind says so, in place."""

    def of(name: str) -> Array:
        return np.flatnonzero(kind == VENUE_NAMES.index(name))

    for name, texts in (("bad bytes", BROKEN), ("garbled", GARBLED)):
        category[of(name)] = rng.choice(np.array(texts), of(name).size)
    rows = of("zero coordinates")
    lat[rows] = lon[rows] = rng.choice(np.array([b"0.000000", b"0", b"0.0"]), rows.size)
    rows = of("out of range")
    half = rows.size // 2
    lat[rows[:half]] = degrees(micro[rows[:half], 0] + 180 * 10**6)
    lon[rows[half:]] = degrees(np.where(micro[rows[half:], 1] < 0, -1, 1) * 180 * 10**6 + micro[rows[half:], 1])
    rows = of("swapped")
    lat[rows], lon[rows] = lon[rows], lat[rows]
    kind[rows[np.abs(micro[rows, 1]) <= 90 * 10**6]] = IN_RANGE
    rows = of("not a number")
    bad = rng.choice(np.array(NOT_NUMBERS), rows.size)
    which = rng.integers(0, 3, rows.size)
    lat[rows[which != 0]], lon[rows[which != 1]] = bad[which != 0], bad[which != 1]
    rows = of("missing coordinates")
    which = rng.integers(0, 3, rows.size)
    lat[rows[which != 0]], lon[rows[which != 1]] = b"", b""


def write_check_ins(
    world: World, path: Path, rng: np.random.Generator, rows: int, dirt: float
) -> tuple[dict[str, Tally], dict[str, Tally], dict[str, int]]:
    """Write the check-ins in order of time; return their own dirt, that of their venues, and what was seen."""
    hours = world.offsets.shape[1]
    first_second = int(BEGIN.astype("datetime64[s]").astype(np.int64))
    # How likely a check-in of this hour is made in each city: by the hour there, more of them as time goes on.
    local = (first_second // 60 + np.arange(hours) * 60 + world.offsets) // 60 % 24
    weights = (AWAKE[local][world.zone] * world.share[:, None]).T * np.linspace(1, 1.6, hours)[:, None]
    per_hour = rng.multinomial(rows, weights.sum(axis=1) / weights.sum())
    pick_city = (np.arange(hours)[:, None] + weights.cumsum(axis=1) / weights.sum(axis=1, keepdims=True)).ravel()
    del weights

    dates = np.arange(BEGIN.astype("datetime64[D]"), END.astype("datetime64[D]") + 1)
    stamps = [date.astype(object) for date in dates]
    day_text = np.array([f"{DAYS[d.weekday()]} {MONTHS[d.month - 1]} {d.day:02d} ".encode() for d in stamps])
    year_text = np.array([f" +0000 {d.year}".encode() for d in stamps])
    clock = np.array([b"%02d:%02d:%02d" % (s // 3600, s // 60 % 60, s % 60) for s in range(DAY)])
    offset_text = text_table(range(-720, 841))
    ghosts = world.venue_id[world.venue_city.size :]
    midnight = int(dates[0].astype("datetime64[s]").astype(np.int64))

    each = max(1, round(dirt * rows / len(CHECK_IN_KINDS))) if dirt else 0
    own = {name: Tally() for name in CHECK_IN_KINDS}
    inherited = {name: Tally() for name in VENUE_NAMES[1:]}
    seen_users, seen_venues = np.zeros(world.user_city.size, bool), np.zeros(world.venue_city.size, bool)
    ends = np.concatenate([[0], per_hour.cumsum()])
    done = 0
    with path.open("wb") as out:
        while done < rows:
            low = int(np.searchsorted(ends, done, side="right")) - 1
            high = max(low + 1, int(np.searchsorted(ends, done + BLOCK, side="right")) - 1)
            hour = np.repeat(np.arange(low, high), per_hour[low:high])
            second = np.sort(first_second + hour * HOUR + rng.integers(0, HOUR, hour.size))
            user, venue, offset = visits(world, rng, hour, second, pick_city)
            seen_users[user] = seen_venues[venue] = True
            stamp = np.zeros(hour.size, dtype=[("day", "S11"), ("clock", "S8"), ("year", "S11")])
            date = (second - midnight) // DAY
            stamp["day"], stamp["clock"], stamp["year"] = day_text[date], clock[second % DAY], year_text[date]
            user_field, venue_field, time_field = world.user_text[user], world.venue_id[venue], stamp.view("S30")
            kind = world.venue_kind[venue]
            for number, name in enumerate(VENUE_NAMES[1:], start=1):
                inherited[name].add(np.flatnonzero(kind == number) + done + 1)
            # Dirt is spread evenly, and only over rows whose venue is clean.
            wanted = each * (done + hour.size) // rows - each * done // rows
            clean = np.flatnonzero(kind == 0)
            chosen = rng.choice(clean, min(wanted * len(own), clean.size), replace=False)
            short, bad_time, no_venue = (np.sort(chosen[i :: len(own)]) for i in range(len(own)))
            time_field[bad_time] = rng.choice(np.array(NOT_TIMES), bad_time.size)
            venue_field[no_venue] = rng.choice(ghosts, no_venue.size)
            for name, numbers in zip(own, (short, bad_time, no_venue), strict=True):
                own[name].add(numbers + done + 1)
            cut = (short, rng.integers(1, 4, short.size))
            out.write(lines([user_field, venue_field, time_field, offset_text[offset + 720]], cut))
            done += hour.size
    return own, inherited, {"users seen": int(seen_users.sum()), "venues seen": int(seen_venues.sum())}


def visits(
    world: World, rng: np.random.Generator, hour: Array, second: Array, pick_city: Array
) -> tuple[Array, Array, Array]:
    """Draw who checks in where at each second, and the offset of the local time there."""

    def draw(total: Array, start: Array, city: Array, chance: Array) -> Array:
        low, high = start[city], start[city + 1]
        value = total[low] + chance * (total[high] - total[low])
        found: Array = np.searchsorted(total, value, side="right") - 1
        return found.clip(low, high - 1)

    n = hour.size
    home_city = np.searchsorted(pick_city, hour + rng.random(n), side="right") - hour * CITIES
    home_city = np.minimum(home_city, CITIES - 1)
    # Rounding at the very end of a row could hit a city without people: the largest has some.
    empty = np.diff(world.user_start)[home_city] == 0
    home_city[empty] = int(np.argmax(world.share))
    user = draw(world.user_sum, world.user_start, home_city, rng.random(n))
    salt = world.salt[user]
    away = (salt * 1024 + second // WEEK * 5) % 16 < 1  # one week in sixteen
    city = np.where(away, world.second_city[user], home_city)
    offset = world.offsets[world.zone[city], hour]
    local = second + offset * 60
    clock = local // HOUR % 24
    weekend = (local // DAY + 3) % 7 > 4
    # Half of the visits go to the person's own few places.
    favourite = (salt + rng.geometric(0.35, n) * 0.6180339887498949) % 1
    chance = np.where(rng.random(n) < 0.5, favourite, rng.random(n))
    venue = draw(world.venue_sum, world.venue_start, city, chance)
    what = rng.random(n)
    at_home = ~away & (what < AT_HOME[clock]) & (world.home[user] >= 0)
    at_work = ~away & ~at_home & ~weekend & (what > 1 - AT_WORK[clock]) & (world.work[user] >= 0)
    venue[at_home] = world.home[user[at_home]]
    venue[at_work] = world.work[user[at_work]]
    return user, venue, offset


def write_profiles(world: World, folder: Path, rng: np.random.Generator, dirt: float) -> dict[str, Any]:
    """Write gender, friends and followers of people who live in, or travel to, New York and Tokyo."""
    report = {}
    for tag, name, real, male in (
        ("NYC", "New York", NEW_YORK_PROFILES, 0.65),
        ("TKY", "Tokyo", TOKYO_PROFILES, 0.86),
    ):
        city = world.cities["name"].to_list().index(name)
        people = np.flatnonzero((world.user_city == city) | (world.second_city == city))
        count = min(people.size, max(1, round(real * world.user_city.size / ALL_USERS)))
        people = rng.choice(people, count, replace=False)
        gender = np.where(rng.random(count) < male, b"male", b"female").astype("S8")
        bad = np.sort(
            rng.choice(count, min(count, max(1, round(dirt * count))) if dirt and count else 0, replace=False)
        )
        gender[bad] = rng.choice(np.array([b"", b"unknown", b"none"]), bad.size)
        numbers = [rng.lognormal(middle, 1.0, count).astype(np.int64).astype("S9") for middle in (5.3, 5.5)]
        path = folder / f"dataset_UbiComp2016_UserProfile_{tag}.txt"
        path.write_bytes(lines([world.user_text[people], gender, *numbers]) if count else b"")
        tally = Tally()
        tally.add(bad + 1)
        report[path.name] = {"rows": count, "kinds": {"gender unknown": vars(tally)}}
    return report


def mismatches(path: Path) -> int:
    """Return how many lines are not exactly as the format says."""
    pattern = re.compile(rb"^" + STRICT[path.name] + rb"$", re.MULTILINE)
    total = good = 0
    rest = b""
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            block = rest + block
            end = block.rfind(b"\n") + 1
            rest = block[end:]
            total += block.count(b"\n", 0, end)
            good += sum(1 for _ in pattern.finditer(block, 0, end))
    return total - good + bool(rest)


def make(
    folder: Path, seed: int, check_ins: int, venues: int, users: int, dirt: float, profiles: bool
) -> dict[str, Any]:
    """Write all files; return what dirt.json says."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    world = make_world(rng, venues, users)
    write_cities(world, folder / "dataset_TIST2015_Cities.txt")
    venue_dirt = write_venues(world, folder / "dataset_TIST2015_POIs.txt", rng, dirt)
    own, inherited, seen = write_check_ins(world, folder / "dataset_TIST2015_Checkins.txt", rng, check_ins, dirt)
    lost = sum(tally.rows for tally in own.values())
    lost += sum(tally.rows for name, tally in inherited.items() if name not in USABLE)
    report: dict[str, Any] = {
        "seed": seed,
        "dirt": dirt,
        "usable check-ins": check_ins - lost,
        **seen,
        "dataset_TIST2015_Checkins.txt": {
            "rows": check_ins,
            "kinds": {name: vars(tally) for name, tally in own.items()},
            "kinds of their venues": {name: vars(tally) for name, tally in inherited.items()},
        },
        "dataset_TIST2015_POIs.txt": {
            "rows": venues,
            "kinds": {name: vars(tally) for name, tally in venue_dirt.items()},
        },
    }
    if profiles:
        report |= write_profiles(world, folder, rng, dirt)
    (folder / "dirt.json").write_text(json.dumps(report, indent=1) + "\n")
    return report


def verify(folder: Path, report: dict[str, Any]) -> bool:
    """Say how many lines are off the format, and whether it is as many as were made so."""
    right = True
    for name in STRICT:
        if not (folder / name).exists():
            continue
        kinds = report.get(name, {"kinds": {}})["kinds"]
        unseen = ("no such venue", "garbled", "swapped, in range")  # such lines are in form
        expected = sum(tally["rows"] for kind, tally in kinds.items() if kind not in unseen)
        found = mismatches(folder / name)
        print(f"{name}: {found:,} lines off the format, {expected:,} made so")
        right &= found == expected
    return right


def main() -> None:
    """Read the command line and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--checkins", type=int, default=33_278_683)
    parser.add_argument("--venues", type=int, default=3_680_126)
    parser.add_argument("--users", type=int, default=ALL_USERS)
    parser.add_argument("--dirt", type=float, default=0.0, help="share of the lines of each file to spoil")
    parser.add_argument("--profiles", action="store_true", help="also write the files of dataset_UbiComp2016")
    parser.add_argument("--verify", action="store_true", help="hold every line written against the format")
    given = parser.parse_args()
    if min(given.checkins, given.venues, given.users) < 1 or not 0 <= given.dirt <= 0.2:
        parser.error("at least one check-in, venue and user; dirt from 0 to 0.2")
    start = time.perf_counter()
    report = make(given.folder, given.seed, given.checkins, given.venues, given.users, given.dirt, given.profiles)
    print(json.dumps(report, indent=1))
    for path in sorted(given.folder.glob("dataset_*.txt")):
        print(f"{path.name}: {path.stat().st_size / 1e6:,.1f} MB")
    print(f"{time.perf_counter() - start:.1f} s")
    if given.verify and not verify(given.folder, report):
        sys.exit("the files are not what they should be")


if __name__ == "__main__":
    main()
