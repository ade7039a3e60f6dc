"""What every reader must keep: the same rows each time, and damage that is refused, bounded and never run."""

from __future__ import annotations

import io
import pickle
import random
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from dptransfer.data import RawTable
from dptransfer.errors import DPTransferError
from dptransfer.sources.file_types import READERS, Reader, read_with
from dptransfer.testing.contract import ContractBroken, require, run_checks

EDGES = (
    b"\xff" * 8,
    b"\0" * 8,
    b"\xff" * 7 + b"\x7f",
    b"\0" * 7 + b"\x80",
    b"99999999",
    b"-1",
    b"1e999",
    b"nan",
)
"""Numbers at the edges, as eight bytes or as text."""


def damage_bytes(content: bytes, dice: random.Random, donor: bytes = b"") -> bytes:
    """The bytes after one or a few accidents; `donor` is where spliced-in pieces come from."""
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 1, 2, 5, 30))):
        if not changed:
            break
        dice.choice(_ACCIDENTS)(changed, dice, donor or bytes(content))
    return bytes(changed)


def _flip(content: bytearray, dice: random.Random, donor: bytes) -> None:
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)


def _overwrite(content: bytearray, dice: random.Random, donor: bytes) -> None:
    content[dice.randrange(len(content))] = dice.randrange(256)


def _remove(content: bytearray, dice: random.Random, donor: bytes) -> None:
    start = dice.randrange(len(content))
    del content[start : start + dice.randrange(1, 40)]


def _truncate(content: bytearray, dice: random.Random, donor: bytes) -> None:
    del content[dice.randrange(len(content)) :]


def _insert(content: bytearray, dice: random.Random, donor: bytes) -> None:
    start = dice.randrange(len(content))
    content[start:start] = dice.randbytes(dice.randrange(1, 20))


def _repeat(content: bytearray, dice: random.Random, donor: bytes) -> None:
    start = dice.randrange(len(content))
    piece = content[start : start + dice.randrange(1, 200)]
    content[start:start] = piece


def _splice(content: bytearray, dice: random.Random, donor: bytes) -> None:
    start, taken = dice.randrange(len(content)), dice.randrange(len(donor))
    length = dice.choice((1, 8, 64, 512))
    content[start : start + length] = donor[taken : taken + length]


def _edge(content: bytearray, dice: random.Random, donor: bytes) -> None:
    start, number = dice.randrange(len(content)), dice.choice(EDGES)
    content[start : start + len(number)] = number


def _edge_early(content: bytearray, dice: random.Random, donor: bytes) -> None:
    """Sizes, counts and offsets stand in a file's first bytes, or in its last."""
    start, number = dice.randrange(min(96, len(content))), dice.choice(EDGES)
    if dice.random() < 0.5:
        start = len(content) - 1 - start
    content[start : start + len(number)] = number


def _break_text(content: bytearray, dice: random.Random, donor: bytes) -> None:
    """A byte that is not UTF-8 where there are letters."""
    start = dice.randrange(len(content))
    for place in range(start, min(start + 400, len(content))):
        if chr(content[place]).isalpha():
            content[place] = dice.choice((0xFF, 0x80, 0xC3))
            return


def _digits(content: bytearray, dice: random.Random, donor: bytes) -> None:
    """Another digit where there is one."""
    start = dice.randrange(len(content))
    for place in range(start, min(start + 400, len(content))):
        if 48 <= content[place] <= 57:
            content[place : place + 1] = dice.choice((b"0", b"9", b"-1", b"99999999999", b"1e9", b"."))
            return


_ACCIDENTS = (
    _flip, _overwrite, _remove, _truncate, _insert, _repeat, _splice, _edge, _edge_early, _break_text, _digits
)  # fmt: skip


_SLOWEST = 20.0  # seconds for a file of a few kilobytes
_ROOM = 2**26  # bytes that reading may take, beside a multiple of the file's size
_TIMES = 64


@dataclass(frozen=True)
class _Trial:
    read: Reader
    example: Path
    rows: Any
    labels: Any
    cases: int
    seed: int


def check_reader(
    reader: Reader | str,
    example: str | Path,
    *,
    rows: Any,
    labels: Any = None,
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
    trial = _Trial(read, Path(example), np.asarray(rows), labels, cases, seed)
    run_checks(trial, f"The reader of '{trial.example.suffix}'", READER_CHECKS, skip)


def _check_rows(trial: _Trial) -> None:
    before = trial.example.read_bytes()
    names = sorted(path.name for path in trial.example.parent.iterdir())
    for _ in range(2):
        table = read_with(trial.read, trial.example)
        require(np.array_equal(np.asarray(table.rows), trial.rows), "its rows are not those of the example")
        wanted = None if trial.labels is None else np.asarray(trial.labels)
        found = None if table.labels is None else np.asarray(table.labels)
        same = wanted is found or (wanted is not None and found is not None and np.array_equal(wanted, found))
        require(same, "its labels are not those of the example")
        require(trial.labels is not None or table.labels is None, "it finds labels where there are none")
    require(trial.example.read_bytes() == before, "reading changes the file")
    require(sorted(path.name for path in trial.example.parent.iterdir()) == names, "reading leaves files")


def _check_damage(trial: _Trial) -> None:
    whole = trial.example.read_bytes()
    with _copy(trial) as path:
        for number in range(trial.cases):
            path.write_bytes(damage_bytes(whole, random.Random(f"{trial.seed}/{number}")))
            began = time.monotonic()
            _read_anything(trial, path, f"damaged file {number}")
            require(
                time.monotonic() - began < _SLOWEST, f"damaged file {number} takes {_SLOWEST:g} s to read"
            )
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
        raise ContractBroken(
            f"{named}: it raises {type(problem).__name__}, which is no error of the library"
        ) from problem
    else:
        require(isinstance(table, RawTable) and rows.dtype.kind != "O", f"{named}: its rows are objects")


class _Poison:
    """An object that notes that it was unpickled."""

    unpickled = False

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
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
    called: list[str] = []

    def watch(name: str) -> Any:
        real = getattr(pickle, name)

        def call(*given: Any, **named: Any) -> Any:
            called.append(name)
            return real(*given, **named)

        return mock.patch.object(pickle, name, call)

    _Poison.unpickled = False
    with _copy(trial) as path, watch("load"), watch("loads"):
        for content in _poisoned_files(trial):
            path.write_bytes(content)
            _read_anything(trial, path, "a file with a pickle in it")
            require(not called, f"it calls pickle.{'' if not called else called[0]}, which may run anything")
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
