"""`evaluate --private`, and the hold-outs of `fit` and `plan`."""

import json
import shutil

import numpy as np
import pytest

from dptransfer.data import RowMetadata, write_embeddings
from dptransfer.ledger import Ledger
from dptransfer.methods.private_evaluation import PrivateEvaluation
from dptransfer.release import read_release

from .conftest import BUDGET, CLASSES

SMALL = ("--private", "--epsilon", "0.5", "--delta", "1e-5")


@pytest.fixture
def own(model, tmp_path):
    return shutil.copytree(model, tmp_path / "own")


def test_a_private_test_charges_writes_the_card_and_verifies(cli, data, own, ledger):
    said = cli("evaluate", own, data / "private.npz", *SMALL, "--name", "clinic").stdout
    for words in (
        "Balanced accuracy",
        "Recall",
        "Precision",
        "for sampling and noise together",
        "'clinic', entry 1 of the ledger",
        "The test rows are protected",
    ):
        assert words in said
    assert Ledger(ledger).privacy_spent("clinic").epsilon <= 0.5
    assert read_release(own).charged.guarantee.epsilon <= 0.5
    assert "rows are protected" in (own / "CARD.md").read_text()
    assert "charged evaluation" in cli("verify", own).stdout


def test_a_private_test_as_json(cli_json, data, own):
    told = cli_json("evaluate", own, data / "private.npz", *SMALL)
    assert told["test_data_protected"] is True
    assert told["added_to_card"] is True
    assert told["epsilon"] <= 0.5
    assert told["accuracy"]["low"] <= told["accuracy"]["high"]
    assert [one["class"] for one in told["by_class"]] == CLASSES.split(",")
    assert told["account"]["spent"]["epsilon"] <= 0.5


def test_without_a_delta_that_of_the_release_is_taken(cli_json, data, own):
    told = cli_json("evaluate", own, data / "private.npz", "--private", "--epsilon", "0.2")
    assert told["delta"] == read_release(own).guarantee.delta > 0
    assert told["epsilon"] <= 0.2


def test_without_private_one_line_says_that_rows_are_not_protected(cli, data, own, ledger):
    said = cli("evaluate", own, data / "test.npz").stdout
    (line,) = (line for line in said.splitlines() if "not protected" in line)
    assert "--private" in line
    assert not ledger.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epsilon", "0.2"), "Add --private"),
        (("--name", "clinic"), "Add --private"),
        ((*SMALL, "--add-to-card"), "always goes on the card"),
        ((*SMALL, "--device", "cuda"), "on the CPU"),
        (("--private",), "exactly one of epsilon"),
        ((*SMALL, "--set", "k=5"), "data.FIELD"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_any_charge(cli, data, own, ledger, words, said):
    before = (own / "release.json").read_bytes()
    assert said in cli("evaluate", own, data / "test.npz", *words, code=2).stderr
    assert (own / "release.json").read_bytes() == before
    assert not ledger.exists() or Ledger(ledger).history() == []


def test_rows_of_another_width_are_refused_before_any_charge(cli, data, own, ledger):
    assert "one dimension" in cli("evaluate", own, data / "other.npz", *SMALL, code=2).stderr
    assert Ledger(ledger).history() == []


def test_persons_of_an_emb_folder_are_protected(cli_json, data, own, tmp_path):
    rows = np.load(data / "private.npz")
    names = np.array(CLASSES.split(","))[rows["y"]]
    write_embeddings(
        tmp_path / "people.emb",
        rows["x"],
        RowMetadata(names, classes=CLASSES.split(","), people=np.arange(300) // 3),
    )
    told = cli_json("evaluate", own, tmp_path / "people.emb", *SMALL, "--set", "data.person_bound=2")
    assert told["guarantee"]["unit"] == "person"
    assert told["events"][0]["sensitivity"] == 2.0
    assert "all their examples" in told["statement"]


def test_numbers_that_are_paid_for_are_shown_though_the_card_cannot_be_written(cli, data, own, monkeypatch):
    from dptransfer.errors import ReleaseError
    from dptransfer.release import bundle as amend

    def broken(*_, **__):
        raise ReleaseError("The disk is full.")

    monkeypatch.setattr(amend, "amend_release", broken)
    shown = cli("evaluate", own, data / "private.npz", *SMALL, code=2)
    assert "Accuracy" in shown.stdout
    assert "The charge stands" in shown.stderr


def fit(cli, data, *more):
    return cli("fit", data / "private.npz", "--classes", CLASSES, *BUDGET, "-m", "mean", "--out", "m", *more)


def test_a_fit_with_a_hold_out_shows_it_and_is_charged_once(cli, data, ledger):
    said = fit(cli, data, "--holdout", "0.3", "--name", "clinic").stdout
    assert "Hold-out" in said
    assert "30% of examples, chosen" in said
    (charge,) = (one for one in Ledger(ledger).history() if hasattr(one, "events"))
    assert charge.events == read_release("m").events
    assert Ledger(ledger).privacy_spent("clinic").epsilon <= 1
    assert "example was kept" in cli("card", "m").stdout
    assert "Verified" in cli("verify", "m").stdout
    refused = cli("evaluate", "m", data / "test.npz", *SMALL, code=2).stderr
    assert "charged results already" in refused
    assert len([one for one in Ledger(ledger).history() if hasattr(one, "events")]) == 1


def test_a_fit_with_a_hold_out_as_json(cli, data):
    told = json.loads(fit(cli, data, "--holdout", "0.3", "--json").stdout)
    assert told["charged_evaluation"]["accuracy"]["low"] >= 0
    assert told["events"][0]["kind"] == "disjoint"
    assert json.loads(fit(cli, data, "--json", "--overwrite").stdout)["charged_evaluation"] is None


def test_a_chance_that_is_none_is_refused_before_any_charge(cli, data, ledger):
    said = cli(
        "fit", data / "private.npz", "--classes", CLASSES, *BUDGET, "-m", "mean", "-o", "m", "--holdout", "2",
        code=2,
    ).stderr  # fmt: skip
    assert "between 0 and 1" in said
    assert Ledger(ledger).history() == []


def test_a_plan_shows_the_hold_out(cli, cli_json):
    words = ("plan", *BUDGET, "-m", "mean", "--classes", "3", "--dim", "16", "--holdout", "0.2")
    assert "20% of examples, chosen" in cli(*words).stdout
    assert cli_json(*words)["events"][0]["kind"] == "disjoint"
    both = cli_json(*words, "--relation", "replace-one")
    assert [one["kind"] for one in both["events"]] == ["disjoint"]
    assert 0.999 < both["epsilon"] <= 1


def test_a_plan_of_the_same_question_costs_what_the_command_charges(data, own, cli_json):
    from dptransfer.data import PrivateEmbeddings
    from dptransfer.privacy import Budget

    told = cli_json("evaluate", own, data / "private.npz", *SMALL)
    model = read_release(own)
    rows = PrivateEmbeddings(np.zeros((1, 16)), [0], classes=model.classes)
    planned = PrivateEvaluation(model).plan(rows.facts, Budget(epsilon=0.5, delta=1e-5)).event
    assert told["events"][0]["noise_multiplier"] == planned.noise_multiplier


def test_a_hold_out_that_is_too_small_is_said_so_once(cli, data):
    with np.load(data / "private.npz") as whole:
        np.savez("few.npz", x=whole["x"][:30], y=whole["y"][:30])
    words = ("fit", "few.npz", "--classes", CLASSES, *BUDGET, "-m", "mean", "--out", "small")
    said = " ".join(cli(*words, "--holdout", "0.2").stdout.split())
    assert said.count("too few test rows for this budget: no accuracy can be reported") == 1
