"""What is refused about rows and labels is refused in words that hold none of them."""

import re
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

from dptransfer import Ledger, PublicEmbeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sklearn.private_classifier import PrivateClassifier
from dptransfer.sklearn.validation import declared_values, rows_of, with_class_words

pytestmark = pytest.mark.filterwarnings("ignore::dptransfer.errors.PrivacyWarning")
SECRET = 57  # rows; and in the values below
X, Y = np.full((SECRET, 4), 0.57), np.arange(SECRET) % 2
TEXTS = [["1", "57-secret"], ["2", "3"]]


def declared(**given):
    given = {"classes": [0, 1], "name": "pets", "ledger": Ledger.in_memory()} | given
    return PrivateClassifier("mean", **given)


WRONG = {
    "lengths differ": (X, Y[:41]),
    "labels of one dimension too many": (X, np.c_[Y, Y]),
    "no labels": (X, None),
    "labels of unequal length": (X, [[0], [0, 1]] * 57),
    "sparse labels": (X, csr_array(np.eye(57))),
    "labels that are lists": (X, np.array([[0, 1], [57], *[0] * 55], dtype=object)),
    "one row": (X[0], Y),
    "three dimensions": (X[None], Y),
    "a number": (57, Y),
    "rows of unequal length": ([[57.0], [1.0, 2.0]], [0, 1]),
    "sparse rows": (csr_array(X), Y),
    "no features": (X[:, :0], Y),
    "complex rows": (X + 57j, Y),
    "texts": (np.array(TEXTS), [0, 1]),
    "texts among numbers": (np.array(TEXTS, dtype=object), [0, 1]),
    "something else among numbers": (np.array([[{"57": 57}, 1], [2, 3]], dtype=object), [0, 1]),
    "numbers beyond floats": (np.array([[57**1000, 1], [2, 3]], dtype=object), [0, 1]),
    "dates": (np.array([["2057-05-07"]], dtype="datetime64[D]"), [0]),
    "a label that was not declared": (X, Y + 57),
    "labels of another type": (X, Y.astype(str)),
    "labels that are no numbers": (X, np.full(SECRET, np.nan)),
    "fractions as labels": (X, Y + 0.57),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_refusal_tells_neither_how_many_rows_there_are_nor_what_they_hold(case):
    model = declared()
    with pytest.raises(DataError) as refused:
        model.fit(*WRONG[case])
    assert not re.search(r"57|41|secret", str(refused.value))
    assert refused.value.__context__ is None  # nor does the traceback
    assert model.ledger.history() == []


@pytest.mark.parametrize("case", [case for case, (x, _) in WRONG.items() if x is not X])
def test_nor_does_one_at_prediction_or_of_a_score(case):
    model = declared().fit(X[:, :2], Y)
    for act in (lambda: model.predict(WRONG[case][0]), lambda: model.score(X[:, :2], Y[:41])):
        with pytest.raises(DataError) as refused:
            act()
        assert not re.search(r"57|41|secret", str(refused.value))


def told(labels, **given):
    """Warnings of a fit, a prediction and a score."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        declared(**given).fit(X, labels).score(X, labels)
    return [str(warning.message) for warning in caught]


def test_warnings_do_not_depend_on_the_labels():
    many = {"classes": list(range(SECRET))}
    told(Y, **many)  # what is told once per process
    assert told(Y, **many) == told(np.arange(SECRET), **many) == []  # few classes; as many as rows
    column = told(Y[:, None], **many)
    assert column == told(np.arange(SECRET)[:, None], **many)
    assert "column-vector" in column[0]


def test_scikit_learns_own_checks_would_have_told():
    from sklearn.utils import check_X_y
    from sklearn.utils.multiclass import check_classification_targets

    with pytest.raises(ValueError, match="57, 41"):
        check_X_y(X, Y[:41])
    with pytest.warns(UserWarning, match="unique classes"):
        check_classification_targets(np.arange(SECRET))


def test_numbers_pass_unchanged():
    for rows in (X, X.astype(np.float32), X > 0, [[1, 2], [3, 4]]):
        assert rows_of(rows).tolist() == np.asarray(rows).tolist()
    assert rows_of(X) is X
    assert rows_of(np.array([[1, "2.5"]], dtype=object)).tolist() == [[1.0, 2.5]]


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
    [(None, "declared"), ("cat", "declared"), ([1, 1], "distinct"), ([[1, 2]], "one list")],
)
def test_a_wrong_declaration_is_refused(classes, said):
    with pytest.raises(DataError, match=said):
        declared_values(classes, Y)


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
