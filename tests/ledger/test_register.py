import pickle

import numpy as np
import pytest

from dptransfer.data.embeddings import PrivateEmbeddings
from dptransfer.errors import BudgetExceeded, RowsOnRecord
from dptransfer.ledger import Ledger
from dptransfer.ledger.register import fold_name
from dptransfer.privacy import Budget

from .samples import GAUSS, chosen

X = np.random.default_rng(0).normal(size=(400, 24))
STRANGERS = np.random.default_rng(1).normal(size=(400, 24))


def embeddings(x=X, name=None):
    return PrivateEmbeddings(x, np.arange(len(x)) % 2, classes=[0, 1], name=name)


def charge(ledger, x, name, **options):
    return ledger.charge(embeddings(x, name), [GAUSS], label="fit", **options)


class Unread:
    """Rows that must not be looked at."""

    name = "clinic-a"

    @property
    def rows(self):
        raise AssertionError("the rows were read")


@pytest.mark.parametrize(
    ("spelling", "same"),
    [
        ("Clinic \u00c4", True),
        ("CLINIC a\u0308", True),
        (" \uff23linic  \u00c4", True),
        ("cl\u0131nic \u00e4", False),
        ("clinic a", False),
    ],
)
def test_case_width_and_white_space_make_no_other_account(ledger, spelling, same):
    first = ledger.charge("clinic \u00e4", [GAUSS], label="fit")
    assert (ledger.charge(spelling, [GAUSS], label="fit").dataset == first.dataset) is same
    assert ledger.datasets()[0].dataset.name == "clinic \u00e4"
    assert (ledger.find(spelling).id == first.dataset) is same


def test_folding_twice_is_folding_once():
    letters = [chr(code) for code in range(0x30000) if not 0xD800 <= code <= 0xDFFF]
    assert all(fold_name(fold_name(letter)) == fold_name(letter) for letter in letters)


@pytest.mark.parametrize(
    ("x", "name"),
    [
        (X, "clinic-b"),
        (X, "clinic-\u0430"),  # a Cyrillic letter that looks like an 'a'
        (X, None),
        (X.astype(np.float16), None),
        (X.astype(np.float32), "clinic-b"),
        (X[::-1], "clinic-b"),
        (X[:80], "fold-1"),
        (X[3:], None),
    ],
)
def test_rows_on_record_are_refused_under_another_name(ledger, x, name):
    charge(ledger, X, "clinic-a")
    before = ledger.head
    with pytest.raises(RowsOnRecord, match="name='clinic-a'"):
        charge(ledger, x, name)
    assert ledger.head == before
    charge(ledger, x, "Clinic-A")
    assert [one.charges for one in ledger.datasets()] == [2]
    charge(ledger, STRANGERS, name)


def test_an_unnamed_data_set_is_addressed_by_its_short_id(ledger):
    charge(ledger, X, None)
    copy = X.astype(np.float32)
    with pytest.raises(RowsOnRecord) as caught:
        charge(ledger, copy, None)
    short = ledger.datasets()[0].dataset.short
    assert f"name='{short}'" in str(caught.value)
    charge(ledger, copy, short)
    assert [(one.dataset.name, one.charges) for one in ledger.datasets()] == [(None, 2)]


def test_the_owners_word_is_recorded_and_not_asked_for_again(ledger):
    charge(ledger, X, "clinic-a")
    charge(ledger, X, "clinic-b", new_data_set=True)
    first, second = ledger.history()
    assert (first.apart_from, second.apart_from) == ((), (first.dataset.id,))
    charge(ledger, X, "clinic-b")
    charge(ledger, X, "clinic-a")
    with pytest.raises(RowsOnRecord, match="'clinic-a' and 'clinic-b'"):  # the word was for that pair
        charge(ledger, X, "clinic-c")
    assert [one.charges for one in ledger.datasets()] == [2, 2]
    ledger.verify()


def test_one_content_is_sketched_into_the_record_once(ledger):
    for x in (X, X, X[::-1], np.vstack([X, STRANGERS[:5]]), X):
        charge(ledger, x, "clinic-a")
    assert [entry.sketch is None for entry in ledger.history()] == [False, True, True, False, True]
    assert "sketch" not in repr(ledger.history())


def test_a_data_set_that_takes_in_another_is_noticed(ledger):
    charge(ledger, X, "clinic-a")
    charge(ledger, STRANGERS, "clinic-b")
    with pytest.raises(RowsOnRecord):
        charge(ledger, np.vstack([X, STRANGERS]), "clinic-a")


def test_strict_names_look_at_no_row(tmp_path):
    path = tmp_path / "ledger"
    charge(Ledger(path), X, "clinic-b")
    strict = pickle.loads(pickle.dumps(Ledger(path, strict_names=True)))
    strict.charge(Unread(), [GAUSS], label="fit")
    charge(strict, X, "clinic-c")
    assert [entry.sketch is None for entry in strict.history()] == [False, True, True]
    for names_and_rows in (Ledger(path), Ledger.in_memory()):  # so the check above can fail
        with pytest.raises(AssertionError, match="rows were read"):
            names_and_rows.charge(Unread(), [GAUSS], label="fit")
    Ledger.in_memory(strict_names=True).charge(Unread(), [GAUSS], label="fit")


def test_no_row_is_looked_at_for_nothing_or_for_what_cannot_be_paid(ledger):
    ledger.charge(Unread(), [], label="public alone")
    ledger.set_budget("clinic-a", Budget(epsilon=1.0))
    with pytest.raises(BudgetExceeded):
        ledger.charge(Unread(), [chosen(1.1)], label="fit")


def test_a_charge_that_came_in_between_counts(ledger):
    """The budget is checked before the rows are sketched; what others spend meanwhile must not be lost."""
    ledger.set_budget("clinic-a", Budget(epsilon=1.0))

    class Slow:
        name = "clinic-a"

        @property
        def rows(self):
            ledger.charge("clinic-a", [chosen(0.7)], label="meanwhile")
            return X

    with pytest.raises(BudgetExceeded):
        ledger.charge(Slow(), [chosen(0.7)], label="fit")
    assert [entry.label for entry in ledger.history()[1:]] == ["meanwhile"]
