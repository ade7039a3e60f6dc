import numpy as np
import pytest
from PIL import Image

from dptransfer.data import EncoderIdentity
from dptransfer.encoders import ImageEncoder
from dptransfer.encoders.registry import Beside


class Means(ImageEncoder):
    """Means of colours, times a factor."""

    def __init__(self, factor):
        self.factor, self.dimension = factor, 3
        self.identity = EncoderIdentity("means", weights="0" * 64, transform="mean")

    def prepare(self, image):
        return np.asarray(image, dtype=np.float32)

    def forward(self, pixels):
        return pixels.mean(axis=(1, 2)) * self.factor


PICTURES = [Image.new("RGB", (4, 4), colour) for colour in ("white", "red", "black")]


@pytest.mark.parametrize("factor", [1.0, -3.0])
def test_rows_of_both_have_unit_norm_and_a_row_of_zeros_stays(factor):
    both = Beside(Means(factor), Means(1.0), EncoderIdentity("both", weights="1" * 64, transform="mean"))
    rows = both.encode(PICTURES)
    assert rows.dtype == np.float32
    assert rows.shape == (3, both.dimension) == (3, 6)
    sign = np.sign(factor)
    assert np.allclose(rows[0], [sign * 3**-0.5] * 3 + [3**-0.5] * 3)
    assert rows[1].tolist() == [sign, 0, 0, 1, 0, 0]
    assert not rows[2].any()


def test_rows_that_are_no_numbers_stay_none_without_a_word():
    both = Beside(Means(np.nan), Means(np.nan), EncoderIdentity("both", weights="1" * 64, transform="mean"))
    assert np.isnan(both.encode(PICTURES)[0]).all()
    assert both.encode([]).shape == (0, 6)
