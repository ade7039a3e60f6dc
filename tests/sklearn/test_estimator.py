"""What the estimators share: a name, one account, clones, and scores."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from dptransfer import Ledger, MeanPrototypes, NoisyGD, PublicEmbeddings
from dptransfer.errors import ArgumentError, RowsOnRecord
from dptransfer.sklearn import PrivateClassifier, PrivateSearch

pytestmark = pytest.mark.filterwarnings("ignore::dptransfer.errors.PrivacyWarning")
PETS = {"classes": ["cat", "dog", "owl"], "name": "pets"}


def test_every_fit_is_charged(blobs):
    x, y = blobs
    ledger = Ledger.in_memory()
    model = PrivateClassifier(MeanPrototypes(), **PETS, ledger=ledger)
    model.fit(x, y)
    first = ledger.spent(ledger.find("pets"), delta=1e-5).epsilon
    model.fit(x, y)
    assert first < ledger.spent(ledger.find("pets"), delta=1e-5).epsilon


def test_without_a_name_a_fit_is_refused_before_its_arguments_are_looked_at():
    with pytest.raises(ArgumentError, match="must say which data set"):
        PrivateClassifier("mean").fit("no rows", None)


@pytest.mark.parametrize("kind", [PrivateClassifier, PrivateSearch])
def test_what_a_refusal_of_rows_on_record_advises_can_be_done(blobs, kind):
    x, y = blobs
    x = x + 1e-3 * np.random.default_rng(0).normal(size=x.shape)
    ledger = Ledger.in_memory()
    PrivateClassifier("mean", **PETS, ledger=ledger).fit(x, y)
    chosen = {"grid": {"steps": [2, 3]}, "mean_trials": 2, "epsilon": 3.0} if kind is PrivateSearch else {}
    again = kind(**PETS | {"name": "zoo"}, **chosen, method="noisy-gd", ledger=ledger)
    with pytest.raises(RowsOnRecord, match="new_data_set=True"):
        again.fit(x, y)
    again.set_params(new_data_set=True).fit(x, y)
    assert [one.dataset.name for one in ledger.datasets()] == ["pets", "zoo"]


def test_folds_are_charged_to_one_account(blobs):
    x, y = blobs
    ledger = Ledger.in_memory()
    cross_val_score(PrivateClassifier("mean", **PETS, ledger=ledger), x, y, cv=3)
    (account,) = ledger.datasets()
    assert (account.dataset.name, account.charges) == ("pets", 3)
    one = PrivateClassifier("mean", **PETS, ledger=Ledger.in_memory()).fit(x, y)
    assert account.spent.epsilon > 1.5 * one.guarantee_.epsilon


def test_clones_keep_the_settings_and_the_ledger():
    ledger = Ledger.in_memory()
    model = PrivateClassifier(NoisyGD(steps=7), **PETS, epsilon=0.5, ledger=ledger, random_state=1)
    copy = clone(model).set_params(epsilon=2.0)
    assert copy.get_params() == model.get_params() | {"epsilon": 2.0}
    assert copy.ledger is ledger


def test_its_repr_is_one_short_line():
    public = PublicEmbeddings(np.eye(4))
    model = PrivateClassifier(NoisyGD(), classes=list(range(1000)), public=public, name="pets", epsilon=0.5)
    assert repr(model) == "PrivateClassifier(NoisyGD, epsilon=0.5, delta=1e-05, name='pets')"


def test_scores_are_the_share_of_right_answers_and_unknown_labels_are_missed(blobs):
    x, y = blobs
    model = PrivateClassifier("mean", **PETS, epsilon=8.0, random_state=3).fit(x, y)
    right = model.predict(x) == y
    assert model.score(x, y) == right.mean()
    weights = np.arange(len(y))
    assert model.score(x, y, sample_weight=weights) == pytest.approx(right @ weights / weights.sum())
    assert model.score(x, np.full(len(y), "yak")) == 0


def test_an_empty_data_set_is_a_neighbour_like_any_other(blobs):
    x, y = blobs
    model = PrivateClassifier("mean", **PETS).fit(x[:0], y[:0])
    assert model.predict(x[:2]).shape == (2,)
    assert np.isnan(model.score(x[:0], y[:0]))
