"""Entry point of the dptransfer command.

Ctrl-C and SIGTERM, which schedulers send, may come at any moment. So nothing heavy is imported before there
is somebody to hear them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dptransfer.cli.signals import catch_sigterm, exit_code_of, stop_word

if TYPE_CHECKING:
    from dptransfer.cli.commands import app as app


def run() -> None:
    """Run the command that the process was called with."""
    try:
        catch_sigterm()
        from dptransfer.cli.commands import app

        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal that cannot show ε shows a question mark
                stream.reconfigure(errors="replace")
        app(prog_name="dptransfer")
    except KeyboardInterrupt as stopped:  # outside of any command, which says more
        print(f"Error: {stop_word(stopped)}.", file=sys.stderr)
        sys.exit(exit_code_of(stopped))


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name != "app":
            raise AttributeError(f"module 'dptransfer.cli.main' has no attribute {name!r}")
        from dptransfer.cli.commands import app

        return app
