"""Errors and warnings as one line on standard error, errors with an exit code, instead of a traceback.

Exit codes: 0 all is well, 1 a check failed (`verify`), 2 bad input or a refusal, 3 nothing failed but
the steps could not be checked (`verify`), 130 interrupted.
"""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from dptransfer.cli.quick_help import QuickHelp
from dptransfer.errors import DPTransferError, PrivacyWarning

_UsageError: Any = typer.BadParameter.__mro__[1]  # typer keeps its name to itself
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_RIGHT = {errno.EACCES, errno.EPERM, errno.EROFS}
_SPELLINGS = (  # what the library's messages say in Python, as it is said here
    (r"classes=\[[^\]]*\]", "--classes a,b,c"),
    (r"labels=\.\.\.", "--labels labels.npy"),
    (r"(device|split)='([^']*)'", r"--\1 \2"),
    (r"name=('[^']*'|\"[^\"]*\")", r"--name \1"),
    (r"new_data_set=True", "--new-data-set"),
    (r"overwrite=True( \(--overwrite\))?", "--overwrite"),
    (r"unsafe_for_publication=True", "--unsafe-for-publication"),
    (r"Budget\(epsilon=1\.0, delta=1e-5\)", "--epsilon 1 --delta 1e-5"),
)


class OneLineErrors(QuickHelp):
    """Commands whose expected errors are one line long; `--debug`, anywhere, shows the traceback."""

    def main(
        self,
        args: Any = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and leave with an exit code; a command line that cannot be read is one line as well."""
        try:
            outcome = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _UsageError as problem:
            if not standalone_mode:
                raise
            said = problem.format_message()
            if said:  # nothing for a group without a command, whose help has been shown
                _say_error(usage_line(said, getattr(problem.ctx, "command_path", "dptransfer")))
            sys.exit(problem.exit_code)
        except typer.Abort:
            sys.exit(130)
        return sys.exit(outcome or 0) if standalone_mode else outcome

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--debug` from wherever it stands."""
        kept = [word for word in args if word != "--debug"]
        return super().parse_args(ctx, ["--debug"] * (len(kept) < len(args)) + kept)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; say what went wrong, if something did."""
        try:
            with one_line_warnings():
                return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader of our output is gone; typer leaves quietly
        except (DPTransferError, OSError, MemoryError, KeyboardInterrupt) as problem:
            if ctx.params.get("debug"):
                import traceback

                typer.echo(traceback.format_exc(), err=True)
            _say_error(one_line(problem))
            raise typer.Exit(130 if isinstance(problem, KeyboardInterrupt) else 2) from None


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Inside, a `PrivacyWarning` is one line on standard error; other warnings are shown as ever."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, PrivacyWarning):
            usual(message, category, *where, **more)
            return
        typer.secho("Warning: ", fg="yellow", bold=True, err=True, nl=False)
        typer.echo(printable(message), err=True)

    with warnings.catch_warnings():
        usual, warnings.showwarning = warnings.showwarning, show
        yield


def one_line(problem: BaseException) -> str:
    """The rule, what was found and what to do, on one line.

    >>> one_line(FileNotFoundError(2, "No such file or directory", "pool.emb"))
    "'pool.emb' must be usable; no such file or directory. Check the path."
    >>> one_line(DPTransferError("It exists. Pass overwrite=True."))
    'It exists. Pass --overwrite.'
    """
    if isinstance(problem, KeyboardInterrupt):
        return printable(problem) or "Interrupted. An encoding goes on where it stopped when it is run again."
    if isinstance(problem, MemoryError):
        return "The data must fit in memory; they do not. Close other programs, or use a larger machine."
    if isinstance(problem, OSError) and not isinstance(problem, DPTransferError):
        return _about_file(problem)
    text = printable(problem)
    for python, here in _SPELLINGS:
        text = re.sub(rf"(?<![\w.]){python}", here, text)
    return text


def usage_line(said: str, command: str) -> str:
    """What is wrong with the command line, and where to look it up.

    >>> usage_line("No such option: --epsilom (Possible options: --epsilon, --steps)", "dptransfer plan")
    'No such option: --epsilom. Did you mean --epsilon, --steps? See: dptransfer plan --help'
    >>> usage_line("Missing argument 'private'.", "dptransfer fit")
    "Missing argument 'private'. See: dptransfer fit --help"
    """
    text = re.sub(r" ?\(Possible options: ([^()]*)\)$", r". Did you mean \1?", printable(said))
    text = text.replace(": Value error, ", ": ")
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} See: {command} --help"


def printable(text: object) -> str:
    """One line without control characters, whatever a file or a user put into it."""
    words = " ".join(str(text).split())
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in words)


def _say_error(line: str) -> None:
    typer.secho("Error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(line, err=True)


def _about_file(problem: OSError) -> str:
    name = "The file" if problem.filename is None else f"'{problem.filename}'"
    found = problem.strerror or str(problem) or type(problem).__name__
    if problem.errno in _NO_SPACE:
        remedy = "Free some space, or choose another place."
    elif problem.errno in _NO_RIGHT:
        remedy = "Change its permissions, or choose another place."
    else:
        remedy = "Check the path."
    return printable(f"{name} must be usable; {found[:1].lower()}{found[1:]}. {remedy}")
