"""The scikit-learn adapter."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from dptransfer import AdaMix, Ledger, MeanPrototypes, NoisyGD, PublicEmbeddings, load
from dptransfer.errors import ArgumentError
from dptransfer.sklearn import PrivateClassifier


@pytest.fixture(autouse=True)
def ledger_in_a_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "ledger.sqlite"))


@parametrize_with_checks(
    [PrivateClassifier("mean", classes="observed", name="checks")]
)  # the same rows again
def test_it_keeps_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def blobs():
    rng = np.random.default_rng(0)
    y = np.repeat(["cat", "dog", "owl"], 200)
    return np.eye(16)[np.repeat(np.arange(3), 200)] + rng.normal(0, 0.1, (600, 16)), y


def test_it_works_at_the_end_of_a_pipeline():
    x, y = blobs()
    model = PrivateClassifier("mean", classes=["cat", "dog", "owl", "yak"], epsilon=4.0, random_state=3)
    pipeline = make_pipeline(Normalizer(), model).fit(x, y)
    assert pipeline.score(x, y) > 0.9
    assert pipeline[-1].guarantee_.epsilon <= 4.0
    assert pipeline.predict_proba(x).shape == (600, 4)  # a declared class without examples keeps its column


def test_classes_are_not_read_off_the_labels_unless_declared_public():
    x, y = blobs()
    with pytest.raises(ArgumentError, match="must be declared"):
        PrivateClassifier("mean").fit(x, y)


def test_every_fit_is_charged():
    x, y = blobs()
    ledger = Ledger.in_memory()
    model = PrivateClassifier(MeanPrototypes(), classes=["cat", "dog", "owl"], name="pets", ledger=ledger)
    model.fit(x, y)
    first = ledger.spent(ledger.find("pets"), delta=1e-5).epsilon
    model.fit(x, y)
    assert first < ledger.spent(ledger.find("pets"), delta=1e-5).epsilon


def test_a_release_of_its_model_names_the_classes(tmp_path):
    x, y = blobs()
    PrivateClassifier("mean", classes=["cat", "dog", "owl"]).fit(x, y).model_.save(tmp_path / "model")
    assert load(tmp_path / "model").classes == ("cat", "dog", "owl")
    assert PrivateClassifier("mean", classes=[3, 7]).fit(x[:2], [3, 7]).model_.classes == ("3", "7")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"classes": ["cat", "cat", "dog", "owl"]}, "distinct"),
        ({"classes": [["cat", "dog", "owl"]]}, "one list"),
        ({"relation": "neighbours"}, "relation must be one of"),
    ],
)
def test_a_wrong_declaration_is_refused_before_the_charge(wrong, said):
    x, y = blobs()
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match=said):
        PrivateClassifier("mean", **({"classes": ["cat", "dog", "owl"], "ledger": ledger} | wrong)).fit(x, y)
    assert ledger.history() == []


@pytest.mark.parametrize("classes", [["cat", "dog", "owl"], [3, 7, 9]])
def test_a_linear_head_with_labelled_public_rows(classes):
    x, _ = blobs()
    y = np.repeat(classes, 200)
    shots = PublicEmbeddings(x[::40], y[::40], classes=classes)
    given = {"classes": classes, "epsilon": 4.0, "random_state": 3, "ledger": Ledger.in_memory()}
    model = PrivateClassifier(AdaMix(steps=5), public=shots, **given).fit(x, y)
    assert model.score(x, y) > 0.9
    assert model.guarantee_.epsilon <= 4.0
    assert [event.times for event in model.model_.events] == [1, 5]  # the class counts, then the steps
    pool = PublicEmbeddings(x[::3]).with_shots(shots)
    assert PrivateClassifier(AdaMix(steps=5), public=pool, **given).fit(x, y).score(x, y) > 0.9


@pytest.mark.parametrize("method", [NoisyGD(steps=5), "noisy-gd"])
def test_a_linear_head_by_object_and_by_name(method):
    x, y = blobs()
    given = {"classes": ["cat", "dog", "owl"], "epsilon": 4.0, "random_state": 3}
    model = PrivateClassifier(method, ledger=Ledger.in_memory(), **given).fit(x, y)
    assert model.score(x, y) > 0.9
    assert model.predict_proba(x).shape == (600, 3)
