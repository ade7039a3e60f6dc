"""Checkpoint a fit so that it can resume under the same charge.

Every noisy answer is written to the folder, durably, before anything is computed from it; a run that is
started again reads the answers that are there and draws the others. So the whole is one run of the mechanisms
that were charged: each answer that anything was ever computed from was drawn once, in the same order, and the
charge covers it. An answer that was drawn but not yet written when the power failed was seen by nobody. Only
a choice among public rows is looked up before it is written, and that one was may show, by an error or by the
files that were read: its random bits have a key, which is on disk before, so that the same choice comes out.

What binds folder and charge: the folder holds a random number, written before the charge, and the ledger's
entry carries it. Charging again with the same number finds that entry instead of adding one, so a run may be
killed at any moment. The folder also holds what was asked for (method, settings, steps, facts, public rows,
version) and a digest of the private rows: with anything else it is refused, and nothing is charged.

The folder is private: its owner's alone, like the rows. Once the run is over, answers are read but no more
are drawn. It belongs to its place: a copy could draw the same answers a second time, and is refused, as is a
folder restored from a backup. The digest of the last answer stands in a second file (`last-answer`), and it
covers all answers and their order. So answers that are deleted, exchanged or restored from an older copy of
`run.sqlite` are missed, and never drawn again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from dptransfer.base import checks
from dptransfer.base.types import AnyArray
from dptransfer.data import atomic_files
from dptransfer.errors import DPTransferError, WorkspaceError
from dptransfer.noise import NoiseSource, race
from dptransfer.noise.integer_noise import KEY_BYTES, WordStream
from dptransfer.noise.race import Choice, ScoreBins

_FILE = "run.sqlite"
_LAST = "last-answer"
_PLACE_FILE = "place"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS request (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (number INTEGER PRIMARY KEY, what TEXT NOT NULL, sha256 TEXT NOT NULL,
                                    array BLOB NOT NULL);
"""


Pieces: TypeAlias = Callable[[Sequence[int]], Iterable[tuple[int, AnyArray]]]
"""Computes the arrays with these numbers."""


class Workspace:
    """The folder of one fit, held by one process at a time.

    Args:
        path: the folder; made, for its owner only, where there is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self._process = Path(path), os.getpid()
        self._charge, self._answers, self._chain = "", 0, ""
        file = self.path / _FILE
        with self._in_words():
            if not self.path.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                atomic_files.make_owner_folder(self.path)
            if self.path.is_dir() and atomic_files.others_may_look(self.path):
                raise WorkspaceError(
                    f"A workspace holds private intermediates, for its owner only; others may look into "
                    f"'{self.path}'. Take their rights away with: chmod 700 {self.path}"
                )
            if not file.exists() and any(self.path.iterdir()):
                raise WorkspaceError(
                    f"A workspace must be a folder of its own; '{self.path}' holds other files. "
                    "Name one that does not exist yet."
                )
            _make(file)
            self._file = sqlite3.connect(file, isolation_level=None, timeout=0)
            # The lock ends with the process, however it ends.
            for first in ("PRAGMA synchronous = EXTRA", "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"):
                self._file.execute(first)
            self._file.executescript(_SCHEMA)

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def bind(self, request: Mapping[str, object]) -> str:
        """The random number of this fit's charge; another fit's workspace is refused.

        Args:
            request: what determines the fit, JSON-ready, under names for a message.
        """
        asked = {name: json.dumps(value, sort_keys=True) for name, value in request.items()}
        with self._in_words():
            _make(self.path / _PLACE_FILE)
            place = (self.path / _PLACE_FILE).stat()
            # A copy has another time of making, which nobody can set; a deleted file's number is used again.
            # What restores changed files alone leaves this one, and gives that of answers another number.
            numbers = place.st_ino, place.st_ctime_ns, (self.path / _FILE).stat().st_ino
            asked["place: it was copied or restored"] = " ".join(map(str, numbers))
            known: dict[str, str] = dict(self._file.execute("SELECT name, value FROM request"))
            if not known:
                known = {**asked, "charge": secrets.token_hex(16)}
                self._put(self.path / _LAST, _linked(known["charge"]).encode())
                with self._file:
                    self._file.execute("BEGIN")
                    self._file.executemany("INSERT INTO request VALUES (?, ?)", known.items())
        other = [name for name in asked if known.get(name) != asked[name]]
        if other or "charge" not in known:
            raise WorkspaceError(
                f"A workspace resumes the fit that it was made for; that of '{self.path}' has another "
                f"{other[0] if other else 'form'}. Nothing was charged. Repeat the fit as it was, or name "
                "another folder, which is a new fit and a new charge."
            )
        self._charge = known["charge"]
        self._require_answers()
        return self._charge

    def _require_answers(self) -> None:
        """Raise unless the answers are those that were drawn, all of them and in their order."""
        with self._in_words():
            rows = self._file.execute("SELECT number, what, sha256 FROM answers ORDER BY number").fetchall()
            chains = [_linked(self._charge)]
            for expected, row in enumerate(rows, 1):
                if row[0] != expected:
                    raise self._damaged(f"answer {expected}")
                chains.append(_linked(chains[-1], *row))
            record = self.path / _LAST
            recorded = record.read_text("ascii", errors="replace") if record.exists() else None
            if recorded not in chains[-2:]:
                raise self._damaged("the record of its answers")
            if recorded != chains[-1]:  # the process ended before it was recorded, and nobody has used it
                self._put(record, chains[-1].encode())
        self._answers, self._chain = len(rows), chains[-1]

    def draw_once(self, number: int, what: str, draw: Callable[[], AnyArray] | None) -> AnyArray:
        """The answer with this number: as it is on disk, else as drawn, and then on disk before it returns.

        Args:
            number: from 1, in the order in which the run asks.
            what: what is asked, in words; an answer on disk must be to the same question.
            draw: gives the answer; None where nothing more may be drawn.
        """
        if os.getpid() != self._process:  # a fork, which inherits the file and not the lock
            raise self._taken()
        with self._in_words():
            asked = "SELECT what, sha256, CAST(array AS BLOB) FROM answers WHERE number = ?"
            found = self._file.execute(asked, (number,)).fetchone()
        if found is not None:
            if found[0] != what or hashlib.sha256(found[2]).hexdigest() != found[1]:
                raise self._damaged(f"answer {number}")
            return _array(found[2])
        if draw is None:
            raise WorkspaceError(
                f"The run of '{self.path}' is over, and nothing more is drawn for its charge; its answer "
                f"{number} is gone. Name another folder, which is a new fit and a new charge."
            )
        if number != self._answers + 1:
            raise self._damaged(f"answer {number}")
        content = _bytes(draw())
        row = (number, what, hashlib.sha256(content).hexdigest())
        chain = _linked(self._chain, *row)
        with self._in_words():
            with self._file:
                self._file.execute("BEGIN")
                self._file.execute("INSERT INTO answers VALUES (?, ?, ?, ?)", (*row, content))
            self._put(self.path / _LAST, chain.encode())
        self._answers, self._chain = number, chain
        return _array(content)

    def keep(self, what: str, compute: Callable[[], AnyArray]) -> AnyArray:
        """Load a private intermediate from its file, or compute and write it if there is no whole one."""
        (array,) = self._kept([self._file_of(what)], lambda _: [(0, compute())])
        return array

    def keep_pieces(self, answer: int, what: str, count: int, compute: Pieces) -> list[AnyArray]:
        """Load many for an answer, and compute those whose files are missing or damaged."""
        begins = self._pieces_of(answer)
        return self._kept([self._file_of(f"{what}|{number}", begins) for number in range(count)], compute)

    def _kept(self, files: Sequence[Path], compute: Pieces) -> list[AnyArray]:
        found = {number: _loaded(file) for number, file in enumerate(files)}
        missing = [number for number in found if found[number] is None]
        for number, array in compute(missing) if missing else ():
            found[number] = array
            with self._in_words():
                self._put(files[number], _bytes(array))
        return [array for array in found.values() if array is not None]

    def forget_pieces(self, answer: int) -> None:
        """Delete what `keep_pieces` wrote for an answer, which is drawn, perhaps by a run killed then."""
        with self._in_words():
            for file in self.path.glob(f"{self._pieces_of(answer)}*"):
                file.unlink(missing_ok=True)

    def _pieces_of(self, answer: int) -> str:
        return f"{self._hashed(f'pieces of answer {answer}')}-"

    def _file_of(self, what: str, begins: str = "") -> Path:
        return self.path / f"{begins}{self._hashed(what)}.npy"

    def _hashed(self, what: str) -> str:
        return hashlib.sha256(f"{self._charge}|{what}".encode()).hexdigest()[:16]

    def _put(self, file: Path, content: bytes) -> None:
        """Write a file that bears its name once all of it is on the disk."""
        draft = file.with_suffix(".draft")
        atomic_files.write_synced(draft, content, mode="wb", opener=atomic_files.owner_only)
        draft.replace(file)
        atomic_files.sync_folder(self.path)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turn errors of the disk and of SQLite into errors of this library; no draw and no row is inside."""
        try:
            yield
        except OSError as problem:
            raise self._not_written(problem.strerror or problem) from None
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:  # of which there are kinds
                raise self._not_written(problem) from None
            raise self._taken() from None
        except sqlite3.ProgrammingError:  # of a method that asks from several threads
            raise
        except sqlite3.DatabaseError:
            raise self._damaged(_FILE) from None

    def _not_written(self, why: object) -> WorkspaceError:
        return WorkspaceError(
            f"A workspace must be a writable folder; '{self.path}': {why}. Make it writable and fit again: "
            "a fit that was charged resumes. Or name another folder."
        )

    def _taken(self) -> WorkspaceError:
        return WorkspaceError(
            f"Only one process may use a workspace at a time; another is using '{self.path}'. Wait for it, "
            "or name another folder, which is a new fit and a new charge."
        )

    def _damaged(self, what: str) -> WorkspaceError:
        return WorkspaceError(
            f"A workspace must be intact; {what} of '{self.path}' is damaged. No answer is ever drawn "
            "twice, so this run cannot resume. Name another folder, which is a new fit and a new charge."
        )


class RecordedNoise:
    """A noise source whose answers are drawn once and kept in a workspace.

    Noise is drawn inside of `draw_once` only: what is drawn elsewhere would be drawn again by a resumed run.

    Args:
        noise: where it comes from.
        workspace: where answers are kept.
        finished: whether the run is over, so that nothing more is drawn.
    """

    def __init__(self, noise: NoiseSource, workspace: Workspace, *, finished: bool) -> None:
        self._noise, self._workspace, self._finished = noise, workspace, finished
        self._asked, self._drawing = 0, False
        self._stream: WordStream | None = None

    @property
    def seeded(self) -> bool:
        """As the source's."""
        return self._noise.seeded

    def draw_once(self, what: str, draw: Callable[[], AnyArray]) -> AnyArray:
        """The run's next answer."""
        self._asked += 1
        drawn = None if self._finished else lambda: self._draw(draw)
        answer = self._workspace.draw_once(self._asked, what, drawn)
        self._workspace.forget_pieces(self._asked)
        return answer

    def keep(self, what: str, compute: Callable[[], AnyArray]) -> AnyArray:
        """A private intermediate, computed once for this point of the run: trials may use the same words."""
        return self._workspace.keep(f"{self._asked}|{what}", compute)

    def keep_pieces(self, what: str, count: int, compute: Pieces) -> list[AnyArray]:
        """Likewise many, which an answer is drawn from; they are deleted once it is on disk."""
        return self._workspace.keep_pieces(self._asked, what, count, compute)

    def best_set(self, bins: ScoreBins, size: int, scale: float) -> Choice:
        """As the source does, with bits that a resumed run draws again."""
        return race.best_set(bins, size, checks.positive("scale", scale), self._bits)

    def permute_and_flip(self, bins: ScoreBins, scale: float) -> Choice:
        """As the source does, with bits that a resumed run draws again."""
        return race.permute_and_flip(bins, checks.positive("scale", scale), self._bits)

    def _bits(self, count: int) -> int:
        """The next bits of an answer's choices; their key is the source's, and deleted with the pieces."""
        if self._stream is None:
            (key,) = self.keep_pieces("key", 1, lambda _: [(0, self.integers(2**32, KEY_BYTES // 4))])
            self._stream = WordStream(key.astype(np.uint32).tobytes())
        return self._stream.bits(count)

    def _draw(self, draw: Callable[[], AnyArray]) -> AnyArray:
        self._drawing, self._stream = True, None
        try:
            return draw()
        finally:
            self._drawing, self._stream = False, None

    def __getattr__(self, name: str) -> Any:
        """The source's samplers."""
        if not self._drawing:
            raise DPTransferError(
                f"In a workspace noise is drawn inside of answers, so that none is drawn twice; '{name}' was "
                "asked for outside. The charge stands; please report this to the method's authors."
            )
        return getattr(self._noise, name)


def _linked(before: str, *row: object) -> str:
    """Digest of an answer and of all before it; of the charge alone while there is none."""
    return hashlib.sha256(json.dumps([before, *row], default=repr).encode()).hexdigest()


def _loaded(file: Path) -> AnyArray | None:
    """Content of the file; None if there is none, or if the machine failed while it was written."""
    try:
        return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError):
        return None


def _make(file: Path) -> None:
    """An empty file where there is none.

    One that is there is never opened: closing it would drop every lock that this process has on it, such as
    another thread's, and let other processes in.
    """
    with suppress(FileExistsError):
        os.close(atomic_files.owner_only(file, os.O_CREAT | os.O_EXCL | os.O_RDWR))


def _bytes(array: AnyArray) -> bytes:
    np.save(stream := io.BytesIO(), np.asarray(array), allow_pickle=False)
    return stream.getvalue()


def _array(content: bytes) -> AnyArray:
    return np.asarray(np.load(io.BytesIO(content), allow_pickle=False))
