"""What is chosen, why, and that no private row has a part in it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dptransfer.accounting import fits
from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError, BudgetError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods import (
    Auto,
    FiLM,
    MeanPrototypes,
    PublicPriorPrototypes,
    PublicPrototypes,
    TopKPrototypes,
    auto,
)
from dptransfer.methods.auto import AutoOnPictures, pixels_pay
from dptransfer.methods.method import Task
from dptransfer.methods.surrogate import FAMILIES, scaled_budget
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation, SelectionEvent, Unit

from .samples import Backwards

WIDTH = 16
POOL = PublicEmbeddings(np.random.default_rng(5).normal(size=(300, WIDTH)) * np.geomspace(1, 0.2, WIDTH))
FACTS = Facts(("ant", "bee", "cat", "dog"), WIDTH, size=400)
BUDGET = Budget(epsilon=1.0, delta=1e-5)
TRIALS = 2 * len(FAMILIES)  # of two candidates
GOOD, NARROW = MeanPrototypes(), MeanPrototypes(features=PublicMap(axes=1))
BAD = Backwards()


@pytest.fixture(autouse=True)
def no_memory():
    auto._tried.cache_clear()


def data(facts=FACTS):
    y = np.arange(400) % len(facts.classes)
    x = np.eye(len(facts.classes), WIDTH)[y] * 3 + np.random.default_rng(0).normal(size=(400, WIDTH))
    return PrivateEmbeddings(x, y, classes=facts.classes, name="auto", size=facts.size)


@pytest.mark.parametrize("candidates", [(BAD, GOOD), (GOOD, BAD), (BAD, BAD, GOOD)])
def test_the_candidate_that_is_planted_to_be_better_is_taken(candidates):
    plan = Auto(candidates=candidates).plan(FACTS, BUDGET, POOL)
    assert plan.method is GOOD
    assert plan.events == GOOD.plan(FACTS, BUDGET, POOL).events
    assert Auto(candidates=(BAD, BAD)).plan(FACTS, BUDGET, POOL).method is BAD
    with pytest.raises(AssertionError, match="belongs to"):  # its own run is never used
        Auto().run(Task(plan, UnitNorm().fit(WIDTH, None), data(), SeededNoise(0), POOL))


def test_fit_runs_what_was_chosen_and_trials_leave_no_trace_in_the_ledger():
    chooser, ledger = Auto(candidates=(BAD, GOOD)), Ledger.in_memory()
    model = chooser.fit(data(), POOL, budget=BUDGET, ledger=ledger, noise=SeededNoise(1))
    assert model.provenance.method == "mean"
    assert model.provenance.notes[0].startswith("Auto chose 'mean'. On tasks")
    assert model.score(data().rows, data().labels) > 0.7
    assert [type(entry).__name__ for entry in ledger.history()] == ["Charge", "ClosingEntry"]


def scores_of(monkeypatch, *scores):
    """As if every candidate had this accuracy on each of two tasks, or these on the one and the other."""
    found = np.array([np.broadcast_to(score, 2) for score in scores], dtype=np.float64)
    monkeypatch.setattr(auto, "_tried", lambda trial: found)


OTHER = MeanPrototypes(features=PublicMap(axes=2))


@pytest.mark.parametrize(
    ("scores", "candidates", "margin", "taken"),
    [
        ((0.7, 0.705), (GOOD, NARROW), 0.01, GOOD),
        ((0.7, 0.711), (GOOD, NARROW), 0.01, NARROW),
        ((0.7, 0.75), (GOOD, NARROW), 0.1, GOOD),
        ((0.7, 0.7, 0.6), (NARROW, GOOD, BAD), 0, NARROW),  # a tie
        ((0.7, 0.7001, 0.6), (NARROW, GOOD, BAD), 0, GOOD),
        # Another method needs a longer lead than a variant of the default.
        ((0.7, 0.729), (GOOD, BAD), 0.005, GOOD),
        ((0.7, 0.731), (GOOD, BAD), 0.005, BAD),
        ((0.7, 0.729), (GOOD, NARROW), 0.005, NARROW),
        # Who is behind on one task is not taken for its mean.
        (((0.7, 0.6), (0.95, 0.59), (0.72, 0.63)), (GOOD, NARROW, OTHER), 0.005, OTHER),
        (((0.7, 0.6), (0.95, 0.6), (0.72, 0.63)), (GOOD, NARROW, OTHER), 0.005, NARROW),
    ],
)
def test_the_default_is_kept_unless_another_is_ahead_by_enough_and_nowhere_behind(
    monkeypatch, scores, candidates, margin, taken
):
    scores_of(monkeypatch, *scores)
    assert Auto(candidates=candidates, margin=margin).plan(FACTS, BUDGET, POOL).method is taken


def test_labelled_shots_of_the_classes_bring_the_methods_that_use_them(monkeypatch):
    seen = listening(monkeypatch, pool=None)
    rows = np.random.default_rng(6).normal(size=(8, WIDTH))
    of_ours = PublicEmbeddings(rows, [*FACTS.classes, *FACTS.classes], classes=FACTS.classes)
    of_others = PublicEmbeddings(rows, [0, 1] * 4, classes=[0, 1])
    plan = Auto().plan(FACTS, BUDGET, POOL.with_shots(of_ours))
    assert {one.name for one, _, _ in seen} == {"public-prior", "adamix", "only-public", "noisy-gd"}
    assert "tell well" in plan.notes[0]
    seen.clear()
    assert Auto().plan(FACTS, BUDGET, POOL.with_shots(of_others)).method == PublicPriorPrototypes()
    assert not seen


def test_with_unlabelled_public_rows_the_default_is_taken_untried_and_says_why(monkeypatch):
    """Such tasks were measured to rank these methods hardly better than chance."""
    seen = listening(monkeypatch)
    for facts in (FACTS, replace(FACTS, size=None), PEOPLE):
        plan = Auto().plan(facts, BUDGET, POOL)
        assert plan.method == PublicPriorPrototypes()
        assert plan.notes[0].endswith("have no labels of these classes, so no trial could rank the methods.")
    assert not seen


def test_who_is_behind_on_a_task_is_tried_no_further(monkeypatch):
    scores = {GOOD: [0.5, 0.5, 0.5, 0.5], NARROW: [0.6, 0.4], BAD: [0.4]}
    left = {candidate: iter(numbers) for candidate, numbers in scores.items()}
    monkeypatch.setattr(auto, "_accuracy", lambda candidate, task, budget: next(left[candidate]))
    plan = Auto(candidates=(GOOD, NARROW, BAD)).plan(FACTS, BUDGET, POOL)
    assert plan.method is GOOD
    assert "50.0% on 2" in plan.notes[0]  # nobody is left after two tasks
    assert re.search(r"was 0.0 points behind on 2, 'backwards' was 10.0 points behind on 1\.", plan.notes[0])
    assert [len(list(numbers)) for numbers in left.values()] == [2, 0, 0]


def listening(monkeypatch, pool=POOL):
    """(candidate, rows of the task, budget) of every trial fit."""
    seen = []

    def accuracy(candidate, task, budget):
        assert pool is None or task.public is pool
        seen.append((candidate, len(task.private.labels), budget))
        return 0.5

    monkeypatch.setattr(auto, "_accuracy", accuracy)
    return seen


def test_the_declared_size_or_a_hundred_per_class_is_tried(monkeypatch):
    seen = listening(monkeypatch)
    for facts in (replace(FACTS, size=1000), replace(FACTS, size=None)):
        Auto(candidates=(GOOD, NARROW)).plan(facts, BUDGET, POOL)
    assert [rows for _, rows, _ in seen] == pytest.approx([1000] * TRIALS + [400] * TRIALS, rel=0.02)
    assert [candidate for candidate, _, _ in seen[:TRIALS]] == [GOOD, NARROW] * len(FAMILIES)


PEOPLE = replace(FACTS, unit=Unit.PERSON, rows_per_person=5.0)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (FACTS, "the declared size"),
        (replace(FACTS, size=None), "100 examples per class"),
        (PEOPLE, "the declared size, 5 examples of each"),
        (replace(PEOPLE, size=None, rows_per_person=None), "4 examples of each"),
    ],
)
def test_the_note_tells_the_scores_and_what_is_assumed(monkeypatch, facts, words):
    scores_of(monkeypatch, 0.6, 0.75)
    (note,) = Auto(candidates=(GOOD, NARROW)).plan(facts, BUDGET, POOL).notes
    for said in (words, "'mean' had 60.0% on 2", "axes=1", "15.0 points ahead on 2"):
        assert said in note


def test_a_second_call_tries_nothing_and_other_facts_or_budgets_do(monkeypatch):
    seen, chooser = listening(monkeypatch), Auto(candidates=(GOOD, NARROW))
    first = chooser.plan(FACTS, BUDGET, POOL)
    assert len(seen) == TRIALS
    again = PublicEmbeddings(POOL.rows.copy())  # the same rows in another object: known by their content
    assert chooser.plan(replace(FACTS), BUDGET, again).notes == first.notes
    assert Auto(candidates=(GOOD, NARROW), margin=0.2).plan(FACTS, BUDGET, POOL).method is GOOD
    assert len(seen) == TRIALS
    for facts, budget, chosen in (
        (replace(FACTS, size=500), BUDGET, chooser),
        (FACTS, Budget(epsilon=2.0, delta=1e-5), chooser),
        (FACTS, replace(BUDGET, relation=Relation.REPLACE_ONE), chooser),
        (FACTS, BUDGET, Auto(candidates=(GOOD, MeanPrototypes(features=PublicMap(axes=2))))),
    ):
        before = len(seen)
        chosen.plan(facts, budget, POOL)
        assert len(seen) == before + TRIALS


class Untouchable(PrivateEmbeddings):
    """Rows that must not be looked at; `readable` lets them be."""

    readable = True

    def __getattribute__(self, name):
        if name in ("rows", "labels") and not type(self).readable:
            raise AssertionError("a private row was read")
        return super().__getattribute__(name)


def test_planning_touches_no_private_row(monkeypatch):
    private = Untouchable(data().rows, data().labels, classes=range(4), name="auto", size=400)
    monkeypatch.setattr(Untouchable, "readable", False)
    chooser = Auto(candidates=(BAD, GOOD))
    from_facts = chooser.plan(Facts(tuple(range(4)), WIDTH, size=400), BUDGET, POOL)
    auto._tried.cache_clear()
    from_data = chooser.plan(private.facts, BUDGET, POOL)
    assert (from_facts.events, from_facts.notes) == (from_data.events, from_data.notes)
    with pytest.raises(AssertionError, match="was read"):  # the half that can fail: fitting does read them
        chooser.fit(private, POOL, budget=BUDGET, ledger=Ledger.in_memory(), noise=SeededNoise(1))


def test_a_pure_budget_is_spent_on_selections(monkeypatch):
    seen = listening(monkeypatch)
    plan = Auto().plan(FACTS, Budget(epsilon=1.0), POOL)
    assert {type(candidate) for candidate, _, _ in seen} == {PublicPrototypes, TopKPrototypes}
    assert all(isinstance(event, SelectionEvent) for event in plan.events)
    assert plan.guarantee.delta == 0
    assert not any(isinstance(event, SelectionEvent) for event in Auto().plan(FACTS, BUDGET, POOL).events)


def test_a_pure_budget_without_a_pool_is_refused_and_says_what_would_help():
    ledger = Ledger.in_memory()
    with pytest.raises(BudgetError, match="pure budget"):
        Auto().fit(data(), budget=Budget(epsilon=1.0), ledger=ledger, noise=SeededNoise(0))
    assert ledger.history() == []
    assert Auto(candidates=(PublicPrototypes(),)).plan(FACTS, Budget(epsilon=1.0)).events


BUDGETS = [
    Budget(epsilon=1.0, delta=1e-5),
    Budget.zcdp(0.05),
    Budget.gdp(0.3),
    Budget.gdp(0.3, relation=Relation.REPLACE_ONE),
]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("factor", [1.5, 15.0])
def test_a_scaled_budget_has_noise_smaller_by_the_factor(budget, factor):
    scaled = scaled_budget(budget, factor)
    before, after = (GOOD.plan(FACTS, each).mechanisms[0].noise_multiplier for each in (budget, scaled))
    assert before / after == pytest.approx(factor, rel=1e-4)
    assert (scaled.flavour, scaled.relation, scaled.delta) == (budget.flavour, budget.relation, budget.delta)
    assert not fits(GOOD.plan(FACTS, scaled).events, budget)  # larger, not smaller
    assert scaled_budget(budget, 1.0) is budget


def test_large_tasks_are_tried_small_with_the_noise_to_match(monkeypatch):
    seen = listening(monkeypatch)
    Auto(candidates=(GOOD, NARROW)).plan(replace(FACTS, size=50_000), BUDGET, POOL)
    assert {budget for _, _, budget in seen} == {scaled_budget(BUDGET, 50.0)}
    assert [rows for _, rows, _ in seen] == pytest.approx([1000] * TRIALS, rel=0.01)
    seen.clear()
    facts = replace(FACTS, classes=tuple(range(40)), size=None, class_counts=(500,) * 40)
    Auto(candidates=(GOOD, NARROW)).plan(facts, BUDGET, POOL)
    assert [rows for _, rows, _ in seen] == pytest.approx([50 * 40] * TRIALS, rel=0.02)


PICTURES = Facts(tuple(range(10)), shape=(32, 32, 3), size=10_000)


# The cells of docs/how-to/choose-a-method.md: pictures of each of ten classes, ε, and the side of the border.
@pytest.mark.parametrize(
    ("facts", "budget", "pays", "why"),
    [
        *(
            (replace(PICTURES, size=10 * each), replace(BUDGET, epsilon=epsilon), ahead, "about 250")
            for each, epsilon, ahead in [
                *((1000, 1.0, True), (307, 4.0, True), (307, 2.0, False)),
                *((307, 1.0, False), (100, 1.0, False)),
            ]
        ),
        (replace(PICTURES, size=None), BUDGET, False, "undeclared size"),
        (replace(PICTURES, size=None, class_counts=(1000,) * 10), BUDGET, True, "about 250"),
        (replace(PICTURES, unit=Unit.PERSON), BUDGET, False, "has not been tested"),
        (PICTURES, Budget(epsilon=8.0), False, "pure budget"),
    ],
)
def test_pixels_are_taken_where_that_was_measured_to_pay_and_else_not(facts, budget, pays, why):
    found, said = pixels_pay(facts, budget)
    assert found is pays
    assert why in said


def test_the_plan_is_that_of_film_with_the_reason():
    facts, chooser = replace(PICTURES, classes=(0, 1, 2), size=3000), AutoOnPictures(size=32, device="cuda")
    plan = chooser.plan(facts, BUDGET)
    assert plan.method == FiLM(size=32, device="cuda")
    assert plan.events == plan.method.plan(facts, BUDGET).events
    assert plan.notes[0].startswith("Auto chose 'film', which trains on pixels: a class has 268 times")
    with pytest.raises(AssertionError, match="belongs to"):
        chooser.run(Task(plan, None, None, None, None))


def test_where_rows_are_to_be_taken_a_plan_on_pixels_is_refused_with_what_to_do():
    with pytest.raises(ArgumentError, match="would take rows"):
        AutoOnPictures().plan(replace(PICTURES, size=1000), BUDGET)
