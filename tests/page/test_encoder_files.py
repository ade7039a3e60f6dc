"""Encoders as files for a browser."""

import numpy as np
import pytest
from PIL import Image

from dptransfer.encoders import OnnxEncoder
from dptransfer.encoders.onnx_graph import OnnxGraph, onnx_session
from dptransfer.errors import DataError
from dptransfer.page.encoder_files import GRAPH, height_first, words_graph, write_encoder
from release.models import rows, vocabulary


def test_a_file_that_takes_bytes_is_taken_as_it_is(encoder, tmp_path):
    facts = write_encoder(encoder, tmp_path)
    assert (facts["input"], facts["framing"]["width"]) == ("pixels", 16)
    assert [one.name for one in tmp_path.iterdir()] == [GRAPH]
    assert (tmp_path / GRAPH).read_bytes() == encoder.file.read_bytes()


def test_a_file_that_takes_floats_is_refused(tmp_path):
    graph = OnnxGraph("floats", extra="onnx")
    graph.node("ReduceMean", "x", axes=[2, 3], keepdims=0, named="rows")
    shapes = {"x": ("FLOAT", ["n", 3, 8, 8])}, {"rows": ("FLOAT", ["n", 3])}
    (tmp_path / "floats.onnx").write_bytes(graph.to_bytes(*shapes, {}))
    with pytest.raises(DataError):
        write_encoder(OnnxEncoder(tmp_path / "floats.onnx"), tmp_path)


def test_an_encoder_that_reads_texts_in_its_own_way_is_refused(encoder, tmp_path):
    class Texts:
        kind, identity, dimension = "text", encoder.identity, 5

    with pytest.raises(DataError):
        write_encoder(Texts(), tmp_path)


@pytest.mark.parametrize("unit_rows", [False, True])
def test_labels_are_a_softmax_of_the_rows(unit_rows):
    labels, x = vocabulary(unit_rows), rows().astype(np.float32)
    (found,) = onnx_session(words_graph(labels), extra="onnx").run(None, {"rows": x})
    given = x / np.linalg.norm(x, axis=1, keepdims=True) if unit_rows else x
    weights = np.exp(given @ labels.weights.T + labels.offset)
    assert np.allclose(found, weights / weights.sum(axis=1, keepdims=True), atol=1e-5)


def test_the_order_of_passes_is_that_of_the_pillow_that_is_installed():
    def is_height_first(before, after):
        pixels = np.random.default_rng(0).choice(np.array([0, 255], np.uint8), (before[1], before[0], 3))
        picture, way = Image.fromarray(pixels), Image.Resampling.BICUBIC
        in_turn = picture.resize((before[0], after[1]), way).resize(after, way)
        return in_turn.tobytes() == picture.resize(after, way).tobytes()

    shrinks, is_strip = is_height_first((20, 20), (30, 10)), is_height_first((2, 300), (6, 200))
    assert height_first() == ("shrinking" if shrinks else "strips" if is_strip else "never")


@pytest.mark.slow
def test_a_module_of_torch_is_exported(tmp_path):
    torch = pytest.importorskip("torch")
    from dptransfer.encoders.torch_module import PixelMap, ResizeCrop, TorchModuleEncoder

    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    told = TorchModuleEncoder(
        module, ResizeCrop(12, 12), name="net", transform_name="rgb", pixel_map=PixelMap(12, 127.0, 128.0)
    )
    sides = {"height": 12, "width": 12, "shortest": None}
    facts = write_encoder(told, tmp_path)
    assert facts["framing"] == {**sides, "resample": "bicubic", "heightFirst": height_first()}
    picture = [Image.new("RGB", (40, 30), (200, 10, 90))]
    assert np.allclose(OnnxEncoder(tmp_path / GRAPH).encode(picture), told.encode(picture), atol=1e-5)
