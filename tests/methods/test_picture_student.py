import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dptransfer as dpt
from dptransfer.encoders import apply_delta, encode_pixels, encoder_of, get_encoder
from dptransfer.errors import ArgumentError
from dptransfer.methods.replan import verify_release
from dptransfer.methods.votes.voting import Answers
from methods.deep.tiny import PLACE, coloured

torch = pytest.importorskip("torch")

from dptransfer.methods.deep import semi_supervised  # noqa: E402 (torch is there)

from .samples import Silent  # noqa: E402
from .test_checkpoint import answers, charges  # noqa: E402
from .test_picture_voting import BUDGET, CLASSES, METHODS, POOL, fitted, private  # noqa: E402

STUDENT = replace(METHODS["prom-pate"], epochs=1, student="freematch", student_steps=40, student_batch=4)
SCRATCH = replace(STUDENT, student_encoder="small-cnn", student_trains="full", student_steps=20)


def right_answers(votes=40.0):
    """What forty teachers who know say about twelve public pictures."""
    labels = coloured(60, seed=1)[1]
    positions = np.arange(12)
    return Answers(positions, labels[positions], votes * np.eye(3)[labels[positions]], 1.0, 40)


def learned(method, told=None):
    untaught = method.untaught_student(method.network(), POOL)
    return method.learned(untaught, POOL, told or right_answers(), Silent())


def accuracy(found, encoder):
    pixels, labels = coloured(90, seed=2)
    rows = encode_pixels(pixels, encoder)
    return float((found.head.scores(dpt.features.apply(found.features, rows)).argmax(1) == labels).mean())


@pytest.mark.parametrize("labels", ["soft", "hard"])
@pytest.mark.parametrize("student", ["linear", "fixmatch", "freematch"])
def test_every_student_learns_from_right_answers(student, labels):
    found = learned(replace(STUDENT, student=student, labels=labels))
    assert accuracy(found, get_encoder(PLACE)) > 0.9
    assert found.encoder_delta is None
    assert found.encoder == get_encoder(PLACE).identity


def test_a_student_may_start_from_a_network_of_its_own_and_change_it():
    found = learned(SCRATCH)
    encoder = encoder_of(found.encoder)
    assert encoder.identity.name == "small-cnn"
    assert accuracy(found, apply_delta(encoder, found.encoder_delta)) > 0.9


def test_soft_labels_are_what_a_linear_student_makes_of_all_votes_and_hard_ones_the_teachers_own(monkeypatch):
    wrong = right_answers().labels.copy()
    wrong[0] = (wrong[0] + 1) % 3
    told = replace(right_answers(), labels=wrong, votes=40 * np.eye(3)[wrong])
    seen = []
    monkeypatch.setattr(semi_supervised, "taught", lambda *given, **_: seen.append(given[3]) or TAUGHT)
    for labels in ("soft", "hard"):
        learned(replace(STUDENT, labels=labels), told)
    soft, hard = seen
    assert (hard == np.eye(3)[wrong]).all()
    assert np.allclose(soft.sum(axis=1), 1)
    assert (soft.argmax(axis=1) == right_answers().labels).all()  # eleven right answers outvote a wrong one


TAUGHT = semi_supervised.Taught(np.zeros((3, 12)), np.zeros(3), None)


@pytest.mark.parametrize("student", ["linear", "freematch"])
def test_without_an_answer_there_is_a_student_all_the_same(student):
    none = Answers(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, 3)), 1.0, 40)
    found = learned(replace(STUDENT, student=student), none)
    assert np.isfinite(found.head.scores(np.ones((2, 12)))).all()


def test_settings_that_do_not_go_together_are_refused():
    with pytest.raises(ArgumentError, match="linear student is a head on frozen rows"):
        dpt.methods.PromPATE(student_trains="full")
    for setting, value in {"student": "mixmatch", "student_trains": "film", "student_steps": 0}.items():
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


def test_new_pictures_are_classified_by_the_students_network(released, tmp_path):
    from typer.testing import CliRunner

    from dptransfer.cli.commands import app

    model, path = released
    pixels = coloured(6, seed=4)[0]
    for number, one in enumerate(pixels):
        Image.fromarray(one).save(tmp_path / f"{number}.png")
    done = CliRunner().invoke(app, ["predict", str(path), str(tmp_path), "--json"])
    told = {Path(one["input"]).stem: one for one in json.loads(done.stdout)}
    rows = encode_pixels(pixels, apply_delta(get_encoder("small-cnn", size=8), model.encoder_delta))
    wanted = model.predict_proba(rows)
    assert [told[str(number)]["label"] for number in range(6)] == model.predict(rows).tolist()
    assert [told[str(number)]["score"] for number in range(6)] == pytest.approx(wanted.max(axis=1), rel=1e-4)


DEEP = replace(SCRATCH, student_steps=20)


def in_workspace(folder):
    return {
        "ledger": dpt.Ledger(folder / "ledger.sqlite"),
        "noise": dpt.SecureNoise(),
        "workspace": folder / "run",
    }


def stopped_at(step, stop, monkeypatch):
    """Let the student's training be stopped in that step; what is returned counts steps."""
    whole, taken = semi_supervised.RULES["freematch"], []

    def counted(*arguments):
        taken.append(len(taken))
        if len(taken) == step:
            stop()
        return whole(*arguments)

    monkeypatch.setitem(semi_supervised.RULES, "freematch", counted)
    return taken


def interrupt():
    raise KeyboardInterrupt


def test_a_run_stopped_while_its_student_learns_goes_on_under_one_charge(tmp_path, monkeypatch):
    taken = stopped_at(27, interrupt, monkeypatch)  # the network's seventh step, after twenty of the head
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


@pytest.mark.slow
def test_a_run_killed_by_the_system_while_its_student_learns_goes_on(tmp_path, monkeypatch):
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    command = [sys.executable, "-W", "ignore", "-m", "methods.test_picture_student", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == -signal.SIGKILL
    asked, taken = answers(tmp_path), stopped_at(-1, interrupt, monkeypatch)
    model = fitted(DEEP, **in_workspace(tmp_path))
    assert len(taken) == 14
    assert (len(charges(tmp_path)), answers(tmp_path)) == (1, asked)
    assert model.encoder_delta is not None


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        stopped_at(27, lambda: os.kill(os.getpid(), signal.SIGKILL), patch)
        fitted(DEEP, **in_workspace(Path(sys.argv[1])))
