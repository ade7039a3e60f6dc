"""Teachers, votes and a student, from plan to prediction."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dptransfer as dpt
from contracts.rows import steady
from dptransfer.base.progress import reported_to
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import TransferPATE
from dptransfer.methods.votes import pate
from dptransfer.methods.votes.pate import RIDGE, _mapped, linear_ballots
from dptransfer.methods.votes.voting import parts_of
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Unit
from dptransfer.queries.votes import ABSTAINS
from methods.samples import CLASSES, Repeatable, Silent, clusters, pool, private, released
from methods.test_checkpoint import answers, charges

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
    assert "release.json" in (path / "README.md").read_text()
    other = dpt.methods.MeanPrototypes().fit(
        private(), budget=BUDGET, ledger=dpt.Ledger.in_memory(), noise=SeededNoise(0)
    )
    path = other.save(tmp_path / "other", unsafe_for_publication=True)
    assert json.loads((path / "release.json").read_text())["answers"] is None
    assert dpt.load(path).provenance.answers is None


def test_a_person_is_with_one_teacher_and_is_protected_as_one(monkeypatch):
    seen = []

    def watching(rows, labels, parts, questions):
        seen.append(parts)
        return linear_ballots(rows, labels, parts, questions)

    monkeypatch.setattr(pate, "linear_ballots", watching)
    whose = np.repeat(np.arange(15), 40)
    model = fitted(private(people=whose, size=600, rows_per_person=40.0))
    assert model.guarantee.unit is Unit.PERSON
    assert "15 teachers" in model.provenance.notes[0]
    (parts,) = seen
    homes = [[one in whose[part] for part in parts] for one in range(15)]
    assert all(sum(home) == 1 for home in homes)
    assert sum(len(part) > 0 for part in parts) > 3


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

    monkeypatch.setattr(pate, "linear_student", broken)
    with pytest.raises(KeyboardInterrupt):
        fit()
    monkeypatch.undo()
    monkeypatch.setattr(pate, "linear_ballots", broken)
    left = answers(tmp_path)
    model = fit()
    assert answers(tmp_path) == left
    assert left[0][1] == "teacher of each unit"
    (charge,) = charges(tmp_path)
    assert (charge.outcome, charge.events) == ("released", model.events)
    assert model.score(*TEST) > 0.9


MANY, WIDTH, TEACHERS = 4, 6, 8


def rows_of(count, seed=0, width=WIDTH):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, width)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True), rng.integers(0, MANY, count)


QUESTIONS = rows_of(30, seed=9)[0]


def ballots(x, y, teacher, teachers=TEACHERS, questions=QUESTIONS):
    return linear_ballots(x, y, parts_of(teacher, teachers), questions)


def changed(one, other):
    return int((one != other).any(axis=1).sum())


@pytest.mark.parametrize("count", [3, 5, 6, 7, 40])
def test_a_teacher_is_the_balanced_ridge_regression_of_its_rows(count):
    """Fewer rows than dimensions, as many, and more: two ways to the same weights."""
    x, y = rows_of(count, seed=count)
    y[:2] = 0, 1
    seen, classes = np.unique(y, return_inverse=True)
    weights = 1 / np.bincount(classes)[classes]
    weights /= weights.mean()
    x64 = x.astype(np.float64)
    wanted = np.linalg.solve(
        (x64.T * weights) @ x64 + RIDGE * np.eye(WIDTH), (x64.T * weights) @ np.eye(len(seen))[classes]
    )
    assert pate.ridge(x64, classes) == pytest.approx(wanted)
    voted = seen[(QUESTIONS @ wanted).argmax(axis=1)]
    assert (ballots(x, y, np.zeros(count, dtype=np.int64), teachers=1)[0] == voted).all()


def test_every_class_counts_alike_however_many_rows_it_has():
    """Without weights ninety rows of one class would take the question for themselves."""
    x = np.repeat(np.eye(2, dtype=np.float32), [90, 1], axis=0)
    y = np.repeat([0, 1], [90, 1])
    middle = np.array([[0.6, 0.8]], dtype=np.float32)
    assert ballots(x, y, np.zeros(91, dtype=np.int64), 1, middle).tolist() == [[1]]


def test_who_has_no_rows_abstains_and_who_has_one_class_votes_for_it():
    x, _ = rows_of(2)
    cast = ballots(x, np.array([3, 3]), np.array([1, 1]), teachers=3)
    assert (cast[[0, 2]] == ABSTAINS).all()
    assert (cast[1] == 3).all()
    assert (ballots(x[:0], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)) == ABSTAINS).all()


def test_a_class_that_a_teacher_has_not_seen_gets_no_vote_of_it():
    x, y = rows_of(60)
    teacher = np.arange(60) % TEACHERS
    for one, cast in enumerate(ballots(x, y, teacher)):
        assert set(cast.tolist()) <= set(y[teacher == one].tolist())


def test_rows_of_zeros_and_one_teacher_with_all_rows_are_no_trouble():
    x, y = rows_of(500)
    x[::3] = 0
    everything = ballots(x, y, np.full(500, 5))
    assert (np.delete(everything, 5, axis=0) == ABSTAINS).all()
    assert len(np.unique(everything[5])) > 1
    assert (ballots(np.zeros_like(x), y, np.full(500, 5))[5] == 0).all()  # of equals the first


people = st.lists(st.integers(0, 11), min_size=1, max_size=40)


@steady
@given(whose=people, seed=st.integers(0, 2**32 - 1))
def test_whoever_comes_or_goes_or_is_replaced_in_place_changes_one_ballot_and_elsewhere_two(whose, seed):
    """Persons with all their rows; the others' draws stay, as `methods.votes.voting` says they may."""
    whose = np.array(whose)
    rng = np.random.default_rng(seed)
    x, y = rows_of(len(whose), seed)
    drawn = rng.integers(0, TEACHERS, 12)
    leaving = whose == whose[0]
    every = ballots(x, y, drawn[whose])
    assert changed(every, ballots(x[~leaving], y[~leaving], drawn[whose][~leaving])) <= 1
    elsewhere = np.where(leaving, rng.integers(0, TEACHERS), drawn[whose])
    others = np.where(leaving[:, None], -x, x)
    assert changed(every, ballots(others, y, drawn[whose])) <= 1
    assert changed(every, ballots(others, y, elsewhere)) <= 2


def test_forty_rows_of_one_person_change_one_ballot_and_parts_of_equal_size_would_change_many():
    x, y = rows_of(440)
    drawn = np.random.default_rng(1).integers(0, TEACHERS, 41)
    whose = np.append(np.arange(400) % 40, np.full(40, 40))
    assert changed(ballots(x, y, drawn[whose]), ballots(x[:400], y[:400], drawn[whose[:400]])) == 1
    by_position = np.sort(np.arange(440) % TEACHERS), np.sort(np.arange(400) % TEACHERS)
    assert changed(ballots(x, y, by_position[0]), ballots(x[:400], y[:400], by_position[1])) > 2
    by_row = np.random.default_rng(2).integers(0, TEACHERS, 440)  # a person's rows with several teachers
    assert changed(ballots(x, y, by_row), ballots(x[:400], y[:400], by_row[:400])) > 2


def test_neither_threads_nor_the_other_teachers_change_a_ballot(monkeypatch):
    x, y = rows_of(3000, width=64)
    teacher, asked = np.random.default_rng(0).integers(0, 200, 3000), rows_of(100, 5, 64)[0]
    cast = ballots(x, y, teacher, 200, asked)
    monkeypatch.setattr(pate.worker_env, "usable_cores", lambda: 1)
    assert (ballots(x, y, teacher, 200, asked) == cast).all()
    for one in (0, 7, 199):
        own = teacher == one
        assert (ballots(x[own], y[own], np.zeros(own.sum(), dtype=np.int64), 1, asked)[0] == cast[one]).all()


def test_how_far_it_is_is_told_by_teachers_whatever_rows_they_have():
    x, y = rows_of(50)
    for teacher in (np.zeros(50, dtype=np.int64), np.arange(50)):
        heard = []
        with reported_to(lambda *told, heard=heard: heard.append(told)):
            ballots(x, y, teacher, 70)
        assert heard == [(32, 70, "teacher"), (64, 70, "teacher"), (70, 70, "teacher")]
