"""The ``distp`` command: its sub-commands."""

from __future__ import annotations

import typer

from distp import __version__
from distp.cli import audit, compare, demo, fit, protect, query, reproduce

app = typer.Typer(
    name="distp",
    help="Hide which distribution a reported value was drawn from, with certified (epsilon, delta).\n\n"
    "Start with: distp demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (demo, fit, protect, query, audit, compare, reproduce):
    app.command(module.NAME, epilog=f"Example: [bold]{module.EXAMPLE}[/bold]")(module.run)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"distp {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass
