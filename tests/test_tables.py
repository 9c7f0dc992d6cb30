"""Protected rows as files: a file that grew out of parts reads like one that was written at once."""

from __future__ import annotations

import csv
import io
import os
import shutil
from contextlib import suppress
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distp import Identity, Pair, Policy, Tupling
from distp.errors import DataError
from distp.release import arrowfile, batch, protect_file, work
from distp.release.tables import pack, write_part
from test_protect import places, policy, read  # noqa: F401 - a fixture


def some(rows: int, seed: int, *, places: int = 3, nulls: bool = True) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    drawn = pl.Series("report", rng.integers(0, 300, (rows, places)).astype(np.uint16), pl.Array(pl.UInt16, places))
    if nulls:
        drawn = drawn.gather(pl.Series(range(rows)).replace({0: None, 3: None}))
    columns = {
        "number": rng.integers(0, 9, rows),
        "text": [None if i % 5 == 0 else "é" * (i % 4) for i in range(rows)],
        "day": [date(2026, 1, 1) + timedelta(days=i) for i in range(rows)],
        "many": [list(range(i % 3)) for i in range(rows)],
        "both": [{"a": i, "b": str(i)} for i in range(rows)],
    }
    types = {"text": pl.String, "many": pl.List(pl.Int64)}
    return pl.DataFrame({**columns, "report": drawn}, schema_overrides=types)


def grown(path: Path, frames: list[pl.DataFrame]) -> list[int]:
    sizes = []
    for frame in frames:
        with path.open("ab") as stream:
            before = stream.tell()
            write_part(frame, stream, "arrow")
        sizes.append(path.stat().st_size - before)
    return sizes


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.integers(1, 40), min_size=1, max_size=6), width=st.integers(1, 4))
def test_a_grown_arrow_file_is_its_parts_one_after_the_other(tmp_path_factory, rows, width):
    path = tmp_path_factory.mktemp("grown") / "rows"
    frames = [some(size, seed, places=width) for seed, size in enumerate(rows)]
    sizes = grown(path, frames)
    whole = pl.concat(frames)
    assert all(one.equals(other) for one, other in zip(arrowfile.read_arrow(path, sizes), frames, strict=True))
    for _ in range(2):  # finished twice, as after a kill, it is the same
        arrowfile.finish_arrow(path, sizes)
        assert pl.read_ipc(path.read_bytes()).equals(whole)
    with path.open("r+b") as stream:  # what was being written when the process was killed
        stream.seek(sum(sizes))
        stream.write(os.urandom(3000))
    arrowfile.finish_arrow(path, sizes)
    assert pl.read_ipc(path.read_bytes()).equals(whole)
    assert pl.scan_ipc(path).select(pl.len()).collect().item() == whole.height
    pack(lambda: arrowfile.read_arrow(path, sizes), 30, path.with_name("packed"))
    assert pl.read_parquet(path.with_name("packed")).equals(whole)


def test_a_grown_arrow_file_is_read_by_another_reader_as_a_file_and_as_a_stream(tmp_path):
    ipc = pytest.importorskip("pyarrow.ipc")
    path = tmp_path / "rows"
    few = [some(2500, 1), some(7, 2)]
    frames = [frame.select("number", "report").sample(600_000, with_replacement=True, seed=1) for frame in few]
    sizes = grown(path, frames)
    arrowfile.finish_arrow(path, sizes)
    content, whole = path.read_bytes(), pl.concat(frames)
    with ipc.open_file(path) as reader:
        assert reader.num_record_batches == 4  # two of each part
        assert pl.from_arrow(reader.read_all()).equals(whole)
        reader.read_all().validate(full=True)
    assert pl.from_arrow(ipc.open_stream(content[8:]).read_all()).equals(whole)  # some readers take it so
    with path.open("rb") as stream:
        _, *batches = arrowfile._messages(stream, 8, sum(sizes))
    assert all(one.offset % 8 == one.metadata % 8 == one.body % 8 == 0 for one in batches)


def test_categories_are_kept_as_text_wherever_they_stand(tmp_path, policy, monkeypatch):  # noqa: F811
    monkeypatch.setattr(batch, "PART_ROWS", 700)
    sort = pl.Enum(["a", "b", "c"])
    letters = pl.Series(["abc"[i % 3] for i in range(2000)])
    source = places(2000).with_columns(
        one=letters.cast(pl.Categorical),
        two=letters.cast(sort),
        three=pl.concat_list(letters.cast(pl.Categorical)),
        four=pl.struct(x=letters.cast(sort)),
        five=pl.concat_list(letters.cast(sort)).list.to_array(1),
    )
    source.write_parquet(tmp_path / "i.parquet")
    names = ["one", "two", "three", "four", "five"]
    for out in ("o.arrow", "o.parquet", "o"):
        protect_file(tmp_path / "i.parquet", tmp_path / out, policy, keep=names)
        found = read(tmp_path / out)
        assert found["one"].to_list() == found["two"].to_list() == letters.to_list()
        assert found["three"].list.first().to_list() == letters.to_list()
        assert found["four"].struct.field("x").to_list() == letters.to_list()
        assert found["five"].to_list() == [[letter] for letter in letters]


@pytest.mark.parametrize(
    ("out", "values", "type_"),
    [
        ("o.parquet", [{}], pl.Struct({})),
        ("o.parquet", [[{}]], pl.List(pl.Struct({}))),
        ("o", [{}], pl.Struct({})),
        ("o.arrow", [[]], pl.Array(pl.Int32, 0)),
        ("o.csv", [timedelta(1)], pl.Duration),
        ("o.csv", [[1]], pl.List(pl.Int8)),
        ("o.csv", [b"1"], pl.Binary),
    ],
)
def test_a_column_that_the_target_cannot_hold_is_refused_by_name_before_any_part(
    tmp_path,
    policy,  # noqa: F811
    out,
    values,
    type_,
):
    source = places(50).with_columns(good=pl.lit(1), odd=pl.Series(values * 50, dtype=type_))
    if type_ == pl.Array(pl.Int32, 0):
        source.write_parquet(tmp_path / "i.parquet")
    else:
        source.write_ipc(tmp_path / "i.arrow")
    with pytest.raises(DataError, match=r"--keep odd: .* cannot be written as"):
        protect_file(next(tmp_path.glob("i.*")), tmp_path / out, policy, keep=["good", "odd"])
    assert not (tmp_path / f"{out}.partial").exists()


def test_categories_within_an_extension_are_not_mixed_up(tmp_path, policy, monkeypatch):  # noqa: F811
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    class Kind(arrow.ExtensionType):
        def __init__(self, storage):
            super().__init__(storage, "distp.test")

        def __arrow_ext_serialize__(self):
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage, _):
            return cls(storage)

    monkeypatch.setattr(batch, "PART_ROWS", 30)
    rows = places(100)
    storage = arrow.array([f"v{row // 30}" for row in range(100)]).dictionary_encode()
    column = arrow.ExtensionArray.from_storage(Kind(storage.type), storage)
    table = arrow.table({name: rows[name].to_numpy() for name in rows.columns}).append_column("k", column)
    parquet.write_table(table, tmp_path / "i.parquet")
    with pytest.raises(DataError, match="--keep k: "):
        protect_file(tmp_path / "i.parquet", tmp_path / "o.arrow", policy, keep=["k"])


def test_groups_of_a_parquet_file_are_small_where_rows_are_wide(tmp_path, policy):  # noqa: F811
    source = places(3000).with_columns(wide=pl.lit("x" * 20_000) + pl.col("id").cast(pl.String))
    source.write_parquet(tmp_path / "i.parquet")
    protect_file(tmp_path / "i.parquet", tmp_path / "o.parquet", policy, keep=["wide"])
    parquet = pytest.importorskip("pyarrow.parquet")
    found = parquet.ParquetFile(tmp_path / "o.parquet").metadata
    assert max(found.row_group(group).num_rows for group in range(found.num_row_groups)) <= (1 << 24) // 20_000
    assert pl.read_parquet(tmp_path / "o.parquet")["wide"].to_list() == source["wide"].to_list()


def test_a_file_in_the_way_of_a_folder_is_said_before_any_work(tmp_path, policy):  # noqa: F811
    (tmp_path / "o").write_text("mine")
    with pytest.raises(DataError, match="in the way of the folder"):
        protect_file(tmp_path / "none.parquet", tmp_path / "o", policy)
    assert [item.name for item in tmp_path.iterdir()] == ["o"]


def test_the_lock_of_a_folder_that_was_removed_meanwhile_is_no_lock(tmp_path, monkeypatch):
    """Another process ends, and removes folder and lock, between our opening it and our locking it."""
    fcntl = pytest.importorskip("fcntl")
    target, folder = tmp_path / "o.csv", tmp_path / "o.csv.partial"
    real, calls = fcntl.flock, []

    def meanwhile(handle, how):
        calls.append(how)
        if len(calls) == 1:
            shutil.rmtree(folder)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", meanwhile)
    with work.working(target, {}, [], None, restart=False):
        assert len(calls) == 2
        with pytest.raises(DataError, match="another process"), work.working(target, {}, [], None, restart=False):
            pass


@pytest.mark.parametrize("fate", ["kept", "taken away", "another"])
def test_a_target_that_was_put_in_place_is_done_and_one_taken_away_is_made_anew(tmp_path, policy, monkeypatch, fate):  # noqa: F811
    source = places(50)
    source.write_parquet(tmp_path / "i.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(work.Work, "close", lambda _: None)  # killed just before
        protect_file(tmp_path / "i.parquet", tmp_path / "o.csv", policy, keep=["id"])
    content = (tmp_path / "o.csv").read_bytes()
    if fate != "kept":
        (tmp_path / "o.csv").unlink()
    if fate == "another":
        (tmp_path / "o.csv").write_text("mine")
    done = protect_file(tmp_path / "i.parquet", tmp_path / "o.csv", policy, keep=["id"])
    assert (done.rows, done.before) == (50, 50 if fate == "kept" else 0)
    assert ((tmp_path / "o.csv").read_bytes() == content) == (fate == "kept")
    assert read(tmp_path / "o.csv").height == 50
    assert not (tmp_path / "o.csv.partial").exists()


@pytest.mark.parametrize("out", ["o.arrow", "o.csv", "o.parquet", "o"])
@pytest.mark.parametrize("name", ["fsync", "replace", "unlink", "open"])
def test_whatever_the_system_refuses_at_the_end_is_an_error_by_name(tmp_path, policy, monkeypatch, out, name):  # noqa: F811
    source = places(50)
    source.write_parquet(tmp_path / "i.parquet")

    def refuses(*given, real, **more):
        if (tmp_path / f"{out}.regions.csv").exists():
            raise OSError(28, "No space left on device")
        return real(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, partial(refuses, real=getattr(os, name)))
        # Where a step is not taken for this kind of target, nothing is refused.
        with suppress(DataError):
            protect_file(tmp_path / "i.parquet", tmp_path / out, policy, keep=["id"])
    if not (tmp_path / out).is_dir():
        protect_file(tmp_path / "i.parquet", tmp_path / out, policy, keep=["id"])
    assert read(tmp_path / out)["id"].to_list() == source["id"].to_list()


def test_a_row_with_nothing_in_it_is_a_line_that_readers_count(tmp_path, policy):  # noqa: F811
    alone = Policy.create(
        Tupling(Identity(policy.regions.inputs, policy.regions), 0),
        policy.regions,
        [Pair("x", policy.prior, policy.prior)],
        epsilon=1,
        delta=1,
        prior=policy.prior,
    )
    (tmp_path / "i.csv").write_text("lat,lon\n40.75,-73.97\n,\n,\n40.75,-73.97\n,\n")
    done = protect_file(tmp_path / "i.csv", tmp_path / "o.csv", alone, empty=True)
    assert (done.rows, done.empty) == (5, 3)
    rows = list(csv.reader(io.StringIO((tmp_path / "o.csv").read_text())))
    assert [bool(row[0]) for row in rows[1:]] == [True, False, False, True, False]
    assert pl.read_csv(tmp_path / "o.csv").height == 5


def test_a_target_that_is_replaced_keeps_who_may_read_it(tmp_path, policy):  # noqa: F811
    places(50).write_parquet(tmp_path / "i.parquet")
    for out in ("o.csv", "o.parquet", "o.arrow"):
        for mode in (0o600, 0o664):
            (tmp_path / out).write_text("old")
            (tmp_path / out).chmod(mode)
            protect_file(tmp_path / "i.parquet", tmp_path / out, policy, keep=["id"])
            assert (tmp_path / out).stat().st_mode & 0o777 == mode
            assert read(tmp_path / out).height == 50
    policy.save(tmp_path / "p.policy")
    (tmp_path / "p.policy").chmod(0o640)
    policy.save(tmp_path / "p.policy")
    assert (tmp_path / "p.policy").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("out", ["o.csv", "o"])
def test_a_target_that_cannot_be_put_in_place_loses_no_part(tmp_path, policy, monkeypatch, out):  # noqa: F811
    places(50).write_parquet(tmp_path / "i.parquet")
    become = work.Work.become

    def blocked(self: work.Work, target: Path, finish: object) -> None:
        target.mkdir()
        (target / "thesis.txt").write_text("mine")
        become(self, target, finish)

    monkeypatch.setattr(work.Work, "become", blocked)
    with pytest.raises(DataError, match="cannot write"):
        protect_file(tmp_path / "i.parquet", tmp_path / out, policy, keep=["id"])
    monkeypatch.undo()
    assert (tmp_path / out / "thesis.txt").read_text() == "mine"
    (tmp_path / out / "thesis.txt").unlink()
    (tmp_path / out).rmdir()
    assert protect_file(tmp_path / "i.parquet", tmp_path / out, policy, keep=["id"]).before == 50
    assert read(tmp_path / out).height == 50


# --- what a job leaves behind at the very end ---------------------------------------------------------------


@pytest.mark.parametrize("out", ["o.csv", "o.arrow", "o.parquet", "o"])
def test_stopped_at_any_step_of_the_end_no_part_is_lost_and_nothing_is_left(tmp_path, policy, monkeypatch, out):  # noqa: F811
    source = places(900)
    source.write_parquet(tmp_path / "i.parquet")
    monkeypatch.setattr(batch, "PART_ROWS", 200)
    steps = 0
    for step in range(99):
        passed = 0

        def counted(*given, real, step=step, **more):
            nonlocal passed
            if (tmp_path / f"{out}.regions.csv").exists():  # the last but one thing to be written
                passed += 1
                if passed == step + 1:
                    raise KeyboardInterrupt
            return real(*given, **more)

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "unlink", "rmdir", "chmod", "link"):
                patch.setattr(os, name, partial(counted, real=getattr(os, name)))
            try:
                protect_file(tmp_path / "i.parquet", tmp_path / out, policy, keep=["id"])
            except KeyboardInterrupt:
                steps += 1
        if passed <= step:  # it ran to its end
            break
        ended = (tmp_path / out).exists()
        if ended:
            assert read(tmp_path / out).height == 900
        if not (ended and out == "o"):  # a folder that is there is not written over
            done = protect_file(tmp_path / "i.parquet", tmp_path / out, policy, keep=["id"])
            assert done.before == 900 or (ended and done.before == 0)
        assert read(tmp_path / out)["id"].to_list() == source["id"].to_list()
        assert not (tmp_path / f"{out}.partial").exists()
        if out == "o":
            lock = work.LOCK if ended else ""
            assert all(item.name.startswith("part-") or item.name == lock for item in (tmp_path / out).iterdir())
            shutil.rmtree(tmp_path / out)
        else:
            (tmp_path / out).unlink()
        (tmp_path / f"{out}.regions.csv").unlink()
    assert steps > 4
