from dataclasses import replace

import numpy as np
import pytest

from dptransfer.encoders import OnnxEncoder, encoder_of, get_encoder, rows_depend_on_neighbours
from dptransfer.errors import ArgumentError, DataError

from .toys import random_images

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def model(path, shape, nodes, outputs):
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        nodes,
        "toy",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, outputs)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, path)
    return path


def absolute(path, shape):
    return model(path, shape, [onnx.helper.make_node("Abs", ["pixels"], ["out"])], shape)


def by_hand(image, size, *, mean=0.5, std=0.25):
    small = np.asarray(image.resize((size, size), 3), dtype=np.float32) / 255
    return np.abs((small - mean) / std).mean(axis=(0, 1))


@pytest.mark.parametrize("shape", [["n", 3, 8, 8], ["n", 8, 8, 3], [1, 3, 8, 8], ["n", 3, "h", "w"]])
def test_layout_size_and_batch_are_read_from_the_model(tmp_path, shape):
    path = absolute(tmp_path / "toy.onnx", shape)
    size = 8 if 8 in shape else 16
    encoder = OnnxEncoder(path, mean=(0.5,) * 3, std=(0.25,) * 3, size=None if size == 8 else 16)
    images = random_images(3)
    rows = encoder.encode(images)
    assert rows.shape == (3, encoder.dimension) == (3, 3)
    assert np.allclose(rows[1], by_hand(images[1], size), atol=1e-5)
    assert not np.allclose(rows[0], by_hand(images[1], size), atol=1e-5)
    assert not rows_depend_on_neighbours(encoder, images)


@pytest.mark.parametrize(("shape", "size"), [(["n", 3, "h", "w"], 16), (["n", 3, 8, 12], None)])
def test_it_is_found_again_from_what_was_recorded(tmp_path, shape, size):
    made = OnnxEncoder(absolute(tmp_path / "toy.onnx", shape), size=size)
    older = replace(made.identity, size=None)  # files of earlier versions have no size
    assert made.identity.size == size
    for recorded in (made.identity, older):
        assert encoder_of(recorded, spec=str(tmp_path / "toy.onnx")).identity == made.identity


def test_normalisation_and_file_are_part_of_the_identity(tmp_path):
    first, second = (
        absolute(tmp_path / "a.onnx", ["n", 3, 8, 8]),
        absolute(tmp_path / "b.onnx", ["m", 3, 8, 8]),
    )
    plain = get_encoder(str(first))
    assert plain.identity.name == "a"
    assert "0.485" in plain.identity.transform
    assert OnnxEncoder(first, mean=(0, 0, 0)).identity.transform != plain.identity.transform
    assert OnnxEncoder(second).identity.weights != plain.identity.weights


def test_files_that_cannot_be_an_image_encoder_are_refused(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    turned = [onnx.helper.make_node("Transpose", ["pixels"], ["out"], perm=[1, 0, 2, 3])]
    cases = [
        (tmp_path / "none.onnx", "must exist"),
        (tmp_path / "bad.onnx", "can load"),
        (absolute(tmp_path / "rows.onnx", ["n", 3]), "four dimensions"),
        (model(tmp_path / "turned.onnx", ["n", 3, 8, 8], turned, [3, "n", 8, 8]), "first output"),
    ]
    for path, message in cases:
        with pytest.raises(DataError, match=message):
            OnnxEncoder(path)


def test_a_size_or_device_the_model_cannot_have_is_refused(tmp_path):
    path = absolute(tmp_path / "a.onnx", ["n", 3, 8, 8])
    with pytest.raises(ArgumentError, match="8x8 only"):
        get_encoder(str(path), size=9)
    with pytest.raises(ArgumentError, match="device"):
        get_encoder(str(path), device="abacus")


def test_a_model_whose_rows_depend_on_the_calls_before_is_refused(tmp_path):
    noise = onnx.helper.make_node("RandomNormalLike", ["pixels"], ["noise"], seed=1.0)
    added = onnx.helper.make_node("Add", ["pixels", "noise"], ["out"])
    shape = ["n", 3, 8, 8]
    with pytest.raises(DataError, match="one row for one picture"):
        OnnxEncoder(model(tmp_path / "toy.onnx", shape, [noise, added], shape))
