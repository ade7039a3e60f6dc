"""The classifier: conventions of scikit-learn, methods, classes, one account under a name, clones, scores."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from dptransfer import Ledger, PrivateEmbeddings, PublicEmbeddings, load
from dptransfer.errors import ArgumentError, DataError, RowsOnRecord
from dptransfer.methods import AdaMix, MeanPrototypes, NoisyGD
from dptransfer.privacy import Unit
from dptransfer.sklearn.pipeline import make_private_pipeline
from dptransfer.sklearn.private_classifier import PrivateClassifier
from dptransfer.sklearn.search import PrivateSearch
from sklearn import config_context

pytestmark = pytest.mark.filterwarnings("ignore::dptransfer.errors.PrivacyWarning")
PETS = {"classes": ["cat", "dog", "owl"], "name": "pets"}


# With the default ledger file: one in memory cannot be pickled, which is among the conventions.
@parametrize_with_checks([PrivateClassifier("mean", classes="observed", name="pets")])
def test_it_keeps_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def test_it_works_at_the_end_of_a_pipeline(blobs):
    x, y = blobs
    model = PrivateClassifier(
        "mean", classes=["cat", "dog", "owl", "yak"], name="pets", epsilon=4.0, random_state=3
    )
    pipeline = make_pipeline(Normalizer(), model).fit(x, y)
    assert pipeline.score(x, y) > 0.9
    assert pipeline[-1].guarantee_.epsilon <= 4.0
    assert pipeline.predict_proba(x).shape == (600, 4)  # a declared class without examples keeps its column


def test_classes_are_not_read_off_the_labels_unless_declared_public(blobs):
    x, y = blobs
    with pytest.raises(DataError, match="declared"):
        PrivateClassifier("mean", name="pets").fit(x, y)


def test_a_release_of_its_model_names_the_classes(tmp_path, blobs):
    x, y = blobs
    PrivateClassifier("mean", **PETS).fit(x, y).model_.save(tmp_path / "model")
    assert load(tmp_path / "model").classes == ("cat", "dog", "owl")
    assert PrivateClassifier("mean", classes=[3, 7], name="pets").fit(x[:2], [3, 7]).model_.classes == (
        "3",
        "7",
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"relation": "neighbours"}, "relation must be one of"),
        ({"method": "meen"}, "Did you mean 'mean'"),
        ({"name": None}, "must say which data set .* got name=None. Pass name="),
        ({"name": " "}, "must say which data set"),
    ],
)
def test_a_wrong_declaration_is_refused_before_the_charge(wrong, said, blobs):
    x, y = blobs
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match=said):
        PrivateClassifier(**({"method": "mean"} | PETS | {"ledger": ledger} | wrong)).fit(x, y)
    assert ledger.history() == []


@pytest.mark.parametrize("classes", [["cat", "dog", "owl"], [3, 7, 9]])
def test_a_linear_head_with_labelled_public_rows(classes, blobs):
    x, _ = blobs
    y = np.repeat(classes, 200)
    others = x + 0.01  # close to the private rows, and none of them
    shots = PublicEmbeddings(others[::40], y[::40], classes=classes)
    given = {
        "classes": classes,
        "name": "pets",
        "epsilon": 4.0,
        "random_state": 3,
        "ledger": Ledger.in_memory(),
    }
    model = PrivateClassifier(AdaMix(steps=5), public=shots, **given).fit(x, y)
    assert model.score(x, y) > 0.9
    assert model.guarantee_.epsilon <= 4.0
    assert [event.times for event in model.model_.events] == [1, 5]  # the class counts, then the steps
    pool = PublicEmbeddings(others[::3]).with_shots(shots)
    assert PrivateClassifier(AdaMix(steps=5), public=pool, **given).fit(x, y).score(x, y) > 0.9


@pytest.mark.parametrize("method", [NoisyGD(steps=5), "noisy-gd"])
def test_a_linear_head_by_object_and_by_name(method, blobs):
    x, y = blobs
    given = PETS | {"epsilon": 4.0, "random_state": 3}
    model = PrivateClassifier(method, ledger=Ledger.in_memory(), **given).fit(x, y)
    assert model.score(x, y) > 0.9
    assert model.predict_proba(x).shape == (600, 3)


def test_a_method_for_pictures_is_refused_in_words_before_the_charge(blobs):
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match="takes images"):
        PrivateClassifier("film", **PETS, ledger=ledger).fit(*blobs)
    assert ledger.history() == []


def test_every_fit_is_charged(blobs):
    x, y = blobs
    ledger = Ledger.in_memory()
    model = PrivateClassifier(MeanPrototypes(), **PETS, ledger=ledger)
    model.fit(x, y)
    first = ledger.privacy_spent(ledger.find("pets"), delta=1e-5).epsilon
    model.fit(x, y)
    assert first < ledger.privacy_spent(ledger.find("pets"), delta=1e-5).epsilon


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


def ids(count=600, rows_each=4):
    return [f"patient {row % (count // rows_each)}" for row in range(count)]


def units(ledger):
    return [event.unit for entry in ledger.history() if hasattr(entry, "events") for event in entry.events]


def test_people_are_protected_where_the_fit_is_told_whose_each_row_is(blobs):
    x, y = blobs
    made = PrivateClassifier("mean", **PETS, epsilon=4.0, ledger=Ledger.in_memory(), person_bound=2.0)
    assert made.set_params(rows_per_person=4.0).fit(x, y, people=ids()).score(x, y) > 0.9
    facts = made.model_.facts
    assert made.guarantee_.unit is facts.unit is Unit.PERSON
    assert (facts.person_bound, facts.rows_per_person) == (2.0, 4.0)
    plain = clone(made).set_params(person_bound=1.0, rows_per_person=None, ledger=Ledger.in_memory())
    assert plain.fit(x, y).guarantee_.unit is Unit.ROW


def test_weights_in_the_place_of_people_are_refused(blobs):
    with pytest.raises(TypeError):
        PrivateClassifier("mean", **PETS).fit(*blobs, np.ones(600))


@pytest.mark.parametrize("people", [ids(599), np.zeros((600, 1)), [True] * 600, [["secret"]] * 600])
def test_people_that_do_not_fit_the_rows_are_refused_before_the_charge(people, blobs):
    ledger = Ledger.in_memory()
    with pytest.raises(DataError, match=r"^people must") as caught:
        PrivateClassifier("mean", **PETS, ledger=ledger).fit(*blobs, people=people)
    assert "secret" not in str(caught.value)
    assert ledger.history() == []


def test_people_come_through_pipelines_and_folds_with_their_rows(blobs, monkeypatch):
    x, y = blobs
    seen = []
    plain = PrivateEmbeddings.__init__

    def watched(self, rows, *args, **how):
        plain(self, rows, *args, **how)
        seen.append((len(self.rows), self.people))

    monkeypatch.setattr(PrivateEmbeddings, "__init__", watched)
    ledger = Ledger.in_memory()
    model = PrivateClassifier("mean", **PETS, ledger=ledger)
    whose = np.array(ids())
    make_private_pipeline(model).fit(x, y, privateclassifier__people=whose)
    cross_val_score(model, x, y, cv=3, params={"people": whose})
    assert [(rows, len(set(people))) for rows, people in seen] == [(600, 150)] + 3 * [(400, 150)]
    assert set(units(ledger)) == {Unit.PERSON}


def test_metadata_routing_gives_people_to_the_model_and_groups_to_the_folds(blobs):
    x, y = blobs
    ledger = Ledger.in_memory()
    with config_context(enable_metadata_routing=True):
        model = PrivateClassifier("mean", **PETS, ledger=ledger).set_fit_request(people="groups")
        scores = cross_val_score(
            make_private_pipeline(model), x, y, cv=GroupKFold(3), params={"groups": np.array(ids())}
        )
    assert min(scores) > 0.9
    assert units(ledger) == [Unit.PERSON] * 3
