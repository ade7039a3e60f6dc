"""What all methods share whose teachers see pixels, by way of both of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import dptransfer as dpt
from dptransfer.data import Facts
from dptransfer.encoders import apply_delta, encode_pixels, get_encoder
from dptransfer.errors import ArgumentError, Incompatible
from dptransfer.methods.deep import semi_supervised
from dptransfer.methods.deep import teachers as side_by_side
from dptransfer.methods.deep.teachers import SmallTeachers  # torch is there
from dptransfer.methods.replan import verify_release
from dptransfer.methods.votes import pate
from dptransfer.methods.votes.voting import TeacherAnswers, spread
from dptransfer.sources import PrivateImages, PublicImages
from methods.deep.tiny import PLACE, coloured
from methods.samples import Repeatable, Silent
from methods.test_checkpoint import answers, charges

CLASSES = ["red", "green", "blue"]
BUDGET = dpt.Budget(epsilon=8.0, delta=1e-5)
SMALL = {
    "encoder": PLACE,
    "teachers": 16,
    "queries": 12,
    "batch": 4,
    "together": 8,
    "features": dpt.features.UnitNorm(),
}
METHODS = {
    "label maps": dpt.methods.PromPATE(**SMALL, inner=4),
    "prom-pate": dpt.methods.PromPATE(**SMALL, inner=4, rate=0.2, epochs=40),
    "pate": dpt.methods.PATE(**SMALL, epochs=12),
}
HASTY = replace(METHODS["prom-pate"], epochs=1)  # learns little, and quickly
POOL = PublicImages(coloured(60, seed=1)[0])


def private(count=96, **declared):
    pixels, labels = coloured(count)
    return PrivateImages(pixels, labels, classes=CLASSES, **{"name": "photos", "size": 96} | declared)


def fitted(method, data=None, public=POOL, **given):
    data = private() if data is None else data
    return method.fit(
        data, public, **{"budget": BUDGET, "ledger": dpt.Ledger.in_memory(), "noise": Repeatable(3)} | given
    )


def score(model, method):
    pixels, labels = coloured(90, seed=2)
    rows = encode_pixels(pixels, get_encoder(method.encoder))
    return model.score(rows, np.array(CLASSES)[labels])


@pytest.mark.parametrize("name", METHODS)
def test_a_student_learns_what_the_teachers_know_and_works_on_the_plain_encoder(name, tmp_path):
    method = METHODS[name]
    model = fitted(method)
    assert score(model, method) > 0.8
    path = model.save(tmp_path / "model")
    loaded = dpt.load(path)
    assert loaded.encoder == get_encoder(PLACE).identity
    assert score(loaded, method) == score(model, method)
    assert verify_release(path).outcome == "verified"
    listed = model.provenance.answers["rows"]
    assert list(listed) == CLASSES
    assert sorted(position for own in listed.values() for position in own) == sorted(spread(60, 12))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoder": "small-cnn", "size": 8, "inner": None}, "brings none"),
        ({"inner": 8}, "leave a frame"),
        ({"encoder": "small-cnn", "size": 16}, "16 × 16"),
    ],
)
def test_what_is_public_and_wrong_is_refused_before_the_charge(settings, words):
    ledger = dpt.Ledger.in_memory()
    with pytest.raises((ArgumentError, Incompatible), match=words):
        fitted(replace(HASTY, **settings), ledger=ledger)
    assert not ledger.history()


def test_with_a_threshold_only_what_passes_is_answered():
    sure = replace(METHODS["prom-pate"], epochs=12, threshold=11.5, answers=11, labels="hard")
    model = fitted(sure, noise=Silent())
    answered = sum(map(len, model.provenance.answers["rows"].values()))
    assert 0 < answered < 12
    assert f"{answered} of 12" in " ".join(model.provenance.notes)


def test_how_long_teachers_learn_is_planned_from_the_declared_size_alone():
    prepared = [
        METHODS["prom-pate"].prepare(private(size=size).facts, POOL).course.steps for size in (96, 192, None)
    ]
    assert prepared == [40 * 6 // 4, 40 * 12 // 4, 40 * 40 // 4]


@pytest.mark.parametrize("name", METHODS)
def test_what_is_assumed_of_the_network_stands_in_the_guarantee(name):
    plan = METHODS[name].plan(Facts(tuple(CLASSES), (8, 8, 3)), BUDGET)
    assert "beside it" in str(plan.guarantee)


def test_teachers_that_see_each_others_pictures_are_refused_before_the_charge(monkeypatch):
    """By kernels of known layers, one of which is not what it was; own networks: `test_own_networks`."""
    plain = torch.nn.functional.interpolate
    rolled = lambda maps, *given, **how: plain(maps + maps.roll(1, 0), *given, **how)  # noqa: E731
    monkeypatch.setattr("torch.nn.functional.interpolate", rolled)
    for name, method in METHODS.items():
        ledger = dpt.Ledger.in_memory()
        with pytest.raises(ArgumentError, match="pictures beside it"):
            fitted(method, ledger=ledger)
        assert not ledger.datasets(), name


def test_its_teachers_have_networks_of_their_own_and_its_student_works_on_the_encoder():
    prepared = METHODS["pate"].prepare(private().facts, POOL)
    assert isinstance(prepared.teachers, SmallTeachers)
    assert prepared.student.network.identity.name == "tiny-classifier"


STUDENT = replace(METHODS["prom-pate"], epochs=1, student="freematch", student_steps=40, student_batch=4)
SCRATCH = replace(STUDENT, student_encoder="small-cnn", student_trains="full", student_steps=20)


def right_answers(votes=40.0):
    """What forty teachers who know say about twelve public pictures."""
    labels = coloured(60, seed=1)[1]
    positions = np.arange(12)
    return TeacherAnswers(positions, labels[positions], votes * np.eye(3)[labels[positions]], 1.0, 40)


def learned(method, told=None):
    start = method.student_start(method.network(), POOL)
    return method.train_student(start, POOL, told or right_answers(), Silent())


def accuracy(found, encoder):
    pixels, labels = coloured(90, seed=2)
    rows = encode_pixels(pixels, encoder)
    return float((found.head.scores(dpt.features.apply(found.features, rows)).argmax(1) == labels).mean())


@pytest.mark.parametrize(
    ("student", "labels"), [("linear", "soft"), ("fixmatch", "hard"), ("freematch", "soft")]
)
def test_every_student_learns_from_right_answers(student, labels):
    found = learned(replace(STUDENT, student=student, labels=labels))
    assert accuracy(found, get_encoder(PLACE)) > 0.9
    assert found.encoder_delta is None
    assert found.encoder == get_encoder(PLACE).identity


def test_soft_labels_are_what_a_linear_student_makes_of_all_votes_and_hard_ones_the_teachers_own(monkeypatch):
    wrong = right_answers().labels.copy()
    wrong[0] = (wrong[0] + 1) % 3
    told = replace(right_answers(), labels=wrong, votes=40 * np.eye(3)[wrong])
    seen = []
    monkeypatch.setattr(pate, "train_student", lambda *given: seen.append(given[3]) or TRAINED)
    for labels in ("soft", "hard"):
        learned(replace(STUDENT, labels=labels), told)
    soft, hard = seen
    assert (hard == np.eye(3)[wrong]).all()
    assert np.allclose(soft.sum(axis=1), 1)
    assert (soft.argmax(axis=1) == right_answers().labels).all()  # eleven right answers outvote a wrong one


TRAINED = semi_supervised.TrainedStudent(np.zeros((3, 12)), np.zeros(3), None)


@pytest.mark.parametrize("student", ["linear", "freematch"])
def test_without_an_answer_there_is_a_student_all_the_same(student):
    none = TeacherAnswers(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, 3)), 1.0, 40)
    found = learned(replace(STUDENT, student=student), none)
    assert np.isfinite(found.head.scores(np.ones((2, 12)))).all()


def test_settings_that_do_not_go_together_are_refused():
    with pytest.raises(ArgumentError, match="linear student"):
        dpt.methods.PromPATE(student_trains="full")
    with pytest.raises(ArgumentError, match="epochs"):
        dpt.methods.PromPATE(label_map="one-layer")
    bad = {"student": "mixmatch", "student_trains": "film", "student_steps": 0, "label_map": "three-layer"}
    for setting, value in bad.items():
        with pytest.raises(ArgumentError, match=f"{setting} must be"):
            dpt.methods.PromPATE(**{setting: value})


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A release whose student has trained a whole network."""
    model = fitted(replace(SCRATCH, student_steps=3))
    return model, model.save(tmp_path_factory.mktemp("full") / "model")


def test_a_full_student_is_released_with_its_network_and_loads_again(released):
    model, path = released
    loaded = dpt.load(path)
    assert loaded.encoder == model.encoder == model.encoder_delta.identity
    assert loaded.encoder.name == "small-cnn+state"
    assert json.loads((path / "release.json").read_text())["encoder_delta"]["base"]["size"] == 8
    rows = encode_pixels(coloured(9)[0], apply_delta(get_encoder("small-cnn", size=8), model.encoder_delta))
    assert (loaded.scores(rows) == model.scores(rows)).all()
    assert verify_release(path).outcome == "verified"
    assert set(model.provenance.answers["rows"]) == set(CLASSES)


DEEP = replace(SCRATCH, student_steps=20)


def in_workspace(folder):
    return {
        "ledger": dpt.Ledger(folder / "ledger.sqlite"),
        "noise": dpt.SecureNoise(),
        "workspace": folder / "run",
    }


def stopped_at(call, function):
    """The function, interrupted in that call; and a list as long as it was called often."""
    calls = []

    def counted(*given):
        calls.append(len(calls))
        if len(calls) == call:
            raise KeyboardInterrupt
        return function(*given)

    return counted, calls


def test_a_run_that_stopped_teaches_the_teachers_that_did_not_answer_and_no_others(tmp_path, monkeypatch):
    counted, taught = stopped_at(2, side_by_side.teach)  # of two groups
    monkeypatch.setattr(side_by_side, "teach", counted)
    with pytest.raises(KeyboardInterrupt):
        fitted(HASTY, **in_workspace(tmp_path))
    before = answers(tmp_path)
    model = fitted(HASTY, **in_workspace(tmp_path))
    assert len(taught) == 3
    (charge,), after = charges(tmp_path), answers(tmp_path)
    assert (charge.outcome, charge.events) == ("released", model.events)
    assert after[:1] == before
    assert len(after) == 2  # who is with which teacher, and the votes


def test_a_run_stopped_while_its_student_learns_goes_on_under_one_charge(tmp_path, monkeypatch):
    rule, taken = stopped_at(27, semi_supervised.RULES["freematch"])  # the network's seventh step
    monkeypatch.setitem(semi_supervised.RULES, "freematch", rule)
    with pytest.raises(KeyboardInterrupt):
        fitted(DEEP, **in_workspace(tmp_path))
    asked = answers(tmp_path)
    model = fitted(DEEP, **in_workspace(tmp_path))
    assert len(taken) == 27 + 14  # what was kept after six steps of the network is not done again
    again = fitted(DEEP, **in_workspace(tmp_path))
    assert len(taken) == 41
    assert (again.weights["weights"] == model.weights["weights"]).all()
    assert again.encoder == model.encoder
    assert model.events == DEEP.plan(private().facts, BUDGET, POOL).events
    assert len(charges(tmp_path)) == 1
    assert answers(tmp_path) == asked  # no vote is asked for twice
