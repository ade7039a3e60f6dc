"""What stops a command from outside: Ctrl-C, and SIGTERM, which is told apart by its words and exit code."""

from __future__ import annotations

import signal
from types import FrameType


class Terminated(KeyboardInterrupt):
    """Somebody, such as a scheduler, sent SIGTERM; everything ends as after Ctrl-C."""


def hear_termination() -> None:
    """Let SIGTERM raise `Terminated` in this process, whose main thread must ask for it."""
    signal.signal(signal.SIGTERM, _terminate)


def words_of(stopped: KeyboardInterrupt) -> str:
    """What happened, in a word."""
    return "Terminated" if isinstance(stopped, Terminated) else "Interrupted"


def exit_code_of(stopped: KeyboardInterrupt) -> int:
    """128 and the number of the signal, as shells have it."""
    return 143 if isinstance(stopped, Terminated) else 130


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough: what is to be closed is closed
    raise Terminated
