"""Names that print like nothing, like two lines or like another are refused where they are declared."""

import numpy as np
import pytest

from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.labels import declared_classes
from dptransfer.errors import DataError
from dptransfer.sources import find_images


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", ""], "empty or blank"),
        (["a", " \u00a0"], "empty or blank"),
        (["a", "b\0"], "control character"),
        (["a", "b\nc"], "control character"),
        (["a", "b\tc"], "control character"),
        (["a", "a "], "blanks around"),
        (["\u00a0a", "b", "a"], "blanks around"),
        (["caf\u00e9", "cafe\u0301"], "an accent"),
        (["twice", "twice"], "distinct"),
        ([7, 7], "distinct"),
    ],
)
def test_odd_names_are_refused_without_being_printed(names, words):
    with pytest.raises(DataError, match=words) as caught:
        PrivateEmbeddings([[1.0], [2.0]], [0, 1], classes=names)
    assert repr(names[0]) not in str(caught.value)


@pytest.mark.parametrize("names", [["Übelkeit 🤢", "\u202eevil"], ["a b", "a  b"], [" a", "b"], [0, 1]])
def test_other_names_are_taken_as_they_are(names):
    assert PrivateEmbeddings([[1.0], [2.0]], [0, 1], classes=names).facts.classes == tuple(names)


def test_a_number_and_the_word_for_it_are_not_two_classes():
    for names in ([1, "1"], ["a", 1]):
        with pytest.raises(DataError, match="a mix"):
            PrivateEmbeddings([[1.0], [2.0]], [0, 1], classes=names)


def test_folders_are_declared_under_the_same_rule(tmp_path):
    for name in ("a", "b\nc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    with pytest.raises(DataError, match="control character"):
        find_images(tmp_path)


def test_facts_of_a_release_written_before_the_rule_are_still_read():
    assert Facts(("a", ""), (2,)).classes == ("a", "")


def test_a_number_of_classes_stands_for_numbered_ones_wherever_they_are_declared():
    x, y = np.eye(3), [2, 0, 1]
    for number in (3, np.int64(3)):
        assert PrivateEmbeddings(x, y, classes=number).facts.classes == (0, 1, 2)
        assert PublicEmbeddings(x, y, classes=number).classes == (0, 1, 2)
    for number in (1, 0, -3, True, 10**6 + 1):
        with pytest.raises(DataError, match="2 to a million"):
            declared_classes(number)
