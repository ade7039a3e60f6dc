"""Tuning is spending: what it costs, what it tells, and what it refuses."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from dptransfer.accounting import epsilon_of, fits
from dptransfer.base.progress import reported_to
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.errors import ArgumentError, BudgetError, DPTransferError
from dptransfer.ledger import Ledger
from dptransfer.methods import (
    CoinPressPrototypes,
    MeanPrototypes,
    NoisyGD,
    PrivateTuning,
    PublicPrototypes,
)
from dptransfer.methods.tuning import every_combination
from dptransfer.noise import SeededNoise
from dptransfer.privacy import LABEL_KEPT, BestOfManyEvent, Budget, Unit
from dptransfer.release import read_release

from .samples import Backwards, refused_uncharged

WIDTH = 8
FACTS = Facts(("ant", "bee", "cat"), WIDTH)
BUDGET = Budget(epsilon=4.0, delta=1e-5)
GOOD = MeanPrototypes()
BAD = Backwards()


def data(rows=600, **people):
    y = np.arange(rows) % 3
    x = np.eye(3, WIDTH)[y] * 3 + np.random.default_rng(0).normal(size=(rows, WIDTH))
    return PrivateEmbeddings(x, y, classes=FACTS.classes, name="tuned", **people)


def fitted(method, seed=1, **given):
    return method.fit(data(), budget=BUDGET, ledger=Ledger.in_memory(), noise=SeededNoise(seed), **given)


@dataclass(frozen=True)
class Spends(MeanPrototypes):
    """Planted to be worse: it asks twice and was charged for once."""

    name: ClassVar[str] = "spends"

    def run(self, task):
        outcome = super().run(task)
        return replace(outcome, events=outcome.events * 2)


def test_a_candidate_that_runs_other_steps_than_it_planned_is_not_released():
    with pytest.raises(DPTransferError, match="must cost"):
        fitted(PrivateTuning(candidates=(Spends(),)))


def test_the_better_candidate_is_nearly_always_released():
    """About ten trials of two candidates: that all were of the bad one is unlikely."""
    tuned = PrivateTuning(candidates=(BAD, GOOD), mean_trials=10)
    rights = [fitted(tuned, seed).score(data().rows, data().labels) > 0.8 for seed in range(12)]
    assert sum(rights) >= 8
    alone = PrivateTuning(candidates=(BAD,), mean_trials=10)
    assert fitted(alone).score(data().rows, data().labels) < 0.4


def test_one_event_covers_the_candidates_and_their_scores_and_fits_the_budget():
    tuned = PrivateTuning(candidates=(GOOD, NoisyGD(steps=5)), mean_trials=10)
    plan = tuned.plan(FACTS, BUDGET)
    (event,) = plan.events
    assert isinstance(event, BestOfManyEvent)
    assert [len(trial) for trial in event.candidates] == [2, 2]
    assert all("classified correctly" in trial[-1].label for trial in event.candidates)
    assert fits(plan.events, BUDGET)
    assert 0.98 * BUDGET.epsilon <= plan.guarantee.epsilon <= BUDGET.epsilon
    # A trial alone costs less than the whole, and without its score it would look cheaper than it is.
    assert epsilon_of(event.candidates[0][:1], 1e-5) < epsilon_of(event.candidates[0], 1e-5) < BUDGET.epsilon
    assert fitted(tuned).events == plan.events


def test_of_people_every_trial_and_its_score_count_whole_persons(tmp_path):
    people = data(people=np.arange(600) // 6)
    tuned = PrivateTuning(candidates=(BAD, GOOD))
    model = tuned.fit(people, budget=BUDGET, ledger=Ledger.in_memory(), noise=SeededNoise(1))
    (event,) = model.events
    assert {one.unit for trial in event.candidates for one in trial} == {event.unit} == {Unit.PERSON}
    score = event.candidates[0][-1]
    assert (score.unit, score.sensitivity) == (Unit.PERSON, 1.0)
    assert model.guarantee.unit is Unit.PERSON
    assert model.score(people.rows, people.labels) > 0.5
    model.save(tmp_path / "model", unsafe_for_publication=True)
    assert read_release(tmp_path / "model").events == model.events


def test_what_any_candidate_assumes_the_whole_does():
    plain = PrivateTuning(candidates=(MeanPrototypes(), NoisyGD()))
    assert plain.assumptions == MeanPrototypes.assumptions
    narrow = PrivateTuning(candidates=(MeanPrototypes(), CoinPressPrototypes()))
    assert narrow.assumptions == (*MeanPrototypes.assumptions, LABEL_KEPT)


def test_no_progress_tells_how_many_trials_there_are_or_of_which_candidates():
    heard = []
    with reported_to(lambda *told: heard.append(told)):
        fitted(NoisyGD(steps=3))
        assert heard
        heard.clear()
        fitted(PrivateTuning(candidates=(NoisyGD(steps=3), NoisyGD(steps=9)), mean_trials=3))
    assert not heard


def test_the_trials_are_as_many_as_the_source_says_and_drawn_uniformly():
    class Counting(SeededNoise):
        asked: ClassVar[list] = []

        def trials(self, mean, shape):
            Counting.asked.append((mean, shape))
            return 3

        def subset(self, population, size):
            Counting.asked.append(population)
            return super().subset(population, size)

    tuned = PrivateTuning(candidates=(BAD, GOOD), mean_trials=7, shape=1.0)
    tuned.fit(data(), budget=BUDGET, ledger=Ledger.in_memory(), noise=Counting(1))
    assert Counting.asked == [(7, 1.0), 2, 2, 2]


def test_the_notes_say_what_was_tuned_what_it_cost_and_what_won():
    tuned = PrivateTuning(candidates=(NoisyGD(steps=3), NoisyGD(steps=9)), mean_trials=3)
    (plan_note, best), (again, _) = (fitted(tuned, seed).provenance.notes for seed in (1, 2))
    assert plan_note == again  # never how many trials there were
    assert "about 3 trials" in plan_note
    assert best in {f"The best trial was of 'noisy-gd' with steps {steps}." for steps in (3, 9)}


def test_candidates_with_noise_of_their_own_get_the_trial_that_they_need():
    """A small trial cannot pay for one step at the smallest of these noises; a larger one can."""
    tuned = PrivateTuning(candidates=tuple(NoisyGD(noise_multiplier=z) for z in (10.0, 40.0)))
    budget = Budget(epsilon=1.0, delta=1e-5)
    with pytest.raises(BudgetError):
        NoisyGD(noise_multiplier=10.0).plan(FACTS, replace(budget, epsilon=0.25))
    plan = tuned.plan(FACTS, budget)
    assert [trial[0].noise_multiplier for trial in plan.events[0].candidates] == [10.0, 40.0]
    assert fits(plan.events, budget)
    with pytest.raises(BudgetError, match="about 10 trials"):
        PrivateTuning(candidates=(NoisyGD(noise_multiplier=1.0),)).plan(FACTS, budget)


def test_it_plans_by_facts_where_a_candidate_or_the_public_way_does():
    assert not PrivateTuning(candidates=(GOOD,)).plans_by_facts
    assert PrivateTuning(candidates=(GOOD, CoinPressPrototypes())).plans_by_facts
    assert PrivateTuning(candidates=(GOOD,), tune_on_public=True).plans_by_facts


@pytest.mark.parametrize("found", [(), None, "optuna", lambda trial: GOOD, (GOOD, "mean")])
def test_anything_but_a_fixed_list_of_methods_is_refused(found):
    with pytest.raises(ArgumentError, match="fixed list"):
        PrivateTuning(candidates=found)


def test_settings_that_have_no_meaning_are_refused():
    with pytest.raises(ArgumentError, match="shape"):
        PrivateTuning(candidates=(GOOD,), shape=float("inf"))
    with pytest.raises(ArgumentError, match="score_share"):
        PrivateTuning(candidates=(GOOD,), score_share=1.0)


@pytest.mark.parametrize("budget", [Budget(epsilon=1.0), Budget.zcdp(0.1), Budget.gdp(0.5)], ids=str)
def test_a_budget_in_another_currency_is_refused_with_a_reason(budget):
    with pytest.raises(BudgetError, match=r"epsilon, delta"):
        PrivateTuning(candidates=(GOOD,)).plan(FACTS, budget)


def test_what_a_candidate_needs_is_asked_for_before_anything_is_charged():
    tuned = PrivateTuning(candidates=(GOOD, PublicPrototypes()))
    assert "public rows" in refused_uncharged(tuned, data())


def test_on_public_rows_tuning_is_free_and_the_winner_costs_what_it_costs_alone():
    pool = PublicEmbeddings(np.random.default_rng(5).normal(size=(300, WIDTH)))
    tuned = PrivateTuning(candidates=(BAD, GOOD), tune_on_public=True)
    plan = tuned.plan(replace(FACTS, size=600), BUDGET, pool)
    assert plan.method is GOOD
    assert plan.events == GOOD.plan(FACTS, BUDGET, pool).events
    assert "no private row" in plan.notes[0]
    with pytest.raises(ArgumentError, match="needs some"):
        tuned.plan(FACTS, BUDGET)


def gradient(settings):
    return NoisyGD(**settings)


def test_every_combination_comes_with_its_settings():
    found = every_combination(gradient, {"steps": (2, 5), "clip": [0.5, 1.0]})
    assert [list(settings.values()) for settings, _ in found] == [[2, 0.5], [2, 1.0], [5, 0.5], [5, 1.0]]
    assert all(method == NoisyGD(**settings) for settings, method in found)


@pytest.mark.parametrize(
    ("make", "lists", "said"),
    [
        (gradient, {"steps": [2, 0]}, "^--tune steps=0: steps must be"),
        (gradient, {"steps": [2, 2]}, "two of these are the same"),
        (lambda settings: MeanPrototypes(), {"steps": [2, 5]}, "two of these are the same"),
        (gradient, {"steps": [2]}, "got one"),
        (gradient, {}, "got one"),
        (gradient, {"steps": []}, "'steps' has \\[\\]"),
        (gradient, {"steps": "25"}, "'steps' has '25'"),
        (gradient, {"steps": range(1, 12), "clip": [one / 10 for one in range(1, 11)]}, "got more"),
    ],
)
def test_what_is_no_choice_is_refused(make, lists, said):
    with pytest.raises(ArgumentError, match=said):
        every_combination(make, lists, option="--tune ")
