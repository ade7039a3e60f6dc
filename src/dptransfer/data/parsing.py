"""Other libraries' parsers on files from anywhere: damage is one error of ours, never a traceback."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dptransfer.data.table import unreadable
from dptransfer.errors import DPTransferError

_OUT_OF_REACH = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.EIO, errno.ENXIO, errno.ENOTDIR}


@contextmanager
def parsing(path: Path, rule: str, remedy: str) -> Iterator[None]:
    """Turn whatever a parser raises on this file into a `DataError` that states the rule.

    Nothing but calls to parsers belongs inside. Damaged bytes meet them in places that never expected any:
    numpy runs a header through a tokenizer, an expression parser and integer arithmetic, so that tokens,
    recursion, overflow, missing keys and unknown compressions all have exceptions of their own. No list of
    types is complete, and so there is none. What a parser says is not repeated, nor are its warnings shown:
    both may quote the file.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except DPTransferError:
        raise
    except MemoryError:
        larger = "the file must fit in memory; it does not, or it claims a size that it does not have."
        raise unreadable(path, larger, "Use a larger machine, or write the file again.") from None
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno in _OUT_OF_REACH and not path.is_dir():
            closed = f"the file must be readable; it is not ({problem.strerror})."
            raise unreadable(path, closed, "Check the path and its permissions.") from None
        raise unreadable(path, rule, remedy) from None
