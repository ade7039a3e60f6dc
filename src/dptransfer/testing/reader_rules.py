"""Contract of readers: the same rows each time; damaged files are refused, bounded and never run."""

from __future__ import annotations

import io
import pickle
import random
import re
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import ArrayLike

from dptransfer.base.types import AnyArray
from dptransfer.data import RawTable
from dptransfer.errors import DPTransferError
from dptransfer.sources.readers import READERS, Reader, read_with
from dptransfer.testing.contract import ContractBroken, require, run_checks

EDGES = [b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f", b"\0" * 7 + b"\x80"]
EDGES += [b"99999999", b"-1", b"1e999", b"nan"]
"""Numbers at the edges, as eight bytes or as text."""


def damage_bytes(content: bytes, dice: random.Random, donor: bytes = b"") -> bytes:
    """The bytes after one or a few accidents; `donor` is where spliced-in pieces come from."""
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 1, 2, 5, 30))):
        if not changed:
            break
        start, length, new = dice.choice(_accidents(bytes(changed), dice, donor or content))
        changed[start : start + length] = new
    return bytes(changed)


def _accidents(content: bytes, dice: random.Random, donor: bytes) -> list[tuple[int, int, bytes]]:
    """What may happen: where a piece of the bytes starts, how long it is, and what takes its place."""
    start, taken, edge = dice.randrange(len(content)), dice.randrange(len(donor)), dice.choice(EDGES)
    early = dice.randrange(min(96, len(content)))  # sizes, counts and offsets stand in a file's first bytes,
    early = dice.choice((early, len(content) - 1 - early))  # or in its last
    piece, spliced = dice.randrange(1, 40), dice.choice((1, 8, 64, 512))
    found = [
        (start, 1, bytes([content[start] ^ 1 << dice.randrange(8)])),
        (start, 1, dice.randbytes(1)),
        (start, piece, b""),
        (start, len(content), b""),
        (start, 0, dice.randbytes(piece)),
        (start, 0, content[start : start + 5 * piece]),
        (start, spliced, donor[taken : taken + spliced]),
        (start, len(edge), edge),
        (early, len(edge), edge),
    ]
    not_utf8, numbers = (b"\xff", b"\x80", b"\xc3"), (b"0", b"9", b"-1", b"99999999999", b"1e9", b".")
    for pattern, instead in ((b"[A-Za-z]", not_utf8), (b"[0-9]", numbers)):
        if letter := re.compile(pattern).search(content, start, start + 400):
            found.append((letter.start(), 1, dice.choice(instead)))
    return found


_SLOWEST = 20.0  # seconds for a file of a few kilobytes
_ROOM = 2**26  # bytes that reading may take, beside a multiple of the file's size
_TIMES = 64


@dataclass(frozen=True)
class _Trial:
    read: Reader
    example: Path
    rows: AnyArray
    labels: AnyArray | None
    cases: int
    seed: int


def check_reader(
    reader: Reader | str,
    example: str | Path,
    *,
    rows: ArrayLike,
    labels: ArrayLike | None = None,
    cases: int = 200,
    seed: int = 0,
    skip: Collection[str] = (),
) -> None:
    """Raise `ContractBroken`, which is an AssertionError, unless a reader keeps every rule of readers.

    Args:
        reader: the function that takes a path, or the ending of an installed one, such as '.mat'.
        example: a whole file of a few kilobytes; only copies of it are damaged.
        rows: what it holds.
        labels: its labels, if it has some.
        cases: how many damaged copies are read.
        seed: of the damage.
        skip: rules of `READER_CHECKS` that do not apply; say why where you skip one.
    """
    read = READERS[reader.removeprefix(".")] if isinstance(reader, str) else reader
    known = None if labels is None else np.asarray(labels)
    trial = _Trial(read, Path(example), np.asarray(rows), known, cases, seed)
    run_checks(trial, f"The reader of '{trial.example.suffix}'", READER_CHECKS, skip)


def _check_rows(trial: _Trial) -> None:
    before = trial.example.read_bytes()
    names = sorted(path.name for path in trial.example.parent.iterdir())
    for _ in range(2):
        table = read_with(trial.read, trial.example)
        require(np.array_equal(np.asarray(table.rows), trial.rows), "its rows are not those of the example")
        found = None if table.labels is None else np.asarray(table.labels)
        require(trial.labels is not None or found is None, "it finds labels where there are none")
        if trial.labels is not None:
            same = found is not None and np.array_equal(found, trial.labels)
            require(same, "its labels are not those of the example")
    require(trial.example.read_bytes() == before, "reading changes the file")
    require(sorted(path.name for path in trial.example.parent.iterdir()) == names, "reading leaves files")


def _check_damage(trial: _Trial) -> None:
    whole = trial.example.read_bytes()
    with _copy(trial) as path:
        for number in range(trial.cases):
            path.write_bytes(damage_bytes(whole, random.Random(f"{trial.seed}/{number}")))
            began = time.monotonic()
            _read_anything(trial, path, f"damaged file {number}")
            seconds = time.monotonic() - began
            require(seconds < _SLOWEST, f"damaged file {number} takes {_SLOWEST:g} s to read")
        for content in (b"", b"\0", whole[:1], whole[: len(whole) // 2]):
            path.write_bytes(content)
            _read_anything(trial, path, f"a file of {len(content)} bytes")
        path.unlink()
        _read_anything(trial, path, "a file that is not there")


def _read_anything(trial: _Trial, path: Path, named: str) -> None:
    """Read a file to the last number: a table or an error of the library."""
    try:
        table = read_with(trial.read, path)
        rows = np.asarray(table.rows)
    except DPTransferError as refusal:
        require("\n" not in str(refusal), f"{named}: its message takes several lines")
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        kind = type(problem).__name__
        raise ContractBroken(f"{named}: it raises {kind}, which is no error of the library") from problem
    else:
        require(isinstance(table, RawTable) and rows.dtype.kind != "O", f"{named}: its rows are objects")


class _Poison:
    """An object that notes that it was unpickled."""

    unpickled = False

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _spread_poison, ()


def _spread_poison() -> None:
    _Poison.unpickled = True


def _poisoned_files(trial: _Trial) -> Iterator[bytes]:
    """The example, and pickles that run code: by themselves, in arrays, and beside the example."""
    yield trial.example.read_bytes()
    bare = [pickle.dumps(_Poison(), protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    yield from bare
    objects = np.array([_Poison(), _Poison()], dtype=object)
    for save in (np.save, np.savez, lambda file, array: np.savez(file, x=array, y=array, rows=array)):
        stream = io.BytesIO()
        save(stream, objects)
        yield stream.getvalue()
    whole = trial.example.read_bytes()
    yield whole + bare[-1]
    yield bare[-1] + whole


def _check_pickles(trial: _Trial) -> None:
    _Poison.unpickled = False
    watched = mock.patch.multiple(
        pickle, load=mock.Mock(wraps=pickle.load), loads=mock.Mock(wraps=pickle.loads)
    )
    with _copy(trial) as path, watched:
        for content in _poisoned_files(trial):
            path.write_bytes(content)
            _read_anything(trial, path, "a file with a pickle in it")
            for name in ("load", "loads"):
                called = getattr(pickle, name).called
                require(not called, f"it calls pickle.{name}, which may run anything")
            require(not _Poison.unpickled, "it unpickles, which may run anything that a file says")


def _check_sizes(trial: _Trial) -> None:
    whole = trial.example.read_bytes()
    room = _ROOM + _TIMES * len(whole)
    with _copy(trial) as path:
        _read_anything(trial, path, "the example")  # what is imported and kept for good is not counted
        for number in range(min(trial.cases, 200)):
            path.write_bytes(damage_bytes(whole, random.Random(f"{trial.seed}/{number}")))
            tracemalloc.start()
            try:
                _read_anything(trial, path, f"damaged file {number}")
                most = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            require(most < room, f"for {path.stat().st_size} damaged bytes it takes {most / 2**20:.0f} MiB")


@contextmanager
def _copy(trial: _Trial) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / trial.example.name
        path.write_bytes(trial.example.read_bytes())
        yield path


READER_CHECKS: Mapping[str, Callable[[_Trial], None]] = {
    "the example is read as it is, each time": _check_rows,
    "nothing is unpickled": _check_pickles,
    "damage is refused by an error of the library": _check_damage,
    "no size that a file claims is believed": _check_sizes,
}
"""Each rule, in words, with the function that raises where a reader breaks it."""
