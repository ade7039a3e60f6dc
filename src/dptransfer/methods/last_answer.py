"""Number and digest of a run's last answer, in a file of their own, on the disk before the answer is used.

Answers are drawn once, so one that vanishes from its file must be missed. The record has two places that are
written in turn: one that is torn by a power cut leaves the other, which is one answer older. Writing in place
costs one flush and changes no folder.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dptransfer.data.on_disk import write_synced
from dptransfer.data.owner_only import owner_only

_PLACE = 512  # bytes that a disk writes whole


class LastAnswer:
    """The record of a run's last answer.

    Args:
        file: where it is.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def begin(self, chain: str) -> None:
        """Record that there is no answer yet; a file that is there is begun anew."""
        write_synced(self._file, _packed(0, chain) * 2, mode="wb", opener=owner_only)

    def write(self, number: int, chain: str) -> None:
        """Record an answer, and return when that is on the disk.

        Args:
            number: of the answer, one more than that of the record before.
            chain: digest of this answer and of all before it.
        """
        with open(self._file, "r+b", buffering=0) as stream:
            stream.seek(number % 2 * _PLACE)
            stream.write(_packed(number, chain))
            getattr(os, "fdatasync", os.fsync)(stream.fileno())

    def read(self, there: int) -> tuple[int, str]:
        """Number and digest of the last answer on record.

        Args:
            there: how many answers the run has: the one after the last on record may be there, if the process
                ended in between.

        Raises:
            ValueError: the record is damaged, or answers are missing or too many.
        """
        content = self._file.read_bytes()
        places = [_unpacked(content[start : start + _PLACE]) for start in (0, _PLACE)]
        whole = sorted(place for place in places if place is not None)
        if len(content) != 2 * _PLACE or not whole:
            raise ValueError("the record is damaged")
        number, chain = whole[-1]
        torn = len(whole) == 1  # only while the next answer was recorded, which is there before its record
        if there not in ((number + 1,) if torn else (number, number + 1)) or number - whole[0][0] > 1:
            raise ValueError("the record is of other answers")
        return number, chain


def _packed(number: int, chain: str) -> bytes:
    text = f"{number} {chain}"
    return f"{text} {_digest(text)}".encode().ljust(_PLACE)


def _unpacked(place: bytes) -> tuple[int, str] | None:
    try:
        number, chain, digest = place.decode("ascii").split()
        return (int(number), chain) if digest == _digest(f"{number} {chain}") else None
    except ValueError:
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
