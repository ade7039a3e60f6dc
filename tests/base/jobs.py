"""Work that worker processes can import: some of it kills whoever does it."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dptransfer.errors import DataError, MissingDependency


@dataclass(frozen=True)
class SumOfRows:
    rows: np.ndarray

    def __call__(self, piece: slice) -> int:
        return int(self.rows[piece].sum())


ROWS = np.arange(40 * 3).reshape(40, 3)
PIECES = [slice(start, start + 5) for start in range(0, 40, 5)]
SUMS = {number: int(ROWS[piece].sum()) for number, piece in enumerate(PIECES)}


@dataclass(frozen=True)
class SumThatKills(SumOfRows):
    """The first `deaths` who come here are killed in the middle; who has died is written in a folder."""

    folder: Path
    deaths: int = 1

    def __call__(self, piece: slice) -> int:
        for number in range(self.deaths):
            try:
                (self.folder / f"death-{number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(piece)


@dataclass(frozen=True)
class SumThatHangs(SumOfRows):
    """The first who comes here never ends."""

    folder: Path

    def __call__(self, piece: slice) -> int:
        try:
            (self.folder / "hung").touch(exist_ok=False)
        except FileExistsError:
            return super().__call__(piece)
        time.sleep(1000)
        raise AssertionError("It was to be ended.")


@dataclass(frozen=True)
class SlowSum(SumOfRows):
    seconds: float

    def __call__(self, piece: slice) -> int:
        time.sleep(self.seconds)
        return super().__call__(piece)


def die(piece: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def surroundings(piece: object) -> tuple[int, frozenset[int], str]:
    """Whose process it is, its cores, and its threads."""
    return os.getpid(), frozenset(os.sched_getaffinity(0)), os.environ["OPENBLAS_NUM_THREADS"]


def name_then_sleep(piece: int) -> int:
    if piece:
        time.sleep(1000)
    time.sleep(0.2)  # so that nobody does two
    return os.getpid()


class Odd(Exception):
    def __init__(self, one: int, other: int) -> None:
        super().__init__("of two")


def refuse(piece: str) -> None:
    if piece == "ours":
        raise DataError("It must be even; it is odd. Add one.")
    if piece == "missing":
        raise MissingDependency("pillow", "images", "This")
    if piece == "odd":
        raise Odd(1, 2)
    raise KeyError(piece)


def give_a_lock(piece: object) -> object:
    import threading

    return threading.Lock()
