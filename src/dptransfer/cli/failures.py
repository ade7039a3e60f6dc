"""Errors and warnings as one line on standard error, errors with an exit code, instead of a traceback.

Exit codes: 0 all is well, 1 a check failed (`verify`), 2 bad input or a refusal, 3 nothing failed but
the steps could not be checked (`verify`), 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from dptransfer.cli.signals import stop_word
from dptransfer.errors import DPTransferError, PrivacyWarning

_REMEDIES = (
    ({errno.ENOSPC, errno.EDQUOT, errno.EFBIG}, "Free some space, or choose another place."),
    ({errno.EACCES, errno.EPERM, errno.EROFS}, "Change its permissions, or choose another place."),
)
_AS_RELEASED = (
    "The model was fitted on pictures whose files say it: save this one as those were, say in eight bits; or "
    "fit a model with --grey-range LOW,HIGH."
)
_GOES_ON = {
    "encode": " The same command goes on where it stopped.",
    "fit": " An encoding goes on where it stopped, and 'dptransfer ledger show' says what was charged.",
}
_SPELLINGS = (  # what the library's messages say in Python, as it is said here
    (r"(Pass|Use) (?:(?!Pass |Use ).)*?\(on the command line: ([^)]*)\)", r"\1 \2"),
    (r"Pass (?:(?!Pass ).)*?,(?: or)? on the command line --", "Pass --"),
    (r"classes=\[[^\]]*\]", "--classes a,b,c"),
    (r"label_column='NAME'", "--label-column NAME"),
    (r"labels=\.\.\.", "--set data.labels=labels.npy"),
    (r"split='([^']*)'", r"--set data.split=\1"),
    (r"device='([^']*)'", r"--device \1"),
    (r"name=('[^']*'|\"[^\"]*\")", r"--name \1"),
    (r"new_data_set=True", "--set data.new_data_set=true"),
    (r"overwrite=True( \(--overwrite\))?", "--overwrite"),
    (r"unsafe_for_publication=True", "--unsafe-for-publication"),
    (r"features=UnitNorm\(\)", "no --set axes"),
    (r"Budget\(epsilon=1\.0, delta=1e-5\)", "--epsilon 1 --delta 1e-5"),
)


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Inside, a `PrivacyWarning` is one line on standard error; other warnings are shown as ever."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, PrivacyWarning):
            usual(message, category, *where, **more)
            return
        say_marked("Warning: ", "yellow", printable(message))

    with warnings.catch_warnings():
        usual, warnings.showwarning = warnings.showwarning, show
        yield


def one_line(problem: BaseException, command: str | None = None) -> str:
    """The rule, what was found and what to do, on one line, with the options of the command it is about.

    >>> one_line(FileNotFoundError(2, "No such file or directory", "pool.emb"))
    "'pool.emb' must be usable; no such file or directory. Check the path."
    >>> one_line(DPTransferError("It exists. Pass overwrite=True."))
    'It exists. Pass --overwrite.'
    >>> one_line(DPTransferError("None is there. Pass f(y=...), or on the command line --shots a.emb."))
    'None is there. Pass --shots a.emb.'
    >>> one_line(DPTransferError("Pass public=... (on the command line: --public a.emb), or leave it."))
    'Pass --public a.emb, or leave it.'
    """
    if isinstance(problem, KeyboardInterrupt):
        return printable(problem) or f"{stop_word(problem)}.{_GOES_ON.get(command or '', '')}"
    if isinstance(problem, MemoryError):
        return "The data must fit in memory; they do not. Close other programs, or use a larger machine."
    if isinstance(problem, OSError) and not isinstance(problem, DPTransferError):
        return _about_file(problem)
    # One of several lines is the traceback of a worker.
    notes = [note for note in getattr(problem, "__notes__", ()) if "\n" not in note]
    text = printable(" ".join([str(problem), *notes]))
    for python, here in _SPELLINGS:
        text = re.sub(rf"(?<![\w.]){python}", here, text)
    if command in ("predict", "evaluate", "attack"):  # the release says how pictures are read
        from dptransfer.data.grey_levels import DECLARE
        from dptransfer.encoders.encoding import GREYS

        text = text.replace(DECLARE, _AS_RELEASED).replace(
            GREYS, "save those of more than bytes in eight bits"
        )
    return text.replace("--set data.split=", "--split ") if command == "evaluate" else text


def printable(text: object) -> str:
    """One line without control characters, whatever a file or a user put into it."""
    from dptransfer.base.document import one_line as cleaned  # not before there is something to say

    return cleaned(text)


def say_marked(word: str, colour: str, line: str) -> None:
    """Say it on standard error, after the word that everybody looks for."""
    typer.secho(word, fg=colour, bold=True, err=True, nl=False)
    typer.echo(line, err=True)


def _about_file(problem: OSError) -> str:
    name = "The file" if problem.filename is None else f"'{problem.filename}'"
    found = problem.strerror or str(problem) or type(problem).__name__
    remedy = next((remedy for codes, remedy in _REMEDIES if problem.errno in codes), "Check the path.")
    return printable(f"{name} must be usable; {found[:1].lower()}{found[1:]}. {remedy}")
