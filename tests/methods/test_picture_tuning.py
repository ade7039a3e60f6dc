"""Tuning on pictures: what it chooses, what it costs, and what it refuses before anything is charged."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.encoders import apply_delta, encode_pixels, get_encoder
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.methods import FiLM, LoRA, NoisyGD, PictureTuning, PrivateTuning
from dptransfer.methods.method import Task
from dptransfer.methods.replan import verify_release
from dptransfer.noise import SeededNoise
from dptransfer.privacy import BestOfManyEvent, Budget, Unit

from .samples import SIDE, Repeatable, Silent, images, pictures

torch = pytest.importorskip("torch")

BUDGET = Budget(epsilon=10.0, delta=1e-5)
TINY = {"encoder": "small-cnn", "size": SIDE, "micro_batch": 16}
GOOD = FiLM(**TINY, steps=4)


@dataclass(frozen=True)
class Backwards(FiLM):
    """Planted to be bad: it takes the class that is least alike."""

    name: ClassVar[str] = "backwards"

    def run(self, task):
        outcome = super().run(task)
        return replace(outcome, head=replace(outcome.head, weights=-outcome.head.weights))


BAD = Backwards(**TINY, steps=4)


class InTurn(Silent):
    """No noise, and the candidates one after the other: bad, good, bad."""

    def __init__(self):
        super().__init__()
        self.places = iter([0, 1, 0])

    def trials(self, mean, shape):
        return 3

    def subset(self, size, count):
        return np.array([next(self.places)])


def fitted(method, data=None, seed=1, **given):
    how = {"budget": BUDGET, "ledger": Ledger.in_memory(), "noise": SeededNoise(seed)} | given
    return method.fit(data or images(), **how)


def test_the_better_candidate_is_released_and_one_search_is_charged():
    pixels, labels = pictures(60, seed=4)
    ledger = Ledger.in_memory()
    model = fitted(PictureTuning(candidates=(BAD, GOOD), mean_trials=3), ledger=ledger, noise=InTurn())
    assert "The best trial was of 'film'." in model.provenance.notes
    assert model.score(pixels, np.array(model.classes)[labels]) > 0.8
    (event,) = model.events
    assert isinstance(event, BestOfManyEvent)
    (charge,) = [entry for entry in ledger.history() if hasattr(entry, "events")]
    assert charge.events == model.events
    assert 5 < model.guarantee.epsilon <= 10
    assert set(GOOD.assumptions) <= set(model.guarantee.assumptions)


def test_a_trial_is_scored_on_rows_of_the_encoder_as_it_left_it():
    private, far = images(), replace(GOOD, reach=100.0)
    plan = far.plan(private.facts, BUDGET)
    outcome = far.run(Task(plan, far.prepare(private.facts, None), private, Repeatable(1), None))
    found = far.rows_for_head(private, outcome)
    plain = get_encoder("small-cnn", size=SIDE)
    assert (found == encode_pixels(private.pixels, apply_delta(plain, outcome.encoder_delta))).all()
    assert (found != encode_pixels(private.pixels, plain)).any()


def test_a_release_verifies_and_predicts_and_a_holdout_is_checked_inside_the_charge(tmp_path):
    tuned = PictureTuning(candidates=(GOOD, LoRA(**TINY, steps=4, rank=2)), mean_trials=1.5)
    model = fitted(tuned, holdout=0.4)
    assert model.charged is not None
    saved = model.save(tmp_path / "model", unsafe_for_publication=True)
    found = verify_release(saved)
    assert all(check.passed for check in found.checks if check.name in ("steps", "guarantee"))
    pixels, _ = pictures(12, seed=2)
    assert (dpt.load(saved).predict(pixels) == model.predict(pixels)).all()


def test_persons_are_protected_by_every_trial_and_its_score():
    private = images(people=np.arange(90) // 3)
    plan = PictureTuning(candidates=(GOOD, replace(GOOD, steps=2))).plan(private.facts, BUDGET)
    assert plan.guarantee.unit is Unit.PERSON
    (event,) = plan.events
    assert {step.unit for trial in event.candidates for step in trial} == {Unit.PERSON}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: PictureTuning(candidates=(GOOD, NoisyGD())), "methods of the kind ImageMethod"),
        (lambda: PrivateTuning(candidates=(GOOD, BAD)), "methods of the kind EmbeddingMethod"),
        (lambda: PictureTuning(candidates=(GOOD, replace(GOOD, size=16))), "one encoder, size"),
        (lambda: PictureTuning(candidates=(GOOD, replace(GOOD, grey_range=(0, 9)))), "one encoder, size"),
        (lambda: PictureTuning(candidates=(GOOD, BAD), tune_on_public=True), "tasks made of public rows"),
    ],
)
def test_what_cannot_be_tuned_is_refused_when_it_is_said(make, why):
    with pytest.raises(ArgumentError, match=why):
        make()
