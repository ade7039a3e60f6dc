"""Entry point of the dptransfer command, and how it ends after Ctrl-C and SIGTERM.

Both may come at any moment; schedulers send the second. So nothing heavy is imported before there is somebody
to hear them.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType


class Terminated(KeyboardInterrupt):
    """Somebody, such as a scheduler, sent SIGTERM; everything ends as after Ctrl-C."""


def run() -> None:
    """Run the command that the process was called with."""
    try:
        signal.signal(signal.SIGTERM, _terminate)
        from dptransfer.cli.commands import app

        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # a terminal that cannot show ε shows a question mark
                stream.reconfigure(errors="replace")
        app(prog_name="dptransfer")
    except KeyboardInterrupt as stopped:  # outside of any command, which says more
        print(f"Error: {stop_word(stopped)}.", file=sys.stderr)
        sys.exit(exit_code_of(stopped))


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: what is to be closed is closed
    raise Terminated


def stop_word(problem: KeyboardInterrupt) -> str:
    """What happened: 'Terminated' or 'Interrupted'."""
    return "Terminated" if isinstance(problem, Terminated) else "Interrupted"


def exit_code_of(problem: BaseException) -> int:
    """Exit code 2, or for a signal 128 and its number, as shells have it."""
    if isinstance(problem, Terminated):
        return 143
    return 130 if isinstance(problem, KeyboardInterrupt) else 2
