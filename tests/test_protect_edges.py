"""What a job on files must not touch, mix up, change or forget."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import format_files
from distp import Identity, Pair, Policy, Regions, Tupling
from distp.errors import DataError, ParameterError, PolicyError, SpentError
from distp.release import Ledger, Memory, Sampler, batch, open_secret, policybody, protect_file, work
from distp.release.policybody import to_body
from distp.spaces import Box
from test_policy_file import DATA, document, resigned
from test_protect import places, policy, read, right  # noqa: F401 - a fixture

SECRET = bytes(range(32))


# --- remembered tuples stay what they are -----------------------------------------------------------------


def test_a_later_release_and_another_certificate_change_no_remembered_tuple(tmp_path, policy, monkeypatch):  # noqa: F811
    policy.save(tmp_path / "p.policy")
    memory = Memory(SECRET, "", Ledger(tmp_path / "ledger", 1))
    before = memory.release(policy, ["ada"], np.array([5]))
    monkeypatch.setattr(policybody, "version", lambda _: "99.0")
    again = Policy.load(tmp_path / "p.policy")
    assert np.array_equal(memory.release(again, ["ada"], np.array([5])), before)  # or the ledger would refuse
    law = np.full(36, 1 / 36)
    other = Policy.create(
        again.mechanism, again.regions, [Pair("other", law, law)], epsilon=2, delta=0.5, prior=law, outside="nearest"
    )
    assert other.identity == policy.identity
    assert Policy.load(DATA / "uniform-v1.policy").identity == Policy.load(DATA / "uniform-v1-plain.policy").identity
    assert (
        len({Policy.load(DATA / f"{name}-v1.policy").identity for name in ("uniform", "weighted", "distinct")}) == 3
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "lat,lon,who\n{0},7\n{0}, 7\n"),
        ("b.jsonl", '{{"lat": {1}, "lon": {2}, "who": 7}}\n{{"lat": {1}, "lon": {2}, "who": 1.5}}\n'),
        ("c.jsonl", '{{"lat": {1}, "lon": {2}, "who": "7"}}\n'),
    ],
)
def test_a_person_is_the_same_however_written_and_whatever_stands_around(tmp_path, policy, name, content):  # noqa: F811
    place = 40.75, -73.97
    (tmp_path / name).write_text(content.format("40.75,-73.97", *place))
    own = Memory(SECRET).release(policy, ["7"], policy.locate(*place))[0].tolist()
    protect_file(tmp_path / name, tmp_path / "o.parquet", policy, person="who", memory=Memory(SECRET))
    assert pl.read_parquet(tmp_path / "o.parquet")["report"].to_list()[0] == own
    pl.DataFrame({"lat": [place[0]] * 2, "lon": [place[1]] * 2, "who": [7.0, 8.5]}).write_parquet(
        tmp_path / "f.parquet"
    )
    protect_file(tmp_path / "f.parquet", tmp_path / "f2.parquet", policy, person="who", memory=Memory(SECRET))
    assert pl.read_parquet(tmp_path / "f2.parquet")["report"].to_list()[0] == own
    accents = [Memory(SECRET).release(policy, [who], np.array([0])).tolist() for who in ("é", "e\u0301 ")]
    assert accents[0] == accents[1]


def test_people_that_are_no_text_are_named_errors_and_secrets_do_not_travel(tmp_path, policy):  # noqa: F811
    memory = Memory(SECRET, "", Ledger(tmp_path / "l", 1))
    for who in (7, None, "\udce9"):
        with pytest.raises(ParameterError, match="named by text"):
            memory.release(policy, [who], np.array([0]))
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(memory)
    open_secret(tmp_path / "s").hex()
    (tmp_path / "s").chmod(0o644)
    with pytest.raises(DataError, match="others may read"):
        open_secret(tmp_path / "s")


def test_no_name_makes_a_ledger_that_forgets(tmp_path, policy, monkeypatch):  # noqa: F811
    monkeypatch.chdir(tmp_path)
    memory = Memory(SECRET, "", Ledger(":memory:", 1))
    memory.release(policy, ["a"], np.array([0]))
    with pytest.raises(SpentError):
        memory.release(policy, ["a"], np.array([1]))
    with pytest.raises(DataError, match="ledger"):
        Memory(SECRET, "", Ledger("", 1)).release(policy, ["a"], np.array([0]))


def test_a_refused_part_spends_nothing(tmp_path, policy):  # noqa: F811
    source = places(40).with_columns(who=pl.lit("a"))
    source.write_parquet(tmp_path / "i.parquet")
    memory = Memory(SECRET, "", Ledger(tmp_path / "ledger", 2))
    with pytest.raises(SpentError):
        protect_file(tmp_path / "i.parquet", tmp_path / "o.csv", policy, person="who", memory=memory)
    assert memory.spent("a") == 0


# --- other people's files ---------------------------------------------------------------------------------


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path, policy):  # noqa: F811
    folder = tmp_path / "o.csv.partial"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    places(10).write_csv(tmp_path / "i.csv")
    for restart in (False, True):
        with pytest.raises(DataError, match="in the way"):
            protect_file(tmp_path / "i.csv", tmp_path / "o.csv", policy, restart=restart)
    assert (folder / "thesis.txt").read_text() == "mine"
    (tmp_path / "p.csv.partial").symlink_to(folder)
    (tmp_path / "q.csv.partial").write_text("mine too")
    for name in ("p.csv", "q.csv"):
        with pytest.raises(DataError, match="in the way"):
            protect_file(tmp_path / "i.csv", tmp_path / name, policy, restart=True)
    inputs = tmp_path / "data.partial"
    inputs.mkdir()
    places(10).write_csv(inputs / "a.csv")
    with pytest.raises(DataError, match="in the way"):
        protect_file(inputs, tmp_path / "data", policy)
    assert (inputs / "a.csv").exists()


def test_what_else_lies_in_a_jobs_folder_stays(tmp_path, policy):  # noqa: F811
    places(10).write_csv(tmp_path / "i.csv")
    (tmp_path / "o.csv.partial").mkdir()
    (tmp_path / "o.csv.partial" / work.LOCK).touch()
    (tmp_path / "o.csv.partial" / "thesis.txt").write_text("mine")
    (tmp_path / "o.csv.partial" / "part-00000.txt").write_text("mine too")
    protect_file(tmp_path / "i.csv", tmp_path / "o.csv", policy)
    assert (tmp_path / "o.csv.partial" / "thesis.txt").read_text() == "mine"
    assert (tmp_path / "o.csv.partial" / "part-00000.txt").read_text() == "mine too"
    assert pl.read_csv(tmp_path / "o.csv").height == 10


def test_a_restart_waits_for_nobody_and_disturbs_nobody(tmp_path, policy):  # noqa: F811
    places(10).write_csv(tmp_path / "i.csv")
    (tmp_path / "o.csv.partial").mkdir()
    with (
        work._locked(tmp_path / "o.csv.partial", tmp_path / "o.csv"),
        pytest.raises(DataError, match="another process"),
    ):
        protect_file(tmp_path / "i.csv", tmp_path / "o.csv", policy, restart=True)


@pytest.mark.parametrize("name", [".csv", "foo.", ".hidden"])
def test_names_that_mean_something_else_are_refused(tmp_path, policy, name):  # noqa: F811
    places(10).write_csv(tmp_path / "i.csv")
    with pytest.raises(DataError, match="must end in"):
        protect_file(tmp_path / "i.csv", tmp_path / name, policy)


def test_tables_of_regions_are_no_check_ins(tmp_path, policy):  # noqa: F811
    folder = tmp_path / "in"
    folder.mkdir()
    places(100).write_csv(folder / "a.csv")
    protect_file(folder, folder / "o.parquet", policy)
    (folder / "o.parquet").unlink()
    assert protect_file(folder, folder / "p.parquet", policy).rows == 100  # o.parquet.regions.csv lies there


def test_a_secret_is_not_written_over(tmp_path, policy):  # noqa: F811
    places(10).write_csv(tmp_path / "i.csv")
    policy.save(tmp_path / "p.policy")
    open_secret(tmp_path / "s.csv")
    code = "from distp.cli.main import main; main()"
    words = ["protect", "i.csv", "--policy", "p.policy", "--person", "id", "--secret", "s.csv", "--out", "s.csv"]
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "would be lost" in done.stderr


def test_brackets_in_names_are_no_patterns(tmp_path, policy):  # noqa: F811
    (tmp_path / "d[1]").mkdir()
    for name in ("a*.arrow", "ab.arrow"):
        places(30).write_ipc(tmp_path / "d[1]" / name)
    done = protect_file(tmp_path / "d[1]" / "a*.arrow", tmp_path / "d[1]" / "o.arrow", policy, keep=["id"])
    assert done.rows == 30
    right(pl.read_ipc((tmp_path / "d[1]" / "o.arrow").read_bytes()), places(30), policy)


# --- what is kept -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [[1.75], ["007"], [2**40]])
@pytest.mark.parametrize("part", [3, 1000])
def test_no_kept_value_is_ever_changed(tmp_path, policy, monkeypatch, second, part):  # noqa: F811
    monkeypatch.setattr(batch, "PART_ROWS", part)
    for name, values in (("a", [1]), ("b", second)):
        column = pl.Series("v", values * 5, dtype=None if name == "b" else pl.Int32)
        places(5).with_columns(column).write_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match="different things"):
        protect_file([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "o", policy, keep=["v"])


def test_a_record_may_lack_what_is_kept(tmp_path, policy, monkeypatch):  # noqa: F811
    monkeypatch.setattr("distp.data.tables.JSON_ROWS", 2)
    rows = [{"lat": 40.75, "lon": -73.97, "note": "x"}] * 2 + [{"lat": 40.75, "lon": -73.97}] * 2
    (tmp_path / "i.jsonl").write_text("\n".join(map(json.dumps, rows)))
    protect_file(tmp_path / "i.jsonl", tmp_path / "o.parquet", policy, keep=["note"])
    assert pl.read_parquet(tmp_path / "o.parquet")["note"].to_list() == ["x", "x", None, None]


def test_wide_rows_make_small_parts(tmp_path, policy, monkeypatch):  # noqa: F811
    monkeypatch.setattr(batch, "PART_BYTES", 1 << 16)
    source = places(300).with_columns(text=pl.lit("x" * 2000))
    source.write_parquet(tmp_path / "i.parquet")
    protect_file(tmp_path / "i.parquet", tmp_path / "o", policy, keep=["id", "text"])
    assert len(list((tmp_path / "o").iterdir())) > 8
    right(read(tmp_path / "o"), source, policy)


@pytest.mark.parametrize("name", ["tist2015", "www2019"])
def test_sets_whose_places_are_in_another_file(tmp_path, name):
    made = getattr(format_files, name)(tmp_path)
    regions = Regions.grid(Box.around(35.68, 139.76, 60, 60), 10.0, ring_km=0)
    law = np.full(36, 1 / 36)
    wide = Policy.create(
        Tupling(Identity(regions), 2),
        regions,
        [Pair("x", law, law)],
        epsilon=1,
        delta=0.5,
        prior=law,
        outside="nearest",
    )
    done = protect_file(made.files, tmp_path / "o.parquet", wide, keep=["user"], empty=True)
    assert done.rows > done.empty
    assert pl.read_parquet(tmp_path / "o.parquet").columns == ["user", "report"]
    with pytest.raises(DataError, match="never written"):
        protect_file(made.files, tmp_path / "p.parquet", wide, keep=["venue"], empty=True)


def textual(rows):
    return [[str(number) for number in row] for row in rows]


# --- policy files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("distinct", lambda body: body["dummies"].__setitem__("count", len(body["regions"]["centres"]))),
        (
            "uniform",
            lambda body: body["regions"]["cells_km"][0].__setitem__(0, str(body["regions"]["cells_km"][0][0])),
        ),
        ("uniform", lambda body: body["regions"].__setitem__("box_km", [str(x) for x in body["regions"]["box_km"]])),
        ("uniform", lambda body: body["regions"].__setitem__("centres", textual(body["regions"]["centres"]))),
        ("polygons", lambda body: body["regions"]["names"].__setitem__(0, "\udce9")),
    ],
)
def test_what_cannot_be_drawn_or_is_no_number_does_not_load(tmp_path, name, change):
    body = document(DATA / f"{name}-v1.policy")["policy"]
    change(body)
    resigned(tmp_path / "a.policy", body)
    with pytest.raises(PolicyError):
        Policy.load(tmp_path / "a.policy")


def test_inputs_of_any_integer_kind_are_drawn(policy):  # noqa: F811
    for kind in ("u1", ">i4", "i2", "u8"):
        drawn = policy.release_inputs(np.arange(36).astype(kind)[::-1])
        assert (drawn == np.arange(36)[::-1, None]).any(axis=1).all()
    assert isinstance(policy.sampler, Sampler)
    assert to_body(policy)["total"] == 2**32
