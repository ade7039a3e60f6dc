"""`dptransfer predict`: labels, and sets of classes on a release with a charged evaluation."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from dptransfer.data.facts import EncoderIdentity
from dptransfer.release import read_release

from .conftest import BUDGET, MEAN


def test_predictions_are_csv_in_a_pipe_and_a_table_on_a_terminal(cli, data, rows, model, monkeypatch):
    shown = cli("predict", model, data / "test.npz").stdout
    found = list(csv.DictReader(io.StringIO(shown)))
    assert [row["label"] for row in found] == read_release(model).predict(rows("test")[0]).tolist()
    assert set(found[0]) == {"input", "label", "score"}
    assert 0 < float(found[0]["score"]) <= 1
    monkeypatch.setattr("dptransfer.cli.predict_command.on_terminal", lambda **_: True)
    assert cli("predict", model, data / "test.npz", "--csv").stdout == shown
    table = cli("predict", model, data / "test.npz").stdout
    assert table.split("\n")[0].split() == ["Input", "Label", "Score"]


def test_predictions_as_json_keep_the_order_of_several_files(cli_json, data, rows, model):
    np.save("a.npy", rows("test")[0][:3])
    told = cli_json("predict", model, "a.npy", data / "test.npz")
    assert [one["input"] for one in told[:4]] == ["a.npy:0", "a.npy:1", "a.npy:2", f"{data / 'test.npz'}:0"]
    assert [one["label"] for one in told[:3]] == [one["label"] for one in told[3:6]]


def test_predictions_are_written_to_a_new_file(cli, cli_json, data, model):
    words = ("predict", model, data / "test.npz")
    assert cli(*words, "--out", "p.csv").stdout == ""
    assert Path("p.csv").read_text() == cli(*words, "--csv").stdout
    for name in ("p.jsonl", "p.json"):
        cli(*words, "--out", name)
    lines = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()]
    assert lines == json.loads(Path("p.json").read_text()) == cli_json(*words)
    for name, said in (("p.csv", "exists"), ("p.xlsx", ".jsonl")):
        assert said in cli(*words, "--out", name, code=2).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.npy",), "must exist"),
        (("{data}/other.npz",), "dimension, 16"),
        (("{data}/test.npz", "a.jpg"), "mixed"),
        (("a.jpg",), "names none"),
        (("{data}/test.npz", "--coverage", "0.9"), "evaluate DIR TEST"),
    ],
)
def test_predict_refuses(cli, data, model, words, said):
    Path("a.jpg").touch()
    assert said in cli("predict", model, *[word.format(data=data) for word in words], code=2).stderr


def test_rows_of_another_encoder_are_refused(cli, emb):
    me, you = EncoderIdentity("me", "0" * 64, "rgb 8"), EncoderIdentity("you", "1" * 64, "rgb 8")
    cli("fit", emb("own.emb", encoder=me), *MEAN, "--out", "m")
    assert "one encoder" in cli("predict", "m", emb("other.emb", encoder=you), code=2).stderr


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_device_that_is_not_there_is_refused_with_what_to_do(cli, data, model, command, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = cli(command, model, data / "test.npz", "--device", "cuda", code=2).stderr
    assert "--device cuda needs" in said  # Triton, or where that is installed a device
    assert "--device cpu" in said


SCORES = Path(__file__).parents[2] / "docs" / "how-to" / "scores.md"


@pytest.fixture
def tested(cli, own) -> Path:
    """The release, with a charged evaluation of 3,000 rows whose classes overlap."""
    np.savez("held.npz", **overlapping(3000, seed=1))
    np.savez("new.npz", x=overlapping(80, seed=2)["x"])
    cli("evaluate", own, "held.npz", "--private", *BUDGET, "--name", "held")
    return own


def overlapping(count, seed):
    """Rows of the fixture's classes, with as much noise as signal."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    centres = 3 * np.random.default_rng(0).normal(size=(3, 16))
    return {"x": (centres[labels] + 9 * rng.normal(size=(count, 16))).astype(np.float32), "y": labels}


def test_sets_stand_beside_the_labels_in_json_csv_and_files(cli, cli_json, tested):
    expected = read_release(tested).predict_sets(np.load("new.npz")["x"], coverage=0.8)
    told = cli_json("predict", tested, "new.npz", "--coverage", "0.8")
    assert [tuple(one["set"]) for one in told] == expected.labels
    assert 1 < expected.average_size < 3
    assert all(one["label"] in one["set"] for one in told)
    shown = cli("predict", tested, "new.npz", "--coverage", "0.8")
    rows = list(csv.DictReader(io.StringIO(shown.stdout)))
    assert [json.loads(row["set"]) for row in rows] == [one["set"] for one in told]
    for said in (f"{expected.average_size:.2f}", "confidence 0.95", "calibrated on"):
        assert said in shown.stderr
    cli("predict", tested, "new.npz", "--coverage", "0.8", "--out", "p.jsonl")
    assert [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()] == told


def test_no_label_is_given_where_a_set_is_larger_than_wanted(cli, cli_json, tested, monkeypatch):
    words = ("predict", tested, "new.npz", "--coverage", "0.8", "--abstain-above", "1")
    told = cli_json(*words)
    assert [one["label"] is None for one in told] == [len(one["set"]) > 1 for one in told]
    silent = sum(one["label"] is None for one in told)
    assert 0 < silent < 80
    shown = cli(*words)
    assert f"{silent} of 80 inputs" in shown.stderr
    assert ",,0." in shown.stdout
    monkeypatch.setattr("dptransfer.cli.predict_command.on_terminal", lambda **_: True)
    assert cli(*words).stdout.split("\n")[0].split() == ["Input", "Label", "Score", "Set"]


def test_no_label_for_anybody_is_refused_beforehand_with_a_coverage_that_works(cli, tested, monkeypatch):
    words = ("predict", tested, "new.npz", "--abstain-above", "1", "--coverage")
    with monkeypatch.context() as patch:
        patch.setattr("dptransfer.cli.predict_command._rows", None)  # nothing is read or encoded
        said = " ".join(cli(*words, "0.9999", code=2).stderr.split())
    assert "set holds every" in said
    (coverage, sure), *_ = re.findall(r"Try --coverage (0\.\d+) --confidence (0\.\d+)\.", said)
    assert "no label for" in cli(*words, coverage, "--confidence", sure).stderr
    assert "cat" in cli("predict", tested, "new.npz", "--abstain-above", "3", "--coverage", "0.9999").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--abstain-above", "1"), "pass --coverage 0.9 too"),
        (("--coverage", "0.9", "--top", "2"), "leave out --top"),
        (("--coverage", "1"), "strictly between 0 and 1"),
        (("--coverage", "0.9", "--confidence", "7"), "strictly between 0 and 1"),
    ],
)
def test_what_makes_no_sets_is_refused(cli, tested, words, said):
    assert said in cli("predict", tested, "new.npz", *words, code=2).stderr


def test_the_question_of_the_page_on_scores_labels_most_inputs_of_such_data(cli):
    """1,500 pictures of ten classes, of which a fifth are held out."""
    (line,) = re.findall(r"dptransfer predict model/ new/ (--coverage .*)", SCORES.read_text())
    rng = np.random.default_rng(0)
    labels, centres = np.arange(1900) % 10, 1.4 * np.eye(10, 32)
    x = (centres[labels] + 0.3 * rng.normal(size=(1900, 32))).astype(np.float32)
    np.savez("pictures.npz", x=x[:1500], y=labels[:1500])
    np.savez("others.npz", x=x[1500:])
    budget = ("--epsilon", "1", "--delta", "1e-5", "--holdout", "0.2", "--method", "mean")
    cli("fit", "pictures.npz", "--classes", ",".join(map(str, range(10))), *budget, "--out", "ten")
    said = " ".join(cli("predict", "ten", "others.npz", *line.split()).stderr.split())
    ((silent, count),) = re.findall(r"no label for (\d+) of (\d+) inputs", said)
    assert int(silent) < int(count) / 2
