"""Output of commands: tables, facts, JSON and progress; errors and warnings in one line each.

All of it works in a pipe, and nothing is read as markup: class names and file names come from users and may
contain anything. Errors end a command with an exit code, instead of a traceback: 0 all is well, 1 a check
failed (`verify`), 2 bad input or a refusal, 3 nothing failed but the steps could not be checked (`verify`),
130 interrupted, 143 terminated.
"""

from __future__ import annotations

import errno
import json
import math
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dptransfer.base.progress import progress_bar as progress_bar
from dptransfer.base.progress import show_progress as show_progress
from dptransfer.cli.main import stop_word
from dptransfer.errors import DPTransferError, PrivacyWarning

if TYPE_CHECKING:
    from rich.console import Console

    from dptransfer.base.document import Document

_PIPE_WIDTH = 120


def console(*, err: bool = False) -> Console:
    """A console on standard output, or on standard error for what is not the result."""
    from rich.console import Console

    width = None if on_terminal(err=err) else _PIPE_WIDTH
    return Console(stderr=err, markup=False, highlight=False, emoji=False, width=width)


def on_terminal(*, err: bool = False) -> bool:
    """Whether a person is looking, rather than a file or another program."""
    return (sys.stderr if err else sys.stdout).isatty()


def show_table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Sequence[int] = ()
) -> None:
    """A table; the columns in `numbers` are aligned to the right, and long words are folded, never cut."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for place, name in enumerate(header):
        table.add_column(printable(name), justify="right" if place in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(printable(cell) for cell in row))
    console().print(table)


def show_facts(facts: Mapping[str, object]) -> None:
    """Names and values, one pair a line; on a terminal long values wrap under themselves."""
    if not on_terminal():
        width = max(map(len, facts))
        for name, value in facts.items():
            typer.echo(f"{name:<{width}}  {printable(value)}")
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, printable(value))
    console().print(table)


def show_document(document: Document) -> None:
    """A document as text, in colour on a terminal."""
    typer.echo(document.text(min(console().width, 100), colour=on_terminal()), nl=False)


def show_result(facts: Mapping[str, object], *, as_json: bool, **only_json: object) -> None:
    """Facts with names in small letters: for people, one a line; as JSON with what only a program wants."""
    if as_json:
        show_json({**facts, **only_json})
    else:
        show_facts({name.capitalize(): value for name, value in facts.items()})


def say(text: object = "", *, style: str | None = None, err: bool = False) -> None:
    """A paragraph; in a pipe, one line."""
    console(err=err).print(printable(text), style=style, soft_wrap=not on_terminal(err=err))


def show_json(value: object) -> None:
    """JSON on standard output; numbers JSON does not have become null."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower()
    typer.echo(json_text(value, ensure_ascii=not encoding.startswith("utf")))


def json_text(value: object, *, indent: int | None = 2, ensure_ascii: bool = False) -> str:
    """JSON of a value: paths and enums in words, whatever has a `to_dict` by that.

    >>> json_text({"limit": math.inf, "at": Path("a.emb")}, indent=None)
    '{"limit": null, "at": "a.emb"}'
    """
    return json.dumps(_plain(value), indent=indent, ensure_ascii=ensure_ascii, allow_nan=False)


def _plain(value: object) -> object:
    value = value.to_dict() if hasattr(value, "to_dict") else value
    if isinstance(value, Path | Enum):
        return str(value.value if isinstance(value, Enum) else value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


_REMEDIES = (
    ({errno.ENOSPC, errno.EDQUOT, errno.EFBIG}, "Free some space, or choose another place."),
    ({errno.EACCES, errno.EPERM, errno.EROFS}, "Change its permissions, or choose another place."),
)
_AS_RELEASED = (
    "The model was fitted on pictures whose files say it: save this one as those were, say in eight bits; or "
    "fit a model with --grey-range LOW,HIGH."
)
_GOES_ON = {
    "encode": " Run the same command again to resume.",
    "fit": " Run it again to resume an encoding; 'dptransfer ledger show' shows what was charged.",
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
    (r"such as \(0, 4095\), the", "such as --grey-range 0,4095, the"),
)


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Inside, a `PrivacyWarning` is one line on standard error; other warnings are shown as ever."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, PrivacyWarning):
            say_marked("Warning: ", "yellow", printable(message))
        else:
            usual(message, category, *where, **more)

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

        text = text.replace(DECLARE, _AS_RELEASED).replace(GREYS, "save those beyond bytes in eight bits")
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
