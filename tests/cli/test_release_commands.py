"""`card`, `verify` and `export` on a release that the command wrote."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dptransfer.release import read_release
from release.fake_hub import remote as remote


@pytest.fixture
def broken(own) -> Path:
    content = (own / "model.safetensors").read_bytes()
    (own / "model.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    return own


@pytest.mark.parametrize("command", ["predict photos x.npz", "card photos", "evaluate photos x.npz"])
def test_a_folder_that_is_no_release_is_called_so(cli, tmp_path, command):
    (tmp_path / "photos").mkdir()
    assert "missing from 'photos'" in cli(*command.split(), code=2).stderr


def test_a_page_is_not_poured_into_a_terminal(cli, model, monkeypatch):
    monkeypatch.setattr("dptransfer.cli.release_commands.on_terminal", lambda: True)
    said = cli("card", model, "--format", "html", code=2).stderr
    assert "--open" in said
    cli("card", model, "--format", "html", "--out", "page.html")
    assert Path("page.html").read_bytes() == (model / "card.html").read_bytes()
    assert "exists" in cli("card", model, "--format", "html", "--out", "page.html", code=2).stderr


@pytest.mark.parametrize(
    ("form", "start"), [("text", "privacy and model"), ("markdown", "# privacy"), ("html", "<!doctype html>")]
)
def test_cards(cli, cli_json, model, form, start):
    out = cli("card", model, "--format", form).stdout
    assert out.lower().startswith(start)
    assert "balanced accuracy" in out  # the evaluation of fit --test
    told = cli_json("card", model)
    assert told == json.loads(cli("card", model, "--format", "json").stdout)
    assert told["numbers"]["relation"] == "add/remove"


def test_the_name_of_a_file_says_how_the_card_is_written(cli, model):
    for name, start in (("c.html", "<!doctype"), ("c.MD", "# "), ("c.json", "{"), ("c.txt", "Privacy")):
        cli("card", model, "--out", name)
        assert Path(name).read_text().lower().startswith(start.lower())
    cli("card", model, "--format", "text", "--out", "d.html")
    assert Path("d.html").read_text().startswith("Privacy")


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


def test_steps_that_are_not_the_methods_are_not_verified(cli, model, tmp_path):
    honest = read_release(model)
    events = tuple(replace(event, sensitivity=0.001) for event in honest.events)
    replace(honest, events=events).save(tmp_path / "forged")
    assert "NOT verified: steps" in cli("verify", tmp_path / "forged", code=1).stdout


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
    assert cli_json("verify", broken, code=1)["ok"] is False
    cli("verify", "nowhere", code=2)


@pytest.mark.parametrize("command", [("card",), ("evaluate",), ("predict",), ("export", "--onnx", "m.onnx")])
def test_broken_releases_are_refused(cli, broken, data, command):
    name, *options = command
    rows = [data / "test.npz"] if name in ("evaluate", "predict") else []
    cli(name, broken, *rows, *options, code=2)
    assert not Path("m.onnx").exists()


def test_export(cli, cli_json, rows, model):
    runtime = pytest.importorskip("onnxruntime")
    told = cli_json("export", model, "--onnx", "m.onnx")
    assert told["classes"] == ["cat", "dog", "bird"]
    x, _ = rows("test")
    session = runtime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    notes = session.get_modelmeta().custom_metadata_map
    assert notes["release_digest"] == json.loads((Path(model) / "release.json").read_text())["digest"]
    labels = session.run(["label_index"], {"rows": x})[0]
    assert np.asarray(told["classes"])[labels].tolist() == read_release(model).predict(x).tolist()
    assert "exists" in cli("export", model, "--onnx", "m.onnx", code=2).stderr
    cli("export", model, "--onnx", "m.onnx", "--overwrite")


def test_a_release_is_pushed_and_read_again_by_its_name(cli, model, remote):
    cli("push", model, "clinic/lesions")
    cli("verify", "hf:clinic/lesions")
    assert cli("card", "hf:clinic/lesions").stdout == cli("card", model).stdout


def test_a_release_that_does_not_verify_is_not_pushed(cli, model, remote, tmp_path):
    broken = shutil.copytree(model, tmp_path / "broken")
    (broken / "README.md").write_text("other")
    cli("push", broken, "clinic/lesions", code=2)
    assert not remote.exists()


def test_a_licence_is_put_on_the_card(cli, model, tmp_path):
    path = shutil.copytree(model, tmp_path / "licensed")
    assert "apache-2.0" in cli("card", path, "--license", "apache-2.0").stdout
    assert "Verified" in cli("verify", path).stdout
