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
    with _bar(what, counted=True) as update:
        yield lambda done, total: update(done, total, "")


@contextmanager
def working(what: str, unit: str) -> Iterator[Callable[[int, int, int], None]]:
    """Yield a callback (done, total, items so far) that draws such a bar with items and their rate."""
    began, first = time.monotonic(), -1
    with _bar(what, counted=False) as update:

        def step(done: int, total: int, items: int) -> None:
            nonlocal began, first
            if first < 0:  # what was there before, and the start itself, are no part of the rate
                began, first = time.monotonic(), items
            passed = time.monotonic() - began
            rate = f", {(items - first) / passed:,.0f} a second" if passed > 0 and items > first else ""
            update(done, total, f"{items:,} {unit}{rate}")

        yield step


@contextmanager
def _bar(what: str, *, counted: bool) -> Iterator[Callable[[int, int, str], None]]:
    if not sys.stderr.isatty():
        yield lambda _done, _total, _note: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn() if counted else TaskProgressColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, note="")
    started, shown = time.monotonic(), False

    def update(done: int, total: int, note: str) -> None:
        nonlocal shown
        if not shown and time.monotonic() - started > QUIET_SECONDS:
            bar.start()
            shown = True
        bar.update(task, completed=done, total=total, note=note)

    try:
        yield update
    finally:
        bar.stop()
