import numpy as np
import pytest

from dptransfer.encoders import (
    encode_images_in_memory,
    encode_pixels,
    encode_texts_in_memory,
    rows_depend_on_neighbours,
)
from dptransfer.errors import ArgumentError
from dptransfer.sources import PrivateImages, find_images

from .toys import MeanColour, WordLengths, pictures, random_images


def test_images_in_memory_are_the_encoders_rows(tmp_path):
    images = find_images(pictures(tmp_path, 10))
    images.paths[7].write_bytes(b"damaged")
    encoder, seen = MeanColour(), []
    found = encode_images_in_memory(images, encoder, batch=4, progress=lambda *at: seen.append(at))
    assert found.unreadable == (7,)
    assert np.flatnonzero((found.rows == 0).all(axis=1)).tolist() == [7]
    assert encoder.calls == [4, 4, 4]
    assert seen[-1] == (10, 10)
    again = encode_images_in_memory([str(path) for path in images.paths[:3]], encoder)
    assert np.array_equal(again.rows, found.rows[:3])


def test_pixels_are_encoded_in_calls_of_one_shape(tmp_path):
    files = PrivateImages(find_images(pictures(tmp_path, 10, size=8)), resolution=8)
    encoder, seen = MeanColour(), []
    rows = encode_pixels(files.pixels, encoder, batch=4, progress=lambda *at: seen.append(at))
    assert encoder.calls == [4, 4, 4]
    assert seen == [(4, 10), (8, 10), (10, 10)]
    assert (rows == encode_images_in_memory(find_images(tmp_path), MeanColour()).rows).all()
    assert (encode_pixels(files.pixels[:], MeanColour()) == rows).all()
    assert encode_pixels(files.pixels[:0], MeanColour()).shape == (0, 4)


def test_texts_in_memory_are_the_encoders_rows():
    assert encode_texts_in_memory(["a b", "c"] * 3, WordLengths(), batch=4)[:, 1].tolist() == [2, 1] * 3
    assert encode_texts_in_memory([], WordLengths()).shape == (0, 2)


def test_an_encoder_of_the_other_kind_is_refused():
    with pytest.raises(ArgumentError):
        encode_images_in_memory([], WordLengths())
    with pytest.raises(ArgumentError):
        encode_texts_in_memory([], MeanColour())


class Centred(MeanColour):
    """Takes the batch's mean away: each row depends on all pictures."""

    def forward(self, pixels):
        rows = super().forward(pixels)
        return rows - rows.mean(axis=0)


class ByPlace(MeanColour):
    """Adds the place in the batch."""

    def forward(self, pixels):
        return super().forward(pixels) + np.arange(len(pixels), dtype=np.float32)[:, None]


def test_an_encoder_that_mixes_examples_is_caught():
    items = random_images(6)
    assert not rows_depend_on_neighbours(MeanColour(), items)
    assert rows_depend_on_neighbours(Centred(), items)
    assert rows_depend_on_neighbours(ByPlace(), items)


def test_an_encoder_that_computes_each_alone_is_given_no_blanks(tmp_path):
    class Alone(MeanColour):
        one_by_one = True

    paths = find_images(pictures(tmp_path / "in", 3)).paths
    encoder = Alone()
    rows = encode_images_in_memory(paths, encoder, batch=8).rows
    assert encoder.calls == [3]
    assert np.array_equal(rows, encode_images_in_memory(paths, MeanColour(), batch=8).rows)
