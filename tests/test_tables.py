"""Protected rows as files: a file that grew out of parts reads like one that was written at once."""

from __future__ import annotations

import csv
import io
import os
from datetime import date, timedelta
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
    frames = [some(250_000, 1), some(7, 2), some(130_000, 3)]  # more than one batch in a part
    sizes = grown(path, frames)
    arrowfile.finish_arrow(path, sizes)
    content, whole = path.read_bytes(), pl.concat(frames)
    with ipc.open_file(path) as reader:
        assert reader.num_record_batches > 3
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
