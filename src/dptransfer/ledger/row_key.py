"""The secret key of a ledger: a file of its own beside the ledger, never inside it.

Ids of data sets and sketches of rows are keyed hashes, and rows can be guessed: whoever has the hashes and
their key can test whether a row they know is in a data set. So the two are kept apart. The ledger's file can
be shown to an auditor, who checks the chain and reads charges and budgets; `<ledger>.key` stays with the
owner.

The ledger holds a commitment to the key, HMAC(key, fixed text), which says nothing about it and shows a key
of another ledger. The key is made first, and a key without a ledger is taken for the ledger that is made
next: so a crash between the two files does no harm, and processes that create a ledger at once agree on one
key.
"""

from __future__ import annotations

import glob
import hmac
import logging
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dptransfer.data.atomic_files import sync_folder, write_synced
from dptransfer.errors import LedgerError

SIZE = 32
_PURPOSE = b"dptransfer ledger row key"
_LOG = logging.getLogger("dptransfer")


def key_path(ledger: Path) -> Path:
    """Where the key of this ledger lies."""
    return Path(f"{ledger}.key")


def commitment(key: bytes) -> str:
    """Commitment to the key, kept in the ledger's file: enough to recognise the key, and nothing else.

    >>> commitment(bytes(32)) == commitment(bytes(32)), commitment(bytes(32)) == commitment(bytes(31) + b"x")
    (True, False)
    """
    return hmac.digest(key, _PURPOSE, "sha256").hex()


def make_key(ledger: Path) -> bytes:
    """The key for a ledger that is to be made: the one that lies there already, or a new one."""
    place = key_path(ledger)
    if not place.exists():
        with draft_beside(place) as draft:
            write_synced(Path(draft), secrets.token_bytes(SIZE).hex().encode() + b"\n", mode="wb")
            move_to_free_place(draft, place)
            sync_folder(place.parent)
    for left in place.parent.glob(f".{glob.escape(place.name)}-*"):  # drafts of processes that were killed
        with suppress(OSError):  # whoever is still at one finds the key there, and needs it no more
            left.unlink()
    return _read(place)


def read_key(ledger: Path, committed: str) -> bytes:
    """The key that this ledger was made with; LedgerError if it is missing or another's."""
    place = key_path(ledger)
    if not place.exists():
        raise LedgerError(
            f"The ledger {ledger} needs its key to recognise data sets and rows; there is no file {place}. "
            "Restore it from a backup or from where the ledger was copied from; nothing can be charged "
            "without it. Commands that only read work: dptransfer ledger show, history, verify."
        )
    key = _read(place)
    if not hmac.compare_digest(commitment(key).encode(), committed.encode()):
        raise LedgerError(
            f"{place} is the key of another ledger than {ledger}. Put back the key that belongs to it."
        )
    _close_to_others(place)
    return key


@contextmanager
def draft_beside(place: Path) -> Iterator[str]:
    """An empty file for its owner only, in the same folder; removed at the end, if it still has that name."""
    handle, draft = tempfile.mkstemp(prefix=f".{place.name}-", dir=place.parent)
    os.close(handle)
    try:
        yield draft
    finally:
        Path(draft).unlink(missing_ok=True)


def move_to_free_place(draft: str, path: Path) -> bool:
    """Give a finished file its name, unless the name is taken; then False."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a disk without hard links: take the name first, then fill it
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        os.replace(draft, path)
    return True


def _read(place: Path) -> bytes:
    content = place.read_bytes()[: 4 * SIZE]
    if not re.fullmatch(rb"[0-9a-f]{%d}\s*" % (2 * SIZE), content):
        raise LedgerError(
            f"A key is {2 * SIZE} hexadecimal digits; {place} holds something else. Restore it."
        )
    return bytes.fromhex(content.decode())


def _close_to_others(place: Path) -> None:
    """Make the key unreadable for other users; a group is the owner's choice."""
    if os.name != "posix" or not place.stat().st_mode & stat.S_IRWXO:
        return
    try:
        place.chmod(stat.S_IMODE(place.stat().st_mode) & ~stat.S_IRWXO)
    except OSError:
        done = "and that could not be changed"
    else:
        still = place.stat().st_mode & stat.S_IRWXO
        done = "and its disk has no modes" if still else "and now is not any more"
    _LOG.warning("Every user here could read %s, %s. Who has it can test who is in the data.", place, done)
