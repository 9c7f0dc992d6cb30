"""Files of any size to tuples: nothing lost, nothing twice, whatever happens in between."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from distp import Identity, Pair, Policy, Regions, Tupling
from distp.errors import DataError, OutsideError, ParameterError, SpentError
from distp.release import Ledger, Memory, batch, protect_file, work
from distp.spaces import Box

ROWS, PART = 5_000, 700


@pytest.fixture(scope="module")
def policy() -> Policy:
    """True regions among three dummies: whether a tuple belongs to its row can be seen."""
    regions = Regions.grid(Box.around(40.75, -73.97, 8, 8), 1.0, ring_km=1.0)
    law = np.full(len(regions.inputs), 1 / len(regions.inputs))
    return Policy.create(
        Tupling(Identity(regions.inputs, regions), 3),
        regions,
        [Pair("x", law, law)],
        epsilon=1,
        delta=0.1,
        prior=law,
        expressions=["kind = 'x'"],
    )


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(batch, "PART_ROWS", PART)


def places(rows: int = ROWS, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": np.arange(rows) + 10**6 * seed,
            "lat": 40.75 + rng.uniform(-0.02, 0.02, rows),
            "lon": -73.97 + rng.uniform(-0.02, 0.02, rows),
        }
    )


def reports(frame: pl.DataFrame) -> np.ndarray:
    if "report" in frame.columns:
        return frame["report"].to_numpy()
    return frame.select(pl.col("^report_.*$")).to_numpy()


def right(frame: pl.DataFrame, source: pl.DataFrame, policy: Policy) -> None:
    """Every row of the source is there once, in its order, with a tuple that holds its own region."""
    assert frame["id"].cast(pl.Int64).to_list() == source["id"].to_list()
    own = policy.locate(source["lat"].to_numpy(), source["lon"].to_numpy())
    drawn = reports(frame)
    assert drawn.shape == (source.height, 4)
    assert (drawn == own[:, None]).any(axis=1).all()
    assert np.unique(drawn, axis=0).shape[0] > 0.9 * min(source.height, 3000)


def read(path: Path) -> pl.DataFrame:
    if path.is_dir():
        return pl.read_parquet(sorted(path.glob("part-*.parquet")))
    return {".parquet": pl.read_parquet, ".arrow": pl.read_ipc, ".csv": pl.read_csv}[path.suffix](path)


def left(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir() if "partial" in item.name or item.name.startswith("."))


# --- formats ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("out", ["o.parquet", "o.arrow", "o.csv", "o"])
@pytest.mark.parametrize("into", ["i.parquet", "i.arrow", "i.csv", "i.jsonl"])
def test_every_format_to_every_format_in_parts(tmp_path, policy, into, out):
    source = places()
    write = {".parquet": source.write_parquet, ".arrow": source.write_ipc, ".csv": source.write_csv}
    write.get(Path(into).suffix, source.write_ndjson)(tmp_path / into)
    steps = []
    done = protect_file(
        tmp_path / into, tmp_path / out, policy, keep=["id"], progress=lambda *step: steps.append(step)
    )
    assert (done.rows, done.empty, done.before) == (ROWS, 0, 0)
    right(read(tmp_path / out), source, policy)
    drawn, packed = steps[:8], steps[8:]
    assert [rows for _, _, rows in drawn] == [min(ROWS, PART * (i + 1)) for i in range(8)]
    assert [rows for _, _, rows in packed] == [ROWS] * (8 if out == "o.parquet" else 0)
    assert [done for done, _, _ in steps] == sorted(done for done, _, _ in steps)
    assert steps[-1][0] == steps[-1][1]
    assert left(tmp_path) == []
    table = pl.read_csv(tmp_path / f"{out}.regions.csv")
    assert table["region"].to_list() == list(range(len(policy.regions)))
    assert np.abs(table["lat"].to_numpy() - policy.regions.lat).max() < 1e-6
    if out == "o":
        assert sorted(item.name for item in (tmp_path / out).iterdir()) == [f"part-{i:05d}.parquet" for i in range(8)]
        assert pl.read_parquet(tmp_path / out).height == ROWS


def test_output_is_compact_and_columns_keep_their_types(tmp_path, policy):
    source = places().with_columns(day=pl.lit("2026-11-30").str.to_date(), tags=pl.lit([1, 2]), big=pl.lit(2**60 + 1))
    source.write_parquet(tmp_path / "i.parquet")
    protect_file(tmp_path / "i.parquet", tmp_path / "o.arrow", policy, keep=["id", "day", "tags", "big"])
    found = pl.read_ipc(tmp_path / "o.arrow")
    assert found.drop("report").equals(source.select("id", "day", "tags", "big"))
    assert found.schema["report"] == pl.Array(pl.UInt16, 4)
    source.write_csv.__self__.drop("tags").write_csv(tmp_path / "i.csv")
    protect_file(tmp_path / "i.csv", tmp_path / "t.parquet", policy, keep=["big"])
    assert pl.read_parquet(tmp_path / "t.parquet")["big"].unique().to_list() == [str(2**60 + 1)]  # as it is written


def test_several_files_are_one(tmp_path, policy, small_parts):
    del small_parts
    (tmp_path / "in").mkdir()
    sources = [places(900, seed) for seed in range(1, 4)]
    for number, source in enumerate(sources):
        source.write_parquet(tmp_path / f"in/{number}.parquet")
    protect_file(tmp_path / "in", tmp_path / "o.parquet", policy, keep=["id"])
    right(pl.read_parquet(tmp_path / "o.parquet"), pl.concat(sources), policy)


def test_files_whose_columns_differ_in_kind_are_refused(tmp_path, policy, small_parts):
    del small_parts
    places(900).write_parquet(tmp_path / "a.parquet")
    places(900).with_columns(id=pl.lit("p") + pl.col("id").cast(pl.String)).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataError, match="different things"):
        protect_file([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "o", policy, keep=["id"])


@pytest.mark.parametrize(
    ("name", "why"), [("o.txt", "must end in"), ("o.xlsx", "no ending"), ("no/o.csv", "no folder")]
)
def test_targets_that_cannot_be_are_refused_before_reading(tmp_path, policy, name, why):
    with pytest.raises(DataError, match=why):
        protect_file(tmp_path / "none.csv", tmp_path / name, policy)
    (tmp_path / "there").mkdir()
    with pytest.raises(DataError, match="folder"):
        protect_file(tmp_path / "none.csv", tmp_path / "there", policy)
    assert left(tmp_path) == []


# --- what stops a job, and how it goes on -----------------------------------------------------------------


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("out", ["o.csv", "o.parquet", "o"])
def test_a_bad_row_stops_the_job_by_its_number_and_finished_parts_are_kept(tmp_path, policy, out):
    good = places()
    outside = good.with_columns(lat=pl.when(pl.col("id") == 3210).then(48.8566).otherwise(pl.col("lat")))
    outside.write_csv(tmp_path / "i.csv")
    monkeyed = {"keep": ["id"]}
    with pytest.raises(OutsideError, match=r"row 3211 of .*i\.csv .*\(1 of 5,000 rows here\)") as caught:
        protect_file(tmp_path / "i.csv", tmp_path / out, policy, **monkeyed)
    assert "48.8" not in str(caught.value)
    assert not (tmp_path / out).exists()
    done = protect_file(tmp_path / "i.csv", tmp_path / out, policy, empty=True, **monkeyed)
    assert (done.rows, done.empty) == (ROWS, 1)
    found = read(tmp_path / out)
    lacking = found.row(3210)[1]
    assert lacking is None
    kept = np.arange(ROWS) != 3210
    right(found.filter(pl.Series(kept)), good.filter(pl.Series(kept)), policy)
    missing = good.with_columns(lon=pl.when(pl.col("id") == 7).then(None).otherwise(pl.col("lon")))
    missing.write_csv(tmp_path / "m.csv")
    with pytest.raises(DataError, match=r"row 8 of .*missing"):
        protect_file(tmp_path / "m.csv", tmp_path / "m.parquet", policy)
    assert left(tmp_path) == []  # nothing was finished, so nothing is kept


def test_rows_without_any_place_are_all_empty_if_allowed(tmp_path, policy):
    (tmp_path / "i.csv").write_text("lat,lon\n" + ",\n" * 5)
    assert protect_file(tmp_path / "i.csv", tmp_path / "o.csv", policy, empty=True).empty == 5
    (tmp_path / "none.csv").write_text("lat,lon\n")
    with pytest.raises(DataError, match="no rows"):
        protect_file(tmp_path / "none.csv", tmp_path / "p.csv", policy, empty=True)


@pytest.fixture
def three(tmp_path) -> list[Path]:
    """Three files, the second of which cannot be read to its end."""
    files = [tmp_path / f"{name}.parquet" for name in "abc"]
    for seed, file in enumerate(files, 1):
        places(2000, seed).write_parquet(file)
    whole = files[1].read_bytes()
    (tmp_path / "b.whole").write_bytes(whole)
    files[1].write_bytes(whole[: len(whole) // 2])
    return files


@pytest.mark.parametrize("out", ["o.parquet", "o.arrow", "o.csv", "o"])
def test_an_unreadable_file_stops_the_job_and_its_repair_lets_it_go_on(tmp_path, policy, three, small_parts, out):
    del small_parts
    with pytest.raises(DataError, match=r"cannot read .*b\.parquet"):
        protect_file(three, tmp_path / out, policy, keep=["id"])
    partial = tmp_path / f"{out}.partial"
    parts = json.loads((partial / work.MANIFEST).read_text())["parts"]
    assert [part["rows"] for part in parts] == [700, 700]  # what was left of 2,000 waits for the next file
    finished = {item.name: item.read_bytes() for item in partial.glob("part-*")}
    assert len(finished) == (2 if out == "o" else 0)
    head = b"" if out == "o" else (partial / work.ROWS).read_bytes()[: sum(part["size"] for part in parts)]
    (tmp_path / "b.whole").replace(three[1])
    done = protect_file(three, tmp_path / out, policy, keep=["id"])
    assert (done.rows, done.before) == (6000, 1400)
    right(read(tmp_path / out), pl.concat([places(2000, seed) for seed in (1, 2, 3)]), policy)
    if out == "o":
        assert all((tmp_path / out / name).read_bytes() == content for name, content in finished.items())
    elif out != "o.parquet":
        assert (tmp_path / out).read_bytes().startswith(head)


def interrupted(tmp_path: Path, policy: Policy, three: list[Path]) -> Path:
    with pytest.raises(DataError):
        protect_file(three, tmp_path / "o.parquet", policy, keep=["id"])
    (tmp_path / "b.whole").replace(three[1])
    return tmp_path / "o.parquet.partial"


@pytest.mark.usefixtures("small_parts")
class TestWhatIsNotTheSameJob:
    def test_another_policy_or_other_columns(self, tmp_path, policy, three):
        interrupted(tmp_path, policy, three)
        other = Policy.create(
            Tupling(policy.mechanism.base, 2), policy.regions, policy.pairs, epsilon=1, delta=0.1, prior=policy.prior
        )
        for changed in ({"policy": other, "keep": ["id"]}, {"policy": policy, "keep": []}):
            with pytest.raises(DataError, match="another job"):
                protect_file(three, tmp_path / "o.parquet", **changed)
        done = protect_file(three, tmp_path / "o.parquet", other, restart=True)
        assert (done.rows, done.before) == (6000, 0)

    def test_a_file_that_changed_after_parts_of_it_were_finished(self, tmp_path, policy, three):
        interrupted(tmp_path, policy, three)
        places(2000, 9).write_parquet(three[0])
        with pytest.raises(DataError, match="has changed"):
            protect_file(three, tmp_path / "o.parquet", policy, keep=["id"])

    def test_a_part_that_was_removed_or_a_manifest_that_was_damaged(self, tmp_path, policy, three):
        folder = interrupted(tmp_path, policy, three)
        whole = (folder / work.ROWS).read_bytes()
        (folder / work.ROWS).write_bytes(whole[:-1])
        with pytest.raises(DataError, match="is missing, or is not as long"):
            protect_file(three, tmp_path / "o.parquet", policy, keep=["id"])
        (folder / work.ROWS).unlink()
        with pytest.raises(DataError, match="is missing, or is not as long"):
            protect_file(three, tmp_path / "o.parquet", policy, keep=["id"])
        (folder / work.ROWS).write_bytes(whole)
        manifest = (folder / work.MANIFEST).read_text()
        for broken in ("", "[]", manifest[:-20], manifest.replace('"rows": 700', '"rows": -1', 1), "null"):
            (folder / work.MANIFEST).write_text(broken)
            with pytest.raises(DataError, match="damaged"):
                protect_file(three, tmp_path / "o.parquet", policy, keep=["id"])

    def test_empty_reports_that_are_no_longer_allowed(self, tmp_path, policy, three):
        places(2000, 1).with_columns(lat=48.0).write_parquet(three[0])
        with pytest.raises(DataError):
            protect_file(three, tmp_path / "o.parquet", policy, keep=["id"], empty=True)
        with pytest.raises(OutsideError, match="1,400 rows of finished parts"):
            protect_file(three, tmp_path / "o.parquet", policy, keep=["id"])

    def test_two_processes_at_once(self, tmp_path, policy, three):
        folder = interrupted(tmp_path, policy, three)
        with work._locked(folder, tmp_path / "o.parquet"), pytest.raises(DataError, match="another process"):
            protect_file(three, tmp_path / "o.parquet", policy, keep=["id"])


def test_a_full_disk_is_said_and_finished_parts_are_kept(tmp_path, policy, monkeypatch):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("a disk of its own cannot be mounted here")
    try:
        monkeypatch.setattr(batch, "PART_ROWS", 5_000)
        source = places(40_000)
        source.write_parquet(tmp_path / "i.parquet")
        for out in ("o.parquet", "o.csv", "o.arrow", "o"):
            with pytest.raises(DataError, match=r"cannot write .*No space left on device"):
                protect_file(tmp_path / "i.parquet", disk / out, policy, keep=["id"])
            assert not (disk / out).exists()
            folder = disk / f"{out}.partial"
            parts = json.loads((folder / work.MANIFEST).read_text())["parts"]
            assert len(parts) > 1
            if (folder / work.ROWS).exists():  # what there was no room for is gone
                assert (folder / work.ROWS).stat().st_size == sum(part["size"] for part in parts)
            subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
            done = protect_file(tmp_path / "i.parquet", disk / out, policy, keep=["id"])
            assert done.before == 5_000 * len(parts)
            right(read(disk / out), source, policy)
            shutil.rmtree(disk / out, ignore_errors=True)
            for item in disk.iterdir():
                item.unlink(missing_ok=True)
            subprocess.run(["mount", "-o", "remount,size=300k", disk], check=True)
    finally:
        subprocess.run(["umount", disk], check=True)


# --- remembered -------------------------------------------------------------------------------------------


def visits(people: int = 30, rows: int = 3000) -> pl.DataFrame:
    who = np.random.default_rng(8).integers(0, people, rows)
    return places(rows).with_columns(who=pl.Series(who), spot=pl.Series(who % 3))


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["i.csv", "i.parquet"])
def test_rows_of_one_person_in_one_region_get_one_tuple(tmp_path, policy, name):
    source = visits()
    (source.write_csv if name.endswith("csv") else source.write_parquet)(tmp_path / name)
    memory = Memory(bytes(32), "2026-11")
    for out in ("a.parquet", "b.csv"):
        protect_file(tmp_path / name, tmp_path / out, policy, keep=["id"], person="who", memory=memory)
    one, two = reports(read(tmp_path / "a.parquet")), reports(read(tmp_path / "b.csv"))
    assert np.array_equal(one, two)  # in another file, on another day
    assert read(tmp_path / "a.parquet").columns == ["id", "report"]
    region = policy.locate(source["lat"].to_numpy(), source["lon"].to_numpy())
    assert (one == region[:, None]).any(axis=1).all()
    groups = source.with_columns(region=pl.Series(region)).group_by("who", "region").agg(pl.col("id"))
    for rows in groups["id"].to_list():
        assert (one[rows] == one[rows[0]]).all()
    assert len({row.tobytes() for row in one}) == groups.height
    with pytest.raises(ParameterError, match="belong together"):
        protect_file(tmp_path / name, tmp_path / "c.csv", policy, person="who")


@pytest.mark.usefixtures("small_parts")
def test_people_without_draws_stop_the_job_or_get_empty_reports(tmp_path, policy):
    source = visits(people=5)
    source.write_parquet(tmp_path / "i.parquet")
    memory = Memory(bytes(32), "", Ledger(tmp_path / "ledger", 4))
    more = {"keep": ["id", "who"], "person": "who", "memory": memory}
    with pytest.raises(SpentError, match=r"no independent draw left of 4"):
        protect_file(tmp_path / "i.parquet", tmp_path / "o.parquet", policy, **more)
    done = protect_file(tmp_path / "i.parquet", tmp_path / "o.parquet", policy, empty=True, **more)
    found = pl.read_parquet(tmp_path / "o.parquet")
    assert done.empty == found["report"].null_count() > 0
    known = found.drop_nulls()
    assert known.group_by("who").agg(pl.col("report").n_unique())["report"].to_list() == [4] * 5
    assert [memory.spent(str(person)) for person in range(5)] == [4] * 5
    other = Memory(bytes(range(32)))
    protect_file(tmp_path / "i.parquet", tmp_path / "p.parquet", policy, person="who", memory=other)


# --- killed -----------------------------------------------------------------------------------------------

# Imports and compiled code are loaded once; each child is a process of its own that is really killed. The parent must
# not have used polars, whose threads do not survive a fork.
ZYGOTE = """
import json, os, random, shutil, signal, sys, time
import numpy as np
from distp.release import Policy, batch, protect_file
source, target, policy, part, parts, kills = *sys.argv[1:4], *map(int, sys.argv[4:])
loaded = Policy.load(policy)
loaded.release(40.75, -73.97)
batch.PART_ROWS = part

def child():
    pid = os.fork()
    if not pid:
        try:
            protect_file(source, target, loaded, keep=["id"])
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    return pid

def clear():
    if os.path.isdir(target):
        shutil.rmtree(target)
    elif os.path.exists(target):
        os.unlink(target)

def finished():
    try:
        with open(target + ".partial/_manifest") as manifest:
            return len(json.load(manifest)["parts"])
    except FileNotFoundError:
        return -1

seen = []
while len(seen) < kills:
    clear()
    before, pid, status = finished(), child(), None
    wanted = before if random.random() < 0.2 else random.randint(before + 1, before + 12)  # beyond the last: its end
    while status is None and finished() < wanted:
        done, status = os.waitpid(pid, os.WNOHANG)
        status = status if done else None
        time.sleep(0.0003)
    if status is None:  # at once, while it starts, or somewhere in the next part
        time.sleep(random.choice([0, 0.003, 0.1]) * random.random())
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    assert status in (0, signal.SIGKILL), status
    if status:
        seen.append(finished())
clear()
assert os.waitpid(child(), 0)[1] == 0
print(json.dumps(seen))
"""


@pytest.mark.parametrize("out", ["o.parquet", "o.csv", "o"])
def test_killed_at_any_moment_and_started_again_it_is_as_if_never_killed(tmp_path, policy, out):
    source = places(12_000)
    source.write_parquet(tmp_path / "i.parquet")
    policy.save(tmp_path / "p.policy")
    words = [tmp_path / "i.parquet", tmp_path / out, tmp_path / "p.policy", "200", "60", "17"]
    done = subprocess.run([sys.executable, "-c", ZYGOTE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert len(seen) == 17
    assert len(set(seen)) > 3  # killed with many different numbers of parts finished
    right(read(tmp_path / out), source, policy)
    assert left(tmp_path) == []


def test_the_command_goes_on_after_a_kill(tmp_path, policy):
    places(100_000).write_csv(tmp_path / "i.csv")
    policy.save(tmp_path / "p.policy")
    code = (
        "import sys; from distp.release import batch; batch.PART_ROWS = 4000; from distp.cli.main import main; main()"
    )
    words = ["protect", "i.csv", "--policy", "p.policy", "--keep", "id", "--out", "o", "--json"]
    command = [sys.executable, "-c", code, *words]
    first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE)
    manifest = tmp_path / "o.partial" / work.MANIFEST
    until = time.monotonic() + 60
    while not manifest.exists() and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert not (tmp_path / "o").exists()
    finished = len(json.loads(manifest.read_text())["parts"])
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    told = json.loads(again.stdout)
    assert told["rows"] == 100_000
    assert told["before"] == 4000 * finished > 0
    right(read(tmp_path / "o"), places(100_000), policy)


def test_threads_that_protect_different_files_do_not_disturb_each_other(tmp_path, policy, small_parts):
    del small_parts
    sources = [places(3000, seed) for seed in (1, 2, 3)]
    for number, source in enumerate(sources):
        source.write_parquet(tmp_path / f"{number}.parquet")

    def one(number: int) -> None:
        protect_file(tmp_path / f"{number}.parquet", tmp_path / f"o{number}.parquet", policy, keep=["id"])

    threads = [threading.Thread(target=one, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, source in enumerate(sources):
        right(pl.read_parquet(tmp_path / f"o{number}.parquet"), source, policy)
