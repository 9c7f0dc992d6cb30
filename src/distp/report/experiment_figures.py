"""The figures of an experiment: one kind each, small multiples by attribute, and a summary over cities.

Each function returns a matplotlib Figure and touches no global state. Every number drawn stands in a CSV file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from distp.experiments import Experiment
from distp.experiments.records import DISTINCT, IDENTITY, NONE, RL, AttackPoint, Calibrated, CurvePoint
from distp.report.figures import COLOURS, NAMES, plain_ticks, short, tidy

INK = {
    **COLOURS,
    RL: COLOURS["tupling"],
    IDENTITY: "#1b7f8c",
    DISTINCT: "#d68a00",
    NONE: "#333333",
}
WORDS = {
    **NAMES,
    RL: "tupling, restricted Laplace",
    IDENTITY: "tupling, true region",
    DISTINCT: "tupling, true region, distinct dummies",
}
MARKS = {"RR": "s", "PL": "^", "PG": "v", RL: "o", IDENTITY: "D", DISTINCT: "P"}
GREY = "#777777"
DASH = {"train": "-", "test": "--"}
HALF = {"halves with": (0, (1, 1)), "halves without": (0, (4, 1, 1, 1))}
TITLES = {"dummies": "number of dummies k", "eps_A": "ε_A per km", "radius": "r in km"}
TICKS = {
    "dummies": (1, 2, 5, 10, 20, 50, 100),
    "eps_A": (0.1, 0.2, 0.5, 1, 2, 5, 10),
    "radius": (0.5, 1, 2, 5, 10),
}
EPSILON_TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
SHOWN = ("RR", "PL", "PG", IDENTITY, RL)


def epsilon_figure(experiment: Experiment) -> Figure:
    """Draw epsilon against the number of dummies, eps_A and r: exact, sampled, by Theorem 3, and by chance."""
    figure, axes = _grid(experiment.attributes, 3, 3.6, 3.0)
    for line, attribute in enumerate(experiment.attributes):
        mine = [point for point in experiment.curves if point.attribute == attribute]
        finite = [p.epsilon for p in mine if p.evaluated in DASH and 0 < p.epsilon < math.inf]
        top = max([3.0, *(2 * value for value in finite)])
        for column, curve in enumerate(TITLES):
            ax = axes[line][column]
            _epsilon_panel(ax, [point for point in mine if point.curve == curve])
            ax.axhline(1, color="black", lw=0.7)
            ax.set_xscale("log")
            ax.set_yscale("log")
            low = min([0.05, *finite])
            ax.set_ylim(max(0.8 * low, 0.004), top)
            values = {point.parameter for point in mine if point.curve == curve}
            plain_ticks(ax, [tick for tick in TICKS[curve] if min(values) <= tick <= max(values)] or sorted(values))
            tidy(ax)
            if line == len(experiment.attributes) - 1:
                ax.set_xlabel(TITLES[curve])
        axes[line][0].set_ylabel(f"{short(attribute, 24)}\nε at δ = {experiment.settings.delta:g}")
    handles = [
        *(Line2D([], [], color=INK[name], label=WORDS[name]) for name in (RL, IDENTITY, DISTINCT)),
        Line2D([], [], color="black", label="exact, train people"),
        Line2D([], [], color="black", ls="--", label="exact, held out"),
        Line2D([], [], color=GREY, ls=":", lw=2, label="Theorem 3 (restricted Laplace, train)"),
        Line2D([], [], color=INK[RL], marker="o", mfc="none", ls="", label="sampled (ε, δ), train"),
        Line2D([], [], color=INK[RL], marker="x", ls="", label="sampled quantile (probabilistic DP), train"),
        Line2D([], [], color="#aaaaaa", ls=HALF["halves with"], label="chance: halves of those with"),
        Line2D([], [], color="#aaaaaa", ls=HALF["halves without"], label="chance: halves of those without"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _epsilon_panel(ax: Axes, points: Sequence[CurvePoint]) -> None:
    for name in (DISTINCT, IDENTITY, RL):
        for part, style in DASH.items():
            some = [p for p in points if p.mechanism == name and p.evaluated == part]
            _line(ax, [(p.parameter, p.epsilon) for p in some], color=INK[name], ls=style, lw=1.5)
    base = [p for p in points if p.mechanism == RL and p.evaluated == "train"]
    _line(ax, [(p.parameter, p.theorem3) for p in base], color=GREY, ls=":", lw=2)
    sampled = (
        ("o", 4, [(p.parameter, p.empirical) for p in base]),
        ("x", 5, [(p.parameter, p.quantile) for p in base]),
    )
    for mark, size, found in sampled:
        _line(ax, _known(found), color=INK[RL], ls="", marker=mark, mfc="none", ms=size)
    for part, dots in HALF.items():
        chance = [p for p in points if p.mechanism == RL and p.evaluated == part]
        _line(ax, [(p.parameter, p.epsilon) for p in chance], color="#aaaaaa", ls=dots, lw=1.5)


def attack_figure(experiment: Experiment) -> Figure:
    """Draw attack success against epsilon along the number of dummies, exact and empirical, beside unprotected."""
    figure, axes = _grid(experiment.attributes, 2, 5.2, 3.0)
    readings: tuple[tuple[str, Callable[[AttackPoint], float], Callable[[AttackPoint], tuple[float, ...]]], ...] = (
        (
            "balanced success",
            lambda p: p.balanced,
            lambda p: (p.seen_balanced, p.seen_balanced_low, p.seen_balanced_high),
        ),
        (
            "recognised (the paper's ASR)",
            lambda p: p.recognised,
            lambda p: (p.seen_recognised, p.seen_recognised_low, p.seen_recognised_high),
        ),
    )
    for line, attribute in enumerate(experiment.attributes):
        mine = [point for point in experiment.attacks if point.attribute == attribute and point.target is None]
        for column, (title, exact, seen) in enumerate(readings):
            ax = axes[line][column]
            for name in (IDENTITY, RL):
                _attack_lines(ax, [p for p in mine if p.mechanism == name], name, exact, seen)
            for p in mine:
                if p.mechanism == NONE and p.evaluated in DASH:
                    ax.axhline(exact(p), color=INK[NONE], lw=1, ls=DASH[p.evaluated])
            ax.axhline(0.5, color="#bbbbbb", lw=1)
            ax.axvline(1, color="#bbbbbb", lw=1)
            ax.set_xscale("log")
            plain_ticks(ax, _within(EPSILON_TICKS, [p.epsilon for p in mine if p.evaluated in DASH]))
            ax.set_ylim(0.3, 1.0)
            ax.set_ylabel(f"{short(attribute, 24)}\n{title}" if column == 0 else title)
            if line == len(experiment.attributes) - 1:
                ax.set_xlabel(f"ε at δ = {experiment.settings.delta:g} on the same people")
            tidy(ax)
    handles = [
        Line2D([], [], color=INK[RL], label=WORDS[RL]),
        Line2D([], [], color=INK[IDENTITY], label=WORDS[IDENTITY]),
        Line2D([], [], color="black", label="best attacker, train people"),
        Line2D([], [], color="black", ls="--", label="best attacker, held out"),
        Line2D([], [], color="black", marker="o", ls="", ms=4, label="attacker from train on test people, 95 %"),
        Line2D([], [], color=INK[NONE], lw=1, label="horizontal: unprotected (train, held out)"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _attack_lines(
    ax: Axes,
    points: Sequence[AttackPoint],
    name: str,
    exact: Callable[[AttackPoint], float],
    seen: Callable[[AttackPoint], tuple[float, ...]],
) -> None:
    for part, style in DASH.items():
        some = sorted((p for p in points if p.evaluated == part), key=lambda p: p.dummies)
        _line(ax, [(p.epsilon, exact(p)) for p in some], color=INK[name], ls=style, lw=1.5)
    held = [p for p in points if p.evaluated == "test" and 0 < p.epsilon < math.inf]
    if held:
        values = np.array([seen(p) for p in held])
        spread = np.abs(values[:, 1:] - values[:, :1]).T
        ax.errorbar([p.epsilon for p in held], values[:, 0], spread, fmt="o", color=INK[name], ms=3.5, lw=0.8)


def loss_figure(experiment: Experiment) -> Figure:
    """Draw expected loss against epsilon over each mechanism's own parameter: train people, and held out."""
    figure, axes = _grid(experiment.attributes, 2, 5.2, 3.0)
    for line, attribute in enumerate(experiment.attributes):
        for column, part in enumerate(DASH):
            ax = axes[line][column]
            mine = [p for p in experiment.losses if p.attribute == attribute and p.evaluated == part]
            for name in SHOWN:
                some = sorted((p for p in mine if p.mechanism == name), key=lambda p: p.epsilon)
                _line(ax, [(p.epsilon, p.loss) for p in some], color=INK[name], lw=2 if name == RL else 1.3)
                found = [
                    (row.realised_epsilon, row.loss)
                    for row in _calibrated(experiment, attribute, part)
                    if row.mechanism == name and 0 < row.realised_epsilon <= 6  # the axis ends there
                ]
                _line(ax, found, color=INK[name], marker=MARKS[name], ls="", ms=5, clip_on=False)
            marks = [
                row.realised_epsilon for row in _calibrated(experiment, attribute, part) if row.mechanism in SHOWN
            ]
            least = min([0.05, *(value for value in marks if value > 0)])
            ax.set_xscale("log")
            plain_ticks(ax, [tick for tick in EPSILON_TICKS if tick >= least])
            ax.set_xlim(0.8 * least, 6)
            ax.set_ylim(bottom=0)
            if line == 0:
                ax.set_title("train people (in-sample)" if part == "train" else "test people (held out)", fontsize=10)
            if line == len(experiment.attributes) - 1:
                ax.set_xlabel(f"ε at δ = {experiment.settings.delta:g} on these people")
            tidy(ax)
        axes[line][0].set_ylabel(f"{short(attribute, 24)}\nexpected loss (km)")
    handles = [Line2D([], [], color=INK[name], marker=MARKS[name], ms=5, label=WORDS[name]) for name in SHOWN]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def held_out_figure(experiment: Experiment) -> Figure:
    """Draw what a target on the train people becomes on others, beside what chance alone makes."""
    figure, axes = _grid(experiment.attributes, 1, 7.0, 3.0)
    for line, attribute in enumerate(experiment.attributes):
        ax = axes[line][0]
        targets = sorted({row.target for row in experiment.calibrated})
        ax.plot(targets, targets, color="black", lw=0.8)
        for name in SHOWN:
            found = [
                (row.target, row.realised_epsilon)
                for row in _calibrated(experiment, attribute, "test")
                if row.mechanism == name
            ]
            _line(ax, found, color=INK[name], marker=MARKS[name], ms=5, lw=1.3)
        for halves, style in HALF.items():
            chance = [
                (row.target, row.epsilon)
                for row in experiment.noise
                if (row.attribute, row.halves, row.mechanism) == (attribute, halves, RL) and row.target is not None
            ]
            _line(ax, [(x, y) for x, y in chance if x is not None], color="#aaaaaa", ls=style, lw=1.5)
        ax.set_xscale("log")
        ax.set_yscale("log")
        plain_ticks(ax, targets)
        ax.set_ylabel(f"{short(attribute, 24)}\nε on test people")
        tidy(ax)
    axes[-1][0].set_xlabel("ε that the mechanism was calibrated to on train people")
    handles = [Line2D([], [], color=INK[name], marker=MARKS[name], ms=5, label=WORDS[name]) for name in SHOWN]
    handles += [Line2D([], [], color="black", lw=0.8, label="as on the train people")]
    handles += [
        Line2D([], [], color="#aaaaaa", ls=style, label=f"chance, {WORDS[RL]}: {halves}")
        for halves, style in HALF.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def cost_figure(experiment: Experiment) -> Figure:
    """Draw what each mechanism holds, in kilobytes: as the library keeps it, dense, and as release weights."""
    figure, axes = _grid(experiment.attributes, 1, 7.0, 2.6)
    for line, attribute in enumerate(experiment.attributes):
        ax = axes[line][0]
        rows = [row for row in experiment.costs if row.attribute == attribute]
        place = np.arange(len(rows))
        for shift, held, colour, label in (
            (-0.27, [row.bytes_dense for row in rows], "#cccccc", "as a dense matrix"),
            (0.0, [row.bytes_held for row in rows], COLOURS["tupling"], "as the library keeps it"),
            (0.27, [row.bytes_release for row in rows], COLOURS["PL"], "as integer weights for release"),
        ):
            ax.barh(place + shift, np.array(held) / 1000, 0.25, color=colour, label=label)
        ax.set_yticks(place, [row.mechanism for row in rows], fontsize=9)
        ax.invert_yaxis()
        ax.set_xscale("log")
        most = max(max(row.bytes_dense, row.bytes_release) for row in rows) / 1000
        plain_ticks(ax, [m * 10.0**d for d in range(-2, 7) for m in (1, 2, 5) if m * 10.0**d <= most])
        ax.set_xlim(0.5 * min(row.bytes_held for row in rows) / 1000, 1.2 * most)
        ax.set_title(short(attribute, 40), fontsize=10, loc="left")
        tidy(ax)
    axes[-1][0].set_xlabel("kilobytes")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def summary_figure(experiments: Sequence[Experiment]) -> Figure:
    """Draw every attribute of every city on one line: loss, privacy held out, attack and dummies at epsilon = 1."""
    names = [(one, attribute) for one in experiments for attribute in one.attributes]
    figure = Figure(figsize=(13.5, 1.9 + 0.42 * len(names)), layout="constrained")
    axes = figure.subplots(1, 4, sharey=True)
    for place, (one, attribute) in enumerate(names):
        train, test = (_at_one(one, attribute, part) for part in DASH)
        for name in SHOWN:
            if name in train:
                axes[0].plot(train[name].loss, place, MARKS[name], color=INK[name], ms=6, clip_on=False)
            if name in test and test[name].realised_epsilon < math.inf:
                axes[1].plot(test[name].realised_epsilon, place, MARKS[name], color=INK[name], ms=6)
        _success_marks(axes[2], place, one, attribute)
        for row in one.dummies:
            if row.attribute == attribute and row.target == 1 and row.evaluated == "train":
                if row.exact is not None:
                    axes[3].plot(max(row.exact, 1), place, MARKS[row.mechanism], color=INK[row.mechanism], ms=6)
                if row.mechanism == RL and row.theorem3 is not None:
                    axes[3].plot(row.theorem3, place, "*", color=GREY, ms=8)
    several = len({one.city for one in experiments}) > 1
    axes[0].set_yticks(
        range(len(names)), [short(f"{one.city}: {name}" if several else name, 34) for one, name in names]
    )
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    axes[0].set_xlim(left=0)
    for ax, title in zip(
        axes,
        (
            "expected loss (km) at ε = 1, train",
            "ε held out (calibrated to 1)",
            "attack at ε = 1, held out",
            "dummies needed for ε ≤ 1, train",
        ),
        strict=True,
    ):
        ax.set_xlabel(title)
        tidy(ax)
    axes[1].set_xscale("log")
    axes[1].axvline(1, color="black", lw=0.8)
    plain_ticks(axes[1], (0.5, 1, 2, 5))
    axes[2].axvline(0.5, color="black", lw=0.8)
    axes[3].set_xscale("log")
    plain_ticks(axes[3], (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000))
    axes[3].set_xlim(0.8, max([30, *_most_dummies(experiments)]))
    handles = [Line2D([], [], color=INK[name], marker=MARKS[name], ls="", label=WORDS[name]) for name in SHOWN]
    handles += [
        Line2D([], [], color=INK[DISTINCT], marker=MARKS[DISTINCT], ls="", label="distinct dummies"),
        Line2D([], [], color=GREY, marker="*", ls="", ms=8, label="Theorem 3, restricted Laplace"),
        Line2D([], [], color=INK[RL], marker="o", label="attacker from train, recognised, 95 %"),
        Line2D([], [], color=INK[RL], marker="|", ls="", label="best attacker, recognised"),
        Line2D([], [], color=INK[NONE], marker="x", ls="", label="attacker from train, unprotected"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def _most_dummies(experiments: Sequence[Experiment]) -> list[float]:
    rows = [row for one in experiments for row in one.dummies if row.target == 1 and row.evaluated == "train"]
    return [1.4 * value for row in rows for value in (row.exact, row.mechanism == RL and row.theorem3) if value]


def _success_marks(ax: Axes, place: int, one: Experiment, attribute: str) -> None:
    for p in one.attacks:
        if p.attribute != attribute or p.evaluated != "test":
            continue
        if p.mechanism == RL and p.target == 1:
            ax.plot([p.seen_recognised_low, p.seen_recognised_high], [place, place], color=INK[RL], lw=1.5)
            ax.plot(p.seen_recognised, place, "o", color=INK[RL], ms=6)
            ax.plot(p.recognised, place, "|", color=INK[RL], ms=14, mew=2)
        elif p.mechanism == NONE:
            ax.plot(p.seen_recognised, place, "x", color=INK[NONE], ms=6)


def _calibrated(experiment: Experiment, attribute: str, part: str) -> list[Calibrated]:
    return [row for row in experiment.calibrated if row.attribute == attribute and row.evaluated == part]


def _at_one(experiment: Experiment, attribute: str, part: str) -> dict[str, Calibrated]:
    return {row.mechanism: row for row in _calibrated(experiment, attribute, part) if row.target == 1}


def _grid(attributes: Sequence[str], columns: int, width: float, height: float) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width * columns, height * len(attributes) + 1.0), layout="constrained")
    return figure, figure.subplots(len(attributes), columns, squeeze=False)


def _line(ax: Axes, points: Sequence[tuple[float, float]], **style: object) -> None:
    """Draw the points that are finite; a line is broken where one between them is not."""
    if points:
        x, y = np.array(points, dtype=np.float64).T
        good = np.isfinite(x) & np.isfinite(y)
        ax.plot(np.where(good, x, np.nan), np.where(good, y, np.nan), **style)  # type: ignore[arg-type]


def _known(points: Iterable[tuple[float, float | None]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if y is not None]


def _within(ticks: Sequence[float], values: Sequence[float]) -> list[float]:
    finite = [value for value in values if 0 < value < math.inf]
    found = [tick for tick in ticks if finite and min(finite) <= tick <= max(finite)]
    return found or [1.0]
