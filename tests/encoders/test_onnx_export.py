import numpy as np
import pytest

from dptransfer.encoders import OnnxEncoder, TorchModuleEncoder, export_encoder, get_encoder
from dptransfer.encoders import onnx as onnx_export
from dptransfer.encoders.torch_module import Framing, PixelMap
from dptransfer.encoders.transformers import quiet
from dptransfer.errors import ArgumentError, DataError

from .toys import MeanColour, random_images

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
PICTURE = {"image_size": 32, "patch_size": 16}
SIDES = {"height": 32, "width": 32}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    with quiet():
        transformers.ViTModel(transformers.ViTConfig(**SMALL, **PICTURE)).save_pretrained(root / "vit")
        transformers.ViTImageProcessor(size=SIDES).save_pretrained(root / "vit")
        vision = transformers.CLIPVisionConfig(**SMALL, **PICTURE)
        transformers.CLIPVisionModel(vision).save_pretrained(root / "clip")
        transformers.CLIPImageProcessor(size={"shortest_edge": 40}, crop_size=SIDES).save_pretrained(
            root / "clip"
        )
    return root


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
    assert again.identity == written.identity != encoder.identity
    assert again.dimension == encoder.dimension
    assert np.array_equal(again.encode(images), found)
    assert [one.name for one in tmp_path.iterdir()] == ["out.onnx"]


def test_the_framing_of_a_file_is_part_of_its_identity(models, tmp_path):
    told = export_encoder(get_encoder(str(models / "clip")), tmp_path / "clip.onnx").identity.transform
    assert told == "rgb 32x32 bicubic middle of 40 bytes"


def test_an_export_whose_rows_are_others_is_refused_and_not_kept(models, tmp_path, monkeypatch):
    def wrong(self):
        return Framing(32, 32, "nearest"), (0.0,) * 3, (255.0,) * 3

    monkeypatch.setattr(onnx_export.TransformersImage, "preprocessing", wrong)
    (tmp_path / "out.onnx").write_bytes(b"what was there")
    with pytest.raises(DataError, match="must give the rows of 'vit'"):
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
    with pytest.raises(DataError, match=r"torch\.onnx can export"):
        export_encoder(module, tmp_path / "out.onnx")
    with pytest.raises(ArgumentError, match="tells what it does to pixels"):
        export_encoder(MeanColour(), tmp_path / "out.onnx")
    with pytest.raises(ArgumentError, match=r"ends in \.onnx"):
        export_encoder(module, tmp_path / "out.pt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("told", ["no json", '{"height": 32}', '{"height": 16, "width": 16}', '{"a": 1}'])
def test_a_file_whose_framing_does_not_fit_is_refused(tmp_path, told):
    import onnx

    export_encoder(get_encoder("small-cnn", size=32), tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    onnx.helper.set_model_props(model, {"framing": told})
    onnx.save(model, tmp_path / "out.onnx")
    with pytest.raises(DataError, match="framed must fit"):
        OnnxEncoder(tmp_path / "out.onnx")
