"""A small encoder of pictures, a release of its rows, and onnxruntime-web where the machine has it."""

import shutil

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.encoders import OnnxEncoder
from dptransfer.errors import DataError
from dptransfer.page.ort_runtime import BINARY, GLUE, MODULE, WebRuntime, read_runtime

pytest.importorskip("onnxruntime")
SIDE, WIDTH = 16, 5


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """An .onnx file that takes bytes: five sums of the mean colours."""
    from dptransfer.encoders.onnx_graph import OnnxGraph

    graph = OnnxGraph("toy", extra="onnx")
    means = graph.node("ReduceMean", graph.cast("pixels", "FLOAT"), axes=[1, 2], keepdims=0)
    weights = np.random.default_rng(0).normal(size=(3, WIDTH)) / 100
    graph.node("MatMul", means, weights, named="rows")
    content = graph.to_bytes(
        {"pixels": ("UINT8", ["n", SIDE, SIDE, 3])}, {"rows": ("FLOAT", ["n", WIDTH])}, {}
    )
    file = tmp_path_factory.mktemp("encoder") / "toy.onnx"
    file.write_bytes(content)
    return OnnxEncoder(file)


@pytest.fixture(scope="session")
def model(encoder):
    """A classifier of its rows, with a charged evaluation."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 900)
    rows = rng.normal(size=(3, WIDTH))[labels] + 0.4 * rng.normal(size=(900, WIDTH))
    classes = ("<b>red</b>", "grün", "blue")
    names = [classes[place] for place in labels]
    data = dpt.PrivateEmbeddings(rows, names, classes=classes, encoder=encoder.identity, name="colours")
    return dpt.fit(data, epsilon=8, method="mean", holdout=0.4, ledger=dpt.Ledger.in_memory())


@pytest.fixture(scope="session")
def release(model, tmp_path_factory):
    return model.save(tmp_path_factory.mktemp("released") / "model", title="<i>Colours")


@pytest.fixture(scope="session")
def bare_release(tmp_path_factory):
    """A release whose rows have no encoder."""
    data = dpt.PrivateEmbeddings(np.eye(4)[[0, 1] * 500], [0, 1] * 500, classes=2, name="bare")
    made = dpt.fit(data, epsilon=2, method="mean", ledger=dpt.Ledger.in_memory())
    return made.save(tmp_path_factory.mktemp("bare") / "model")


@pytest.fixture(scope="session")
def stub():
    """Files with the names of the runtime's."""
    return WebRuntime("1.30.0", {name: b"/* ONNX Runtime Web v1.30.0 */" for name in (MODULE, GLUE, BINARY)})


@pytest.fixture(scope="session")
def runtime():
    try:
        return read_runtime()
    except DataError:
        pytest.skip("onnxruntime-web is not here: set DPTRANSFER_ORT_WEB, or run npm install onnxruntime-web")


@pytest.fixture(scope="session")
def node():
    return shutil.which("node") or pytest.skip("Node is not installed")
