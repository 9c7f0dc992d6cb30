"""The parts that draw, write and remember, each at its edges: the last word, the last region, the last byte."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import format_files
from distp import Channel, Identity, Pair, Policy, Regions, Tupling
from distp.errors import DataError, MechanismError, OutsideError, ParameterError, PolicyError
from distp.files import replacing
from distp.release import (
    Ledger,
    Memory,
    Sampler,
    arrowfile,
    batch,
    open_secret,
    policyfile,
    protect_file,
    tables,
    work,
)
from distp.release.columns import check_keep
from distp.release.draws import distinct_tuples, insert_real, uniform_dummies, weighted_dummies
from distp.release.entropy import Keyed, SystemEntropy
from distp.release.sampling import Alias
from distp.release.weights import BITS, FEW_BITS, Weights, enough_bits
from distp.spaces import Box
from test_policy_file import DATA, document, resigned
from test_protect import places, policy, read, right  # noqa: F401 - fixtures
from test_release import make_policy
from test_tables import grown, some

SECRET = bytes(range(32))


def array(*words: int) -> np.ndarray:
    return np.array(words, dtype=np.uint64)


# --- words ------------------------------------------------------------------------------------------------


def test_a_slot_gives_its_first_column_exactly_its_share_of_words():
    table = Alias.of(Weights.of(np.array([[0.2, 0.5, 0.3]])))
    size = 1 << int(table.shift[0])
    for slot in range(int(table.slots[1])):
        share = int(table.threshold[slot])
        for rest in (0, share - 1, share, share + 1, size - 1):
            if not 0 <= rest < size:
                continue
            out = np.empty(1, dtype=np.uint16)
            weighted_dummies(array(slot * size + rest), *table[1:], out)
            assert out[0] == table.columns[2 * slot + (rest >= share)]


@pytest.mark.parametrize("bound", [3, 7, 275])
def test_exactly_the_words_that_favour_an_outcome_are_refused(bound):
    """Of the words whose products' lower halves are 0, 1, 2, ..., the first 2^64 modulo the bound are too many."""
    favoured = 2**64 % bound
    one = Alias.of(Weights.of(np.eye(bound + 1)[:1]))
    rows = np.zeros(1, dtype=np.int64)
    for low, refused in ((0, True), (favoured - 1, True), (favoured, False), (bound, False)):
        word = low * pow(bound, -1, 2**64) % 2**64
        assert word * bound % 2**64 == low
        assert uniform_dummies(array(word), bound, np.empty(1, np.uint16)) == refused
        assert uniform_dummies(array(word, 2**63), bound, np.empty(2, np.uint16)) == refused
        assert insert_real(array(word, 0)[None], rows, *one, np.zeros((1, bound), np.uint16)) == refused
        assert distinct_tuples(array(0, word)[None], rows, bound + 1, *one, np.empty((1, 2), np.uint16)) == refused


def test_one_refused_word_of_a_set_is_enough():
    """Of 8 outputs, two dummies: bounds 6 and 7. The first word is refused, the second looked at and kept."""
    one = Alias.of(Weights.of(np.eye(8)[:1]))
    second = 2 * pow(7, -1, 2**64) % 2**64
    out = np.empty((1, 3), np.uint16)
    assert distinct_tuples(array(0, 0, second)[None], np.zeros(1, dtype=np.int64), 8, *one, out)
    assert not distinct_tuples(array(0, 2**62, second)[None], np.zeros(1, dtype=np.int64), 8, *one, out)


def test_every_set_is_drawn_equally_often():
    """All pairs of words that Floyd's method tells apart, for every real report: each set comes equally often."""
    width, found = 6, {}
    for real in range(width):
        table = Alias.of(Weights.of(np.eye(width)[real : real + 1]))
        words = [[0, 2**62 * one + 2**60, 2**64 // 5 * two + 2**60] for one in range(4) for two in range(5)]
        out = np.empty((20, 3), np.uint16)
        assert not distinct_tuples(np.array(words, np.uint64), np.zeros(20, dtype=np.int64), width, *table, out)
        for drawn in out.tolist():
            assert real in drawn
            assert len(set(drawn)) == 3
            found[real, tuple(drawn)] = found.get((real, tuple(drawn)), 0) + 1
    assert len(found) == 6 * 10  # two of five others
    assert set(found.values()) == {2}


@pytest.mark.parametrize(("width", "kind"), [(2**16, np.uint16), (2**16 + 1, np.uint32)])
def test_the_last_of_many_outputs_comes_back(width, kind):
    last = Weights(np.array([0, 1]), np.array([width - 1]), np.array([1 << BITS]), width)
    drawn = Sampler(last, None, 1).draw(np.zeros(3, dtype=np.int64), SystemEntropy())
    assert drawn.dtype == kind
    assert (drawn == width - 1).any(axis=1).all()


def test_tables_are_made_where_they_are_used_and_do_not_travel():
    law = Weights.of(np.array([[0.25, 0.75]]))
    sampler = Sampler(law, law, 1)
    sampler.draw(np.zeros(3, dtype=np.int64), SystemEntropy())
    again = pickle.loads(pickle.dumps(sampler))
    assert sorted(vars(again)) == ["channel", "count", "dummies", "replacement"]
    assert again.draw(np.zeros(3, dtype=np.int64), SystemEntropy()).shape == (3, 2)


def test_sets_without_repetition_need_enough_outputs_and_uniform_dummies():
    channel = Weights.of(np.full((1, 5), 0.2))
    everything = Sampler(channel, None, 4, replacement=False)
    assert everything.draw(np.zeros(2, dtype=np.int64), SystemEntropy()).tolist() == [[0, 1, 2, 3, 4]] * 2
    with pytest.raises(ParameterError, match="at most 4"):
        Sampler(channel, None, 5, replacement=False)
    with pytest.raises(ParameterError, match="uniform"):
        Sampler(channel, channel, 2, replacement=False)


def test_no_word_of_a_row_comes_twice():
    keyed = Keyed(SECRET, [b"", b"0", bytes(16)])
    words = np.concatenate([keyed.rows(np.arange(3), each, turn) for turn, each in enumerate((40, 2, 40))], axis=1)
    assert np.unique(words).size == words.size == 3 * 82


# --- weights ----------------------------------------------------------------------------------------------

T = 1 << BITS


@pytest.mark.parametrize(
    ("starts", "columns", "values", "bits", "match"),
    [
        ([0, 1], [3], [T], BITS, "columns must lie"),
        ([0, 2], [1, 1], [T // 2, T // 2], BITS, "twice"),
        ([1, 2], [0, 1], [T, T], BITS, "do not fit"),
        ([0, 1], [0], [1 << 40], 40, "must sum to"),
    ],
)
def test_weights_that_are_no_law_are_refused(starts, columns, values, bits, match):
    with pytest.raises(MechanismError, match=match):
        Weights(np.array(starts), np.array(columns), np.array(values), 3, bits)


def test_a_sum_that_overflows_to_the_right_one_is_refused():
    size = 2**11 + 1  # 2^11 rows' worth of weight too much: 2^64 is 0 in a machine's integers
    assert int(np.full(size, T).sum()) == T
    with pytest.raises(MechanismError, match="does not sum"):
        Weights(np.array([0, size]), np.arange(size), np.full(size, T), size)


def test_what_rounding_leaves_goes_to_the_largest_and_nothing_appears():
    law = np.array([0.1, 0.7, 0.2 - 2.0**-40, 2.0**-40])
    found = Weights.of(law, FEW_BITS)
    assert found.columns.tolist() == [0, 1, 2]
    down = np.floor(law * 2**32).astype(int).tolist()
    assert found.values.tolist() == [down[0], 2**32 - down[0] - down[2], down[2]]
    assert found.values[1] > down[1]
    unsorted = sparse.csr_array((np.array([0.25, 0.75]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    assert Weights.of(unsorted).matrix().toarray().tolist() == [[0.75, 0.0, 0.25]]


def test_few_bits_where_no_probability_is_below_2_to_minus_20():
    def bits(least: float, law=None) -> int:
        return enough_bits(Tupling(Channel([[least, 1 - least], [0.5, 0.5]]), 1, law))

    assert (bits(2.0**-20), bits(2.0**-21)) == (FEW_BITS, BITS)
    assert (bits(0.5, [2.0**-20, 1 - 2.0**-20]), bits(0.5, [2.0**-21, 1 - 2.0**-21])) == (FEW_BITS, BITS)


# --- policies ---------------------------------------------------------------------------------------------


REMEMBERED = {
    "uniform": [[17, 24, 22, 15], [26, 2, 1, 24], [25, 11, 1, 1]],
    "weighted": [[15, 16, 13, 26], [6, 8, 0, 3], [22, 26, 26, 2]],
    "distinct": [[0, 1, 11, 20, 23, 26, 30], [0, 6, 13, 16, 22, 28, 29], [6, 10, 11, 15, 16, 27, 28]],
}


def test_remembered_tuples_are_those_of_the_first_release():
    """Written down once. If this fails, everybody who upgrades sends second tuples from where they were before."""
    memory = Memory(SECRET, "2026-11")
    for name, expected in REMEMBERED.items():
        loaded = Policy.load(DATA / f"{name}-v1.policy")
        assert memory.release(loaded, ["ada", "ada", "é"], np.array([0, 1, 0])).tolist() == expected


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda p: p["channel"].append(p["channel"][0]), "rows in the channel"),
        (lambda p: p["dummies"].__setitem__("replacement", 1), "true or false"),
        (lambda p: p["dummies"].__setitem__("replacement", "no"), "true or false"),
        (lambda p: p["attributes"][0].__setitem__("expression", 5), "must be text"),
        (lambda p: p.__setitem__("prior", [1.0]), "prior"),
        (lambda p: p.__setitem__("prior", [True] + [0.0] * (len(p["prior"]) - 1)), "does not know"),
        (lambda p: p["attributes"][0].__setitem__("name", "other"), "not about the attributes"),
        (lambda p: (p["attributes"].clear(), p["certificate"]["pairs"].clear()), "damaged"),
        (lambda p: p.__setitem__("note", "kept out of sight"), "does not know"),
    ],
)
def test_what_a_policy_file_may_not_say(tmp_path, change, match):
    body = document(DATA / "uniform-v1.policy")["policy"]
    change(body)
    resigned(tmp_path / "a.policy", body)
    with pytest.raises(PolicyError, match=match):
        Policy.load(tmp_path / "a.policy")


def test_readers_differ_in_what_these_files_say_so_they_are_refused(tmp_path):
    path = tmp_path / "a.policy"
    body = document(DATA / "uniform-v1.policy")["policy"]
    signed = {"format": "distp-policy", "version": 1, "sha256": policyfile.digest(body), "policy": body}
    text = json.dumps(signed)
    path.write_text(text)
    Policy.load(path)
    twice = text.replace('"count": 3', '"count": 5, "count": 3')
    assert twice != text
    path.write_text(twice)
    with pytest.raises(PolicyError, match="not JSON"):
        Policy.load(path)
    for said in ({"version": True}, {"version": 1.0}, {"version": "1"}):
        path.write_text(json.dumps(signed | said))
        with pytest.raises(PolicyError, match="of version"):
            Policy.load(path)
    path.write_text(json.dumps(signed | {"format": "else"}))
    with pytest.raises(PolicyError, match="does not say"):
        Policy.load(path)
    resigned(path, body | {"written_by": float("nan")})
    with pytest.raises(PolicyError, match="not JSON"):
        Policy.load(path)


def test_a_policy_file_holds_no_time_of_writing(tmp_path, policy):  # noqa: F811
    policy.save(tmp_path / "a.policy")
    assert (tmp_path / "a.policy").read_bytes()[4:8] == bytes(4)


def test_the_same_weights_on_another_map_are_another_policy(policy):  # noqa: F811
    box = policy.regions.box
    elsewhere = Regions.grid(Box.around(box.lat, box.lon + 1, 8, 8), 1.0, ring_km=1.0)
    moved = Policy.create(
        Tupling(Identity(elsewhere.inputs, elsewhere), 3),
        elsewhere,
        policy.pairs,
        epsilon=1,
        delta=0.1,
        prior=policy.prior,
    )
    assert np.array_equal(moved.channel.values, policy.channel.values)
    assert moved.identity != policy.identity


def test_the_first_number_that_is_no_region_is_refused():
    policy = make_policy()  # noqa: F811
    known = len(policy.regions.inputs)
    assert policy.release_inputs(np.array([known - 1])).shape == (1, 4)
    with pytest.raises(OutsideError, match=r"1 of 2 entries .*row 1"):
        policy.release_inputs(np.array([0, known]))
    pair = {"epsilon": 1.0, "delta": 0.2, "prior": policy.prior}
    for wrong, match in (({"smoothing": -1.0}, "smoothing"), ({"expressions": ["a", "b", "c"]}, "one expression")):
        with pytest.raises(ParameterError, match=match):
            Policy.create(policy.mechanism, policy.regions, policy.pairs, **pair, **wrong)


# --- jobs -------------------------------------------------------------------------------------------------


def appended(text: bytes):
    return lambda stream: stream.write(text)


@pytest.fixture
def disk(monkeypatch) -> list[tuple[str, str]]:
    """What is flushed to the disk and renamed, in this order; of names with random ends, the beginning."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("which file a handle belongs to is asked of /proc")
    seen, fsync, replace = [], os.fsync, os.replace

    def short(path: str) -> str:
        name = Path(path).name
        return f"{name.rpartition('.')[0]}." if name.startswith(".") else name

    def flushed(handle: int) -> None:
        seen.append(("flushed", short(str(Path(f"/proc/self/fd/{handle}").readlink()))))
        fsync(handle)

    def renamed(one: str, other: str) -> None:
        replace(one, other)
        seen.append(("renamed", short(other)))

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    return seen


@pytest.mark.parametrize("out", ["o.csv", "o.parquet", "o"])
def test_everything_is_on_the_disk_before_it_counts(tmp_path, policy, monkeypatch, disk, out):  # noqa: F811
    monkeypatch.setattr(batch, "PART_ROWS", 30)
    places(60).write_parquet(tmp_path / "i.parquet")
    protect_file(tmp_path / "i.parquet", tmp_path / out, policy)
    expected = []
    for part in range(2):
        name = f"part-0000{part}.parquet"
        expected += [("flushed", f".{name}."), ("renamed", name)] if out == "o" else [("flushed", "_rows")]
        expected += [("flushed", "._manifest."), ("renamed", "_manifest"), ("flushed", f"{out}.partial")]
    expected += [("flushed", "_whole"), ("renamed", f"{out}.regions.csv"), ("flushed", tmp_path.name)]
    if out == "o.parquet":
        expected += [("flushed", "_whole")]
    elif out != "o":  # by what the file is known again is written before it gets its last name
        expected += [("flushed", "._manifest."), ("renamed", "_manifest"), ("flushed", f"{out}.partial")]
        expected += [("flushed", "_rows")]
    assert disk == [*expected, ("renamed", out), ("flushed", tmp_path.name)]
    disk.clear()
    open_secret(tmp_path / "secret")
    assert disk == [("flushed", ".secret."), ("flushed", tmp_path.name)]


def test_a_part_that_fails_leaves_no_bytes_and_the_next_stands_behind_the_last_finished(tmp_path):
    def fails(stream):
        stream.write(b"half a part")
        stream.flush()
        raise OSError(28, "No space left on device")

    with work.working(tmp_path / "o.csv", {}, [], None, restart=False) as job:
        job.add(appended(b"one "), 1, 0, 1)
        with pytest.raises(DataError, match="No space left"):
            job.add(fails, 1, 0, 1)
        assert job.rows_file.read_bytes() == b"one "
    (tmp_path / "o.csv.partial" / work.ROWS).write_bytes(b"one and what was being written at the kill")
    with work.working(tmp_path / "o.csv", {}, [], None, restart=False) as job:
        job.add(appended(b"two"), 1, 0, 1)
        assert job.rows_file.read_bytes() == b"one two"
        assert job.sizes == [4, 3]


def test_what_a_killed_run_was_writing_is_removed_and_what_it_finished_is_not(tmp_path):
    folder = tmp_path / "o.partial"
    with work.working(tmp_path / "o", {}, [], ".parquet", restart=False) as job:
        job.add(appended(b"one"), 1, 0, 1)
    begun = ["part-00001.parquet", ".part-00001.parquet.abcd", "._manifest.abcd", work.WHOLE]
    for name in begun:
        (folder / name).write_text("begun")
    with work.working(tmp_path / "o", {}, [], ".parquet", restart=False) as job:
        assert sorted(item.name for item in folder.iterdir()) == [work.LOCK, work.MANIFEST, "part-00000.parquet"]
        assert job.rows == 1


def test_a_folder_that_cannot_be_thrown_away_counts_for_nothing(tmp_path):
    with work.working(tmp_path / "o", {}, [], ".parquet", restart=False) as job:
        job.add(appended(b"one"), 1, 0, 1)
    folder = tmp_path / "o.partial"
    (folder / "part-00001.parquet").mkdir()  # which is not removed as a file is
    with pytest.raises(OSError, match="part-00001"):
        work.discard(folder)
    assert not (folder / work.MANIFEST).exists()


def test_a_manifest_of_another_version_or_a_part_of_another_size_is_refused(tmp_path):
    with work.working(tmp_path / "o", {}, [], ".parquet", restart=False) as job:
        job.add(appended(b"one"), 1, 0, 1)
    folder = tmp_path / "o.partial"
    manifest = (folder / work.MANIFEST).read_text()
    (folder / work.MANIFEST).write_text(json.dumps(json.loads(manifest) | {"version": work.VERSION - 1}))
    with (
        pytest.raises(DataError, match="another job"),
        work.working(tmp_path / "o", {}, [], ".parquet", restart=False),
    ):
        pass
    (folder / work.MANIFEST).write_text(manifest)
    (folder / "part-00000.parquet").write_bytes(b"on")
    with (
        pytest.raises(DataError, match="not as long as it was"),
        work.working(tmp_path / "o", {}, [], ".parquet", restart=False),
    ):
        pass


def test_a_restart_takes_nothing_from_a_process_at_work(tmp_path):
    with work.working(tmp_path / "o", {}, [], ".parquet", restart=False) as job:
        job.add(appended(b"one"), 1, 0, 1)
        with (
            pytest.raises(DataError, match="another process"),
            work.working(tmp_path / "o", {}, [], ".parquet", restart=True),
        ):
            pass
        assert (job.folder / work.MANIFEST).exists()


@pytest.fixture
def stopped(tmp_path) -> list[Path]:
    """Three files of 1,000 rows, for a job that will stop at the third."""
    files = [tmp_path / f"{name}.parquet" for name in "abc"]
    for seed, file in enumerate(files, 1):
        places(1000, seed).write_parquet(file)
    return files


def stop(files: list[Path], target: Path, policy: Policy, part: int, monkeypatch, **more) -> None:  # noqa: F811
    """Let a job finish its parts of the first two files, the third of which cannot be read."""
    monkeypatch.setattr(batch, "PART_ROWS", part)
    whole = files[2].read_bytes()
    files[2].write_bytes(whole[:500])
    with pytest.raises(DataError, match="cannot read"):
        protect_file(files, target, policy, keep=["id"], **more)
    files[2].write_bytes(whole)
    manifest = json.loads((target.with_name(f"{target.name}.partial") / work.MANIFEST).read_text())
    assert sum(one["rows"] for one in manifest["parts"]) == 2000 // part * part


@pytest.mark.parametrize("which", [0, 1])
def test_a_change_of_any_file_that_finished_parts_came_from_is_noticed(tmp_path, policy, stopped, monkeypatch, which):  # noqa: F811
    stop(stopped, tmp_path / "o.csv", policy, 700, monkeypatch)  # the second part is of both files
    before = stopped[which].stat()
    os.utime(stopped[which], ns=(before.st_atime_ns, before.st_mtime_ns + 1000))  # as large as it was
    with pytest.raises(DataError, match="has changed"):
        protect_file(stopped, tmp_path / "o.csv", policy, keep=["id"])
    os.utime(stopped[which], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert protect_file(stopped, tmp_path / "o.csv", policy, keep=["id"]).before == 1400
    right(read(tmp_path / "o.csv"), pl.concat([places(1000, seed) for seed in (1, 2, 3)]), policy)


@pytest.mark.parametrize("out", ["o.arrow", "o.parquet", "o"])
def test_what_is_kept_must_be_of_one_kind_with_what_was_finished_before(tmp_path, policy, stopped, monkeypatch, out):  # noqa: F811
    stop(stopped, tmp_path / out, policy, 1000, monkeypatch)
    places(1000, 3).with_columns(pl.col("id").cast(pl.String)).write_parquet(stopped[2])
    with pytest.raises(DataError, match="different things"):
        protect_file(stopped, tmp_path / out, policy, keep=["id"])
    places(1000, 3).write_parquet(stopped[2])
    assert protect_file(stopped, tmp_path / out, policy, keep=["id"]).before == 2000


def test_a_job_goes_on_with_the_options_it_began_with_only(tmp_path, policy, stopped, monkeypatch):  # noqa: F811
    memory = {"person": "id", "memory": Memory(SECRET, "2026-11")}
    stop(stopped, tmp_path / "o.csv", policy, 1000, monkeypatch, **memory)
    assert json.loads((tmp_path / "o.csv.partial" / work.MANIFEST).read_text())["job"]["format"] == "parquet"
    for other in (
        {"person": "id", "memory": Memory(SECRET, "2026-12")},
        {"person": "id", "memory": Memory(bytes(32), "2026-11")},
        {"person": "lat", "memory": Memory(SECRET, "2026-11")},
        memory | {"lat": "lon", "lon": "lat"},
        {},
    ):
        with pytest.raises(DataError, match="another job"):
            protect_file(stopped, tmp_path / "o.csv", policy, keep=["id"], **other)
    assert protect_file(stopped, tmp_path / "o.csv", policy, keep=["id"], **memory).before == 2000


@pytest.mark.parametrize("name", ["i.parquet", "i.csv", "i.jsonl"])
def test_a_bad_row_has_one_number_however_often_the_job_goes_on(tmp_path, policy, monkeypatch, name):  # noqa: F811
    monkeypatch.setattr(batch, "PART_ROWS", 100)
    monkeypatch.setattr("distp.data.tables.JSON_ROWS", 150)
    monkeypatch.setattr("distp.data.tables.TABLE_ROWS", 150)
    source = places(500).with_columns(lat=pl.when(pl.col("id") == 432).then(48.0).otherwise(pl.col("lat")))
    write = {"i.parquet": source.write_parquet, "i.csv": source.write_csv, "i.jsonl": source.write_ndjson}
    write[name](tmp_path / name)
    for _ in range(2):
        with pytest.raises(OutsideError, match=r"^row 433 of "):
            protect_file(tmp_path / name, tmp_path / "o.csv", policy)


def full_at_the_last_part(monkeypatch, rows: int) -> None:
    write_part = batch.write_part

    def full(frame, stream, kind, *, header=True):
        if frame.height < rows:
            raise OSError(28, "No space left on device")
        write_part(frame, stream, kind, header=header)

    monkeypatch.setattr(batch, "PART_ROWS", rows)
    monkeypatch.setattr(batch, "write_part", full)


def test_a_last_part_that_cannot_be_written_is_an_error(tmp_path, policy, monkeypatch):  # noqa: F811
    places(50).write_parquet(tmp_path / "i.parquet")
    full_at_the_last_part(monkeypatch, 30)
    with pytest.raises(DataError, match="No space left"):
        protect_file(tmp_path / "i.parquet", tmp_path / "o.csv", policy, keep=["id"])
    assert not (tmp_path / "o.csv").exists()
    monkeypatch.undo()
    assert protect_file(tmp_path / "i.parquet", tmp_path / "o.csv", policy, keep=["id"]).before == 30
    right(read(tmp_path / "o.csv"), places(50), policy)


def test_a_change_of_the_file_that_says_where_venues_are_is_noticed(tmp_path, monkeypatch):
    files = format_files.tist2015(tmp_path).files
    regions = Regions.grid(Box.around(35.68, 139.76, 60, 60), 10.0, ring_km=0)
    law = np.full(36, 1 / 36)
    mechanism, pair = Tupling(Identity(regions), 2), Pair("x", law, law)
    tokyo = Policy.create(mechanism, regions, [pair], epsilon=1, delta=0.5, prior=law, outside="nearest")
    full_at_the_last_part(monkeypatch, 5)
    with pytest.raises(DataError, match="No space left"):
        protect_file(files, tmp_path / "o.csv", tokyo, keep=["user"])
    monkeypatch.undo()
    (venues,) = (file for file in files if "POIs" in file.name)
    before = venues.stat()
    os.utime(venues, ns=(before.st_atime_ns, before.st_mtime_ns + 1000))
    with pytest.raises(DataError, match="another job"):
        protect_file(files, tmp_path / "o.csv", tokyo, keep=["user"])
    os.utime(venues, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert protect_file(files, tmp_path / "o.csv", tokyo, keep=["user"]).before == 15


def test_neither_a_ledger_nor_a_table_that_is_read_is_written_over(tmp_path, policy):  # noqa: F811
    memory = Memory(SECRET, "", Ledger(tmp_path / "l.csv", 3))
    memory.release(policy, ["ada"], np.array([0]))
    places(5).write_csv(tmp_path / "o.parquet.regions.csv")
    places(5).write_csv(tmp_path / "i.csv")
    with pytest.raises(DataError, match="would be lost"):
        protect_file(tmp_path / "i.csv", tmp_path / "l.csv", policy, person="id", memory=memory)
    assert memory.spent("ada") == 1
    with pytest.raises(DataError, match="would be lost"):
        protect_file(tmp_path / "o.parquet.regions.csv", tmp_path / "o.parquet", policy)
    assert pl.read_csv(tmp_path / "o.parquet.regions.csv").height == 5


# --- memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o660])
def test_a_secret_that_a_group_or_others_may_read_is_refused(tmp_path, mode):
    open_secret(tmp_path / "s")
    (tmp_path / "s").chmod(mode)
    with pytest.raises(DataError, match="others may read"):
        open_secret(tmp_path / "s")


def test_names_that_only_look_alike_are_different_people(policy):  # noqa: F811
    memory, regions = Memory(SECRET), np.arange(8)
    for one, other in (("ﬁ", "fi"), ("x²", "x2"), ("A", "a"), ("a b", "ab")):
        drawn = [memory.release(policy, [who] * 8, regions) for who in (one, other)]
        assert not np.array_equal(*drawn)


def test_what_a_manifest_says_of_a_memory_marks_nobody(tmp_path, policy):  # noqa: F811
    """A person may be called as the period is: neither the ledger's mark nor the memory's name tells so."""
    memory = Memory(SECRET, "ada", Ledger(tmp_path / "ledger", 3))
    memory.release(policy, ["ada"], np.array([0]))
    assert bytes.fromhex(memory.name) not in (tmp_path / "ledger").read_bytes()
    assert len({Memory(SECRET, period).name for period in ("", "1", "2")} | {Memory(bytes(32)).name}) == 4


def test_a_ledger_lets_nobody_in_between_reading_a_count_and_writing_it(tmp_path):
    ledger = Ledger(tmp_path / "ledger", 3)
    ledger.spend([b"ada"], [b"1"])

    class Meanwhile(list):
        def __iter__(self):
            other = sqlite3.connect(ledger.path, timeout=0, isolation_level=None)
            with closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
            return super().__iter__()

    assert ledger.spend(Meanwhile([b"ada"] * 3), [b"1", b"2", b"3"]).all()
    assert ledger.spent(b"ada") == 3


def test_a_ledger_waits_for_the_disk(tmp_path):
    with Ledger(tmp_path / "ledger", 3)._open() as base:
        assert base.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL


# --- tables -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[1], [5, 40, 3], [200, 1]])
def test_a_grown_arrow_file_lies_as_its_format_asks(tmp_path, rows):
    """An end of the batches before the footer, and its entries at multiples of 8."""
    path = tmp_path / "rows"
    sizes = grown(path, [some(size, seed) for seed, size in enumerate(rows)])
    arrowfile.finish_arrow(path, sizes)
    content = path.read_bytes()
    (size,) = struct.unpack("<i", content[-10:-6])
    assert content[-18 - size : -10 - size] == struct.pack("<Ii", -1 & 0xFFFFFFFF, 0)
    footer = content[-10 - size : -10]
    pointer = arrowfile._place(footer, arrowfile.BATCHES)
    assert (pointer + struct.unpack_from("<I", footer, pointer)[0] + 4) % 8 == 0


def test_a_parquet_file_is_made_of_groups_that_fit_in_memory(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows"
    frames = [some(size, seed) for seed, size in enumerate([150, 90])]
    sizes = grown(path, frames)
    for rows, size, most in ((50, 1 << 20, 50), (1 << 18, 12 * 40, 40)):  # a row takes twelve bytes
        monkeypatch.setattr(tables, "GROUP_ROWS", rows)
        monkeypatch.setattr(tables, "GROUP_BYTES", size)
        tables.pack(lambda: arrowfile.read_arrow(path, sizes), 12, tmp_path / "o.parquet")
        found = parquet.ParquetFile(tmp_path / "o.parquet").metadata
        assert max(found.row_group(group).num_rows for group in range(found.num_row_groups)) <= most
        assert pl.read_parquet(tmp_path / "o.parquet").equals(pl.concat(frames))


def test_the_table_of_regions_says_size_and_name():
    squares, shapes = (Policy.load(DATA / f"{name}-v1.policy").regions for name in ("uniform", "polygons"))
    found = tables.regions_table(squares)
    assert found.columns == ["region", "lat", "lon", "side_km"]
    assert found["side_km"].to_list() == squares.cells[:, 2].tolist()
    found = tables.regions_table(shapes)
    assert found.columns == ["region", "lat", "lon", "area_km2", "name"]
    assert found["name"].to_list() == list(shapes.names)
    assert np.allclose(found["area_km2"].to_numpy(), shapes.area_km2, atol=1e-6)


# --- files ------------------------------------------------------------------------------------------------


def test_a_new_file_may_be_read_by_whom_the_mask_allows(tmp_path, policy):  # noqa: F811
    before = os.umask(0o027)
    try:
        policy.save(tmp_path / "p.policy")
    finally:
        os.umask(before)
    assert (tmp_path / "p.policy").stat().st_mode & 0o777 == 0o640


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    (tmp_path / "a").write_text("old")

    def half() -> None:
        with replacing(tmp_path / "a") as temporary:
            temporary.write_text("half of")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert [(item.name, item.read_text()) for item in tmp_path.iterdir()] == [("a", "old")]


def test_an_input_is_not_written_over_by_another_of_its_names(tmp_path, policy):  # noqa: F811
    places(5).write_csv(tmp_path / "i.csv")
    (tmp_path / "in").mkdir()
    places(5).write_csv(tmp_path / "in" / "a.csv")
    (tmp_path / "linked.csv").hardlink_to(tmp_path / "i.csv")
    (tmp_path / "pointed.csv").symlink_to(tmp_path / "i.csv")
    (tmp_path / "member.csv").hardlink_to(tmp_path / "in" / "a.csv")
    for source, target in (("i.csv", "linked.csv"), ("i.csv", "pointed.csv"), ("in", "member.csv")):
        with pytest.raises(DataError, match="would be lost"):
            protect_file(tmp_path / source, tmp_path / target, policy)


@pytest.mark.parametrize(
    ("name", "expression", "degrees"),
    [
        ("lng", "kind = 'x'", ()),
        (" Lat ", "kind = 'x'", ()),
        ("Y", "kind = 'x'", ("y",)),
        ("y", "kind = 'x'", ("Y",)),
        ("report", "kind = 'x'", ()),
        ("Report_0", "kind = 'x'", ()),
        ("KIND ", "kind = 'x'", ()),
        ("kind", '"Kind" = 1', ()),
        ("FIELD", "root.Field = 1", ()),
        ("date", "hour < 12", ()),
        ("time_utc", "weekday = 1", ()),
    ],
)
def test_columns_that_tell_the_place_or_the_attribute_are_not_kept(policy, name, expression, degrees):  # noqa: F811
    told = replace(policy, expressions=(expression,))
    with pytest.raises(DataError, match="--keep"):
        check_keep([name], told, degrees)
    assert check_keep(["reporter", "kinds", "reporter"], told, degrees) == ["reporter", "kinds"]
