import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from dptransfer.cli.commands import app
from dptransfer.data import RowMetadata, write_embeddings
from dptransfer.ledger import Charge, Ledger

CLASSES = "cat,dog,bird"
BUDGET = ("--epsilon", "1", "--delta", "1e-5")
MEAN = (*BUDGET, "--classes", CLASSES, "--method", "mean")


@pytest.fixture(autouse=True)
def ledger(tmp_path, monkeypatch, repeatable_noise) -> Path:
    """No test may touch the user's own ledger."""
    path = tmp_path / "ledger.sqlite"
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(path))
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def charges(ledger) -> Callable:
    """The charges on record."""

    def read(path=ledger):
        return [one for one in Ledger(path).history() if isinstance(one, Charge)] if path.exists() else []

    return read


@pytest.fixture
def cli() -> Callable:
    """Run a command; anything but a clean exit fails the test, so no traceback goes unnoticed."""

    def run(*words: object, code: int = 0):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code, result.output
        assert "Traceback" not in result.output
        if code == 2:
            assert result.stderr.startswith(("Error: ", "dptransfer"))
            assert result.stderr.count("\n") == 1  # one line
        return result

    return run


@pytest.fixture
def cli_json(cli) -> Callable:
    """Run a command with --json and read what it printed."""
    return lambda *words, code=0: json.loads(cli(*words, "--json", code=code).stdout)


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Path:
    """Three well-separated classes in 16 dimensions: private, test, pool (no labels) and shots; and other."""
    folder = tmp_path_factory.mktemp("data")
    centres = 3 * np.random.default_rng(0).normal(size=(3, 16))
    for seed, (name, count) in enumerate((("private", 300), ("test", 60), ("pool", 120), ("shots", 15))):
        rng = np.random.default_rng(seed + 1)
        labels = rng.integers(0, 3, count)
        rows = (centres[labels] + rng.normal(size=(count, 16))).astype(np.float32)
        columns = {"x": rows} if name == "pool" else {"x": rows, "y": labels}
        np.savez(folder / f"{name}.npz", **columns)
    np.savez(folder / "other.npz", x=np.zeros((9, 7), dtype=np.float32), y=np.zeros(9, dtype=np.int64))
    return folder


@pytest.fixture(scope="session")
def model(data, tmp_path_factory) -> Path:
    """A release made by the command itself, for the commands that read one."""
    folder = tmp_path_factory.mktemp("release")
    words = ["fit", data / "private.npz", "--classes", CLASSES, *BUDGET, "--method", "mean"]
    words += ["--out", folder / "model", "--ledger", folder / "ledger.sqlite", "--test", data / "test.npz"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return folder / "model"


@pytest.fixture
def own(model, tmp_path) -> Path:
    """A copy of that release, to be changed."""
    return shutil.copytree(model, tmp_path / "own")


@pytest.fixture
def rows(data) -> Callable:
    """Rows and labels of one of the files."""

    def read(name):
        with np.load(data / f"{name}.npz") as arrays:
            return tuple(arrays[part] for part in arrays.files)

    return read


@pytest.fixture
def emb(rows) -> Callable:
    """Write one of the files as an `.emb` folder."""

    def write(path, file="private", **about):
        x, y = rows(file)
        return write_embeddings(path, x, RowMetadata(y, **{"classes": CLASSES.split(","), **about}))

    return write


@pytest.fixture(scope="session")
def encoder(tmp_path_factory) -> Path:
    """The mean colour of a picture, as an ONNX model."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("GlobalAveragePool", ["pixels"], ["rows"])],
        "mean-colour",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", 3, 1, 1])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    path = tmp_path_factory.mktemp("encoder") / "mean-colour.onnx"
    onnx.save(made, path)
    return path


@pytest.fixture
def photos(tmp_path) -> Path:
    """A folder per class: twelve red and twelve blue pictures."""
    rng = np.random.default_rng(0)
    for name, colour in (("red", (220, 30, 30)), ("blue", (30, 30, 220))):
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        for number in range(12):
            pixels = np.clip(np.array(colour) + rng.normal(0, 20, (10, 10, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number:02}.png")
    return tmp_path / "photos"


def owned(file):
    """The content of a file that nobody else may read."""
    assert Path(file).stat().st_mode & 0o777 == 0o600
    return Path(file).read_text()
