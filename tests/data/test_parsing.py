"""Whatever a parser raises is one error of ours that states the rule and repeats nothing of the file."""

import errno
import tokenize
import warnings
import zlib
from pathlib import Path

import pytest

from dptransfer.data.tables import parsing
from dptransfer.errors import ArgumentError, DataError

DAMAGE = [
    tokenize.TokenError("EOF", (2, 0)),
    NotImplementedError("zip file version 9.1"),
    RecursionError("too deep"),
    EOFError(),
    zlib.error("bad"),
    UnicodeDecodeError("utf-8", b"secret", 0, 1, "bad"),
    OverflowError("too large"),
    KeyError("secret"),
    SystemError("invalid maximum character"),
    OSError("Failed to interpret the file"),
]


@pytest.mark.parametrize("problem", DAMAGE, ids=lambda problem: type(problem).__name__)
def test_damage_of_every_kind_is_a_data_error_that_states_the_rule(problem):
    with (
        pytest.raises(DataError) as caught,
        parsing(Path("a.npz"), "it must be whole; it is not.", "Mend it."),
    ):
        raise problem
    assert str(caught.value) == "'a.npz': it must be whole; it is not. Mend it."
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_file_that_cannot_be_opened_or_held_is_told_from_a_damaged_one():
    for problem, words in (
        (PermissionError(errno.EACCES, "Permission denied", "a.npz"), "Permission denied"),
        (MemoryError(), "fit in memory"),
    ):
        with pytest.raises(DataError, match=words), parsing(Path("a.npz"), "it must be whole.", "Mend it."):
            raise problem


def test_an_error_of_ours_passes_as_it_is():
    with pytest.raises(ArgumentError, match="another rule"), parsing(Path("a.npz"), "rule.", "remedy."):
        raise ArgumentError("another rule")


def test_an_interruption_is_no_damage():
    with pytest.raises(KeyboardInterrupt), parsing(Path("a.npz"), "rule.", "remedy."):
        raise KeyboardInterrupt


def test_warnings_of_a_parser_are_not_shown_since_they_may_quote_the_file():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with parsing(Path("a.npz"), "rule.", "remedy."):
            warnings.warn("secret", stacklevel=1)
    assert shown == []
