"""The page, figures and tables of one or several experiments."""

from __future__ import annotations

import base64
import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, fields
from pathlib import Path

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from distp.errors import DataError, ParameterError
from distp.experiments import Experiment
from distp.experiments.records import TABLES, columns
from distp.files import replacing
from distp.report import experiment_figures as draw
from distp.report.page import DPI

KINDS: tuple[tuple[str, str, Callable[[Experiment], Figure], str], ...] = (
    (
        "epsilon",
        "Epsilon against the number of dummies, ε_A and r",
        draw.epsilon_figure,
        "Upper ends of the exact epsilon of the whole tuple; the black line is ε = 1. Where a line begins or "
        "breaks, epsilon is infinite beside it: no epsilon reaches this δ. Theorem 3 is drawn where it proves "
        "anything. Grey: what chance alone makes between two halves of the people of one class, for the "
        "restricted Laplace base. Sampled marks are from simulated reports of the restricted Laplace tuples; the "
        "quantile is probabilistic DP, which is not the (ε, δ) value and lies above it.",
    ),
    (
        "attack",
        "Epsilon against attack success",
        draw.attack_figure,
        "Each line runs along the number of dummies, few at the right. Lines: the best attacker, who knows the "
        "distributions of the very people attacked. Dots: an attacker who learnt from the train people, on "
        "simulated reports of the real check-ins of test people, with a 95 % interval over people. Thin grey: 0.5 "
        "and ε = 1.",
    ),
    (
        "loss",
        "Epsilon against expected loss",
        draw.loss_figure,
        "Lines: each mechanism over its own parameter (tuples of the restricted Laplace over ε_A, at the default "
        "number of dummies and r; the true region among dummies never loses anything). Marks: calibrated on the "
        "train people, each at its least loss.",
    ),
    (
        "held-out",
        "What a calibrated epsilon is on other people",
        draw.held_out_figure,
        "Every mechanism was brought to the epsilon on the horizontal axis on the train people. Marks above the "
        "black line: less private on others than stated. A mark is missing where epsilon is infinite on the test "
        "people. Grey: the same mechanism between two halves of one class, where there is nothing to tell apart.",
    ),
    (
        "cost",
        "What a mechanism holds",
        draw.cost_figure,
        "A restricted Laplace base keeps only the regions within r of each other; dense mechanisms keep all.",
    ),
)
SUMMARY = (
    "Every attribute of every city at the paper's working point, ε = 1. First panel: calibrated on the train "
    "people. Second: what that epsilon is on the test people (missing: infinite). Third: the paper's attack "
    "success rate for tuples calibrated to ε = 1, on test people. Fourth: the least number of dummies (for the "
    "restricted Laplace base of the settings; none is drawn as one); Theorem 3 is missing where it needs more "
    "than was searched."
)


class _Shown:
    """A figure on the page."""

    def __init__(self, title: str, file: str, caption: str, data: str) -> None:
        self.title, self.file, self.caption, self.data = title, file, caption, data


def write_experiments(
    folder: str | Path, experiments: Sequence[Experiment], read: Mapping[str, Sequence[str]], title: str
) -> Path:
    """Write ``index.html``, the figures (PNG and SVG) and the tables (CSV) into ``folder``; return the page's path.

    Parameters
    ----------
    folder : str or Path
        Made if it does not exist.
    experiments : sequence of Experiment
        One for each city.
    read : mapping of str to sequence of str
        What was read for each city and what was set aside, in lines.
    title : str

    Returns
    -------
    Path

    Raises
    ------
    DataError
        The folder cannot be made or written to.
    ParameterError
        No experiment, or two of the same city.

    Notes
    -----
    Every file is written whole or not at all, the page last. Two runs with the same data and seed give the same
    bytes, except ``times.csv``: measured times stand there and nowhere else.
    """
    if not experiments:
        raise ParameterError("there is no experiment to write")
    cities = [one.city for one in experiments]
    if len(set(cities)) < len(cities):
        raise ParameterError("two experiments have the same city")
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {place}: {error.strerror}") from None
    for name, (_, record) in TABLES.items():
        rows = (astuple(row) for one in experiments for row in one.tables[name])
        _table(place / f"{name}.csv", columns(record), rows)
    _table(place / "settings.csv", ("city", "setting", "value"), _settings(experiments))
    summary = _save(place, "All attributes at ε = 1", "summary", SUMMARY, draw.summary_figure(experiments))
    shown = {
        one.city: [_save(place, words, f"{kind}-{name}", caption, make(one)) for kind, words, make, caption in KINDS]
        for one, name in zip(experiments, _names(cities), strict=True)
    }
    environment = Environment(
        loader=PackageLoader("distp.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["num"] = number
    html = environment.get_template("experiments.html").render(
        title=title, experiments=experiments, summary=summary, figures=shown, read=read, tables=list(TABLES)
    )
    page = place / "index.html"
    with replacing(page) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return page


def number(value: float | None, digits: int = 3) -> str:
    """Write a number for the page: ``∞`` where it is infinite, a dash where there is none.

    Examples
    --------
    >>> number(0.12345), number(float("inf")), number(None)
    ('0.123', '∞', '–')
    """
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞"
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}"


def _settings(experiments: Sequence[Experiment]) -> Iterable[tuple[object, ...]]:
    for one in experiments:
        for field in fields(one.settings):
            value = getattr(one.settings, field.name)
            yield one.city, field.name, " ".join(map(str, value)) if isinstance(value, tuple) else value


def _table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _names(cities: Sequence[str]) -> list[str]:
    """Return a part of a file name for each city, no two alike."""
    found: list[str] = []
    for place, city in enumerate(cities, start=1):
        name = re.sub(r"[^a-z0-9]+", "-", city.lower()).strip("-")
        found.append(name if name and name not in found else f"{name or 'city'}-{place}")
    return found


def _save(folder: Path, title: str, name: str, caption: str, figure: Figure) -> _Shown:
    """Write a figure twice, without dates, versions or random names: the same numbers give the same bytes."""
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=DPI, metadata={"Software": None})
    with mpl.rc_context({"svg.hashsalt": f"distp {name}"}):
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    for buffer, ending in ((png, "png"), (svg, "svg")):
        with replacing(folder / f"{name}.{ending}") as temporary:
            temporary.write_bytes(buffer.getvalue())
    return _Shown(title, f"{name}.png", caption, base64.b64encode(png.getvalue()).decode("ascii"))
