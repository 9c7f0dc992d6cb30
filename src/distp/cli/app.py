"""The ``distp`` command: its sub-commands, each loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from distp import __version__

COMMANDS = ("demo", "fit", "protect", "query", "audit", "compare", "reproduce")
_STYLE: dict[str, Any] = {"rich_markup_mode": "rich", "add_completion": False, "pretty_exceptions_enable": False}


class Commands(TyperGroup):
    """The sub-commands by name: who asks for one tuple does not wait for what draws figures."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as the base class calls it
        """Return their names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return one of them, or None."""
        # Of an unknown name it is said which known ones are like it.
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.commands[name] = _loaded(name)
        return super().get_command(ctx, cmd_name)


def _loaded(name: str) -> Any:
    module = import_module(f"distp.cli.{name}")
    alone = typer.Typer(**_STYLE)
    alone.command(module.NAME, epilog=f"Example: [bold]{module.EXAMPLE}[/bold]")(module.run)
    return get_command(alone)


app = typer.Typer(
    name="distp",
    cls=Commands,
    help="Hide which distribution a reported value was drawn from, with certified (epsilon, delta).\n\n"
    "Start with: distp demo",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    **_STYLE,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"distp {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass
