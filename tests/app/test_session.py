"""The state of the app."""

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.app.session import NOTHING, Session


def test_what_the_ledger_says_before_a_charge_and_no_ledger_is_made(session, tmp_path):
    session.choose("data", {"data": "clinic.npz", "name": "ward"})
    nothing, refusal = session.quote()
    assert refusal == ""
    assert session.open_charges() == []
    assert not (tmp_path / "ledger.sqlite").exists()
    dpt.Ledger.default().set_budget("ward", dpt.Budget(epsilon=3.0, delta=1e-5))
    assert session.quote()[0]["before"] != nothing["before"]
    (tmp_path / "ledger.sqlite").write_bytes(b"not a ledger")
    assert session.quote()[1] != ""
    assert session.open_charges() == []


def test_paths_become_real_ones_and_the_name_is_that_of_the_data(session, home):
    session.choose("data", {"data": " clinic.npz "})
    assert session.problem == NOTHING
    assert session.choices.data == str(home / "clinic.npz")
    assert session.choices.name == "clinic"


@pytest.mark.parametrize("form", [{"whose": "column"}, {"whose": "file"}])
def test_files_of_names_and_people_lie_under_the_root_too(session, home, tmp_path, form):
    """A line of a list of classes is shown, and so would be that of any file."""
    (tmp_path / "secret.txt").write_text("one\ntwo\n")
    session.choose("data", {"data": "clinic.npz", "classes": str(tmp_path / "secret.txt")})
    assert session.problem[0] == "data"
    session.choose("data", {"data": "clinic.npz", "classes": "../secret.txt"})
    assert session.problem[0] == "data"
    (home / "names.txt").write_text("no\nyes\n")
    session.choose("data", {"data": "clinic.npz", "classes": "names.txt"})
    assert (session.problem, session.choices.classes) == (NOTHING, str(home / "names.txt"))
    for classes in ("2", "no, yes", ""):
        session.choose("data", {"data": "clinic.npz", "classes": classes})
        assert (session.problem, session.choices.classes) == (NOTHING, classes)
    session.choose("who", {"unit": "person", **form, "whose_name": str(tmp_path / "ids.csv")})
    assert session.problem[0] == "who"


def test_what_a_model_can_be_used_for_is_commands_there_are(session, home):
    session.made = home / "model"
    words = session.model_words()
    assert {"predict", "card", "audit", "serve"} <= words.keys()
    assert all(given[:2] == [name, str(home / "model")] for name, given in words.items())


def test_the_ledger_that_the_app_was_started_with_stays(home, tmp_path):
    session = Session(home, dpt.app.choices.Choices(ledger=str(tmp_path / "own")))
    session.reset()
    assert session.ledger_path == tmp_path / "own"


@pytest.mark.parametrize("text", ["a cat", ""])
def test_a_model_that_is_not_there_answers_nothing(session, text):
    with pytest.raises(dpt.errors.DPTransferError):
        session.ask(text)
    assert session.answers == ()


def test_answers_are_the_likeliest_classes_and_the_command_has_the_file(session, home, monkeypatch):
    class Model:
        classes = ("cat", "dog", "eel", "fox")

        def predict_proba(self, x):
            return np.array([[0.1, 0.4, 0.3, 0.2]])

    monkeypatch.setattr(dpt, "load", lambda _: Model())
    session.made = home / "model"
    session.ask(home / "new.png")
    assert session.answers == (("dog", 0.4), ("eel", 0.3), ("fox", 0.2))
    assert session.model_words()["predict"][2] == str(home / "new.png")
    session.ask("a text")
    assert "a text" not in session.model_words()["predict"]
