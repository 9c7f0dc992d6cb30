"""The door of the ``distp`` command: what can go wrong ends in one line and an exit code."""

from __future__ import annotations

import os
import sys

INTERRUPTED, CUT_OFF = 130, 141  # as a shell reports SIGINT and SIGPIPE


def main() -> None:
    """Run the command line. Bad input is one line and exit code 2; 1 means that a claim does not hold."""
    try:
        sys.exit(_run())
    except KeyboardInterrupt:  # also while the command is still loading
        sys.exit(INTERRUPTED)


def _run() -> int:
    import typer

    from distp.cli.app import app
    from distp.errors import DistpError

    bad_usage: type[Exception] = typer.BadParameter.__bases__[0]  # what all bad options are
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except DistpError as error:
        return _complain(str(error))
    except bad_usage as error:
        return _complain(f"{error.format_message()} (see distp --help)")  # type: ignore[attr-defined]
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output left (a pager, head): nothing to say, and nobody to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CUT_OFF
    except OSError as error:
        return _complain(f"cannot write the output: {error.strerror or error}")
    return code if isinstance(code, int) else 0


def _complain(text: str) -> int:
    sys.stderr.write(f"distp: {' '.join(text.split())}\n")
    return 2
