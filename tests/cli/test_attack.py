"""`attack` on a release that the command wrote."""

import re

import numpy as np
import pytest

from dptransfer.audit.membership import membership_attack
from dptransfer.release import read_release

from .conftest import BUDGET, CLASSES


def test_the_numbers_are_those_of_the_library(cli_json, data, model):
    found = cli_json("attack", model, "--members", data / "private.npz", "--others", data / "test.npz")
    sets = []
    for name in ("private", "test"):
        with np.load(data / f"{name}.npz") as arrays:
            sets.append((arrays["x"], arrays["y"]))
    expected = membership_attack(read_release(model), *sets)
    assert found["auc"] == pytest.approx(expected.auc)
    assert found["auc_ceiling"] == pytest.approx(expected.auc_ceiling)
    assert (found["members"], found["others"]) == (300, 60)
    assert "Do not publish" in found["statement"]


def test_the_report_is_in_plain_words_and_says_what_the_guarantee_allows(cli, data, model):
    text = cli("attack", model, "--members", data / "private.npz", "--others", data / "test.npz").stdout
    assert "Guessing gets 50%" in text
    assert "attack more than 57" in text  # Φ(0.268/√2) at ε = 1
    assert "never sees the" in text
    assert "Nothing here contradicts" in text
    assert "Do not publish" in text
    assert "did better than the guarantee allows" not in text


def test_a_hold_out_makes_attacks_look_weaker_and_that_is_said(cli, data, model, tmp_path):
    against = ("--members", data / "private.npz", "--others", data / "test.npz")
    assert "kept out of training" not in cli("attack", model, *against).stderr
    words = ("--classes", CLASSES, *BUDGET, "--method", "mean", "--holdout", "0.25", "--out", tmp_path / "m")
    cli("fit", data / "private.npz", *words)
    assert "training with probability 0.25" in cli("attack", tmp_path / "m", *against).stderr


def test_rates_come_with_intervals_and_with_what_the_guarantee_allows_there(cli, data, model):
    text = cli("attack", model, "--members", data / "test.npz", "--others", data / "private.npz").stdout
    for rate in ("0.1%", "1%", "10%"):
        (line,) = [line for line in text.splitlines() if line.lstrip().startswith(rate)]
        assert len(re.findall(r"[\d.]+%", line)) == 6  # aimed at, limit, found, two ends, allowed
    assert "together with 95% confidence" in text


def test_rows_from_another_source_are_noticed(cli, cli_json, data, model, tmp_path):
    """Turned labels have large losses, moved rows any: neither says anything about the model."""
    with np.load(data / "test.npz") as arrays:
        np.savez(tmp_path / "turned.npz", x=arrays["x"], y=(arrays["y"] + 1) % 3)
        np.savez(tmp_path / "moved.npz", x=arrays["x"] + 2.0, y=arrays["y"])
    for name in ("turned", "moved"):
        others = ("--members", data / "private.npz", "--others", tmp_path / f"{name}.npz")
        found = cli_json("attack", model, *others)
        assert found["fair"] is False
        assert "Unfair comparison" in cli("attack", model, *others).stdout
        assert "Nothing here contradicts" not in found["verdict"]


def test_rows_without_labels_or_of_another_width_are_refused(cli, data, model):
    for others in ("pool.npz", "other.npz"):
        cli("attack", model, "--members", data / "private.npz", "--others", data / others, code=2)


def test_rows_are_not_attacked_with_themselves(cli, data, model):
    same = data / "private.npz"
    said = cli("attack", model, "--members", same, "--others", same, code=2).stderr
    assert "--others must name" in said


@pytest.fixture
def with_people(cli, data, tmp_path):
    """A release that protects persons, and its rows and others with whose they are."""
    files = {}
    for name, size in (("private", 4), ("test", 3)):
        with np.load(data / f"{name}.npz") as arrays:
            people = np.arange(len(arrays["y"])) // size
            files[name] = tmp_path / f"{name}.npz"
            np.savez(files[name], x=arrays["x"], y=arrays["y"], patient=people)
    words = ("--person", "patient", "--classes", CLASSES, *BUDGET, "--method", "mean")
    cli("fit", files["private"], *words, "--out", tmp_path / "model")
    return tmp_path / "model", "--members", files["private"], "--others", files["test"]


def test_a_release_that_protects_persons_is_attacked_by_person(cli, cli_json, with_people):
    found = cli_json("attack", *with_people, "--person", "patient")
    assert (found["members"], found["others"]) == (75, 20)
    told = cli("attack", *with_people, "--person", "patient")
    assert "Given one person" in told.stdout
    assert "Unfair comparison" not in told.stdout
    assert not told.stderr


def test_rows_that_nobody_is_named_for_are_taken_one_by_one_and_that_is_said(cli, with_people):
    told = cli("attack", *with_people).stderr.splitlines()
    assert len(told) == 2
    assert all("not say whose" in line for line in told)


def test_a_column_of_people_that_is_not_there_or_not_asked_for_is_refused(cli, data, model, with_people):
    assert "'doctor'" in cli("attack", *with_people, "--person", "doctor", code=2).stderr
    rows = ("--members", data / "private.npz", "--others", data / "test.npz", "--person", "patient")
    assert "protects single rows" in cli("attack", model, *rows, code=2).stderr
