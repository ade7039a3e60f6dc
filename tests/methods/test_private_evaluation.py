"""Charged evaluation: planned without rows, charged before they are read, released once."""

from dataclasses import replace

import numpy as np
import pytest

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.facts import EncoderIdentity
from dptransfer.errors import ArgumentError, BudgetExceeded, Incompatible, UnsafeRelease
from dptransfer.exact.evaluation_layout import TEMPERATURES
from dptransfer.exact.feature_map import apply
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import GaussianMechanism
from dptransfer.methods import MeanPrototypes, PrivateEvaluation
from dptransfer.methods.private_evaluation import evaluation_query, planned_query
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation, Unit
from dptransfer.release import LinearHead, amend_release, read_release, verify_files
from release.models import feature_maps, heads

from .samples import CLASSES, WIDTH, Repeatable, Silent, Watched, clusters, fit

SMALL = Budget(epsilon=0.2, delta=1e-5)


@pytest.fixture(scope="module")
def model():
    return fit(MeanPrototypes(), noise=Repeatable(1))


def sample(seed=9, count=4000, kind=PrivateEmbeddings, **declared):
    x, y = clusters(count, seed)
    return kind(x, y, classes=CLASSES, name="tests", **declared)


def ask(model, test=None, budget=SMALL, ledger=None, noise=None):
    return PrivateEvaluation(model).evaluate(
        test or sample(), budget=budget, ledger=ledger or Ledger.in_memory(), noise=noise or SeededNoise(1)
    )


@pytest.mark.parametrize("relation", Relation)
def test_without_noise_it_is_what_plain_evaluation_counts(model, relation):
    x, y = clusters(3000, 9)
    found = ask(model, sample(count=3000), replace(SMALL, relation=relation), noise=Silent())
    assert found.accuracy.value == pytest.approx(model.score(x, y), abs=1e-6)
    chosen = model.predict(x)
    for c, name in enumerate(CLASSES):
        assert found.counts.right_of(c).count == pytest.approx(((y == c) & (chosen == name)).sum(), abs=1e-3)
        missed = ((y == c) & (chosen != name)).sum()
        assert found.counts.missed_of(c).count == pytest.approx(missed, abs=1e-3)
    sure = model.predict_proba(x).max(axis=1).sum()
    told = found.counts
    assert told.blocks["confidences"][TEMPERATURES.index(1.0)] == pytest.approx(sure, rel=2e-3)


def test_every_head_behind_every_map_is_asked_as_it_predicts():
    x = np.random.default_rng(0).normal(size=(500, 7))
    y = np.zeros(500, dtype=np.int64)
    for features in feature_maps().values():
        for kind, head in heads(features.dimension).items():
            asked = evaluation_query(head, features, sample().facts.bound)
            chosen = head.scores(apply(features, x)).argmax(axis=1)
            own = asked.layout.blocks["by_prediction"]
            counts = asked(x, y)[own.start : own.stop].reshape(own.shape).sum(axis=1) / own.weight
            # A coarser grid of quadratic heads may turn a near tie.
            assert np.abs(counts - np.bincount(chosen, minlength=3)).max() <= (
                1 if kind == "quadratic" else 0
            )


def test_the_charge_is_what_was_planned_and_ends_as_released(model):
    ledger = Ledger.in_memory()
    found = ask(model, ledger=ledger)
    (charge,) = (entry for entry in ledger.history("tests") if hasattr(entry, "events"))
    assert charge.events == found.events == (PrivateEvaluation(model).plan(sample().facts, SMALL).event,)
    assert (charge.label, charge.outcome, charge.hash) == ("evaluation", "released", found.ledger_head)
    assert found.guarantee.epsilon <= 0.2
    assert replace(found.events[0], noise_multiplier=1.0) == replace(
        GaussianMechanism(
            planned_query(sample().facts.classes, sample().facts.bound), 1.0, Relation.ADD_REMOVE
        ).event,
        numeric_epsilon=found.events[0].numeric_epsilon,
    )


def test_a_refused_budget_leaves_the_rows_unread(model):
    ledger, test = Ledger.in_memory(strict_names=True), sample(kind=Watched)
    ledger.set_budget("tests", Budget(epsilon=0.1, delta=1e-5))
    test.reads = 0
    with pytest.raises(BudgetExceeded):
        ask(model, test, ledger=ledger)
    assert test.reads == 0
    assert ledger.privacy_spent("tests") is None


ME, YOU = (EncoderIdentity(name, "0" * 64, "rgb 8") for name in ("me", "you"))
NO_ROWS = np.zeros((5, WIDTH))


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"test": PrivateEmbeddings(np.zeros((5, 9)), [0] * 5, classes=CLASSES)}, Incompatible, "dimension"),
        ({"test": PrivateEmbeddings(NO_ROWS, [0] * 5, classes=CLASSES[::-1])}, Incompatible, "its order"),
        ({"test": PublicEmbeddings(clusters()[0])}, ArgumentError, "nobody's secret"),
        ({"test": sample(encoder=YOU), "encoder": ME}, Incompatible, "one encoder"),
        ({"head": LinearHead(NO_ROWS[:3] * np.nan, np.zeros(3))}, ArgumentError, "finite"),
        ({"budget": 0.2}, ArgumentError, "must be a"),
        ({"noise": 3}, ArgumentError, "must be a"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_asked_is_refused_before_the_charge(model, given, error, said):
    given, ledger = dict(given), Ledger.in_memory()
    model = replace(model, facts=replace(model.facts, encoder=given.pop("encoder", None)))
    model = replace(model, head=given.pop("head", model.head))
    with pytest.raises(error, match=said):
        ask(model, ledger=ledger, **given)
    assert ledger.history() == []
    with pytest.raises(ArgumentError, match="must be a"):
        ask(model, ledger="ledger.sqlite")


FIVES = np.arange(3000) // 5


def test_persons_are_protected_and_each_has_one_voice(model):
    test = sample(count=3000, people=FIVES)
    found = ask(model, test, noise=Silent())
    assert found.guarantee.unit is Unit.PERSON
    assert found.size.count == pytest.approx(600, abs=0.01)
    assert "one person" in found.statement
    twice = ask(model, sample(count=3000, people=FIVES, person_bound=2.0), noise=Silent())
    assert twice.size.count == pytest.approx(1200, abs=0.01)
    assert twice.events[0].sensitivity == 2 * found.events[0].sensitivity


def test_private_facts_are_taken_without_a_word(model):
    x, y = clusters(60)
    x[:3], x[3:5] = np.nan, 1e308
    for ids in (np.zeros(60), np.arange(60), [None] * 60, ["p"] * 59 + [None]):
        found = ask(model, PrivateEmbeddings(x, y, classes=CLASSES, name="tests", people=ids))
        assert 0 <= found.accuracy.low <= found.accuracy.high <= 1
    none = PrivateEmbeddings(x[:0], y[:0], classes=CLASSES, name="tests")
    assert 0 <= ask(model, none).accuracy.low


def test_a_seeded_evaluation_is_not_published(model, tmp_path):
    path = model.save(tmp_path / "model")
    found = ask(model)
    assert found.seeded
    assert not PrivateEvaluation(model).evaluate(sample(), budget=SMALL, ledger=Ledger.in_memory()).seeded
    with pytest.raises(UnsafeRelease):
        amend_release(path, charged=found)
    amend_release(path, charged=ask(model, noise=Repeatable(3)))
    assert read_release(path).charged.accuracy.value > 0.9
    assert verify_files(path).failures == ()
