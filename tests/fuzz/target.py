"""How one case goes: an intact input, damage, use, and what must hold whatever the damage."""

import faulthandler
import hashlib
import random
import shutil
import signal
import sys
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dptransfer.errors import DPTransferError
from dptransfer.testing.reader_rules import damage_bytes

SLOWEST_CASE = 20  # seconds; the inputs are a few kilobytes


class BrokenPromise(AssertionError):
    """A damaged input was taken for something it is not."""


class Target(ABC):
    """One kind of input: how it is written, damaged and read."""

    name: str

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Put an intact input into an empty folder; what `use` compares with may be kept on the target."""

    @abstractmethod
    def damage(self, folder: Path, dice: random.Random) -> bool:
        """Change the input; whether checksums were put right afterwards, as a forger would."""

    @abstractmethod
    def use(self, folder: Path, repaired: bool) -> None:
        """Read the input every way there is; raise `BrokenPromise` where it is accepted and should not be."""


@dataclass
class FileTarget(Target):
    """One file: damaged byte by byte, or by what `edit` does to its content, so often."""

    name: str
    file: str
    content: Callable[[], bytes]
    edit: Callable[[bytes, random.Random], bytes]
    read: Callable[[Path], object]
    edited_share: float = 0.5

    def write(self, folder: Path) -> None:
        (folder / self.file).write_bytes(self.content())

    def damage(self, folder: Path, dice: random.Random) -> bool:
        path = folder / self.file
        content = path.read_bytes()
        edited = dice.random() < self.edited_share
        path.write_bytes(self.edit(content, dice) if edited else damage_bytes(content, dice))
        return False

    def use(self, folder: Path, repaired: bool) -> None:
        self.read(folder / self.file)


@dataclass(frozen=True)
class Failure:
    """What went wrong, in a line; the same line for the same cause."""

    cause: str
    details: str


def run_case(target: Target, intact: Path, folder: Path, dice: random.Random) -> str | Failure:
    """One case: 'accepted', 'refused', or a failure; `folder` holds the damaged input afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(intact, folder, symlinks=True)
    repaired = target.damage(folder, dice)
    before = tree(folder)
    try:
        with _in_time(), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            outcome = _used(target, folder, repaired)
    except (Exception, RecursionError, MemoryError) as problem:
        return Failure(_cause(problem), "".join(traceback.format_exception(problem)))
    if warned:
        # A warning on standard error tells whoever sees it that the row behind it is there.
        first = warned[0]
        return Failure(
            f"warns: {first.category.__name__} at {_place(first.filename, first.lineno)}", str(first)
        )
    if tree(folder) != before:
        return Failure("reading changed the files", f"{before}\n{tree(folder)}")
    return outcome


def tree(folder: Path) -> dict[str, str]:
    """Every name under the folder, with a digest of what it holds."""
    return {
        str(path.relative_to(folder)): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }


def require(holds: object, promise: str) -> None:
    """Raise `BrokenPromise` unless it holds."""
    if not holds:
        raise BrokenPromise(promise)


def _used(target: Target, folder: Path, repaired: bool) -> str:
    try:
        target.use(folder, repaired)
    except DPTransferError as problem:
        require("\n" not in str(problem), "a message must be one line")
        return "refused"
    return "accepted"


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    status = path.stat()
    if status.st_size > 2**24:
        return f"{status.st_size} bytes of {status.st_mtime_ns}"  # made large on purpose; it has holes
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def _in_time():
    def stop(*_):
        raise TimeoutError(f"took more than {SLOWEST_CASE} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SLOWEST_CASE)
    # A loop in C hears no signal: then the process says where it is, and ends.
    faulthandler.dump_traceback_later(2 * SLOWEST_CASE, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _cause(problem: BaseException) -> str:
    """Type and place, and for a broken promise the promise: the same words for the same fault."""
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if "dptransfer" in Path(frame.filename).parts]
    said = f": {problem}" if isinstance(problem, BrokenPromise) else ""
    at = _place((own or frames)[-1].filename, (own or frames)[-1].lineno)
    return f"{type(problem).__name__}{said}" if said else f"{type(problem).__name__} at {at}"


def _place(filename: str, line: int | None) -> str:
    return f"{'/'.join(Path(filename).parts[-2:])}:{line}"
