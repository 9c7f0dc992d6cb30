"""The commands, as a new user would type them, with wrong input too. Real files, real processes."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from distp import Policy, metric_epsilon, wasserstein_inf
from distp.cli import audit, compare, demo, fit, protect, query
from distp.cli.app import app
from helpers import shared

DISTP = [str(Path(sys.executable).with_name("distp"))]
COMMANDS = (demo, fit, protect, query, audit, compare)


def run(arguments: list[str], cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*DISTP, *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Return a folder where the demo has run."""
    folder = tmp_path_factory.mktemp("demo")
    (folder / "said.txt").write_text(run(["demo"], folder).stdout)
    return folder


def test_demo_shows_the_whole_way(place):
    said = (place / "said.txt").read_text()
    for step in (
        "399 regions, 335 of them inputs",
        "distributions",
        "attacker without protection",
        "dummies",
        "certificate",
        "one report",
        "not covered",
        "report.html",
        "home.policy",
    ):
        assert step in said
    for mechanism in ("RR", "PL", "PG", "PL/W_inf", "coupling", "tupling"):
        assert re.search(rf"^ +{mechanism} ", said, re.MULTILINE)
    assert "true region among 8 dummies" in said
    assert len(re.findall(r"^   region +\d+", said, re.MULTILINE)) == 9
    files = {path.name for path in (place / "distp-demo").iterdir()}
    assert files == {
        "report.html",
        "home.policy",
        "buildings.csv",
        "map.png",
        "dummies.png",
        "attack.png",
        "loss.png",
        "tuple.png",
    }


def test_report_is_self_contained(place):
    html = (place / "distp-demo/report.html").read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", html)
    assert "http" not in re.sub(r'src="data:[^"]*"', "", html)
    assert html.count("data:image/png;base64,") == 4
    assert "What this does not protect" in html
    for name in ("map", "dummies", "attack", "loss"):
        assert (place / f"distp-demo/{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("module", COMMANDS, ids=lambda module: module.NAME)
def test_help_has_an_example_that_runs(place, module):
    words = shlex.split(module.EXAMPLE)
    assert words[:2] == ["distp", module.NAME]
    text = run([module.NAME, "--help"], place).stdout
    flat = re.sub(r"[\s│]+", "", text)
    assert re.sub(r"\s+", "", f"Example: {module.EXAMPLE}") in flat
    if module is not demo:  # that one has run already
        run(words[1:], place)


def test_version_and_bare_call():
    runner = CliRunner()
    assert runner.invoke(app, ["--version"]).output.startswith("distp ")
    assert "demo" in runner.invoke(app, []).output


def test_fit_protect_audit_agree_with_each_other(place):
    done = run(
        [
            "fit",
            "distp-demo/buildings.csv",
            "--lat",
            "lat",
            "--lon",
            "lon",
            "--attribute",
            "home: kind == 'home'",
        ]
        + [
            "--size-km",
            "12,22",
            "--regions",
            "400",
            "--outside",
            "nearest",
            "--max-dummies",
            "5",
            "--no-report",
        ]
        + ["--epsilon", "0.8", "--delta", "0.002", "--out", "near.policy", "--json"],
        place,
    )
    fitted = json.loads(done.stdout)
    assert fitted["holds"]
    assert fitted["dummies"] == 5
    assert fitted["certificate"]["pairs"][0]["delta"]["upper"] <= 0.002
    noted = pl.read_csv(place / "distp-demo/buildings.csv").with_row_index("note")
    noted.write_csv(place / "noted.csv")
    out = json.loads(
        run(
            ["protect", "noted.csv", "--policy", "near.policy", "--lat", "lat", "--lon", "lon"]
            + ["--keep", "note", "--keep", "note", "--out", "near.parquet", "--json"],
            place,
        ).stdout
    )
    assert out == {"out": "near.parquet", "rows": 42227, "empty": 0, "before": 0, "places": 6, "holds": True}
    written = pl.read_parquet(place / "near.parquet")
    assert written.columns == ["note", "report"]  # true coordinates never
    assert written.height == 42227
    assert written["report"].dtype == pl.Array(pl.UInt16, 6)
    assert written["note"].cast(pl.UInt32).to_list() == noted["note"].to_list()  # text, as in the file
    policy = Policy.load(place / "near.policy")
    assert written["report"].to_numpy().max() < len(policy.regions)
    audited = json.loads(run(["audit", "near.policy", "--json"], place).stdout)
    assert audited["holds"]
    assert audited["agrees_with_file"]
    assert len(fitted["certificate"]["pairs"]) == 1
    assert audited["stated_of_others"] == {"home": fitted["certificate"]["pairs"][0]["population"]}
    stated = {**fitted["certificate"], "assumptions": audited["recomputed"]["assumptions"]}
    stated["pairs"] = [{**pair, "population": None} for pair in stated["pairs"]]  # no policy holds the people
    assert audited["recomputed"] == stated
    pair = policy.pairs[0]
    apart = audited["distances"]["home"]
    assert apart["w_inf"] == wasserstein_inf(pair.p, pair.q, policy.regions.inputs).value
    assert apart["w_1"] < apart["w_inf_with_slack"] <= apart["w_inf"]
    said = run(["audit", "near.policy", "--belief-error", "0.01"], place).stdout
    found = float(re.search(r"off by up to 0.01 .* at most ([0-9.]+)", said)[1])
    delta = fitted["certificate"]["pairs"][0]["delta"]["upper"]
    assert found == pytest.approx(delta + 0.01 * (1 + math.exp(0.8)), rel=1e-3)
    assert found >= delta + 0.01 * (1 + math.exp(0.8))
    audited = json.loads(run(["audit", "near.policy", "--belief-km", "0.5", "--json"], place).stdout)
    rate = metric_epsilon(policy.mechanism).upper  # infinite: some reports of one place are impossible from another
    follows = "inf" if math.isinf(rate) else pytest.approx(rate * (apart["w_inf"] + 1))
    assert audited["believed_km"]["home"] == follows
    refused = run(["audit", "near.policy", "--belief-error", "2"], place, code=2)
    assert "--belief-error must lie in [0, 1]" in refused.stderr


def test_audit_on_other_data_can_find_the_claim_false(place):
    buildings = pl.read_csv(place / "distp-demo/buildings.csv")
    middle = buildings["lat"].median()
    north = buildings.filter((pl.col("lat") > middle) == (pl.col("kind") == "home"))
    north.write_csv(place / "north.csv")
    words = ["audit", "distp-demo/home.policy", "--data", "north.csv", "--lat", "lat", "--lon", "lon"]
    said = run(words, place, code=1).stdout
    assert "does NOT hold for the distributions of these data" in said
    assert "holds for the policy's own distributions" in said
    same = [
        "audit",
        "distp-demo/home.policy",
        "--data",
        "distp-demo/buildings.csv",
        "--lat",
        "lat",
        "--lon",
        "lon",
    ]
    assert "claim holds for the distributions of these data" in run(same, place).stdout


WISH = [
    "fit",
    "distp-demo/buildings.csv",
    "--attribute",
    "home: kind == 'home'",
    "--size-km",
    "12,22",
    "--regions",
    "150",
    "--cell-km",
    "2",
]


def test_in_sample_is_said_in_red_and_only_then(place):
    said = run([*WISH, "--base", "laplace", "--in-sample", "--out", "known.policy"], place).stdout
    assert "IN-SAMPLE: this says nothing about people who are not in the data" in said
    assert "for others" not in said
    assert '<p class="red">In-sample' in (place / "known-report/report.html").read_text()
    assert '<p class="red">' not in (place / "distp-demo/report.html").read_text()
    assert "For people who are not in the data" in (place / "distp-demo/report.html").read_text()
    cheap = [*WISH, "--in-sample", "--no-report", "--json", "--base", "laplace", "--max-dummies", "8"]
    fitted = json.loads(run([*cheap, "--max-loss", "0.6", "--out", "paid.policy"], place).stdout)
    assert fitted["certificate"]["loss"] <= 0.6
    hidden = json.loads(run([*cheap, "--min-location-error", "3.6", "--out", "hidden.policy"], place).stdout)
    assert hidden["certificate"]["location"]["error"]["lower"] >= 3.6


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--confidence", "1"], "confidence must lie in"),
        (["--base", "best"], "--base must be one of laplace, optimal"),
        (["--dummy-law", "few"], "--dummy-law must be one of"),
        (["--dummy-law", "chosen", "--in-sample"], "needs --base optimal and a confidence"),
        (["--max-loss", "-1"], "--max-loss must be"),
        (["--min-location-error", "nan"], "--min-location-error must be"),
        (["--min-location-error", "99", "--in-sample"], "sees no report at all is off by"),
        (["--max-loss", "0", "--max-dummies", "1", "--base", "laplace"], "the least is"),
    ],
)
def test_wishes_that_cannot_be_met_are_one_line(place, words, match):
    done = subprocess.run([*DISTP, *WISH, *words, "--out", "no.policy"], cwd=place, capture_output=True, text=True)
    assert done.returncode == 2
    assert match in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (place / "no.policy").exists()


def test_several_attributes_at_once(place):
    rng = np.random.default_rng(0)
    frame = pl.read_csv(place / "distp-demo/buildings.csv").sample(6000, seed=1)
    frame = frame.with_columns(
        when=pl.Series([f"2024-05-{1 + d:02d} {h:02d}:30:00" for d, h in rng.integers(0, 24, (6000, 2))]),
        who=pl.Series(rng.integers(0, 200, 6000)),
    )
    (place / "two.csv.gz").write_bytes(gzip.compress(frame.write_csv().encode()))
    done = run(
        ["fit", "two.csv.gz", "--lat", "lat", "--lon", "lon", "--user", "who", "--time", "when"]
        + ["--attribute", "home: kind == 'home'", "--attribute", "morning: hour < 12", "--max-dummies", "5"]
        + ["--box", "40.70,-74.02,40.80,-73.92", "--cell-km", "2", "--regions", "60", "--out", "two.policy"]
        + ["--report", "two-report"],
        place,
    )
    assert "home: " in done.stdout
    assert "people with" in done.stdout
    assert {"map-1.png", "map-2.png", "dummies-2.png"} <= {p.name for p in (place / "two-report").iterdir()}
    policy = Policy.load(place / "two.policy")
    assert [pair.name for pair in policy.pairs] == ["home", "morning"]
    assert policy.certificate.holds


def test_query_prints_json_or_geojson(place):
    point = ["query", "--policy", "distp-demo/home.policy", "--lat", "40.7484", "--lon", "-73.9857"]
    plain = json.loads(run(point, place).stdout)
    assert len(plain["tuple"]) == 9
    assert set(plain["tuple"][0]) == {"region", "lat", "lon", "side_km"}
    features = json.loads(run([*point, "--format", "geojson"], place).stdout)["features"]
    assert len(features) == 9
    ring = features[0]["geometry"]["coordinates"][0]
    assert ring[0] == ring[-1]
    assert -74.1 < ring[0][0] < -73.8  # longitude first, as GeoJSON wants it
    assert 40.6 < ring[0][1] < 41.0


def test_compare_writes_table_and_figure(place):
    run(["compare", "--policy", "distp-demo/home.policy", "--epsilon", "1", "--out", "cmp"], place)
    table = pl.read_csv(place / "cmp/comparison.csv")
    assert table["mechanism"].to_list() == ["RR", "PL", "PG", "PL/W_inf", "coupling", "tupling"]
    assert (table["delta_realised_upper"] <= 0.001).all()
    assert (place / "cmp/loss.png").read_bytes().startswith(b"\x89PNG")


FIT = ["fit", "distp-demo/buildings.csv", "--out", "x.policy"]
GOOD = ["--lat", "lat", "--lon", "lon", "--attribute", "kind == 'home'"]
PROTECT = [
    "protect",
    "distp-demo/buildings.csv",
    "--policy",
    "distp-demo/home.policy",
    "--lat",
    "lat",
    "--lon",
    "lon",
]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ([*FIT, "--lat", "lat", "--lon", "lng", "--attribute", "kind == 'home'"], "no column 'lng'"),
        ([*FIT, "--lat", "lon", "--lon", "lat", "--attribute", "kind == 'home'"], "swapped"),
        ([*FIT, "--lat", "lat", "--lon", "lon", "--attribute", "kind == 'x'"], "no check-in with"),
        ([*FIT, "--lat", "lat", "--lon", "lon", "--attribute", "kin == 'x'"], "kin"),
        ([*FIT, "--lat", "lat", "--lon", "lon", "--attribute", "kind"], "not a condition"),
        ([*FIT, *GOOD, "--epsilon", "-1"], "epsilon"),
        ([*FIT, *GOOD, "--delta", "nan"], "delta"),
        ([*FIT, *GOOD, "--max-dummies", "-3"], "max_dummies"),
        ([*FIT, *GOOD, "--regions", "10"], "regions=10"),
        ([*FIT, *GOOD, "--box", "1,2,3"], "--box"),
        ([*FIT, *GOOD, "--center", "0,0"], "42,227 lie outside the area"),
        ([*FIT, *GOOD, "--outside", "drop"], "--outside"),
        ([*FIT, *GOOD, "--max-bad", "2"], "max_bad"),
        ([*FIT, *GOOD, "--attribute", "kind == 'home'"], "same name"),
        (["fit", "none.csv", "--out", "x.policy", *GOOD], "none.csv"),
        (
            ["fit", "distp-demo/buildings.csv", "--out", "nowhere/x.policy", *GOOD, "--no-report"],
            "cannot write",
        ),
        ([*PROTECT, "--out", "x.parquet"], "outside the policy's area"),
        ([*PROTECT, "--out", "x.xlsx", "--empty"], "must end in"),
        ([*PROTECT, "--out", "x.parquet", "--empty", "--keep", "lat"], "true coordinates"),
        ([*PROTECT, "--out", "x.parquet", "--empty", "--keep", "what"], "no column 'what'"),
        (["query", "--policy", "distp-demo/home.policy", "--lat", "48.85", "--lon", "2.35"], "outside"),
        (["query", "--policy", "distp-demo/home.policy", "--lat", "99", "--lon", "2.35"], "row 0"),
        (["query", "--policy", "distp-demo/buildings.csv", "--lat", "1", "--lon", "1"], "not a distp policy"),
        (["audit", "none.policy"], "cannot read"),
        (["audit", "distp-demo/home.policy", "--data", "distp-demo/buildings.csv", "--lat", "la"], "no column 'la'"),
        (["compare", "--epsilon", "-1"], "epsilon"),
        (["compare", "--policy", "distp-demo/report.html"], "not a distp policy"),
        (["fit"], "Missing argument"),
        ([*FIT, *GOOD, "--epsilon", "abc"], "--epsilon"),
        ([*FIT, *GOOD, "--max-dummies", "99999999999999999999"], "max_dummies must be at most"),
        ([*FIT, *GOOD, "--regions", "100000"], "regions must be at most"),
        ([*FIT, "--lat", "lat", "--lon", "lon", "--attribute", "row_number() > 3"], "attribute"),
        (
            [*FIT, "--lat", "lat", "--lon", "lon", "--attribute", "COUNT(*) OVER (PARTITION BY kind) > 25000"],
            "other rows",
        ),
        ([*FIT, "--lat", "lat", "--lon", "lon", "--attribute", 'kind == "home"'], "single quotes"),
        ([*FIT, "--lat", "lat", "--lon", "lon", "--attribute", "hour < 12"], "--time"),
        (["fit", "distp-demo/buildings.csv", *GOOD, "--out", "distp-demo/buildings.csv"], "it is the input"),
        (["fit", "distp-demo/buildings.csv", *GOOD, "--out", ""], "cannot write"),
        (["fit", "distp-demo/buildings.csv", *GOOD, "--out", "distp-demo"], "it is a folder"),
        (["fit", "distp-demo/*.csv", *GOOD, "--out", "x.policy"], "no such file"),
        ([*PROTECT, "--out", "distp-demo/buildings.csv", "--empty"], "it is the input"),
        ([*PROTECT, "--out", "x.parquet", "--empty", "--keep", "kind"], "the policy's attribute"),
        (["audit", "distp-demo/home.policy", "--lat", "lat"], "--data"),
    ],
    ids=lambda value: "-".join(value)[-48:] if isinstance(value, list) else None,
)
def test_bad_input_is_one_line_and_exit_code_2_and_leaves_nothing(place, words, match):
    before = sorted(path for path in place.rglob("*"))
    done = run(words, place, code=2)
    assert done.stdout == "" or words[0] == "fit"
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1
    assert match in lines[0]
    assert "Traceback" not in done.stderr
    assert sorted(path for path in place.rglob("*")) == before


def test_a_refused_point_is_not_repeated_in_the_error(place):
    done = run(["query", "--policy", "distp-demo/home.policy", "--lat", "48.8512", "--lon", "2.3512"], place, code=2)
    assert "48.85" not in done.stderr + done.stdout


def test_protect_gives_empty_reports_only_when_told_to(place):
    run([*PROTECT, "--out", "some.csv", "--empty"], place)
    written = pl.read_csv(place / "some.csv")
    assert written.columns == [f"report_{i}" for i in range(9)]
    assert written.height == 42227
    assert written["report_0"].null_count() == 333 == written["report_8"].null_count()
    done = json.loads(run([*PROTECT, "--out", "some.parquet", "--empty", "--json"], place).stdout)
    assert done["empty"] == 333


def test_no_progress_bar_and_no_colour_when_not_on_a_terminal(place):
    done = run(["compare", "--epsilon", "2"], place)
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr == ""


def test_a_person_sends_the_same_tuple_until_the_draws_are_spent(place):
    def ask(*words, lat="40.7484", code=0):
        point = ["query", "--policy", "distp-demo/home.policy", "--lat", lat, "--lon", "-73.9857"]
        return run([*point, "--secret", "my.secret", *words], place, code=code)

    ada = ["--person", "ada", "--ledger", "spent.db", "--limit", "1"]
    first = ask(*ada).stdout
    assert ask(*ada).stdout == first
    assert ask("--person", "bob").stdout != first
    refused = ask(*ada, lat="40.7684", code=2)
    assert "no independent draw left of 1" in refused.stderr
    assert "ada" not in refused.stderr
    assert "together" in ask("--period", "x", code=2).stderr


def test_output_may_be_cut_off_by_its_reader(place):
    cut = subprocess.run(
        f"{shlex.join(DISTP)} query --policy distp-demo/home.policy --lat 40.7484 --lon -73.9857 | head -n 1",
        shell=True,
        cwd=place,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert "Traceback" not in cut.stderr


@pytest.mark.parametrize("attribute", ["residence: root_category == 'Residence'", "office: category == 'Office'"])
def test_real_check_ins_end_to_end(tmp_path, attribute):
    data = str(shared("foursquare_nyc_193users/checkins.csv.gz"))
    columns = ["--lat", "lat", "--lon", "lon"]
    fitted = json.loads(
        run(
            ["fit", data, *columns, "--user", "user_id", "--attribute", attribute, "--center", "40.75,-73.97"]
            + ["--max-dummies", "20", "--outside", "nearest", "--out", "a.policy", "--no-report", "--json"],
            tmp_path,
        ).stdout
    )
    assert fitted["holds"]
    assert fitted["certificate"]["loss"] < 0.6
    written = json.loads(
        run(["protect", data, *columns, "--policy", "a.policy", "--out", "a.parquet", "--json"], tmp_path).stdout
    )
    assert written == {"out": "a.parquet", "rows": 66962, "empty": 0, "before": 0, "places": 21, "holds": True}


def test_errors_about_a_file_never_quote_its_rows(tmp_path):
    row = "1070,29560,2012-07-17 13:50:38,40.748954,-73.992257,Coffee Shop"
    files = {
        "nohdr.csv": f"{row}\n{row}\n",
        "quote.csv": f'user,traj,when,lat,lon,kind\n"{row}\n{row},"x\n',
        "text.csv": f"user,traj,when,lat,lon,kind\n{row}\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "bytes.csv").write_bytes(os.urandom(300))
    for name in (*files, "bytes.csv"):
        for attribute in ("CAST(kind AS INT) > 3", "kind ="):
            done = run(
                ["fit", name, "--lat", "lat", "--lon", "lon", "--attribute", attribute, "--out", "x.policy"]
                + ["--center", "40.75,-73.97"],
                tmp_path,
                code=2,
            )
            for secret in ("40.748954", "73.992257", "Coffee", "29560"):
                assert secret not in done.stderr + done.stdout
            assert done.stderr.isprintable() or done.stderr.strip().isprintable()


def test_conditions_on_coordinates_compare_numbers_in_every_format(tmp_path):
    lat = [9.5, 40.75, 40.76, 100.0 - 59.24, 40.74]
    pl.DataFrame({"lat": lat, "lon": [-73.97] * 5}).write_csv(tmp_path / "a.csv")
    pl.DataFrame({"lat": lat, "lon": [-73.97] * 5}).write_parquet(tmp_path / "a.parquet")
    said = [
        run(
            [
                "fit",
                name,
                "--lat",
                "lat",
                "--lon",
                "lon",
                "--attribute",
                "lat > 40.755",
                "--out",
                "x.policy",
                "--json",
            ]
            + ["--center", "40.75,-73.97", "--size-km", "6,6", "--regions", "36", "--no-report"],
            tmp_path,
        ).stdout
        for name in ("a.csv", "a.parquet")
    ]
    assert [json.loads(text)["certificate"]["pairs"][0]["support"][0]["records"] for text in said] == [2, 2]
    assert "warning" in said[0]  # two check-ins are no population


def test_an_unmet_target_is_valid_json_and_exit_code_1_and_is_said_when_used(place):
    loaded = Policy.load(place / "distp-demo/home.policy")
    weak = replace(loaded, certificate=loaded.recertify([*loaded.pairs]))
    assert weak.certificate.holds
    broken = Policy.create(
        loaded.mechanism, loaded.regions, loaded.pairs, epsilon=0.1, delta=1e-6, prior=loaded.prior, outside="nearest"
    )
    broken.save(place / "broken.policy")
    assert json.loads(run(["audit", "broken.policy", "--json"], place, code=1).stdout)["holds"] is False
    words = ["protect", "distp-demo/buildings.csv", "--policy", "broken.policy", "--lat", "lat", "--lon", "lon"]
    assert "does not meet its own target" in run([*words, "--out", "broken.parquet"], place).stdout


def test_interrupting_leaves_nothing_and_says_nothing(place):
    before = sorted(place.rglob("*"))
    for wait in (0.05, 3.0):
        words = [
            "fit",
            "distp-demo/buildings.csv",
            *GOOD,
            "--out",
            "x.policy",
            "--size-km",
            "12,22",
            "--regions",
            "400",
        ]
        process = subprocess.Popen([*DISTP, *words], cwd=place, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        if wait > 1:
            assert process.returncode == 130
            assert b"Traceback" not in said
    assert sorted(place.rglob("*")) == before
