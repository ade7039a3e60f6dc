"""The search that is charged once."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from dptransfer import Ledger
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Charge
from dptransfer.methods import NoisyGD, Pace
from dptransfer.privacy import BestOfManyEvent, Unit
from dptransfer.sklearn.private_classifier import SearchStopped
from dptransfer.sklearn.search import PrivateSearch

pytestmark = pytest.mark.filterwarnings("ignore::dptransfer.errors.PrivacyWarning")
STEPS = {"steps": [2, 5]}


def search(method="noisy-gd", grid=STEPS, **given):
    given = {"classes": ["cat", "dog", "owl"], "name": "pets", "ledger": Ledger.in_memory()} | given
    return PrivateSearch(method, grid, **({"epsilon": 8.0, "mean_trials": 2.0, "random_state": 3} | given))


@pytest.mark.slow
@parametrize_with_checks([PrivateSearch("noisy-gd", STEPS, mean_trials=1.5, classes="observed", name="pets")])
def test_it_keeps_the_conventions_of_scikit_learn(estimator, check):
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


def test_a_search_protects_people_where_it_is_told_whose_each_row_is(blobs):
    x, y = blobs
    made = search(person_bound=2.0).fit(x, y, people=np.arange(600) % 150)
    (event,) = made.model_.events
    assert made.guarantee_.unit is event.unit is Unit.PERSON
    assert made.best_params_["steps"] in (2, 5)
    assert made.score(x, y) > 0.9
    assert set(made.predict(x)) == {"cat", "dog", "owl"}


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


def test_parts_and_arrays_of_values_can_be_listed_and_other_settings_are_kept(blobs):
    x, y = blobs
    grid = {"pace.reach": np.array([10.0, 20.0]), "clip": [0.5, 1.0]}
    made = search(NoisyGD(steps=3, pace=Pace(radius=9.0)), grid)
    candidates = made._method().candidates
    wanted = [(reach, clip) for reach in (10.0, 20.0) for clip in (0.5, 1.0)]
    assert candidates == tuple(
        NoisyGD(steps=3, pace=Pace(reach=reach, radius=9.0), clip=clip) for reach, clip in wanted
    )
    best = made.fit(x, y).best_params_
    assert (best["pace.reach"], best["clip"]) in wanted


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"grid": None}, "grid must list the values"),
        ({"grid": {}}, "two configurations at least"),
        ({"grid": {"stps": [1, 2]}}, "stps=1: .*Did you mean 'steps'"),
        ({"grid": {"steps": 5}}, "'steps' has 5"),
        ({"method": "noisy"}, "Did you mean 'noisy-gd'"),
        ({"mean_trials": 0.5}, "mean_trials must be at least 1"),
        ({"name": None}, "must say which data set"),
    ],
)
def test_what_is_wrong_is_refused_before_the_charge(wrong, said, blobs):
    made = search(**wrong)
    with pytest.raises(ArgumentError, match=said):
        made.fit(*blobs)
    assert made.ledger.history() == []


def test_clones_keep_the_settings():
    made = search()
    assert clone(made).set_params(epsilon=1.0).get_params() == made.get_params() | {"epsilon": 1.0}
    assert repr(made) == "PrivateSearch(noisy-gd, epsilon=8.0, delta=1e-05, name='pets')"


def test_a_search_in_cross_validation_is_stopped_like_any_fit(blobs, for_three):
    x, y = blobs
    with pytest.raises(SearchStopped, match="1 fit of 'pets'"):
        cross_val_score(search(epsilon=1.8, ledger=for_three), x, y, cv=3)
