"""Teachers, votes and a student, from plan to prediction."""

import json

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.errors import ArgumentError, BudgetExceeded
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import TransferPATE
from dptransfer.methods.votes import transfer_pate
from dptransfer.methods.votes.transfer_pate import _mapped, linear_ballots
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Unit

from .samples import CLASSES, Repeatable, Silent, clusters, pool, private, released
from .test_checkpoint import answers, charges

BUDGET = Budget(epsilon=6.0, delta=1e-5)
TEST = clusters(300, seed=9)


def fitted(data=None, public=None, ledger=None, noise=None, **settings):
    return TransferPATE(**settings).fit(
        data or private(),
        public or pool(),
        budget=BUDGET,
        ledger=ledger or dpt.Ledger.in_memory(),
        noise=noise or Repeatable(2),
    )


@pytest.mark.parametrize(
    "settings",
    [{}, {"labels": "hard"}, {"threshold": 60.0, "teachers": 150}, {"self_training": False}],
    ids=str,
)
def test_teachers_teach_and_the_release_is_verified_and_predicts(settings, tmp_path):
    model = fitted(private(size=600), **settings)
    loaded = dpt.load(released(model, tmp_path))
    assert loaded.score(*TEST) > 0.9
    assert (loaded.scores(TEST[0]) == model.scores(TEST[0])).all()


def test_a_release_lists_the_public_rows_by_their_answers_and_others_have_no_such_list(tmp_path):
    x, y = clusters(60, seed=1)
    public = dpt.PublicEmbeddings(x, sources=[f"{one}.png" for one in range(60)])
    # Other labels than of seed 0, which is that of the draws: teachers would have one class each.
    model = fitted(private(*clusters(seed=3)), public, noise=Silent(), teachers=20)
    path = model.save(tmp_path / "model", unsafe_for_publication=True)
    told = json.loads((path / "release.json").read_text())["answers"]
    assert sorted(row for rows in told["rows"].values() for row in rows) == list(range(60))
    right = [y[row] == number for number, name in enumerate(CLASSES) for row in told["rows"][name]]
    assert np.mean(right) > 0.95
    assert told["sources"]["ant"] == [f"{row}.png" for row in told["rows"]["ant"]]
    assert dpt.load(path).provenance.answers == told
    assert "release.json lists the answers" in (path / "CARD.md").read_text()
    other = dpt.methods.MeanPrototypes().fit(
        private(), budget=BUDGET, ledger=dpt.Ledger.in_memory(), noise=SeededNoise(0)
    )
    path = other.save(tmp_path / "other", unsafe_for_publication=True)
    assert json.loads((path / "release.json").read_text())["answers"] is None
    assert dpt.load(path).provenance.answers is None


def test_votes_cost_what_was_charged_and_a_spent_budget_refuses_more():
    ledger = dpt.Ledger.in_memory()
    ledger.set_budget("samples", BUDGET)
    model = fitted(ledger=ledger)
    charge = ledger.history("samples")[1]
    assert (charge.events, charge.label, charge.outcome) == (model.events, "transfer-pate", "released")
    with pytest.raises(BudgetExceeded):
        fitted(ledger=ledger)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"teachers": 601}, "600 are declared for 601 teachers"),
        ({"queries": 61}, "61 queries for 60"),
        ({"teachers": 50, "threshold": 51.0}, "51 for 50 teachers"),
        ({"threshold": 5.0, "queries": 5, "answers": 6}, "6 answers for 5 queries"),
    ],
)
def test_what_is_public_and_wrong_is_refused_before_the_charge(settings, said):
    ledger = dpt.Ledger.in_memory()
    with pytest.raises(ArgumentError, match=said):
        fitted(private(size=600), ledger=ledger, **settings)
    with pytest.raises(ArgumentError, match="needs public rows"):
        TransferPATE().fit(private(), budget=BUDGET, ledger=ledger)
    assert ledger.history() == []


def test_what_is_private_and_odd_is_no_trouble(recwarn):
    x, y = clusters()
    lonely = np.zeros(600, dtype=np.int64)
    for data in (
        private(x, np.zeros(600, dtype=np.int64)),
        private(x[:2], y[:2]),
        private(x, y, people=lonely),
        private(np.full_like(x, np.nan), y),
    ):
        for settings in ({}, {"threshold": 100.0}, {"labels": "hard"}):
            model = fitted(data, **settings)
            assert np.isfinite(model.predict_proba(TEST[0])).all()
    assert not recwarn.list


def test_a_person_is_with_one_teacher_and_is_protected_as_one(monkeypatch):
    seen = []

    def watching(rows, labels, teacher, questions, **given):
        seen.append(teacher)
        return linear_ballots(rows, labels, teacher, questions, **given)

    monkeypatch.setattr(transfer_pate, "linear_ballots", watching)
    whose = np.repeat(np.arange(15), 40)
    model = fitted(private(people=whose, size=600, rows_per_person=40.0))
    assert model.guarantee.unit is Unit.PERSON
    assert "15 teachers" in model.provenance.notes[0]
    (teacher,) = seen
    assert all(len(set(teacher[whose == one])) == 1 for one in range(15))
    assert len(set(teacher)) > 3


def test_single_precision_holds_the_integers_of_the_map():
    features = PublicMap(axes=5).fit(8, pool())
    rows = np.random.default_rng(0).normal(size=(5000, 8))
    wanted = features.lattice(rows, 2**24)
    assert (_mapped(features, rows).astype(np.float64) * 2**24 == wanted).all()


def test_a_run_that_goes_on_trains_no_teacher_again(tmp_path, monkeypatch):
    def fit():
        return TransferPATE(teachers=50).fit(
            private(),
            pool(),
            budget=BUDGET,
            ledger=dpt.Ledger(tmp_path / "ledger.sqlite"),
            workspace=tmp_path / "run",
        )

    def broken(*given, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(transfer_pate, "linear_student", broken)
    with pytest.raises(KeyboardInterrupt):
        fit()
    monkeypatch.undo()
    monkeypatch.setattr(transfer_pate, "linear_ballots", broken)
    left = answers(tmp_path)
    model = fit()
    assert answers(tmp_path) == left
    assert left[0][1] == "teacher of each unit"
    (charge,) = charges(tmp_path)
    assert (charge.outcome, charge.events) == ("released", model.events)
    assert model.score(*TEST) > 0.9
