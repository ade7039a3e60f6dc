import numpy as np
import pytest

from dptransfer.encoders import (
    OnnxEncoder,
    TorchModuleEncoder,
    encoder_of,
    export_encoder,
    get_encoder,
    rows_depend_on_neighbours,
)
from dptransfer.encoders import onnx as onnx_module
from dptransfer.encoders.registry import Beside
from dptransfer.encoders.torch_module import PixelMap, ResizeCrop
from dptransfer.errors import ArgumentError, DataError

from .toys import MeanColour, random_images

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")


def model(path, shape, nodes, outputs):
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "toy",
        [helper.make_tensor_value_info("pixels", floats, shape)],
        [helper.make_tensor_value_info("out", floats, outputs)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, path)
    return path


def absolute(path, shape):
    return model(path, shape, [onnx.helper.make_node("Abs", ["pixels"], ["out"])], shape)


def by_hand(image, size, *, mean=0.5, std=0.25):
    small = np.asarray(image.resize((size, size), 3), dtype=np.float32) / 255
    return np.abs((small - mean) / std).mean(axis=(0, 1))


@pytest.mark.parametrize("shape", [["n", 8, 8, 3], [1, 3, 8, 8], ["n", 3, "h", "w"]])
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
    assert made.identity.size == size
    assert encoder_of(made.identity, spec=str(tmp_path / "toy.onnx")).identity == made.identity


def test_normalisation_and_file_are_part_of_the_identity(tmp_path):
    first, second = (absolute(tmp_path / f"{n}.onnx", [n, 3, 8, 8]) for n in "ab")
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
        (absolute(tmp_path / "rows.onnx", ["n", 3]), "4 axes"),
        (model(tmp_path / "turned.onnx", ["n", 3, 8, 8], turned, [3, "n", 8, 8]), "feature maps"),
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
    with pytest.raises(DataError, match="one row"):
        OnnxEncoder(model(tmp_path / "toy.onnx", shape, [noise, added], shape))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_model_that_mixes_pictures_gets_one_at_a_time(tmp_path, monkeypatch, device):
    largest = onnx.helper.make_node("ReduceMax", ["pixels"], ["largest"], keepdims=1)
    divided = onnx.helper.make_node("Div", ["pixels", "largest"], ["out"])
    path, shape = tmp_path / "toy.onnx", ["n", 3, 8, 8]
    session = onnx_module.onnx_session
    monkeypatch.setattr(
        onnx_module, "onnx_session", lambda file, *, extra, device: session(file, extra=extra)
    )
    encoder = OnnxEncoder(model(path, shape, [largest, divided], shape), device=device)
    assert not rows_depend_on_neighbours(encoder, random_images(6))


@pytest.mark.parametrize("name", ["vit", "clip", "small-cnn", "efficientnet-lite0"])
def test_an_exported_encoder_gives_the_rows_of_the_encoder(models, tmp_path, name):
    model = models / name
    encoder = get_encoder(str(model) if model.is_dir() else name, size=None if model.is_dir() else 32)
    written = export_encoder(encoder, tmp_path / "out.onnx")
    images = [*random_images(2, size=90), random_images(1)[0].resize((31, 77))]
    expected, found = encoder.encode(images), written.encode(images)
    assert np.abs(found - expected).max() < 1e-4 * np.abs(expected).max()
    assert np.abs(found[0] - expected[1]).max() > 1e-3 * np.abs(expected).max()
    again = get_encoder(str(tmp_path / "out.onnx"))
    assert name != "clip" or again.identity.transform == "rgb 32x32 bicubic middle of 40 bytes"
    assert again.identity == written.identity != encoder.identity
    assert again.dimension == encoder.dimension
    assert np.array_equal(again.encode(images), found)
    assert [one.name for one in tmp_path.iterdir()] == ["out.onnx"]


def test_two_encoders_side_by_side_are_exported_as_one(tmp_path):
    torch.manual_seed(0)
    parts = [
        TorchModuleEncoder(
            torch.nn.Conv2d(3, width, 3),
            ResizeCrop(12, 12),
            name=f"conv-{width}",
            transform_name="rgb 12",
            pixel_map=PixelMap(12, 127.0, 128.0),
        )
        for width in (4, 6)
    ]
    encoder = Beside(*parts, parts[0].identity)
    images = random_images(3)
    expected, found = encoder.encode(images), export_encoder(encoder, tmp_path / "out.onnx").encode(images)
    assert found.shape == (3, 10)
    assert np.allclose(found, expected, atol=1e-6)


def test_an_export_whose_rows_are_others_is_refused_and_not_kept(models, tmp_path, monkeypatch):
    wrong = ResizeCrop(32, 32, "nearest"), (0.0,) * 3, (255.0,) * 3
    monkeypatch.setattr(onnx_module.TransformersImage, "preprocessing", lambda self: wrong)
    (tmp_path / "out.onnx").write_bytes(b"what was there")
    with pytest.raises(DataError, match="give the rows"):
        export_encoder(get_encoder(str(models / "vit")), tmp_path / "out.onnx")
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"what was there"]


def test_what_cannot_be_exported_is_refused(tmp_path):
    class Odd(torch.nn.Module):
        def forward(self, pixels):
            return torch.special.airy_ai(pixels).mean((2, 3))

    module = TorchModuleEncoder(
        Odd(),
        lambda image: np.asarray(image.resize((8, 8), 3), np.float32).transpose(2, 0, 1) / 255,
        name="odd",
        transform_name="rgb 8",
        pixel_map=PixelMap(8, 0.0, 255.0),
    )
    with pytest.raises(DataError, match="must export"):
        export_encoder(module, tmp_path / "out.onnx")
    with pytest.raises(ArgumentError, match="to pixels"):
        export_encoder(MeanColour(), tmp_path / "out.onnx")
    with pytest.raises(ArgumentError, match=r"ends in \.onnx"):
        export_encoder(module, tmp_path / "out.pt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("told", ["no json", '{"height": 16, "width": 16}'])
def test_a_file_whose_framing_does_not_fit_is_refused(tmp_path, told):
    export_encoder(get_encoder("small-cnn", size=32), tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    onnx.helper.set_model_props(model, {"framing": told})
    onnx.save(model, tmp_path / "out.onnx")
    with pytest.raises(DataError, match="framed must fit"):
        OnnxEncoder(tmp_path / "out.onnx")
