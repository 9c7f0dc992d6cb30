"""The figure of tools/equal_held_out.py: loss against held-out delta, by attribute and number of dummies."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from distp.checks import FloatArray

DPI = 150
SHOWN = 1e-5, 0.1  # of deltas; the axis goes on, for the labels
AXIS = 1e-5, 0.7
# Colour, line, marks; which end is labelled (0: the least delta), and where the label starts, in points.
STYLES: dict[str, tuple[str, str, str, str, int, tuple[int, int]]] = {
    "RL, uniform dummies": ("RL, uniform dummies", "#222222", "-", "", 0, (4, 18)),
    "RL, mixture dummies": ("RL, mixture dummies", "#777777", "--", "", 0, (4, 6)),
    "optimal in-sample": ("optimal in-sample", "#c2410c", "-", "o", 0, (6, 4)),
    "found with confidence, uniform dummies": ("found, uniform dummies", "#4a90c4", "--", "o", -1, (6, 2)),
    "found with confidence, chosen dummies": ("found,\nchosen dummies", "#1f4e9c", "-", "o", -1, (-8, 0)),
}


def figure(curves: pl.DataFrame, delta: float, path: Path) -> None:
    """Draw the curves and write a PNG."""
    keys = curves.select("attribute", "dummies").unique(maintain_order=True).rows()
    made = Figure(figsize=(11, 8.4), layout="constrained")
    axes = made.subplots(2, 2, sharex=True, squeeze=False)
    for ax, (attribute, dummies) in zip(axes.flat, keys, strict=True):
        here = curves.filter(pl.col("attribute") == attribute, pl.col("dummies") == dummies)
        _panel(ax, here, delta)
        ax.set_title(f"{attribute}, {dummies} dummies", loc="left", fontsize=11)
    for ax in axes[-1]:
        ax.set_xlabel("delta at epsilon = 0.2 for held-out people, mean over halves")
    for ax in axes[:, 0]:
        ax.set_ylabel("expected loss of held-out people, km")
    made.savefig(path, dpi=DPI, metadata={"Software": None})


def _panel(ax: Axes, curves: pl.DataFrame, delta: float) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(*AXIS)
    ax.set_xticks([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.axvline(delta, color="#bbbbbb", lw=1, zorder=0)
    for method, (label, colour, line, mark, end, offset) in STYLES.items():
        x, y = _seen(curves.filter(pl.col("method") == method))
        if x.size:
            ax.plot(x, y, line, color=colour, lw=1.8, marker=mark, ms=3)
            at = float(x[end]), float(y[end])
            side = "left" if offset[0] > 0 else "right"
            ax.annotate(label, at, offset, textcoords="offset points", color=colour, fontsize=8, ha=side)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** 0.08)
    ax.annotate(
        f"{delta:g}",
        (delta, 0.01),
        (3, 0),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        color="#888888",
        fontsize=8,
    )
    ax.spines[["top", "right"]].set_visible(False)


def _seen(curve: pl.DataFrame) -> tuple[FloatArray, FloatArray]:
    shown = curve.filter(pl.col("held_out_delta").is_between(*SHOWN), pl.col("loss") > 0).sort("held_out_delta")
    return shown["held_out_delta"].to_numpy(), shown["loss"].to_numpy()


if __name__ == "__main__":  # draw again from the table alone
    folder = Path("docs/experiments/population")
    figure(pl.read_csv(folder / "equal-held-out.csv"), 0.001, folder / "equal-held-out.png")
