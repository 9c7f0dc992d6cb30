"""The ``distp`` command and its errors."""

from __future__ import annotations

import sys

import typer

from distp import __version__
from distp.cli import audit, compare, demo, fit, protect, query
from distp.errors import DistpError

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
for module in (demo, fit, protect, query, audit, compare):
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


def main() -> None:
    """Run the command line; an error that a person can mend is one line and exit code 2."""
    try:
        app()
    except DistpError as error:
        typer.echo(f"distp: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output left (a pager, head): nothing to say, and nobody to say it to.
        sys.stderr.close()
        sys.exit(1)
