"""Write docs/experiments/results.md: the tables of all studies side by side, from their CSV files.

Usage: python tools/experiments_table.py [docs/experiments]
"""

from __future__ import annotations

import sys
from pathlib import Path

import polars as pl

HERE = Path(__file__).parent.parent / "docs/experiments"
HEAD = """# Results, side by side

Made by `python tools/experiments_table.py` from the CSV files of the folders beside this page; what they mean is in
[README.md](README.md). *Train* people are those that mechanisms were designed on, *test* people are others. delta is
0.001.
"""
SINGLE = ("RR", "PL", "PG")
MORE = ("PL/W_inf", "coupling", "TM(RL)")


def results(folder: Path = HERE) -> str:
    """Return the page."""
    studies = sorted(path.name for path in folder.iterdir() if (path / "claims.csv").is_file())
    frames = {
        name: pl.concat(
            [pl.read_csv(folder / study / f"{name}.csv").with_columns(study=pl.lit(study)) for study in studies],
            how="diagonal_relaxed",
        )
        for name in ("counts", "calibrated", "attack", "dummies", "cost", "times", "noise", "curves", "claims")
    }
    keys = frames["counts"].select("study", "attribute").unique(maintain_order=True).rows()
    parts = [
        HEAD,
        *(make(frames, keys) for make in (_counts, _losses, _held_out, _attacks, _dummies, _noise, _cost, _claims)),
    ]
    return "\n".join(parts)


def _table(title: str, about: str, header: list[str], rows: list[list[str]]) -> str:
    lines = [f"## {title}", "", about, "", "| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def _where(frame: pl.DataFrame, study: str, attribute: str, **values: object) -> pl.DataFrame:
    wanted = {"study": study, "attribute": attribute, **values}
    return frame.filter(*(pl.col(name) == value for name, value in wanted.items()))


def _designed(frames: Frames, key: tuple[str, str], mechanism: str, part: str) -> pl.DataFrame:
    """Return a mechanism designed for epsilon = 1 on the train people, judged on a part."""
    found = _where(frames["calibrated"], *key, mechanism=mechanism, designed_on="train", evaluated=part)
    return found.filter(pl.col("target") == 1.0)


def _one(frame: pl.DataFrame, column: str, form: str) -> str:
    if frame.height != 1:
        return "–"
    value = frame[column][0]
    return "–" if value is None else "∞" if value == float("inf") else format(value, form)


Frames = dict[str, pl.DataFrame]
Keys = list[tuple[str, str]]


def _counts(frames: Frames, keys: Keys) -> str:
    rows = []
    for study, attribute in keys:
        own = _where(frames["counts"], study, attribute, part="all").to_dicts()[0]
        people = [own[f"people_{side}"] or None for side in ("with", "without")]  # trips name nobody
        rows.append(
            [study, attribute, f"{own['check_ins_with']:,}", f"{own['check_ins_without']:,}"]
            + ["–" if number is None else f"{int(number):,}" for number in people]
        )
    header = ["study", "attribute", "check-ins with", "without", "people with", "without"]
    return _table("What was counted", "In the input regions.", header, rows)


def _losses(frames: Frames, keys: Keys) -> str:
    rows = []
    for key in keys:
        losses = [_one(_designed(frames, key, name, "train"), "loss", ".2f") for name in (*SINGLE, *MORE)]
        dummies = [_one(_designed(frames, key, name, "train"), "dummies", "d") for name in ("TM(RL)", "TM(identity)")]
        rows.append([*key, *losses, *dummies])
    return _table(
        "Expected loss at epsilon = 1, km",
        "Designed and judged on the train people. TM(RL): at most 10 dummies (it may choose the true region). "
        "TM(identity) loses nothing; its dummies are in the last column. The coupling mechanism knows the attribute.",
        ["study", "attribute", *SINGLE, *MORE, "its dummies", "TM(identity): dummies"],
        rows,
    )


def _held_out(frames: Frames, keys: Keys) -> str:
    names = (*SINGLE, "coupling", "TM(RL)", "TM(identity)")
    rows = [
        [*key, *(_one(_designed(frames, key, name, "test"), "realised_epsilon", ".2f") for name in names)]
        for key in keys
    ]
    about = "Each designed for epsilon = 1 (coupling: 0) on the train people; the epsilon it has on the test people."
    return _table("What epsilon = 1 is on other people", about, ["study", "attribute", *names], rows)


def _attacks(frames: Frames, keys: Keys) -> str:
    rows = []
    for key in keys:
        none = _where(frames["attack"], *key, mechanism="none", evaluated="test", trained_on="train")
        exact = [_designed(frames, key, "TM(RL)", part) for part in ("train", "test")]
        seen = _where(frames["attack"], *key, mechanism="TM(RL)", target=1.0, evaluated="test", trained_on="train")
        low, high = (_one(seen, f"seen_recognised_{end}", ".3f") for end in ("low", "high"))
        rows.append(
            [*key, _one(none, "balanced", ".3f"), _one(none, "seen_balanced", ".3f")]
            + [_one(one, column, ".3f") for column in ("balanced", "recognised") for one in exact]
            + [_one(seen, "seen_balanced", ".3f"), f"{_one(seen, 'seen_recognised', '.3f')} ({low} to {high})"]
        )
    return _table(
        "Attack success against TM(RL) at epsilon = 1",
        "Best: an attacker who knows the distributions of the very people attacked, exact. Learnt: one who knows the "
        "train people's distributions and attacks simulated reports of the test people's check-ins. Balanced: 0.5 is "
        "blind guessing. Recognised: the share of those with the attribute of whom it is inferred (the paper's ASR); "
        "with a 95 % interval over people.",
        ["study", "attribute", "unprotected, best", "unprotected, learnt", "balanced, best, train"]
        + ["balanced, best, test", "recognised, best, train", "recognised, best, test"]
        + ["balanced, learnt", "recognised, learnt"],
        rows,
    )


def _dummies(frames: Frames, keys: Keys) -> str:
    rows = []
    for study, attribute in keys:
        row = [study, attribute]
        for name in ("TM(RL)", "TM(identity)"):
            for part in ("train", "test"):
                found = _where(frames["dummies"], study, attribute, mechanism=name, target=1.0, evaluated=part)
                row += [_one(found, "exact", ",d"), _one(found, "theorem3", ",d").replace("–", "> 20,000")]
        rows.append(row)
    header = ["study", "attribute"]
    header += [
        f"{name}, {part}, {way}"
        for name in ("RL", "identity")
        for part in ("train", "test")
        for way in ("exact", "Thm 3")
    ]
    about = "The least number of dummies for epsilon = 1; base of RL: eps_A = 1/km, r = 2 km."
    return _table("Dummies for epsilon = 1", about, header, rows)


def _noise(frames: Frames, keys: Keys) -> str:
    rows = []
    for study, attribute in keys:
        floor = [
            _where(frames["noise"], study, attribute, halves=f"halves {side}", mechanism="TM(RL)", dummies=10).filter(
                pl.col("target").is_null()
            )
            for side in ("with", "without")
        ]
        own = [
            _where(
                frames["curves"], study, attribute, curve="dummies", mechanism="TM(RL)", dummies=10, evaluated=part
            )
            for part in ("train", "test")
        ]
        rows.append([study, attribute, *(_one(one, "epsilon", ".3f") for one in (*own, *floor))])
    return _table(
        "Against chance",
        "epsilon of 10 dummies around a restricted Laplace report (eps_A = 1/km, r = 2 km): between the two classes, "
        "and between two random halves of the people of one class, where there is nothing to tell apart.",
        ["study", "attribute", "classes, train", "classes, test", "halves of those with", "halves of those without"],
        rows,
    )


def _cost(frames: Frames, keys: Keys) -> str:
    rows = []
    for study, attribute in keys:
        for name in ("PL", "TM(RL)", "TM(identity)"):
            cost = _where(frames["cost"], study, attribute, mechanism=name)
            time = _where(frames["times"], study, attribute, mechanism=name)
            rows.append(
                [study, attribute, name, _one(cost, "entries", ",d"), _one(cost, "nonzero", ",d")]
                + [_one(cost, "bytes_held", ",d"), _one(time, "build_ms", ".2f"), _one(time, "report_us", ".0f")]
            )
    return _table(
        "What it costs",
        "Matrix entries |X| x |Y|, those that are not 0 (|X| x |Y_{x,r}|), bytes held, milliseconds to build, "
        "microseconds for one report through the released sampler (median of 7; only times differ from run to run).",
        ["study", "attribute", "mechanism", "entries", "not 0", "bytes", "build, ms", "report, µs"],
        rows,
    )


def _claims(frames: Frames, _: Keys) -> str:
    wide = frames["claims"].with_columns(
        said=pl.col("verdict") + pl.lit(" ") + pl.col("where").str.replace(r";.*", "")
    )
    studies = wide["study"].unique(maintain_order=True).to_list()
    rows = []
    for (claim, statement), part in wide.group_by("claim", "statement", maintain_order=True):
        each = dict(part.select("study", "said").iter_rows())
        rows.append([f"{claim}. {statement}", *(each.get(study, "–") for study in studies)])
    return _table(
        "Claim by claim", "Which comparisons fail is in each folder's `claims.csv`.", ["claim", *studies], rows
    )


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    (place / "results.md").write_text(results(place), encoding="utf-8")
