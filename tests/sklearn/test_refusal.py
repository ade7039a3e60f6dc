"""A refusal ends a search, whatever runs the search, and says what was spent."""

import pickle

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from dptransfer import Budget, Ledger
from dptransfer.errors import BudgetExceeded, LedgerError, RelationMismatch
from dptransfer.ledger import Charge
from dptransfer.methods import MeanPrototypes
from dptransfer.sklearn.pipeline import make_private_pipeline
from dptransfer.sklearn.private_classifier import PrivateClassifier, SearchStopped

pytestmark = pytest.mark.filterwarnings(
    "ignore::dptransfer.errors.PrivacyWarning", "ignore:This process:DeprecationWarning"
)
PETS = {"classes": ["cat", "dog", "owl"], "name": "pets"}


def folds(model, x, y, jobs):
    return cross_val_score(model, x, y, cv=5, n_jobs=jobs)


def grid(model, x, y, jobs):
    search = GridSearchCV(model, {"relation": ["add/remove", "add/remove"]}, cv=5, n_jobs=jobs)
    assert np.isnan(search.error_score)
    return search.fit(x, y)


@pytest.mark.parametrize("search", [folds, grid])
@pytest.mark.parametrize(
    ("backend", "jobs"),
    [
        ("threading", 1),
        ("threading", 2),
        ("multiprocessing", 2),
        pytest.param("loky", 2, marks=pytest.mark.slow),  # starts interpreters
    ],
)
def test_five_folds_on_a_budget_for_three_are_refused_loudly(search, backend, jobs, blobs, for_three):
    x, y = blobs
    model = PrivateClassifier("mean", **PETS, ledger=for_three)
    with parallel_config(backend), pytest.raises(SearchStopped) as stopped:
        search(model, x, y, jobs)
    (account,) = for_three.datasets()
    assert account.charges == 3
    assert "3 fits of 'pets'" in str(stopped.value)
    assert account.sentence in str(stopped.value)
    assert isinstance(stopped.value.refusal, BudgetExceeded)
    assert str(stopped.value.refusal) in str(stopped.value)


def test_it_comes_through_a_pipeline(blobs, for_three):
    x, y = blobs
    with pytest.raises(SearchStopped, match="3 fits of 'pets'"):
        folds(make_private_pipeline(PrivateClassifier("mean", **PETS, ledger=for_three)), x, y, 1)


def test_an_ordinary_error_would_have_been_swallowed(blobs, monkeypatch):
    x, y = blobs
    ledger = Ledger.in_memory()
    ledger.set_budget("pets", Budget(epsilon=2.0, delta=1e-5))
    monkeypatch.setattr("dptransfer.sklearn.private_classifier.concerns_privacy", lambda problem: False)
    with pytest.warns(Warning, match="2 fits failed out of a total of 5"):
        scores = folds(PrivateClassifier("mean", **PETS, ledger=ledger), x, y, 1)
    assert np.isnan(scores).sum() == 2


def test_a_fit_outside_a_search_raises_the_ordinary_refusal(blobs, for_three):
    x, y = blobs
    model = PrivateClassifier("mean", **PETS, epsilon=1.5, ledger=for_three).fit(x, y)
    clone(model)  # to have been cloned is not to be a clone
    with pytest.raises(BudgetExceeded):
        model.fit(x, y)
    with pytest.raises(BudgetExceeded):
        make_private_pipeline(model).fit(x, y)
    with pytest.raises(SearchStopped):
        clone(clone(model)).fit(x, y)


def test_only_what_was_charged_since_the_search_began_is_told(blobs, for_three):
    x, y = blobs
    model = PrivateClassifier("mean", **PETS, ledger=for_three).fit(x, y)
    with pytest.raises(SearchStopped, match="2 fits of 'pets' since the first clone was made"):
        folds(model, x, y, 1)
    with pytest.raises(SearchStopped, match="stays charged: nothing since the first clone") as stopped:
        folds(PrivateClassifier("mean", **PETS, ledger=for_three), x, y, 1)
    assert f"before that {for_three.datasets()[0].sentence}" in str(stopped.value)


def test_a_wrong_setting_is_no_refusal_and_costs_nothing(blobs):
    x, y = blobs
    ledger = Ledger.in_memory()
    model = PrivateClassifier("mean", **PETS, ledger=ledger)
    with pytest.warns(Warning, match="2 fits failed out of a total of 4|scores are non-finite"):
        search = GridSearchCV(model, {"epsilon": [-1.0, 8.0]}, cv=2).fit(x, y)
    assert search.best_params_ == {"epsilon": 8.0}
    assert len([entry for entry in ledger.history() if isinstance(entry, Charge)]) == 3  # folds and refit


def test_relations_that_do_not_fit_stop_a_search(blobs, for_three):
    x, y = blobs
    with pytest.raises(SearchStopped) as stopped:
        folds(PrivateClassifier("mean", **PETS, relation="replace-one", ledger=for_three), x, y, 1)
    assert isinstance(stopped.value.refusal, RelationMismatch)


def test_a_failure_after_the_charge_stops_a_search_without_its_words(blobs, monkeypatch):
    def fails(self, *given):
        raise ValueError("row 17 is odd")

    x, y = blobs
    monkeypatch.setattr(MeanPrototypes, "run", fails)
    with pytest.raises(SearchStopped, match=r"1 fit of 'pets'.*The fit said: ValueError in a fit") as stopped:
        folds(PrivateClassifier("mean", **PETS, ledger=Ledger.in_memory()), x, y, 1)
    assert "17" not in str(stopped.value).partition("The fit said")[2]


def test_a_ledger_that_cannot_be_read_stops_a_search_too(blobs, tmp_path):
    x, y = blobs
    ledger = Ledger(tmp_path / "broken.sqlite")
    model = PrivateClassifier("mean", **PETS, ledger=ledger).fit(x, y)
    (tmp_path / "broken.sqlite").write_bytes(b"no ledger" * 1000)
    with pytest.raises(SearchStopped, match="cannot be read") as stopped:
        folds(model, x, y, 1)
    assert isinstance(stopped.value.refusal, LedgerError)


def test_it_can_be_pickled_and_is_no_exception():
    stopped = pickle.loads(pickle.dumps(SearchStopped("all of it", BudgetExceeded("no room"))))
    assert str(stopped) == "all of it"
    assert str(stopped.refusal) == "no room"
    assert not isinstance(stopped, Exception)
