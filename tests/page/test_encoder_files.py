"""Encoders as files for a browser."""

import numpy as np
import pytest
from PIL import Image

from dptransfer.encoders import OnnxEncoder
from dptransfer.encoders.onnx_graph import OnnxGraph, onnx_session
from dptransfer.errors import DataError
from dptransfer.page.encoder_files import GRAPH, encoder_files, height_first, words_graph
from encoders.toys import MeanColour
from release.models import rows, vocabulary


def test_a_file_that_takes_bytes_is_taken_as_it_is(encoder):
    made = encoder_files(encoder)
    assert made.files == {GRAPH: encoder.file.read_bytes()}
    assert (made.facts["input"], made.facts["framing"]["width"]) == ("pixels", 16)


def test_a_file_that_takes_floats_is_refused(tmp_path):
    graph = OnnxGraph("floats", extra="onnx")
    graph.node("ReduceMean", "x", axes=[2, 3], keepdims=0, named="rows")
    shapes = {"x": ("FLOAT", ["n", 3, 8, 8])}, {"rows": ("FLOAT", ["n", 3])}
    (tmp_path / "floats.onnx").write_bytes(graph.to_bytes(*shapes, {}))
    with pytest.raises(DataError):
        encoder_files(OnnxEncoder(tmp_path / "floats.onnx"))


def test_an_encoder_that_reads_texts_in_its_own_way_is_refused(encoder):
    class Texts:
        kind, identity, dimension = "text", encoder.identity, 5

    with pytest.raises(DataError):
        encoder_files(Texts())


@pytest.mark.parametrize("unit_rows", [False, True])
def test_labels_are_a_softmax_of_the_rows(unit_rows):
    labels, x = vocabulary(unit_rows), rows().astype(np.float32)
    (found,) = onnx_session(words_graph(labels), extra="onnx").run(None, {"rows": x})
    given = x / np.linalg.norm(x, axis=1, keepdims=True) if unit_rows else x
    weights = np.exp(given @ labels.weights.T + labels.offset)
    assert np.allclose(found, weights / weights.sum(axis=1, keepdims=True), atol=1e-5)


def test_the_order_of_passes_is_that_of_the_pillow_that_is_installed():
    import PIL

    version = tuple(map(int, PIL.__version__.split(".")[:2]))
    expected = "shrinking" if version >= (13, 0) else "strips" if version >= (12, 3) else "never"
    assert height_first() == expected


@pytest.mark.slow
def test_a_module_of_torch_is_exported(tmp_path):
    torch = pytest.importorskip("torch")
    from dptransfer.encoders.torch_module import PixelMap, ResizeCrop, TorchModuleEncoder

    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    told = TorchModuleEncoder(
        module, ResizeCrop(12, 12), name="net", transform_name="rgb", pixel_map=PixelMap(12, 127.0, 128.0)
    )
    made = encoder_files(told)
    sides = {"height": 12, "width": 12, "shortest": None}
    assert made.facts["framing"] == {**sides, "resample": "bicubic", "heightFirst": height_first()}
    (tmp_path / GRAPH).write_bytes(made.files[GRAPH])
    picture = [Image.new("RGB", (40, 30), (200, 10, 90))]
    assert np.allclose(OnnxEncoder(tmp_path / GRAPH).encode(picture), told.encode(picture), atol=1e-5)


def test_an_encoder_without_labels_has_no_graph_of_them(encoder):
    assert isinstance(MeanColour.vocabulary, type(None))
    assert encoder_files(encoder).facts["words"] is None
