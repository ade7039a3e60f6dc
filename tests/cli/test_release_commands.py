"""`predict`, `evaluate`, `card`, `verify` and `export` on a release that the command wrote."""

import contextlib
import csv
import io
import json
import os
import pty
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dptransfer.data import RowMetadata, write_embeddings
from dptransfer.data.facts import EncoderIdentity
from dptransfer.release import read_release


@pytest.fixture
def broken(model, tmp_path) -> Path:
    copy = tmp_path / "broken"
    shutil.copytree(model, copy)
    content = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return copy


def test_a_folder_that_is_no_release_is_called_so(cli, tmp_path):
    (tmp_path / "photos").mkdir()
    for words in (("predict", "photos", "x.npz"), ("card", "photos"), ("evaluate", "photos", "x.npz")):
        said = cli(*words, code=2).stderr
        assert "'photos' has none" in said


def test_the_card_never_has_the_name_that_the_ledger_knows(cli, data, model, tmp_path):
    own = tmp_path / "own"
    shutil.copytree(model, own)
    with np.load(data / "test.npz") as arrays:
        write_embeddings(
            "t.emb", arrays["x"], RowMetadata(arrays["y"], classes=["cat", "dog", "bird"], name="ward 7")
        )
    cli("evaluate", own, "t.emb", "--add-to-card")
    card = (own / "CARD.md").read_text() + (own / "release.json").read_text()
    assert "t.emb" in card.replace("\\", "")
    assert "ward 7" not in card


def test_predictions_are_csv_in_a_pipe(cli, data, model):
    rows = list(csv.DictReader(io.StringIO(cli("predict", model, data / "test.npz").stdout)))
    with np.load(data / "test.npz") as arrays:
        expected = read_release(model).predict(arrays["x"]).tolist()
    assert [row["label"] for row in rows] == expected
    assert set(rows[0]) == {"input", "label", "score"}
    assert 0 < float(rows[0]["score"]) <= 1


def test_predictions_are_a_table_on_a_terminal(cli, data, model, monkeypatch):
    monkeypatch.setattr("dptransfer.cli.predict_command.on_terminal", lambda: True)
    assert "Label" in cli("predict", model, data / "test.npz").stdout
    assert cli("predict", model, data / "test.npz", "--csv").stdout.startswith("input,label,score\n")


def test_predictions_as_json_keep_the_order_of_several_files(cli_json, data, model):
    np.save("a.npy", np.load(data / "test.npz")["x"][:3])
    told = cli_json("predict", model, "a.npy", data / "test.npz")
    assert [one["input"] for one in told[:4]] == ["a.npy:0", "a.npy:1", "a.npy:2", f"{data / 'test.npz'}:0"]
    assert [one["label"] for one in told[:3]] == [one["label"] for one in told[3:6]]


def test_the_likeliest_classes_come_in_order(cli, cli_json, data, model):
    told = cli_json("predict", model, data / "test.npz", "--top", "2")
    chances = read_release(model).predict_proba(np.load(data / "test.npz")["x"])
    assert [one["rank"] for one in told[:4]] == [1, 2, 1, 2]
    assert told[0]["score"] == pytest.approx(chances[0].max())
    assert told[1]["score"] == pytest.approx(sorted(chances[0])[1])
    assert len(cli_json("predict", model, data / "test.npz", "--top", "99")) == 3 * len(chances)
    assert cli("predict", model, data / "test.npz", "--top", "2").stdout.startswith(
        "input,rank,label,score\n"
    )


def test_predictions_are_written_to_a_new_file(cli, data, model):
    assert cli("predict", model, data / "test.npz", "--out", "p.csv").stdout == ""
    assert Path("p.csv").read_text() == cli("predict", model, data / "test.npz", "--csv").stdout
    cli("predict", model, data / "test.npz", "--out", "p.jsonl")
    lines = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()]
    assert lines == json.loads(cli("predict", model, data / "test.npz", "--json").stdout)
    cli("predict", model, data / "test.npz", "--out", "p.json")
    assert json.loads(Path("p.json").read_text()) == lines
    for name, said in (("p.csv", "exists"), ("p.xlsx", ".csv, .json or .jsonl")):
        assert said in cli("predict", model, data / "test.npz", "--out", name, code=2).stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.npy",), "must exist"),
        (("{data}/other.npz",), "the model's dimension, 16"),
        (("{data}/test.npz", "a.jpg"), "mixed"),
        (("a.jpg",), "the release names none"),
        (("other.emb",), "one encoder"),
    ],
)
def test_predict_refuses(cli, data, words, said):
    Path("a.jpg").touch()
    rows = np.load(data / "private.npz")
    me, you = EncoderIdentity("me", "0" * 64, "rgb 8"), EncoderIdentity("you", "1" * 64, "rgb 8")
    write_embeddings("own.emb", rows["x"], RowMetadata(rows["y"], classes=["a", "b", "c"], encoder=me))
    write_embeddings("other.emb", rows["x"], RowMetadata(encoder=you))
    source = "own.emb" if words == ("other.emb",) else data / "private.npz"
    cli("fit", source, "-m", "mean", "-e", "1", "-d", "1e-5", "--classes", "a,b,c", "--out", "m")
    assert said in cli("predict", "m", *[word.format(data=data) for word in words], code=2).stderr


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_a_device_that_is_not_there_is_refused_with_what_to_do(cli, data, model, command, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = cli(command, model, data / "test.npz", "--device", "cuda", code=2).stderr
    assert "needs a CUDA device" in said
    assert "cpu" in said


def test_evaluate_shows_bars_confusion_and_the_warning(cli, data, model):
    out = cli("evaluate", model, data / "test.npz").stdout
    for said in ("Balanced accuracy", "█", "True \\ predicted", "bird", "not protected"):
        assert said in out


def test_evaluate_as_json(cli_json, data, model):
    told = cli_json("evaluate", model, data / "test.npz")
    assert told["balanced_accuracy"] > 0.9
    assert told["test_data_protected"] is False
    assert "not protected" in told["statement"]
    assert len(told["confusion"]) == len(told["recall"]) == 3


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("pool.npz", "must have labels"),
        ("other.npz", "other.npz' must have one dimension"),
        ("no.emb", "must exist"),
    ],
)
def test_evaluate_refuses(cli, data, model, source, said):
    assert said in cli("evaluate", model, data / source, code=2).stderr


def test_a_part_of_a_file_is_named_by_the_option_that_evaluate_has(cli, data, model):
    with np.load(data / "test.npz") as arrays:
        np.savez("s.npz", x_train=arrays["x"], y_train=arrays["y"], x_test=arrays["x"], y_test=arrays["y"])
    assert "Pass --split train" in cli("evaluate", model, "s.npz", code=2).stderr
    cli("evaluate", model, "s.npz", "--split", "test")


def test_evaluate_with_many_classes_lists_mistakes(cli):
    rng = np.random.default_rng(0)
    np.savez("many.npz", x=rng.normal(size=(200, 8)), y=rng.integers(0, 20, 200))
    cli("fit", "many.npz", "--classes", "20", "-m", "mean", "-e", "1", "-d", "1e-5", "--out", "m")
    np.savez("test.npz", x=rng.normal(size=(200, 8)), y=rng.integers(0, 20, 200))
    out = cli("evaluate", "m", "test.npz").stdout
    assert "Predicted" in out
    assert max(map(len, out.splitlines())) <= 120


def test_numbers_and_words_are_added_to_the_card_afterwards(cli, cli_json, data, model, tmp_path):
    own = shutil.copytree(model, tmp_path / "own")
    told = cli_json("evaluate", own, data / "test.npz", "--add-to-card")
    assert told["added_to_card"] is True
    assert told["size"] == 60
    card = (own / "CARD.md").read_text() + (own / "release.json").read_text()
    assert "on test rows" in card
    assert "not protected. Publish" in card.replace("\\", "")
    recorded = json.loads((own / "release.json").read_text())["evaluation"]
    assert (recorded["size"], recorded["support"], recorded["confusion"]) == (None, [], [])
    assert "60 test rows" not in card
    words = (data / "test.npz", "--add-to-card", "--set", "data.test_is_public=true")
    assert cli_json("evaluate", own, *words)["public"] is True
    cli("card", own, "--title", "Birds of the garden", "--contact", "Contact: me@example.org")
    card = (own / "CARD.md").read_text()
    assert "on 60 test rows" in card
    assert "test.npz" in card  # the file's name, and not where it lies
    assert str(data) not in card
    assert "Data: Birds of" in card
    assert "Contact: me@example.org" in card
    assert "Verified" in cli("verify", own).stdout


def test_a_page_is_not_poured_into_a_terminal(cli, model, monkeypatch):
    monkeypatch.setattr("dptransfer.cli.release_commands.on_terminal", lambda: True)
    said = cli("card", model, "--format", "html", code=2).stderr
    assert "--open" in said
    cli("card", model, "--format", "html", "--out", "page.html")
    assert Path("page.html").read_bytes() == (model / "card.html").read_bytes()
    assert "exists" in cli("card", model, "--format", "html", "--out", "page.html", code=2).stderr


@pytest.mark.parametrize(
    ("form", "start"),
    [
        ("text", "Privacy and model card"),
        ("markdown", "# Privacy and model card"),
        ("html", "<!doctype html>"),
    ],
)
def test_cards(cli, model, form, start):
    out = cli("card", model, "--format", form).stdout
    assert out.lower().startswith(start.lower())
    assert "balanced accuracy" in out  # the evaluation of fit --test


def test_the_name_of_a_file_says_how_the_card_is_written(cli, model):
    for name, start in (("c.html", "<!doctype"), ("c.MD", "# "), ("c.json", "{"), ("c.txt", "Privacy")):
        cli("card", model, "--out", name)
        assert Path(name).read_text().lower().startswith(start.lower())
    cli("card", model, "--format", "text", "--out", "d.html")
    assert Path("d.html").read_text().startswith("Privacy")


def test_the_card_has_colours_on_a_terminal_and_none_in_a_pipe(cli, model):
    """The same words in both; a pseudo-terminal stands for a terminal."""
    command = [sys.executable, "-m", "dptransfer", "card", str(model)]
    shown, pipe = pty.openpty()
    with subprocess.Popen(command, stdout=pipe, env={**os.environ, "TERM": "xterm"}) as running:
        os.close(pipe)
        text = b""
        with contextlib.suppress(OSError):  # the end of a pseudo-terminal
            while part := os.read(shown, 65536):
                text += part
    os.close(shown)
    assert running.returncode == 0
    assert b"\x1b[1mGuarantee" in text
    assert "\x1b" not in cli("card", model).stdout


def test_card_as_json(cli, cli_json, model):
    told = cli_json("card", model)
    assert told == json.loads(cli("card", model, "--format", "json").stdout)
    assert told["numbers"]["relation"] == "add/remove"


def test_card_in_a_browser(cli, model, monkeypatch):
    opened = []
    monkeypatch.setattr("typer.launch", opened.append)
    cli("card", model, "--open")
    assert opened == [(model / "card.html").resolve().as_uri()]


def test_verify(cli, cli_json, model):
    assert "Verified" in cli("verify", model).stdout
    told = cli_json("verify", model)
    assert told["ok"] is True
    assert {"method", "epsilon", "delta", "relation", "events"} <= set(told)
    assert {"kind", "noise_multiplier", "scale", "sensitivity"} <= set(told["events"][0])
    assert told["recomputed_epsilon"] == told["epsilon"]
    assert [one["passed"] for one in told["checks"] if one["name"] == "steps"] == [True]


def test_verify_says_at_its_end_what_no_check_can_show(cli, cli_json, model, broken):
    for path, code in ((model, 0), (broken, 1)):
        last = " ".join(cli("verify", path, code=code).stdout.split())
        assert last.endswith("whoever made the release.")
        assert "was really drawn" in cli_json("verify", path, code=code)["not_shown"]


def test_steps_that_are_not_the_methods_are_not_verified(cli, model, tmp_path):
    honest = read_release(model)
    events = tuple(replace(event, sensitivity=0.001) for event in honest.events)
    replace(honest, events=events).save(tmp_path / "forged")
    told = cli("verify", tmp_path / "forged", code=1).stdout
    assert "NOT verified: steps" in told


def test_steps_that_could_not_be_planned_again_are_exit_code_three(cli, cli_json, model, tmp_path):
    honest = read_release(model)
    events = tuple(replace(event, sensitivity=2.0, label="sums") for event in honest.events)
    other = replace(honest.provenance, versions={**honest.provenance.versions, "dptransfer": "99.0"})
    path = replace(honest, events=events, provenance=other).save(tmp_path / "other")
    said = " ".join(cli("verify", path, code=3).stdout.split())
    assert "NOT verified, steps" in said
    assert "Verified" not in said
    told = cli_json("verify", path, code=3)
    assert (told["ok"], told["outcome"], told["failed"]) == (False, "not all checked", [])


def test_a_failed_check_is_one_and_a_missing_release_is_two(cli, cli_json, broken):
    assert "NOT verified" in cli("verify", broken, code=1).stdout
    told = cli_json("verify", broken, code=1)
    assert told["ok"] is False
    assert "A release is a directory" in cli("verify", "nowhere", code=2).stderr


@pytest.mark.parametrize("command", [("card",), ("evaluate",), ("predict",), ("export", "--onnx", "m.onnx")])
def test_broken_releases_are_refused(cli, broken, data, command):
    name, *options = command
    rows = [data / "test.npz"] if name in ("evaluate", "predict") else []
    cli(name, broken, *rows, *options, code=2)
    assert not Path("m.onnx").exists()


def test_export(cli, cli_json, data, model):
    runtime = pytest.importorskip("onnxruntime")
    told = cli_json("export", model, "--onnx", "m.onnx")
    assert told["classes"] == ["cat", "dog", "bird"]
    rows = np.load(data / "test.npz")["x"]
    session = runtime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    notes = session.get_modelmeta().custom_metadata_map
    assert notes["release_digest"] == json.loads((Path(model) / "release.json").read_text())["digest"]
    labels = session.run(["label_index"], {"rows": rows})[0]
    assert np.asarray(told["classes"])[labels].tolist() == read_release(model).predict(rows).tolist()
    assert "exists" in cli("export", model, "--onnx", "m.onnx", code=2).stderr
    cli("export", model, "--onnx", "m.onnx", "--overwrite")


def test_export_without_onnx_says_what_to_install(cli, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "dptransfer[onnx]" in cli("export", model, "--onnx", "m.onnx", code=2).stderr


@pytest.mark.parametrize(
    "add", [(), ("--add-to-card",), ("--add-to-card", "--set", "data.new_data_set=true")]
)
def test_rows_of_the_fit_are_refused_where_the_ledger_knows_them(cli, data, ledger, add):
    words = (data / "private.npz", "--classes", "cat,dog,bird", "-e", "1", "-d", "1e-5", "-m", "mean")
    cli("fit", *words, "--name", "a", "--out", "model")
    before = {one.name: one.read_bytes() for one in Path("model").iterdir()}
    with np.load(data / "private.npz") as arrays:
        np.savez("some.npz", x=arrays["x"][7:37].astype(np.float16), y=arrays["y"][7:37])
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
