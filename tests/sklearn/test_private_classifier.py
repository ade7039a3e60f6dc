"""The classifier: conventions of scikit-learn, methods, classes, one account under a name, clones, scores."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from dptransfer import Budget, Ledger, PrivateEmbeddings, PublicEmbeddings, load
from dptransfer.errors import (
    ArgumentError,
    BudgetExceeded,
    DataError,
    LedgerError,
    RelationMismatch,
    RowsOnRecord,
)
from dptransfer.ledger import Charge
from dptransfer.methods import AdaMix, MeanPrototypes, NoisyGD
from dptransfer.privacy import BestOfManyEvent, Unit
from dptransfer.sklearn.pipeline import make_private_pipeline
from dptransfer.sklearn.private_classifier import PrivateClassifier, PrivateSearch, SearchStopped
from sklearn import config_context

pytestmark = pytest.mark.filterwarnings(
    "ignore::dptransfer.errors.PrivacyWarning", "ignore:This process:DeprecationWarning"
)
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
        ({"relation": "neighbours"}, "relation"),
        ({"name": None}, "one account"),
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


def test_an_ordinary_error_would_have_been_swallowed(blobs, monkeypatch):
    x, y = blobs
    ledger = Ledger.in_memory()
    ledger.set_budget("pets", Budget(epsilon=2.0, delta=1e-5))
    monkeypatch.setattr("dptransfer.sklearn.private_classifier.concerns_privacy", lambda problem: False)
    with pytest.warns(Warning, match="2 fits failed"):
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
    with pytest.raises(SearchStopped, match="2 fits of"):
        folds(model, x, y, 1)
    with pytest.raises(SearchStopped, match="nothing since") as stopped:
        folds(PrivateClassifier("mean", **PETS, ledger=for_three), x, y, 1)
    assert f"before that {for_three.datasets()[0].sentence}" in str(stopped.value)


def test_a_wrong_setting_is_no_refusal_and_costs_nothing(blobs):
    x, y = blobs
    ledger = Ledger.in_memory()
    model = PrivateClassifier("mean", **PETS, ledger=ledger)
    with pytest.warns(Warning, match="2 fits failed|non-finite"):
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
    with pytest.raises(SearchStopped, match="1 fit of") as stopped:
        folds(PrivateClassifier("mean", **PETS, ledger=Ledger.in_memory()), x, y, 1)
    assert "17" not in str(stopped.value).partition("The fit said")[2]
    assert "ValueError" in str(stopped.value)


def test_a_ledger_that_cannot_be_read_stops_a_search_too(blobs, tmp_path):
    x, y = blobs
    ledger = Ledger(tmp_path / "broken.sqlite")
    model = PrivateClassifier("mean", **PETS, ledger=ledger).fit(x, y)
    (tmp_path / "broken.sqlite").write_bytes(b"no ledger" * 1000)
    with pytest.raises(SearchStopped, match="cannot be read") as stopped:
        folds(model, x, y, 1)
    assert isinstance(stopped.value.refusal, LedgerError)


STEPS = {"steps": [2, 5]}


def search(method="noisy-gd", grid=STEPS, **given):
    given = {"classes": ["cat", "dog", "owl"], "name": "pets", "ledger": Ledger.in_memory()} | given
    return PrivateSearch(method, grid, **({"epsilon": 8.0, "mean_trials": 2.0, "random_state": 3} | given))


@pytest.mark.slow
@parametrize_with_checks([PrivateSearch("noisy-gd", STEPS, mean_trials=1.5, classes="observed", name="pets")])
def test_a_search_keeps_the_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def test_one_fit_is_one_charge_that_covers_the_search(blobs):
    x, y = blobs
    made = search().fit(x, y)
    (charge,) = [entry for entry in made.ledger.history() if isinstance(entry, Charge)]
    (event,) = charge.events
    assert isinstance(event, BestOfManyEvent)
    assert (len(event.candidates), event.mean_trials) == (2, 2.0)
    assert made.guarantee_.epsilon <= 8.0
    assert made.model_.events == (event,)
    assert made.score(x, y) > 0.9
    assert made.predict_proba(x).shape == made.decision_function(x).shape == (600, 3)


def test_what_won_is_told_as_it_was_listed_and_as_the_release_tells_it(blobs):
    x, y = blobs
    won = set()
    for seed in (1, 2):
        made = search(random_state=seed).fit(x, y)
        steps = made.best_params_["steps"]
        assert list(made.best_params_) == ["steps"]
        assert f"The best trial was of 'noisy-gd' with steps {steps}." in made.model_.provenance.notes
        won.add(steps)
    assert won == {2, 5}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"grid": None}, "grid"),
        ({"grid": {"stps": [1, 2]}}, "Did you mean"),
        ({"name": None}, "one account"),
    ],
)
def test_what_is_wrong_is_refused_before_the_charge(wrong, said, blobs):
    made = search(**wrong)
    with pytest.raises(ArgumentError, match=said):
        made.fit(*blobs)
    assert made.ledger.history() == []
