"""The command line on the sets of the field: what a person sees, clean and dirty, in every kind of map."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from distp import Policy
from distp.cli.app import app
from distp.errors import DistpError

DISTP = str(Path(sys.executable).with_name("distp"))
TOOLS = Path(__file__).parents[1] / "tools"


def run(words, folder, code=0):
    done = subprocess.run([DISTP, *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """Return a folder with a small set in the form of TIST2015, dirty."""
    folder = tmp_path_factory.mktemp("world")
    words = [
        "--checkins",
        "40000",
        "--venues",
        "6000",
        "--users",
        "2000",
        "--seed",
        "3",
        "--dirt",
        "0.01",
        "--profiles",
    ]
    subprocess.run(
        [sys.executable, str(TOOLS / "make_tist2015.py"), "set", *words], cwd=folder, check=True, capture_output=True
    )
    return folder


FIT = ["fit", "set", "--city", "New York", "--cell-km", "3", "--regions", "40", "--no-report", "--max-bad", "0.05"]


def test_a_folder_of_foursquare_becomes_a_policy_and_is_audited_by_its_own_rule(world):
    words = [*FIT, "--attribute", "gender", "--attribute", "north", "--weight", "users", "--out", "a.policy"]
    said = run(words, world).stdout
    dirt = json.loads((world / "set/dirt.json").read_text())
    lines = dirt["dataset_TIST2015_Checkins.txt"]["kinds"]
    assert f"{lines['short line']['rows']:,} rows: line ends early" in said
    assert f"{lines['no such venue']['rows']:,} rows: venue not among the venues" in said
    assert "(tist2015): 40,000 rows" in said
    assert "every person counts alike" in said
    policy = Policy.load(world / "a.policy")
    assert policy.weight == "users"
    assert policy.expressions[0] == "gender = 'male'"
    assert policy.expressions[1].startswith("home_lat > 40.")
    assert sum(policy.pairs[0].support_p.counts) == policy.pairs[0].support_p.records
    audited = run(["audit", "a.policy", "--data", "set", "--max-bad", "0.05"], world).stdout
    assert "claim holds for the distributions of these data" in audited


MAP = ["fit", "set", "--city", "Tokyo", "--attribute", "morning", "--out", "x.policy", "--max-bad", "0.05"]


def test_too_much_dirt_is_exit_code_2_with_the_counts(world):
    done = run([*FIT[:-1], "0.001", "--attribute", "morning", "--out", "x.policy"], world, 2)
    assert "more than the 0.10% allowed" in done.stderr
    assert "line ends early" in done.stderr
    assert not (world / "x.policy").exists()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["fit", "set", "--attribute", "morning", "--out", "x.policy"], "covers the world"),
        ([*FIT, "--attribute", "morning", "--out", "x.policy", "--center", "1,2"], "exclude each other"),
        ([*FIT, "--attribute", "morning", "--out", "x.policy", "--cap", "5"], "exclude each other"),
        ([*FIT, "--attribute", "morning", "--out", "x.policy", "--weight", "people"], "--weight must be one of"),
        (
            ["fit", "set", "--city", "Tokyo", "--map", "h", "--attribute", "morning", "--out", "x.policy"],
            "--map must be",
        ),
        ([*FIT, "--attribute", "member", "--out", "x.policy"], "needs a column 'user_type'"),
        ([*FIT, "--attribute", "morning", "--out", "x.policy", "--smoothing", "-1"], "smoothing"),
        ([*FIT, "--attribute", "morning", "--out", "x.policy", "--zone", "Mars"], "time zone 'Mars'"),
        (["fit", "set", "--city", "Atlantis", "--attribute", "morning", "--out", "x.policy"], "--center"),
        (["fit", "set", "--center", "89,0", "--attribute", "morning", "--out", "x.policy"], "beyond 85 degrees"),
        ([*MAP, "--map", "h3:x"], "h3:RESOLUTION"),
    ],
)
def test_bad_options_are_refused_in_one_line(world, words, match, monkeypatch):
    monkeypatch.chdir(world)
    with pytest.raises(DistpError, match=match) as found:  # which the command prints, with exit code 2
        app(words, standalone_mode=False)
    assert "\n" not in str(found.value)


def outline(world) -> Path:
    corners = [[-74.02, 40.70], [-73.92, 40.70], [-73.92, 40.80], [-74.02, 40.80], [-74.02, 40.70]]
    halves = [[[-74.1, -73.97], "west"], [[-73.97, -73.8], "east"]]
    parts = [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[a, 40.6], [b, 40.6], [b, 40.9], [a, 40.9], [a, 40.6]]],
            },
        }
        for (a, b), name in halves
    ]
    (world / "parts.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": parts}))
    (world / "mask.geojson").write_text(json.dumps({"type": "Polygon", "coordinates": [corners]}))
    return world


@pytest.mark.parametrize(
    "words",
    [
        ["--city", "New York", "--map", "grid", "--cell-km", "3"],
        ["--city", "New York", "--map", "h3:6", "--size-km", "20,20"],
        ["--map", "parts.geojson"],
        ["--city", "New York", "--cell-km", "3", "--cap", "60", "--mask", "mask.geojson"],
        ["--city", "Suva", "--map", "grid", "--cell-km", "4", "--ring-km", "0"],
    ],
)
def test_every_kind_of_map_is_fitted_queried_and_protects(world, words, monkeypatch, capsys):
    monkeypatch.chdir(outline(world))

    def said(*command):
        assert not app([str(word) for word in command], standalone_mode=False)
        return capsys.readouterr().out

    fitted = ["--attribute", "morning", "--max-bad", "0.05", "--epsilon", "2", "--max-dummies", "2", "--no-report"]
    said("fit", "set", *words, *fitted, "--out", "m.policy")
    policy = Policy.load(world / "m.policy")
    place = [f"--lat={policy.regions.lat[0]}", f"--lon={policy.regions.lon[0]}"]
    drawn = json.loads(said("query", "--policy", "m.policy", *place))
    assert len(drawn["tuple"]) == policy.dummies + 1
    shapes = json.loads(said("query", "--policy", "m.policy", *place, "--format", "geojson"))
    assert len(shapes["features"]) == policy.dummies + 1
    told = said("protect", "set", "--policy", "m.policy", "--empty", "--keep", "country", "--out", "p.parquet")
    rows = pl.read_parquet(world / "p.parquet")
    assert rows.columns == ["country", "report"]
    assert rows.height == 40_000
    assert f"{rows['report'].null_count():,} of them empty" in told


def test_reproduce_writes_a_page_with_tables_and_figures(tmp_path):
    # The same visits by many people around New York, the evenings a little further east.
    many = [
        (f"p{person}", 40.74 + 0.003 * (person % 9), -73.99 + 0.004 * ((person * 7 + hour) % 11), hour)
        for person in range(40)
        for hour in (8, 9, 10, 15, 19, 21)
    ]
    frame = pl.DataFrame(many, schema=["who", "lat", "lon", "hour"], orient="row")
    frame.write_csv(tmp_path / "many.csv")
    words = ["reproduce", "many.csv", "--user", "who", "--attribute", "hour < 12", "--city", "New York"]
    words += ["--cell-km", "2", "--regions", "42", "--quick", "--seed", "5", "--out", "out"]
    said = run(words, tmp_path).stdout
    assert "claim of the paper" in said
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"index.html", "claims.csv", "curves.csv", "summary.png", "summary.svg"} <= names
    page = (tmp_path / "out/index.html").read_text()
    assert "240 rows" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    unseeded = [word for word in words if word not in ("--seed", "5")]
    assert "--seed" in run(unseeded, tmp_path, 2).stderr
