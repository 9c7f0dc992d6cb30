"""The report's figures. Each function returns a matplotlib Figure and touches no global state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import Colormap, Normalize, PowerNorm, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from distp.calibration import Choice, Compared
from distp.calibration.curves import MORE_DUMMIES, DummiesCurve
from distp.certificates import Certificate
from distp.checks import FloatArray
from distp.distributions import Pair
from distp.spaces import Regions

COLOURS = {
    "RR": "#8c6d31",
    "PL": "#3a6fb0",
    "PG": "#6a51a3",
    "PL/W_inf": "#7fa8d1",
    "coupling": "#3b8f5a",
    "tupling": "#c8401f",
}
NAMES = {
    "RR": "randomised response",
    "PL": "planar Laplace",
    "PG": "planar Gaussian",
    "PL/W_inf": "planar Laplace scaled by W∞ (Theorem 2)",
    "coupling": "coupling (knows the attribute)",
    "tupling": "tupling",
}
_MARKERS = {"RR": "s", "PL": "^", "PG": "v", "PL/W_inf": "<", "coupling": "D", "tupling": "o"}
KINDS = {  # of choices: colour and marker
    "restricted Laplace": ("#8c6d31", "^"),
    "optimal base": ("#6a51a3", "v"),
    "optimal base and dummies": ("#c8401f", "o"),
    "true region": ("#3a6fb0", "s"),
    "true region, distinct dummies": ("#3b8f5a", "D"),
}
MOST_PANELS = 4
_GREY = "#666666"


def map_figure(regions: Regions, pair: Pair) -> Figure:
    """Draw both distributions and their difference on the regions."""
    wide = regions.box.width / regions.box.height
    figure = Figure(figsize=(11.5, min(7.5, 2.75 / wide + 1.1)), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    shared = PowerNorm(0.5, 0, float(max(pair.p.max(), pair.q.max())))
    titles = (f"with: {pair.name}", f"without: {pair.name}")
    for ax, values, title in zip(axes[:2], (pair.p, pair.q), titles, strict=True):
        drawn = _cells(ax, regions, values, "YlGnBu", shared)
        ax.set_title(short(title), fontsize=10)
    figure.colorbar(drawn, ax=axes[:2], label="probability of the region", shrink=0.75, pad=0.01)
    reach = float(np.abs(pair.p - pair.q).max()) or 1.0  # equal distributions: nothing to show, but a scale
    drawn = _cells(axes[2], regions, pair.p - pair.q, "RdBu_r", TwoSlopeNorm(0, -reach, reach))
    axes[2].set_title("difference: what gives it away", fontsize=10)
    figure.colorbar(drawn, ax=axes[2], label="with − without (probability)", shrink=0.75, pad=0.02)
    axes[0].set_ylabel("km north")
    return figure


def dummies_figure(curve: DummiesCurve, certificate: Certificate) -> Figure:
    """Draw epsilon against the number of dummies: exact, and what Theorem 3 proves."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    ax = figure.subplots()
    k = np.array(curve.dummies)
    for brackets, label, colour, style in (
        (curve.base, "exact, this policy's base", COLOURS["tupling"], "o-"),
        (curve.identity, "exact, true region among dummies", COLOURS["PL"], "s--"),
    ):
        upper = np.array([bracket.upper for bracket in brackets])
        ax.plot(k[np.isfinite(upper)], upper[np.isfinite(upper)], style, color=colour, label=label, ms=4)
    proven = list(curve.theorem3)
    enough = [i for i, (_, bound) in enumerate(proven) if bound <= certificate.target_epsilon]
    proven = proven[: enough[0] + 1] if enough else proven
    label = "Theorem 3 of the paper" + ("" if proven else f": proves nothing up to {MORE_DUMMIES[-1]:,} dummies")
    ax.plot(*zip(*proven, strict=True) if proven else ([], []), "^:", color=_GREY, label=label, ms=4)
    ax.axhline(certificate.target_epsilon, color="black", lw=0.8)
    ax.annotate(
        f" target ε = {certificate.target_epsilon:g}",
        (k[0], certificate.target_epsilon),
        ha="left",
        va="bottom",
        fontsize=8,
    )
    ax.set_xscale("log")
    ax.set_yscale("log")
    last = max(k[-1], *(dummies for dummies, _ in proven)) if proven else k[-1]
    plain_ticks(ax, [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000) if tick <= last])
    ax.set_xlabel("number of dummies")
    ax.set_ylabel(f"ε at δ = {curve.delta:g} (less is more private)")
    ax.legend(fontsize=8, frameon=False)
    tidy(ax)
    return figure


def loss_figure(rows: Sequence[Compared], unit: str = "km") -> Figure:
    """Draw expected loss against epsilon for every mechanism."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    ax = figure.subplots()
    for name in NAMES:
        mine = [row for row in rows if row.mechanism == name]
        if not mine:
            continue
        label = NAMES[name]
        if name == "tupling":
            label += f" (up to {max(row.dummies for row in mine)} dummies)"
        ax.plot(
            [row.epsilon for row in mine],
            [row.loss for row in mine],
            marker=_MARKERS[name],
            color=COLOURS[name],
            label=label,
            ms=5,
            lw=2 if name == "tupling" else 1.2,
        )
    ax.set_xscale("log")
    plain_ticks(ax, sorted({row.epsilon for row in rows}))
    ax.set_ylim(bottom=0)
    ax.set_xlabel(f"ε at δ = {rows[0].delta:g} (more private to the left)")
    ax.set_ylabel(f"expected loss ({unit})")
    ax.legend(fontsize=8, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    tidy(ax)
    return figure


def pareto_figure(choices: Sequence[Choice], unit: str = "km") -> Figure:
    """Draw loss against dummies, and the place's safety against loss, for up to four epsilons; efficient ones filled.

    A number beside a point is its dummies; the line is the least loss of a kind.
    """
    epsilons = sorted({row.epsilon for row in choices})
    if len(epsilons) > MOST_PANELS:
        epsilons = [epsilons[i] for i in np.linspace(0, len(epsilons) - 1, MOST_PANELS).round().astype(int)]
    figure = Figure(figsize=(max(7.5, 3.1 * len(epsilons) + 0.8), 7.2), layout="constrained")
    axes = figure.subplots(2, len(epsilons), sharex="row", sharey="row", squeeze=False)
    numbers = sorted({row.dummies for row in choices})
    blind = choices[0].blind_error.lower
    for (top, bottom), epsilon in zip(axes.T, epsilons, strict=True):
        mine = [row for row in choices if row.epsilon == epsilon]
        _kinds(top, mine, lambda row: row.dummies + 1, lambda row: row.loss, line=True)
        _kinds(bottom, mine, lambda row: row.loss, lambda row: row.location_error.lower, line=False)
        for row in mine:
            if row.efficient:
                spot = (row.loss, row.location_error.lower)
                bottom.annotate(
                    f"{row.dummies}", spot, (5, 3), textcoords="offset points", fontsize=7, color="#333333"
                )
        bottom.axhline(blind, color=_GREY, lw=1, ls="--")
        top.set_title(f"ε = {epsilon:g}", fontsize=11)
        top.set_xscale("log")
        top.set_xticks([k + 1 for k in numbers], [f"{k:,}" for k in numbers])
        top.xaxis.set_minor_locator(NullLocator())
        top.set_xlabel("dummies (fewer to the left)")
        bottom.set_xlabel(f"expected loss ({unit})")
        tidy(top)
        tidy(bottom)
    _losses(axes[0, 0], axes[1, 0], max(row.loss for row in choices))
    axes[1, 0].annotate(
        "guessed without any report",
        (0.98, blind),
        (0, 3),
        fontsize=8,
        color="#333333",
        ha="right",
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
    )
    axes[1, 0].set_ylim(0, 1.1 * blind or 1.0)  # no report misleads: no error exceeds that of a blind guess
    axes[0, 0].set_ylabel(f"expected loss ({unit}; less is better)")
    axes[1, 0].set_ylabel(f"attacker's error ({unit}; more is safer)")
    shown = {name: style for name, style in KINDS.items() if any(row.mechanism == name for row in choices)}
    handles = [
        Line2D([], [], color=colour, marker=marker, lw=1, label=name) for name, (colour, marker) in shown.items()
    ]
    words = "hollow: beaten, perhaps at a smaller ε; number: dummies"
    handles.append(Line2D([], [], color=_GREY, marker="o", mfc="white", lw=0, label=words))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    return figure


def _kinds(
    ax: Axes, rows: Sequence[Choice], across: Callable[[Choice], float], up: Callable[[Choice], float], *, line: bool
) -> None:
    """Draw every choice by its kind, and a thin line along the least ``up`` of each place ``across``."""
    for name, (colour, marker) in KINDS.items():
        least: dict[float, float] = {}
        for row in rows:
            if row.mechanism == name:
                least[across(row)] = min(up(row), least.get(across(row), math.inf))
        if line:
            ax.plot(sorted(least), [least[x] for x in sorted(least)], color=colour, lw=0.8, alpha=0.6)
        for row in rows:
            if row.mechanism == name:
                fill = colour if row.efficient else "white"
                ax.plot(
                    across(row),
                    up(row),
                    marker,
                    color=colour,
                    mfc=fill,
                    ms=6,
                    mew=1.2,
                    zorder=3 if row.efficient else 2,
                    clip_on=False,
                )


def _losses(top: Axes, bottom: Axes, most: float) -> None:
    """Scale the losses: logarithmic, but from 0 on, as many are 0."""
    decade = 10.0 ** math.floor(math.log10(most)) if most > 0 else 1.0
    ticks = [0.0, *(m * decade for m in (0.01, 0.1, 1.0) if m * decade <= 2 * most)]
    room = -decade / 400, 1.5 * max(most, decade / 100)  # a point at 0 stays clear of the frame
    top.set_yscale("symlog", linthresh=decade / 100, linscale=0.4)
    bottom.set_xscale("symlog", linthresh=decade / 100, linscale=0.4)
    top.set_ylim(*room)
    bottom.set_xlim(*room)
    for axis in (top.yaxis, bottom.xaxis):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_minor_locator(NullLocator())


def attack_figure(curve: DummiesCurve, certificate: Certificate, pair_name: str) -> Figure:
    """Draw the attacker's balanced success against the number of dummies."""
    figure = Figure(figsize=(7, 4.4), layout="constrained")
    ax = figure.subplots()
    k = np.array(curve.dummies)
    bare = next(p for p in certificate.pairs if p.name == pair_name).success_unprotected.upper
    ax.plot(
        k,
        [b.upper for b in curve.success],
        "o-",
        color=COLOURS["tupling"],
        ms=4,
        label="one tuple, best attacker",
    )
    for level, text, style in (
        (bare, f"no protection: {bare:.3f}", "--"),
        (
            certificate.guaranteed_success,
            f"all that ({certificate.target_epsilon:g}, {certificate.target_delta:g})-DistP allows: "
            f"{certificate.guaranteed_success:.3f}",
            ":",
        ),
        (0.5, "blind guessing: 0.5", "-"),
    ):
        ax.axhline(level, color=_GREY, lw=1, ls=style)
        ax.annotate(
            text,
            (k[-1], level),
            (0, 2),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=8,
            color="#333333",
        )
    ax.set_xscale("log")
    plain_ticks(ax, k.tolist())
    ax.set_ylim(0.48, max(bare, certificate.guaranteed_success) + 0.05)
    ax.set_xlabel("number of dummies (this policy's base)")
    ax.set_ylabel("balanced success")
    ax.legend(fontsize=8, frameon=False, loc="center right")
    tidy(ax)
    return figure


def tuple_figure(regions: Regions, law: FloatArray, true_input: int, drawn: Sequence[int]) -> Figure:
    """Draw one tuple over the law of the inputs: where the person is (for us only), what the receiver sees."""
    wide = regions.box.width / regions.box.height
    figure = Figure(figsize=(8.2, min(6.5, 3.6 / wide + 1)), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, title in zip(axes, ("the person", "what the receiver sees"), strict=True):
        _cells(ax, regions, law, "Greys", PowerNorm(0.5, 0, 4 * float(law.max())))  # pale: only the backdrop
        ax.set_title(title, fontsize=10)
    _mark(axes[0], regions, [true_input], COLOURS["PL"])
    _mark(axes[1], regions, sorted(set(drawn)), COLOURS["tupling"])
    axes[0].set_ylabel("km north")
    return figure


def _cells(
    ax: Axes, regions: Regions, values: FloatArray, colours: str | Colormap, norm: Normalize
) -> PatchCollection:
    """Draw the input regions by value, and the ring around them in outline."""
    patches = [_patch(regions, region) for region in range(len(regions))]
    inputs = len(regions.inputs)
    ring = PatchCollection(patches[inputs:], facecolor="#f3f3f3", edgecolor="#dddddd", linewidth=0.4)
    inner = PatchCollection(patches[:inputs], cmap=colours, norm=norm, edgecolor="#bbbbbb", linewidth=0.25)
    inner.set_array(values)
    ax.add_collection(ring)
    ax.add_collection(inner)
    box = regions.box
    rim = 0.0 if regions.square else 0.02 * max(box.width, box.height)  # polygons touch their box: set off its frame
    ax.set_xlim(box.west - rim, box.west + box.width + rim)
    ax.set_ylim(box.south - rim, box.south + box.height + rim)
    ax.set_aspect("equal")
    ax.set_xlabel("km east")
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    ax.tick_params(labelsize=8)
    return inner


def _mark(ax: Axes, regions: Regions, chosen: Sequence[int], colour: str) -> None:
    assert regions.points is not None  # a map always has places; tells the type checker
    for region in chosen:
        ax.add_patch(_patch(regions, region, facecolor=colour, edgecolor=colour, lw=1))
        if regions.area_km2[region] ** 0.5 < regions.box.height / 60:  # small on the page: a ring keeps it visible
            ax.plot(*regions.points[region], "o", ms=11, mfc="none", mec=colour, mew=1.2)


def _patch(regions: Regions, region: int, **style: Any) -> PathPatch:
    """Return a region as one path: its parts, and its holes."""
    paths = [Path(np.vstack([ring, ring[:1]]), closed=True) for ring in regions.rings_km(region)]
    return PathPatch(Path.make_compound_path(*paths), **style)


def plain_ticks(ax: Axes, ticks: Sequence[float]) -> None:
    """Write plain numbers at these places below, and at 1, 2, 5 of each decade of a logarithmic axis beside."""
    ax.set_xticks(ticks)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    if ax.get_yscale() == "log":
        low, high = ax.get_ylim()
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        steps = [m * 10.0**d for d in decades for m in (1, 2, 5) if low <= m * 10.0**d <= high]
        ax.set_yticks(steps)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_locator(NullLocator())


def tidy(ax: Axes) -> None:
    """Take away the frame's upper and right edge, and draw a pale grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(visible=True, which="major", color="#eeeeee", lw=0.8)
    ax.set_axisbelow(True)


def short(text: str, limit: int = 30) -> str:
    """Return a text cut to so many letters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
