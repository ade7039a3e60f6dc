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
from dptransfer.data.reader_plugins import READERS, Reader, read_with
from dptransfer.errors import DPTransferError
from dptransfer.testing.contract import ContractBroken, require, run_checks
from dptransfer.testing.damage import damage_bytes

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
