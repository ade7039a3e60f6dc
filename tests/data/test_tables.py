"""Whatever a parser raises is one error of ours that states the rule and repeats nothing of the file."""

import errno
import tokenize
import warnings
from pathlib import Path

import pytest

from dptransfer.data.tables import natural_order, parsing
from dptransfer.errors import ArgumentError, DataError

DAMAGE = [
    tokenize.TokenError("EOF", (2, 0)),
    RecursionError("too deep"),
    UnicodeDecodeError("utf-8", b"secret", 0, 1, "bad"),
    KeyError("secret"),
    OSError("Failed to interpret the file"),
]


def raised(problem):
    with parsing(Path("a.npz"), "it must be whole; it is not.", "Mend it."):
        raise problem


@pytest.mark.parametrize("problem", DAMAGE, ids=lambda problem: type(problem).__name__)
def test_damage_of_every_kind_is_a_data_error_that_states_the_rule(problem):
    with pytest.raises(DataError) as caught:
        raised(problem)
    assert str(caught.value) == "'a.npz': it must be whole; it is not. Mend it."
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("problem", "kind", "words"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a.npz"), DataError, "Permission denied"),
        (MemoryError(), DataError, "fit in memory"),
        (ArgumentError("another rule"), ArgumentError, "^another rule$"),
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_what_is_no_damage_is_told_from_it(problem, kind, words):
    with pytest.raises(kind, match=words):
        raised(problem)


def test_warnings_of_a_parser_are_not_shown_since_they_may_quote_the_file():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with parsing(Path("a.npz"), "rule.", "remedy."):
            warnings.warn("secret", stacklevel=1)
    assert shown == []


def test_numbers_of_any_length_count_as_numbers_and_no_two_names_are_equal():
    names = ["a2b10", "a2b9", "a10", "a02", "a2", "a", "b1", f"a{10**30}", "2", "10"]
    ordered = ["2", "10", "a", "a02", "a2", "a2b9", "a2b10", "a10", f"a{10**30}", "b1"]
    assert sorted(names, key=natural_order) == sorted(names[::-1], key=natural_order) == ordered
