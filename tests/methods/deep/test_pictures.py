import numpy as np
import pytest
import torch

from dptransfer.methods.deep.augment import views_of
from dptransfer.methods.deep.picture_loss import Pictures
from dptransfer.methods.deep.trained_parts import TrainedParts

from .toys import CLASSES, SIDE, pictures, tiny_network


class Counted:
    """Pictures that count how often each is read."""

    def __init__(self, pixels):
        self.pixels, self.shape, self.reads = pixels, pixels.shape, np.zeros(len(pixels), dtype=int)

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, chosen):
        self.reads[chosen] += 1
        return self.pixels[chosen]


def kept(train, count=10, blocks=None, **settings):
    parts = TrainedParts(tiny_network(), train, CLASSES, blocks=blocks, rank=2)
    source = Counted(pictures(count))
    return parts, source, Pictures(parts, source, micro_batch=4, **settings)


@pytest.mark.parametrize(("train", "blocks"), [("film", None), ("film", 1), ("last", None)])
@pytest.mark.parametrize("views", [1, 3])
def test_maps_are_what_the_frozen_stages_give_and_pictures_are_read_once(train, blocks, views):
    parts, source, found = kept(train, blocks=blocks, views=views)
    assert not source.reads.any()  # nothing before it is asked for
    chosen = np.array([7, 0, 3, 7])
    maps = found.at(chosen)
    shown = views_of(torch.from_numpy(pictures(10)[chosen]), views)
    expected = parts.front(parts.network.from_bytes(shown))
    assert maps.shape == expected.shape
    assert torch.allclose(maps, expected, atol=1e-5)
    found.at(chosen)
    assert (source.reads == 1).all()


def test_maps_are_kept_where_they_are_small_and_bytes_where_they_are_not():
    *_, rows = kept("last")
    *_, whole = kept("film")
    *_, wide = kept("film", blocks=3)  # 8 × 8 × 3 bytes become 3 × 3 × 6 floats
    for found, small in ((rows, True), (whole, False), (wide, True)):
        found.at(np.array([0]))
        assert found._kept.is_floating_point() == small


def test_a_blank_is_a_black_picture():
    parts, _, found = kept("last")
    black = np.zeros((1, SIDE, SIDE, 3), dtype=np.uint8)
    expected = parts.front(parts.network.inputs(black))
    assert torch.allclose(found.at(np.array([-1])), expected, atol=1e-5)


@pytest.mark.parametrize("count", [0, 3, 4, 9])
def test_any_number_of_pictures_is_read(count):
    *_, found = kept("last", count)
    assert len(found) == count
    assert len(found.at(np.arange(-1, count))) == count + 1
