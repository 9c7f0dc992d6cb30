"""The report's figures. Each function returns a matplotlib Figure and touches no global state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import Colormap, Normalize, PowerNorm, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from distp.calibration import Compared
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
