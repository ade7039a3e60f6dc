"""A package outside adds a method, encoder, reader, event and command, one file each: those of its page."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import dptransfer as dpt
from dptransfer.cli.commands import app
from dptransfer.encoders import ENCODERS, model_inputs
from dptransfer.methods import METHODS
from dptransfer.methods.about import COLOURS
from dptransfer.privacy import event_from_dict
from dptransfer.privacy.event import KINDS
from dptransfer.sources import read_private
from dptransfer.testing import check_encoder, check_event, check_method, check_reader

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "how-to" / "adding-a-method.md").read_text()
KIND = "laplace-noise"
BUDGET = ("--epsilon", "1", "--delta", "1e-5")
ENCODE = "encode photos --out rows.emb --encoder brightness --classes a,b,c".split()


MODULES = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", PAGE, re.M | re.S))
(PYPROJECT,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)


def write_project(folder):
    """The project that the page shows: a method, an encoder, and the file that names them."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT)
    for name, code in MODULES.items():
        (folder / f"{name}.py").write_text(code)
    return folder


def write_photos(folder):
    """Three classes of plain pictures; the second is the largest."""
    rng = np.random.default_rng(0)
    for name, count, shade in (("a", 3, 40), ("b", 30, 120), ("c", 3, 220)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = (shade + rng.integers(-20, 20, (8, 8, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "ledger.sqlite"))
    write_photos(tmp_path / "photos")
    model_inputs._load.cache_clear()  # a process keeps the encoders that it has loaded
    return tmp_path


@pytest.fixture
def installed(folder, install):
    """As an installer would leave it, without the time that it takes; call what it gives to uninstall."""
    facts = tomllib.loads(PYPROJECT)["project"]
    uninstall = install(facts["name"], MODULES, facts["entry-points"], facts["version"])

    def uninstalled():
        uninstall()
        model_inputs._load.cache_clear()

    return uninstalled


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.stdout + result.stderr


def test_names_words_and_colours_are_there_at_once(installed):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-m", "dptransfer", "methods"]
    assert "largest-class" in subprocess.run(words, capture_output=True, text=True, env=env).stdout
    method = METHODS["largest-class"]
    assert "largest-class" in METHODS
    assert method.about.summary.startswith("Noisy class counts")
    assert method.about.colour in COLOURS
    assert ENCODERS["brightness"].summary.startswith("How bright")
    assert METHODS.problems == ENCODERS.problems == ()
    installed()
    assert "largest-class" not in METHODS
    assert "brightness" not in ENCODERS


def test_their_method_and_encoder_go_all_the_way_and_the_release_outlives_them(installed, folder):
    assert "classifier must beat" in run("methods")
    assert "is told apart" in run("methods", "largest-class")
    planned = run(
        "plan", "--method", "largest-class", "--set", "floor=2", *BUDGET, "--classes", 3, "--dim", 16
    )
    assert "3.73063" in planned
    run(*ENCODE, "--name", "x")
    run("fit", "rows.emb", "--method", "largest-class", "--set", "floor=2", *BUDGET, "--out", "model")
    recorded = json.loads(Path("model/release.json").read_text())
    assert recorded["method"]["name"] == "largest-class"
    assert recorded["method"]["configuration"]["floor"] == 2
    assert recorded["versions"]["largest-class"] == "1.0"
    assert recorded["facts"]["encoder"]["name"] == "brightness"
    card = " ".join(Path("model/README.md").read_text().split())
    assert "seems largest" in card
    assert "needs no paper" in card
    checked = dpt.verify("model")
    assert checked.outcome == "verified"
    assert any("package 'largest-class'" in check.detail for check in checked.checks)
    assert "b" in run("predict", "model", "photos/b/0.png")  # finds the encoder by its recorded name

    installed()  # gone
    assert "steps NOT checked" in run("verify", "model", code=3)
    assert set(dpt.load("model").predict(np.zeros((2, 16)))) == {"b"}
    assert "seems largest" in run("card", "model")
    assert "no installed package" in run("predict", "model", "photos/b/0.png", code=2)
    assert "one of auto" in run("fit", "rows.emb", "-m", "largest-class", *BUDGET, "--out", "m", code=2)


def test_what_it_adds_passes_the_checks(installed, folder):
    check_method(METHODS["largest-class"])
    check_encoder(ENCODERS["brightness"])
    step = {"kind": KIND, "noise_multiplier": 8.0, "relation": "add/remove", "unit": "row", "label": "sizes"}
    try:
        check_event(event_from_dict(step))
    finally:
        KINDS.pop(KIND, None)
    Path("example.tsv").write_text("a\t1\t2\nb\t3\t4\na\t5\t6\n")
    check_reader(".tsv", "example.tsv", rows=[[1, 2], [3, 4], [5, 6]], labels=["a", "b", "a"])


def test_its_reader_serves_every_door_and_leaves_with_it(installed, folder):
    rng, labels = np.random.default_rng(0), list("abbbbbc" * 6)
    rows = rng.normal(size=(len(labels), 4)).round(3)
    lines = ["\t".join([label, *map(str, row)]) for label, row in zip(labels, rows, strict=True)]
    Path("cohort.tsv").write_text("\n".join(lines))
    read = read_private("cohort.tsv", classes=["a", "b", "c"], name="cohort")
    assert np.array_equal(read.rows, rows)
    given = {"classes": ["a", "b", "c"], "method": "mean", "epsilon": 5, "delta": 1e-5, "name": "cohort"}
    assert dpt.fit("cohort.tsv", **given).classes == ("a", "b", "c")
    run("fit", "cohort.tsv", "--classes", "a,b,c", "--name", "cohort", "-m", "mean", *BUDGET, "--out", "m")
    run("check", "cohort.tsv", "--classes", "a,b,c")
    assert len(run("predict", "m", "cohort.tsv").splitlines()) >= len(labels)
    Path("cohort.tsv").write_text("a\t1\t2\nb\tthree\t4\n")
    said = run("fit", "cohort.tsv", "--classes", "a,b,c", *BUDGET, "--out", "n", code=2)
    assert "three" not in said
    installed()
    run("fit", "cohort.tsv", "--classes", "a,b,c", *BUDGET, "--out", "n", code=2)


def test_its_command_is_there_and_fails_in_one_line(installed, folder):
    assert run("pool-size", "photos").strip() == "36 photos"
    assert run("pool-size", "nowhere", code=2).count("\n") == 1


def test_a_place_does_without_a_package(folder, monkeypatch):
    monkeypatch.syspath_prepend(write_project(folder / "loose"))
    place = "largest_class:LargestClass"
    run("encode", "photos", "--out", "rows.emb", "--encoder", "brightness:Brightness", "--classes", "a,b,c")
    run("fit", "rows.emb", "--method", place, *BUDGET, "--out", "model")
    assert json.loads(Path("model/release.json").read_text())["method"]["name"] == "largest-class"
    assert dpt.verify("model").outcome == "not all checked"  # importable, but nobody installed it
    run("predict", "model", "photos/b/0.png", code=2)
    assert "b" in run("predict", "model", "photos/b/0.png", "--encoder", "brightness:NOTE")


@pytest.mark.slow
def test_a_wheel_in_an_environment_of_its_own(folder):
    pytest.importorskip("setuptools", minversion="70.1")
    environment, project = folder / "environment", write_project(folder / "project")

    def pip(*words):
        subprocess.run([sys.executable, "-m", "pip", "--quiet", *words], check=True, cwd=folder)

    pip("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", "wheels", str(project))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/python*/site-packages")
    here = [place for place in sys.path if place.endswith("site-packages")]
    (packages / "here.pth").write_text("\n".join([str(ROOT / "src"), *here]))
    (wheel,) = (folder / "wheels").iterdir()
    quiet = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def there(*words, code=0):
        command = [str(python), "-m", "dptransfer", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=quiet)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    assert "largest-class" not in there("methods")
    pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    assert "largest-class" in there("methods")
    assert "36 photos" in there("pool-size", "photos")
    there(*ENCODE)
    there("fit", "rows.emb", "--method", "largest-class", *BUDGET, "--out", "model")
    assert "seems largest" in there("card", "model")
    there("verify", "model")
    pip("--python", str(python), "uninstall", "--yes", "largest-class")
    assert "steps NOT checked" in there("verify", "model", code=3)
