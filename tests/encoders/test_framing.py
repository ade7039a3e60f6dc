import numpy as np
import pytest
from PIL import Image

from dptransfer.encoders.torch_module import Framing
from dptransfer.errors import DataError

from .toys import random_images


def test_a_picture_is_squeezed_to_the_shape():
    image = random_images(1, size=20)[0]
    assert np.array_equal(Framing(8, 12)(image), np.asarray(image.resize((12, 8), 3)))
    assert np.array_equal(Framing(8, 12, "nearest")(image), np.asarray(image.resize((12, 8), 0)))


@pytest.mark.parametrize(("shape", "left", "above"), [((40, 20), 7, 2), ((20, 40), 2, 7), ((20, 20), 2, 2)])
def test_the_middle_is_cut_out_of_what_was_squeezed(shape, left, above):
    image = random_images(1)[0].resize(shape)
    across, down = (10 * shape[0] // 20, 10 * shape[1] // 20)
    whole = np.asarray(image.resize((across, down), 2))
    assert np.array_equal(Framing(6, 6, "bilinear", 10)(image), whole[above : above + 6, left : left + 6])


@pytest.mark.parametrize("size", [(31, 77), (77, 31), (50, 50), (401, 300), (33, 32)])
def test_it_is_what_the_image_processor_does(size):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("torch")
    sides = {"height": 24, "width": 24}
    made = transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=sides, do_normalize=False)
    image = random_images(1)[0].resize(size)
    expected = made(images=image, return_tensors="np", input_data_format="channels_last")["pixel_values"][0]
    found = Framing.of_processor(made.to_dict())
    assert str(found) == "24x24 bicubic middle of 32"
    assert np.abs(found(image).transpose(2, 0, 1) / 255 - expected).max() <= 1 / 255


@pytest.mark.parametrize(
    "told",
    [
        {"do_resize": False},
        {"do_pad": True},
        {"resample": None},
        {"size": {"longest_edge": 32}},
        {"size": {"shortest_edge": 32}},
        {"size": {"shortest_edge": 16}, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}},
    ],
)
def test_a_processor_that_does_something_else_has_no_framing(told):
    plain = {"do_resize": True, "resample": 2, "size": {"height": 32, "width": 32}}
    assert Framing.of_processor(plain) == Framing(32, 32, "bilinear")
    assert Framing.of_processor({**plain, **told}) is None


@pytest.mark.parametrize("told", [(0, 8), (8, -1), (8, 8, "magic"), (8, 8, "bicubic", 7)])
def test_a_framing_that_cannot_be_is_refused(told):
    with pytest.raises(DataError, match="framing must"):
        Framing(*told)


def test_a_grey_picture_has_three_channels():
    assert Framing(8, 8)(Image.new("L", (9, 9), 7)).shape == (8, 8, 3)


@pytest.mark.parametrize("size", [(60_000, 1), (1, 60_000)])
def test_a_strip_that_would_take_all_memory_is_refused(size):
    with pytest.raises(DataError, match="strip"):
        Framing(224, 224, "bicubic", 256)(Image.new("RGB", size))
    assert Framing(8, 8)(Image.new("RGB", size)).shape == (8, 8, 3)
