"""Output to people and machines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

QUIET_SECONDS = 2.0


def say(text: str = "") -> None:
    """Print one line for a person."""
    typer.echo(text)


def warn(text: str) -> None:
    """Print one line that must not be overlooked: red, where the terminal has colours."""
    typer.secho(text, fg=typer.colors.RED, bold=True)


def emit(data: Any) -> None:
    """Print JSON for a machine."""
    typer.echo(json.dumps(data, indent=2, allow_nan=False, default=str))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "   ") -> None:
    """Print rows in columns: numbers flush right, words flush left."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    number = [all(_is_number(row[i]) for row in rows) for i in range(len(header))]
    for line in lines:
        cells = [
            cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(line, widths, number, strict=True)
        ]
        say((indent + "  ".join(cells)).rstrip())


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback (done, total) that draws a bar once the work has lasted two seconds, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what)
    started, shown = time.monotonic(), False

    def step(done: int, total: int) -> None:
        nonlocal shown
        if not shown and time.monotonic() - started > QUIET_SECONDS:
            bar.start()
            shown = True
        bar.update(task, completed=done, total=total)

    try:
        yield step
    finally:
        bar.stop()
