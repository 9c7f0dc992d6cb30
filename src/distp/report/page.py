"""One self-contained HTML page and its figures."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from distp.calibration import Compared
from distp.calibration.curves import DummiesCurve
from distp.certificates import Certificate
from distp.distributions import Pair
from distp.errors import DataError
from distp.files import replacing
from distp.privacy import Bracket
from distp.report import figures
from distp.spaces import Regions

DPI = 130


@dataclass(frozen=True, eq=False)
class Study:
    """Everything that the report shows; all of it computed elsewhere.

    Attributes
    ----------
    title : str
    regions : Regions
    pairs : sequence of Pair
    mechanism : str
        In words.
    certificate : Certificate
    curves : sequence of DummiesCurve
        One for each pair.
    comparison : sequence of Compared
    read : sequence of str
        What was read and what was set aside, in lines.
    """

    title: str
    regions: Regions
    pairs: Sequence[Pair]
    mechanism: str
    certificate: Certificate
    curves: Sequence[DummiesCurve]
    comparison: Sequence[Compared]
    read: Sequence[str]


@dataclass(frozen=True)
class _Shown:
    title: str
    file: str
    caption: str
    data: str


def write_report(folder: str | Path, study: Study) -> Path:
    """Write ``report.html`` and the PNG figures into ``folder``; return the page's path.

    Every file is written whole or not at all; the page comes last, so that one that is there is complete.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {place}: {error.strerror}") from None
    shown = [_save(place, *figure) for figure in _figures(study)]
    for kind in ("map", "dummies", "attack"):  # of an earlier report with other attributes
        for old in place.glob(f"{kind}*.png"):
            if old.name not in {figure.file for figure in shown}:
                old.unlink()
    environment = Environment(
        loader=PackageLoader("distp.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html = environment.get_template("report.html").render(
        study=study, certificate=study.certificate, figures=shown, up=lambda value: Bracket(0, value).claim()
    )
    page = place / "report.html"
    with replacing(page) as temporary:
        temporary.write_text(html, encoding="utf-8")
    return page


def _figures(study: Study) -> list[tuple[str, str, str, Figure]]:
    made = []
    several = len(study.pairs) > 1
    for number, (pair, curve) in enumerate(zip(study.pairs, study.curves, strict=True), start=1):
        tail = f"-{number}" if several else ""
        made += [
            (
                f"The two distributions: {pair.name}",
                f"map{tail}.png",
                "Where a report comes from with the attribute and without it. Grey cells form the ring: they can "
                "be reported but hold no input. The third panel is what an attacker works with.",
                figures.map_figure(study.regions, pair),
            ),
            (
                f"How many dummies: {pair.name}",
                f"dummies{tail}.png",
                "The upper end of the exact epsilon of the whole tuple. Theorem 3 of the paper is the bound that "
                "was known before; where its line is missing it proves nothing.",
                figures.dummies_figure(curve, study.certificate),
            ),
            (
                f"The attacker: {pair.name}",
                f"attack{tail}.png",
                "How often the best possible attacker, who knows both distributions and the mechanism, is right "
                "about people with and without the attribute in equal number.",
                figures.attack_figure(curve, study.certificate, pair.name),
            ),
        ]
    if study.comparison:
        made.append(
            (
                "What privacy costs",
                "loss.png",
                "Each mechanism at its least expected loss for the same (ε, δ). The loss of a tuple is the "
                "distance to its nearest element.",
                figures.loss_figure(study.comparison),
            )
        )
    return made


def _save(folder: Path, title: str, name: str, caption: str, figure: Figure) -> _Shown:
    buffer = io.BytesIO()
    # No date and no software version inside: the same numbers give the same bytes.
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    with replacing(folder / name) as temporary:
        temporary.write_bytes(buffer.getvalue())
    return _Shown(title, name, caption, base64.b64encode(buffer.getvalue()).decode("ascii"))
