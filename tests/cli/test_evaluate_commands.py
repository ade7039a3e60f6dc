"""`dptransfer evaluate`, with and without `--private`, hold-outs, and `dptransfer attack`."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from dptransfer.audit.membership import membership_attack
from dptransfer.data import PrivateEmbeddings
from dptransfer.errors import ReleaseError
from dptransfer.ledger import Ledger
from dptransfer.methods.private_evaluation import PrivateEvaluation
from dptransfer.privacy import Budget
from dptransfer.release import bundle, read_release

from .conftest import CLASSES, MEAN


def test_the_numbers_are_those_of_the_library_and_rows_are_not_protected(cli, cli_json, data, model, ledger):
    told = cli_json("evaluate", model, data / "test.npz")
    assert told["balanced_accuracy"] > 0.9
    assert told["test_data_protected"] is False
    assert len(told["confusion"]) == len(told["recall"]) == 3
    said = cli("evaluate", model, data / "test.npz").stdout
    assert "not protected" in said
    assert "--private" in said
    assert "Macro F1" in said
    assert not ledger.exists()


def test_a_part_of_a_file_is_named_by_the_option_that_evaluate_has(cli, rows, model):
    x, y = rows("test")
    np.savez("s.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    assert "Pass --split train" in cli("evaluate", model, "s.npz", code=2).stderr
    cli("evaluate", model, "s.npz", "--split", "test")


def test_many_classes_are_a_list_of_mistakes(cli):
    rng = np.random.default_rng(0)
    for name in ("many", "test"):
        np.savez(f"{name}.npz", x=rng.normal(size=(200, 8)), y=rng.integers(0, 20, 200))
    cli("fit", "many.npz", *MEAN, "--classes", "20", "--out", "m")
    out = cli("evaluate", "m", "test.npz").stdout
    assert "Predicted" in out
    assert max(map(len, out.splitlines())) <= 120


def test_numbers_and_words_are_added_to_the_card_afterwards(cli, cli_json, data, own):
    told = cli_json("evaluate", own, data / "test.npz", "--add-to-card")
    assert (told["added_to_card"], told["size"]) == (True, 60)
    card = (own / "README.md").read_text() + (own / "release.json").read_text()
    assert "on test rows" in card
    recorded = json.loads((own / "release.json").read_text())["evaluation"]
    assert (recorded["size"], recorded["support"], recorded["confusion"]) == (None, [], [])
    assert "60 test rows" not in card
    words = (data / "test.npz", "--add-to-card", "--set", "data.test_is_public=true")
    assert cli_json("evaluate", own, *words)["public"] is True
    cli("card", own, "--title", "Birds of the garden", "--contact", "Contact: me@example.org")
    card = (own / "README.md").read_text()
    for said in ("on 60 test rows", "test.npz", "Data: Birds of", "Contact: me@example.org"):
        assert said in card
    assert str(data) not in card  # the file's name, and not where it lies
    assert "Verified" in cli("verify", own).stdout


def test_the_card_never_has_the_name_that_the_ledger_knows(cli, emb, own):
    cli("evaluate", own, emb("t.emb", "test", name="ward 7"), "--add-to-card")
    card = (own / "README.md").read_text() + (own / "release.json").read_text()
    assert "t.emb" in card.replace("\\", "")
    assert "ward 7" not in card


@pytest.mark.parametrize(
    "add", [(), ("--add-to-card",), ("--add-to-card", "--set", "data.new_data_set=true")]
)
def test_rows_of_the_fit_are_refused_where_the_ledger_knows_them(cli, data, rows, ledger, add):
    cli("fit", data / "private.npz", *MEAN, "--name", "a", "--out", "model")
    before = {one.name: one.read_bytes() for one in Path("model").iterdir()}
    x, y = rows("private")
    np.savez("some.npz", x=x[7:37].astype(np.float16), y=y[7:37])
    for test in (data / "private.npz", "some.npz"):
        said = cli("evaluate", "model", test, *add, code=2).stderr
        assert "'a'" in said
        assert "300" not in said
    assert before == {one.name: one.read_bytes() for one in Path("model").iterdir()}
    assert "not protected" in cli("evaluate", "model", data / "test.npz", *add).stdout
    elsewhere = ledger.rename("elsewhere.sqlite")
    cli("evaluate", "model", data / "private.npz", "--ledger", elsewhere, code=2)
    cli("evaluate", "model", data / "private.npz")
    cli("evaluate", "model", data / "private.npz", "--ledger", "none.sqlite", code=2)
    assert not ledger.exists()  # none is made for it
    assert not Path("none.sqlite").exists()


SMALL = ("--private", "--epsilon", "0.5", "--delta", "1e-5")


def test_a_private_test_charges_writes_the_card_and_verifies(cli, cli_json, data, own, ledger):
    told = cli_json("evaluate", own, data / "private.npz", *SMALL, "--name", "clinic")
    assert (told["test_data_protected"], told["added_to_card"]) == (True, True)
    assert told["accuracy"]["low"] <= told["accuracy"]["high"]
    assert [one["class"] for one in told["by_class"]] == CLASSES.split(",")
    assert told["epsilon"] == told["account"]["spent"]["epsilon"] <= 0.5
    released = read_release(own)
    assert Ledger(ledger).privacy_spent("clinic").epsilon == released.charged.guarantee.epsilon
    assert "rows are protected" in (own / "README.md").read_text()
    assert "charged evaluation" in cli("verify", own).stdout
    rows = PrivateEmbeddings(np.zeros((1, 16)), [0], classes=released.classes)
    planned = PrivateEvaluation(released).plan(rows.facts, Budget(epsilon=0.5, delta=1e-5)).event
    assert told["events"][0]["noise_multiplier"] == planned.noise_multiplier


def test_without_a_delta_that_of_the_release_is_taken(cli_json, data, own):
    told = cli_json("evaluate", own, data / "private.npz", "--private", "--epsilon", "0.2")
    assert told["delta"] == read_release(own).guarantee.delta > 0
    assert told["epsilon"] <= 0.2


@pytest.mark.parametrize(
    ("test", "words", "said"),
    [
        ("pool", (), "must have labels"),
        ("other", (), "one dimension"),
        ("test", ("--epsilon", "0.2"), "Add --private"),
        ("test", ("--name", "clinic"), "Add --private"),
        ("test", (*SMALL, "--add-to-card"), "--add-to-card"),
        ("test", (*SMALL, "--device", "cuda"), "this test is"),
        ("test", ("--private",), "exactly one of"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_any_charge(cli, data, own, charges, test, words, said):
    before = (own / "release.json").read_bytes()
    assert said in cli("evaluate", own, data / f"{test}.npz", *words, code=2).stderr
    assert (own / "release.json").read_bytes() == before
    assert charges() == []


def test_numbers_that_are_paid_for_are_shown_though_the_card_cannot_be_written(cli, data, own, monkeypatch):
    def broken(*_, **__):
        raise ReleaseError("The disk is full.")

    monkeypatch.setattr(bundle, "amend_release", broken)
    shown = cli("evaluate", own, data / "private.npz", *SMALL, code=2)
    assert "Accuracy" in shown.stdout
    assert "The charge stands" in shown.stderr


def test_a_fit_with_a_hold_out_shows_it_and_is_charged_once(cli, cli_json, data, ledger, charges):
    words = ("fit", data / "private.npz", *MEAN, "--out", "m")
    told = cli_json(*words, "--holdout", "0.3", "--name", "clinic")
    assert told["charged_evaluation"]["accuracy"]["low"] >= 0
    assert told["events"][0]["kind"] == "disjoint"
    (charge,) = charges()
    assert charge.events == read_release("m").events
    assert Ledger(ledger).privacy_spent("clinic").epsilon <= 1
    assert "example was kept" in cli("card", "m").stdout
    assert "Verified" in cli("verify", "m").stdout
    assert "charged results" in cli("evaluate", "m", data / "test.npz", *SMALL, code=2).stderr
    assert charges() == [charge]
    assert cli_json(*words, "--overwrite", "--name", "clinic")["charged_evaluation"] is None


def against(data, members="private", others="test"):
    return "--members", data / f"{members}.npz", "--others", data / f"{others}.npz"


def test_an_attack_finds_what_the_librarys_does(cli, cli_json, data, rows, model):
    found = cli_json("attack", model, *against(data))
    expected = membership_attack(read_release(model), rows("private"), rows("test"))
    assert found["auc"] == pytest.approx(expected.auc)
    assert found["auc_ceiling"] == pytest.approx(expected.auc_ceiling)
    assert (found["members"], found["others"]) == (300, 60)
    assert "Do not publish" in found["statement"]
    text = cli("attack", model, *against(data)).stdout
    for rate in ("0.1%", "1.0%", "10.0%"):
        (line,) = [line for line in text.splitlines() if line.lstrip().startswith(rate)]
        assert len(re.findall(r"[\d.]+%", line)) == 6  # aimed at, limit, found, two ends, allowed


def test_a_hold_out_makes_attacks_look_weaker_and_that_is_said(cli, data, model):
    assert "kept out of" not in cli("attack", model, *against(data)).stderr
    cli("fit", data / "private.npz", *MEAN, "--holdout", "0.25", "--out", "m")
    assert "probability 0.25" in cli("attack", "m", *against(data)).stderr


def test_a_release_that_protects_persons_is_attacked_by_person(cli, cli_json, rows):
    """Rows that nobody is named for are taken one by one, and that is said."""
    for name, size in (("private", 4), ("test", 3)):
        x, y = rows(name)
        np.savez(f"{name}.npz", x=x, y=y, patient=np.arange(len(y)) // size)
    cli("fit", "private.npz", *MEAN, "--person", "patient", "--out", "model")
    words = ("attack", "model", "--members", "private.npz", "--others", "test.npz")
    found = cli_json(*words, "--person", "patient")
    assert (found["members"], found["others"]) == (75, 20)
    told = cli(*words, "--person", "patient")
    assert "75 members" in told.stdout
    assert "Unfair comparison" not in told.stdout
    assert not told.stderr
    lines = cli(*words).stderr.splitlines()
    assert len(lines) == 2
    assert all("not say whose" in line for line in lines)
    assert "'doctor'" in cli(*words, "--person", "doctor", code=2).stderr


@pytest.mark.parametrize(
    ("others", "more", "said"),
    [
        ("pool", (), "labels"),
        ("other", (), "dimension"),
        ("private", (), "--others must"),
        ("test", ("--person", "patient"), "this protects rows"),
    ],
)
def test_what_cannot_be_attacked_is_refused(cli, data, model, others, more, said):
    assert said in cli("attack", model, *against(data, others=others), *more, code=2).stderr
