import numpy as np
import pytest

from dptransfer.encoders import TorchModuleEncoder
from dptransfer.encoders.torch_checkpoint import weights_digest
from dptransfer.encoders.torch_module import PixelMap
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
    made = encoder(network(), channels_last=True)
    images = random_images(3)
    rows = made.encode(images)
    assert rows.shape == (3, 5)
    assert made.dimension == 5
    assert np.array_equal(rows, made.encode(images))
    assert np.allclose(rows[:1], made.encode(images[:1]), atol=1e-6)


def test_a_module_that_returns_no_rows_is_refused():
    with pytest.raises(DataError, match="pools"):
        encoder(torch.nn.Flatten(0))


@pytest.mark.parametrize("kind", ["what came before", "random"])
def test_a_transform_that_does_not_give_the_same_again_is_refused(kind):
    seen, draws = [], np.random.default_rng(0)

    def transformed(image):
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
        return (
            squeezed(image).astype(np.float32).transpose(2, 0, 1) - np.float32([[[9]], [[5]], [[1]]])
        ) / 64

    told = {"name": "net", "transform_name": "rgb 8", "pixel_map": PixelMap(8, (9.0, 5.0, 1.0), 64.0)}
    in_bytes, in_floats = (
        TorchModuleEncoder(torch.nn.Conv2d(3, 4, 3), transform, **told) for transform in (squeezed, scaled)
    )
    in_floats.module.load_state_dict(in_bytes.module.state_dict())
    images = random_images(3)
    assert in_bytes.prepare(images[0]).dtype == np.uint8
    assert np.array_equal(in_bytes.encode(images), in_floats.encode(images))
