"""Decode untrusted images in a subprocess with a timeout.

It is for a second attempt, after whoever tried before has died: a reader of pictures that crashes takes its
process along, and one that hangs inside C code can be ended in no other way. A picture that does either
cannot be read, as any other damaged one.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock, Timer
from typing import IO, TYPE_CHECKING

from dptransfer.base.worker_env import environment_beside
from dptransfer.data.grey_levels import GreyRange
from dptransfer.errors import DataError
from dptransfer.sources.decode import open_image, without_warnings

if TYPE_CHECKING:
    from PIL import Image

SECONDS = 60
"""For one picture; Pillow refuses those of over 179 megapixels, which take seconds."""

_NO_ANSWER = (
    "A picture must be opened within a minute, without a crash; this one was not. Repair or remove it."
)
_COMMAND = f"from {__name__} import serve; serve()"


class SandboxedDecoder:
    """Opens pictures, one at a time, from whatever threads; close it at the end.

    Args:
        grey_range: as `open_image` takes it.
        seconds: the longest that a picture may take.
    """

    def __init__(self, grey_range: GreyRange | None = None, *, seconds: float = SECONDS) -> None:
        self._grey_range, self._seconds = grey_range, seconds
        self._turn = Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def __call__(self, path: Path) -> Image.Image:
        """The picture, as `open_image` gives it; raises for one that cannot be read."""
        with self._turn:
            found = self._answer(path)
        if found is None:
            raise DataError(_NO_ANSWER)
        return found

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            with self._child as child:  # closes the pipes, and waits
                child.kill()
            self._child = None

    def _answer(self, path: Path) -> Image.Image | None:
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", _COMMAND],  # nothing is imported from the folder we are in
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # readers written in C say there what they think of a file
                env=environment_beside(),
            )
            pickle.load(_stream(self._child.stdout))  # it is up: its start is not the picture's time
        limit = Timer(self._seconds, self._child.kill)
        limit.start()
        try:
            _put(_stream(self._child.stdin), (path, self._grey_range))
            found: Image.Image | None = pickle.load(_stream(self._child.stdout))
            return found
        except (EOFError, OSError, pickle.UnpicklingError):  # it died
            with suppress(OSError):
                self.close()
            return None
        finally:
            limit.cancel()


def serve() -> None:
    """Answer each path on standard input with its picture, or None, until nobody asks any more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nobody else writes among the answers
    _put(answers, None)
    with without_warnings(), suppress(EOFError, OSError):
        while True:
            path, grey_range = pickle.load(sys.stdin.buffer)
            alarm(2 * SECONDS)  # whoever asked lives or not
            try:
                found = open_image(path, grey_range)
                found.load()
            except Exception:  # readers raise many types on damaged files
                found = None
            alarm(0)  # it may be long until the next one
            _put(answers, found)


def alarm(seconds: int) -> None:
    """End this process after so many seconds, in the middle of C code if need be; 0: do not."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _put(stream: IO[bytes], what: object) -> None:
    pickle.dump(what, stream)
    stream.flush()


def _stream(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
