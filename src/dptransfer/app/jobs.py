"""Run one piece of work in the background, with its progress, and stop it on request."""

from __future__ import annotations

import threading
import time
import traceback
import warnings
from collections.abc import Callable

from dptransfer.app.choices import Screen
from dptransfer.base.progress import reported_to, shown_on
from dptransfer.cli.screen import one_line
from dptransfer.errors import DPTransferError, PrivacyWarning


class JobStopped(KeyboardInterrupt):
    """Somebody pressed Stop; the work ends as after Ctrl-C."""


class Job:
    """Work on a thread of its own. What it shows is a share, never a count of private examples.

    Attributes:
        what: is being done, in words.
        screen: where it was started, which shows what went wrong.
        then: the screen that follows.
        share: how much of the present step is done, from 0 to 1.
        step: the present step, in words.
        problem: what went wrong, on one line.
        notes: warnings, one line each.
    """

    def __init__(self, what: str, work: Callable[[], None], *, screen: Screen, then: Screen) -> None:
        self.what, self.screen, self.then = what, screen, then
        self.step, self.share, self.problem = what, 0.0, ""
        self.notes: list[str] = []
        self._work, self._stop, self._started = work, threading.Event(), time.monotonic()
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it is not over."""
        return self._thread.is_alive()

    @property
    def seconds(self) -> int:
        """Since it was started."""
        return int(time.monotonic() - self._started)

    def stop(self) -> None:
        """Let it end at its next step."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> None:
        """Until it is over, but no longer than that."""
        self._thread.join(seconds)

    def _shown(self, step: str, share: float) -> None:
        if self._stop.is_set():
            raise JobStopped
        self.step, self.share = step, min(max(share, 0.0), 1.0)

    def _stepped(self, done: int, count: int, _: str) -> None:
        self._shown(self.step, done / max(count, 1))

    def _run(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PrivacyWarning)
            try:  # bars are shown, and steps that have no bar
                with shown_on(self._shown), reported_to(self._stepped):
                    self._work()
            except (DPTransferError, OSError, MemoryError, KeyboardInterrupt) as problem:
                self.problem = one_line(problem, "fit")
            except Exception as problem:
                traceback.print_exc()
                self.problem = f"The software failed ({type(problem).__name__}); the terminal shows where."
        self.notes = [one_line(one.message) for one in caught if isinstance(one.message, PrivacyWarning)]
