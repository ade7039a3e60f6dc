import numpy as np
import pytest
from PIL import Image

from dptransfer.encoders import EncoderDelta, TorchModuleEncoder, apply_delta
from dptransfer.encoders.encoder import weights_digest
from dptransfer.encoders.torch_module import PixelMap, ResizeCrop, words_of_layer
from dptransfer.errors import ArgumentError, DataError

from .toys import random_images

torch = pytest.importorskip("torch")


def to_input(image):
    return torch.tensor(np.asarray(image.resize((8, 8)), dtype=np.float32)).permute(2, 0, 1) / 255


def encoder(module, **changes):
    return TorchModuleEncoder(module, to_input, **({"name": "toy", "transform_name": "8 px"} | changes))


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5), torch.nn.Dropout(0.5))


def test_feature_maps_are_averaged_and_the_module_is_in_evaluation_mode():
    words = words_of_layer(torch.nn.Linear(5, 2), ("cat", "dog"))
    made = encoder(network(), channels_last=True, vocabulary=words)
    images = random_images(3)
    rows = made.encode(images)
    assert rows.shape == (3, 5)
    assert made.dimension == 5
    assert np.array_equal(rows, made.encode(images))
    assert np.allclose(rows[:1], made.encode(images[:1]), atol=1e-6)
    delta = EncoderDelta(made.identity, "state", {"0.bias": np.ones(5, dtype=np.float32)})
    assert made.vocabulary is words
    assert apply_delta(made, delta).vocabulary is None  # it was trained with the rows as they were


def test_a_module_that_returns_no_rows_is_refused():
    with pytest.raises(DataError, match="pools"):
        encoder(torch.nn.Flatten(0))


@pytest.mark.parametrize("kind", ["what came before", "random", "cached by identity"])
def test_a_transform_that_does_not_give_the_same_again_is_refused(kind):
    seen, draws, cached = [], np.random.default_rng(0), {}

    def transformed(image):
        if kind == "cached by identity":
            return cached.setdefault(id(image), to_input(image))
        seen.append(to_input(image))
        return to_input(image) - (np.mean(seen) if kind == "what came before" else draws.random())

    with pytest.raises(ArgumentError, match="transform"):
        TorchModuleEncoder(network(), transformed, name="own", transform_name="own")


def test_the_digest_sees_every_weight_and_nothing_else():
    first, same, other = network(), network(), network()
    with torch.no_grad():
        other[0].bias[0] += 1e-6
    digests = [weights_digest(module.state_dict()) for module in (first, same, other)]
    assert digests[0] == digests[1] != digests[2]
    assert encoder(first).identity.weights == digests[0]
    half = {name: value.bfloat16() for name, value in first.state_dict().items()}
    assert weights_digest(half) != digests[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused_and_never_replaced():
    for device in ("cuda", "cuda:7", "abacus"):
        with pytest.raises(ArgumentError, match="device"):
            encoder(network(), device=device)


@pytest.mark.gpu
def test_rows_on_a_gpu_match_the_cpu_and_do_not_depend_on_companions():
    images = random_images(16)
    made = encoder(network(), device="cuda")
    rows = made.encode(images)
    assert np.allclose(rows, encoder(network()).encode(images), atol=1e-4)
    assert np.array_equal(made.encode(images[::-1])[::-1], rows)


def test_bytes_are_scaled_as_the_pixel_map_says():
    def squeezed(image):
        return np.asarray(image.resize((8, 8), 3))

    def scaled(image):
        floats = squeezed(image).astype(np.float32).transpose(2, 0, 1)
        return (floats - np.float32([[[9]], [[5]], [[1]]])) / 64

    told = {"name": "net", "transform_name": "rgb 8", "pixel_map": PixelMap(8, (9.0, 5.0, 1.0), 64.0)}
    in_bytes, in_floats = (
        TorchModuleEncoder(torch.nn.Conv2d(3, 4, 3), transform, **told) for transform in (squeezed, scaled)
    )
    in_floats.module.load_state_dict(in_bytes.module.state_dict())
    images = random_images(3)
    assert in_bytes.prepare(images[0]).dtype == np.uint8
    assert np.array_equal(in_bytes.encode(images), in_floats.encode(images))


@pytest.mark.parametrize(("shape", "left", "above"), [((40, 20), 7, 2), ((20, 40), 2, 7), ((20, 20), 2, 2)])
def test_the_middle_is_cut_out_of_what_was_squeezed(shape, left, above):
    image = random_images(1)[0].resize(shape)
    across, down = (10 * shape[0] // 20, 10 * shape[1] // 20)
    whole = np.asarray(image.resize((across, down), 2))
    assert np.array_equal(ResizeCrop(6, 6, "bilinear", 10)(image), whole[above : above + 6, left : left + 6])


@pytest.mark.parametrize("size", [(31, 77), (77, 31), (401, 300)])
def test_it_is_what_the_image_processor_does(size):
    transformers = pytest.importorskip("transformers")
    sides = {"height": 24, "width": 24}
    made = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=sides, do_normalize=False)
    image = random_images(1)[0].resize(size)
    expected = made(images=image, return_tensors="np", input_data_format="channels_last")["pixel_values"][0]
    found = ResizeCrop.of_processor(made.to_dict())
    assert str(found) == "24x24 bicubic middle of 32"
    assert np.abs(found(image).transpose(2, 0, 1) / 255 - expected).max() <= 1 / 255


@pytest.mark.parametrize(
    "told",
    [
        {"do_resize": False},
        {"resample": None},
        {"size": {"shortest_edge": 32}},
        {"size": {"shortest_edge": 16}, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}},
    ],
)
def test_a_processor_that_does_something_else_has_no_framing(told):
    plain = {"do_resize": True, "resample": 2, "size": {"height": 32, "width": 32}}
    assert ResizeCrop.of_processor(plain) == ResizeCrop(32, 32, "bilinear")
    assert ResizeCrop.of_processor({**plain, **told}) is None


@pytest.mark.parametrize("told", [(8, -1), (8, 8, "magic"), (8, 8, "bicubic", 7)])
def test_a_framing_that_cannot_be_is_refused(told):
    with pytest.raises(DataError, match="framing must"):
        ResizeCrop(*told)


def test_a_strip_that_would_take_all_memory_is_refused():
    size = (60_000, 1)
    with pytest.raises(DataError, match="strip"):
        ResizeCrop(224, 224, "bicubic", 256)(Image.new("RGB", size))
    assert ResizeCrop(8, 8)(Image.new("RGB", size)).shape == (8, 8, 3)
