"""Declared and observed classes of any kind."""

import numpy as np
import pytest

from dptransfer import PublicEmbeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sklearn.validation import class_words, declared_values, with_class_words

Y = np.arange(20) % 2


@pytest.mark.parametrize("labels", [Y + 0.5, Y.astype(complex), np.array([0, "a", None], dtype=object)])
def test_observed_classes_must_be_words_or_whole_numbers(labels):
    with pytest.raises(ArgumentError, match="Unknown label type"):
        declared_values("observed", labels)
    assert declared_values([0, 1], labels).tolist() == [0, 1]  # declared ones do not look at the labels
    assert declared_values(2, labels).tolist() == [0, 1]


@pytest.mark.parametrize("labels", [Y, Y.astype(bool), Y.astype(str), Y.astype("S1"), Y.astype(object)])
def test_observed_classes_of_each_kind_are_found(labels):
    assert declared_values("observed", labels).tolist() == np.unique(labels).tolist()


@pytest.mark.parametrize(
    ("classes", "said"),
    [(None, "must be declared"), ("cat", "must be declared"), ([1, 1], "distinct"), ([[1, 2]], "one list")],
)
def test_a_wrong_declaration_is_refused(classes, said):
    with pytest.raises(DataError, match=said):
        declared_values(classes, Y)


def test_words_are_distinct_where_classes_are():
    assert class_words(np.array([3, 7])) == ["3", "7"]
    assert class_words(np.array([3, "3"], dtype=object)) == ["0", "1"]


def test_public_labels_are_called_as_the_classes_are():
    shots = PublicEmbeddings(np.eye(2), [7, 3], classes=[3, 7])
    renamed = with_class_words(shots, np.array([3, 7]))
    assert renamed.shots.classes == ("3", "7")
    assert renamed.shots.labels.tolist() == [1, 0]
    words = PublicEmbeddings(np.eye(2), ["b", "a"], classes=["a", "b"])
    assert with_class_words(words, np.array(["a", "b"])) is words
    assert with_class_words(None, np.array(["a", "b"])) is None


def test_shots_that_are_called_by_words_keep_what_is_known_of_them():
    rows, known = np.eye(3, 4), {"columns": list("abcd"), "source_digests": np.array([5, 6, 7], np.uint64)}
    shots = PublicEmbeddings(rows, [3, 7, 3], classes=[3, 7], name="shots", **known)
    pool = PublicEmbeddings(rows, columns=known["columns"]).with_shots(shots)
    renamed = with_class_words(pool, np.array([3, 7])).shots
    assert renamed.classes == ("3", "7")
    assert (renamed.columns, renamed.name) == (shots.columns, "shots")
    assert renamed.source_digests.tolist() == [5, 6, 7]
