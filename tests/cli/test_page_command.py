"""`dptransfer page`: one command from a release to a folder for a web server."""

import pytest

from dptransfer.page.ort_runtime import BINARY, GLUE, MODULE, VARIABLE

pytest.importorskip("onnxruntime")


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    folder = tmp_path / "runtime"
    folder.mkdir()
    for name in (MODULE, GLUE, BINARY):
        (folder / name).write_text("/* ONNX Runtime Web v1.0.0 */")
    return folder


def test_a_page_is_written_and_what_was_not_tested_is_said(model, cli, runtime, tmp_path):
    done = cli("page", model, "--out", tmp_path / "site", "--runtime", runtime)
    assert "serve.py" in done.stdout
    assert "1.0.0" in done.stderr
    assert (tmp_path / "site" / "index.html").is_file()


def test_a_page_is_compared_with_python(model, cli_json, runtime, tmp_path, monkeypatch):
    monkeypatch.setattr("dptransfer.page.comparison.shutil.which", lambda name: None)
    told = cli_json("page", model, "--out", tmp_path / "site", "--runtime", runtime, "--self-test")
    assert "ONNX Runtime" in told["self-test"]


def test_without_a_runtime_nothing_is_written(model, cli, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert "npm pack" in cli("page", model, "--out", tmp_path / "site", code=2).stderr
    assert not (tmp_path / "site").exists()
