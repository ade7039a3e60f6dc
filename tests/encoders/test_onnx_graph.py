import numpy as np
import pytest

from dptransfer.encoders.onnx_graph import OnnxGraph, onnx_session, run_each, shipped_graph
from dptransfer.errors import DataError, MissingDependency

from .toys import encoder_graphs

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", ["efficientnet-lite0", "efficientnet-lite2", "resnet-50", "minilm"])
def test_the_graphs_that_are_shipped_are_those_that_the_tool_makes_and_hold_no_weights(name):
    shipped = shipped_graph(name)
    assert len(shipped) < 30_000
    try:
        made = encoder_graphs().shipped(name)
    except MissingDependency:
        pytest.skip("its weights are not installed")
    assert onnx.load_model_from_string(shipped) == onnx.load_model_from_string(made)


@pytest.fixture
def doubled():
    """x · w, with w to be given."""
    graph = OnnxGraph("doubled", extra="onnx")
    graph.node("Mul", "x", graph.constant(np.ones(2), "w"), named="y")
    whole = graph.to_bytes({"x": ("FLOAT", ["side"])}, {"y": ("FLOAT", ["side"])}, {})
    return encoder_graphs().without_weights(whole)


def test_a_graph_is_given_its_weights_and_the_sides_of_pictures(doubled):
    session = onnx_session(doubled, extra="onnx", weights={"w": np.float32([2, 3])}, sides=2)
    assert session.get_inputs()[0].shape == [2]
    assert run_each(session, [{"x": np.float32([1, 1])}])[0].tolist() == [2, 3]


@pytest.mark.parametrize("weights", [None, {"v": np.float32([2, 3])}, {"w": np.float32([2, 3, 4])}])
def test_a_graph_without_its_weights_or_with_others_is_refused(doubled, weights):
    with pytest.raises(DataError):
        onnx_session(doubled, extra="onnx", weights=weights)
