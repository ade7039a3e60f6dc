import math

import numpy as np
import pytest
from scipy.special import ndtr

from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError, BudgetError, DataError
from dptransfer.methods import METHODS, PrivateMethod
from dptransfer.privacy import Budget
from dptransfer_lab.as_published import (
    AS_PUBLISHED,
    PrintedTopK,
    ScriptedPublic,
    epsilon_delta,
    is_private,
    method_of,
    printed_theorem_noise,
    rho_of_budget,
    script_epsilon,
    selection_epsilon,
    settings_of,
)
from dptransfer_lab.tasks import Task
from dptransfer_lab.unprotected import PREFIX, Unprotected

CLASSES = ("cat", "dog", "bird")


@pytest.fixture
def task():
    rng = np.random.default_rng(0)
    centres = 3 * np.eye(3, 12)
    labels = np.repeat([0, 1, 2], 60)
    rows = centres[labels] + rng.normal(size=(180, 12))
    pool = PublicEmbeddings(centres[rng.integers(0, 3, 300)] + rng.normal(size=(300, 12)))
    test = centres[labels] + rng.normal(size=(180, 12))
    return Task(rows, labels, CLASSES, test, labels, pool)


def run(name, task, epsilon=50.0, seed=0):
    return AS_PUBLISHED[name].fit(task, Budget(epsilon=epsilon, delta=1e-5), np.random.default_rng(seed))


def right(model, task):
    return (model.scores(task.test_rows).argmax(axis=1) == task.test_labels).mean()


def test_names_say_what_they_are_and_meet_no_method():
    assert all(name.startswith(PREFIX) for name in AS_PUBLISHED)
    assert not set(AS_PUBLISHED) & set(METHODS)
    assert not any(isinstance(one, PrivateMethod) for one in AS_PUBLISHED.values())


@pytest.mark.parametrize("name", AS_PUBLISHED)
def test_with_a_huge_budget_each_learns_and_repeats_itself(name, task):
    model = run(name, task)
    assert isinstance(model, Unprotected)
    assert right(model, task) > 0.8
    assert (model.weights == run(name, task).weights).all()
    assert not hasattr(model, "save")
    assert not hasattr(model, "guarantee")


@pytest.mark.parametrize("name", [n for n in AS_PUBLISHED if not n.endswith(("paragon", "class-means"))])
def test_a_tiny_budget_is_noise(name, task):
    assert np.mean([right(run(name, task, 0.001, seed), task) for seed in range(8)]) < 0.7


def test_the_printed_theorem_is_met_and_nothing_smaller_meets_it():
    for epsilon in (0.1, 1.0, 4.0):

        def left(sigma, epsilon=epsilon):
            near, far = 1 / (2 * sigma), sigma * epsilon / 2
            return ndtr(near - far) - math.exp(epsilon) * ndtr(-near - far)

        sigma = printed_theorem_noise(epsilon, 1e-5)
        assert left(sigma) <= 0.5e-5 * (1 + 1e-6)
        assert left(0.99 * sigma) > 0.5e-5
    assert printed_theorem_noise(1.0, 1e-5) == pytest.approx(1.23, abs=0.005)


def test_budgets_are_converted_by_exact_curves():
    rho = rho_of_budget(Budget(epsilon=1.99, delta=1e-5))
    assert rho == pytest.approx(0.125, rel=0.01)
    assert rho_of_budget(Budget.zcdp(0.3)) == 0.3
    assert rho_of_budget(Budget.gdp(2.0)) == 2.0
    assert epsilon_delta(Budget.zcdp(0.125))[0] == pytest.approx(1.99, abs=0.01)
    assert selection_epsilon(Budget.zcdp(0.5)) == pytest.approx(2.0)
    assert selection_epsilon(Budget.pure(3.0)) == 3.0
    for refused in (rho_of_budget, epsilon_delta):
        with pytest.raises(BudgetError, match="pure"):
            refused(Budget.pure(1.0))


def test_the_script_doubles_a_pure_epsilon_and_keeps_a_rho():
    assert script_epsilon(Budget.pure(0.7)) == pytest.approx(1.4)
    assert script_epsilon(Budget(epsilon=0.7, delta=1e-5)) == pytest.approx(1.4)
    assert script_epsilon(Budget.zcdp(0.5)) == selection_epsilon(Budget.zcdp(0.5))


def small_task(public=None):
    rows, labels = np.random.default_rng(0).normal(size=(20, 12)), np.arange(20) % 2
    return Task(rows, labels, ("cat", "dog"), rows, labels, public)


def test_the_script_of_public_prototypes_draws_by_its_weights():
    scores, runs = np.array([0.0, 1.0, 2.0]), 40_000
    chosen = ScriptedPublic().choose(scores, 1.0, np.random.default_rng(0), times=runs)
    expected = np.exp(scores) / np.exp(scores).sum()
    assert np.bincount(chosen) / runs == pytest.approx(expected, abs=0.012)


def test_choices_need_a_pool_that_is_large_enough():
    pure, budget, rng = Budget.pure(1.0), Budget(epsilon=1.0, delta=1e-5), np.random.default_rng(0)
    pool, few = small_task(PublicEmbeddings(np.eye(5, 12))), PrintedTopK(k=5)
    for mechanism, own, task_, said in (
        (ScriptedPublic(), pure, small_task(), "public rows"),
        (few, budget, small_task(), "public rows"),
        (few, budget, pool, "more than 5"),
    ):
        with pytest.raises(DataError, match=said):
            mechanism.fit(task_, own, rng)
    model = ScriptedPublic().fit(pool, pure, rng)
    assert "exponent 2" in model.note
    assert set(model.prototypes) == {"cat", "dog"}


def test_top_k_draws_sets_by_the_printed_weights():
    scores, epsilon, k, runs = np.array([3.0, 2.0, 1.0, 0.0]), 1.0, 2, 40_000
    chosen = PrintedTopK(k=k).choose(scores, epsilon, np.random.default_rng(0), times=runs)
    assert (np.diff(chosen, axis=1) > 0).all()
    worst = np.bincount(chosen.max(axis=1), minlength=4) / runs
    weights = np.array([0, 1, 3, 6]) * np.exp(epsilon / 2 * scores)
    assert worst == pytest.approx(weights / weights.sum(), abs=0.012)
    right = np.array([0, 1, 2, 3]) * np.exp(epsilon / 2 * scores)
    assert worst != pytest.approx(right / right.sum(), abs=0.012)


def test_from_zero_never_chooses_the_best_set():
    scores, rng = np.array([9.0, 9.0, 0.0, 0.0]), np.random.default_rng(0)
    best = [0, 1]
    assert best not in PrintedTopK(k=2, from_zero=True).choose(scores, 1.0, rng, times=5000).tolist()
    assert best in PrintedTopK(k=2).choose(scores, 1.0, rng, times=5000).tolist()


@pytest.mark.parametrize("name", [*METHODS, *AS_PUBLISHED])
def test_everything_can_be_named_and_knows_its_settings(name):
    assert method_of(name, {}).name == name
    assert ("features" in settings_of(name, {})) or name not in ("mean", "public-prior", "auto")


def test_settings_of_printed_mechanisms_are_checked():
    assert settings_of("as-published-top-k", {"k": "2"})["k"] == 2
    with pytest.raises(ArgumentError, match="Its settings: "):
        method_of("as-published-top-k", {"kk": 2})
    with pytest.raises(ArgumentError, match="of as-published-"):
        method_of("as-published-nonsense", {})
    with pytest.raises(ArgumentError, match="name that one"):
        method_of("as-published-top-k", {"from_zero": True})


def test_a_method_of_any_package_is_named_by_its_place():
    place = "dptransfer.methods.prototypes.pool_selection:TopKPrototypes"
    assert method_of(place, {"k": 2}) == method_of("top-k", {"k": 2})
    assert is_private(place)
