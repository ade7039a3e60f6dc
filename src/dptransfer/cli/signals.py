"""SIGTERM as an exception, words and exit codes for it and for Ctrl-C; imports nothing heavy."""

from __future__ import annotations

import signal
from types import FrameType


class Terminated(KeyboardInterrupt):
    """Somebody, such as a scheduler, sent SIGTERM; everything ends as after Ctrl-C."""


def catch_sigterm() -> None:
    """Let SIGTERM raise `Terminated` in this process, whose main thread must ask for it."""
    signal.signal(signal.SIGTERM, _terminate)


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
