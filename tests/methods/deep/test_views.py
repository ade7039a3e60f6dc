import numpy as np
import pytest
import torch

from dptransfer.methods.deep.augment import MOST_VIEWS, views_of


def pictures(count=2, side=32):
    rng = np.random.default_rng(0)
    return torch.from_numpy(rng.integers(0, 256, (count, side, side, 3), dtype=np.uint8))


def test_the_first_two_views_are_the_picture_and_its_mirror_image():
    seen = pictures()
    assert torch.equal(views_of(seen, 1), seen)
    pairs = views_of(seen, 2).reshape(2, 2, 32, 32, 3)
    assert torch.equal(pairs[:, 0], seen)
    assert torch.equal(pairs[:, 1], seen.flip(2))


def test_the_others_are_moved_by_a_sixteenth_and_repeat_their_border():
    seen = pictures()
    third = views_of(seen, 3).reshape(2, 3, 32, 32, 3)[:, 2]
    assert torch.equal(third[:, 2:, 2:], seen[:, :-2, :-2])
    assert torch.equal(third[:, 0], third[:, 2])
    assert torch.equal(third[:, :, 1], third[:, :, 2])


def test_all_views_differ_and_each_is_of_its_own_picture():
    seen = pictures()
    every = views_of(seen, MOST_VIEWS)
    assert every.shape == (2 * MOST_VIEWS, 32, 32, 3)
    assert every.dtype == torch.uint8
    assert len({one.numpy().tobytes() for one in every}) == 2 * MOST_VIEWS
    alone = views_of(seen[1:], MOST_VIEWS)
    assert torch.equal(every[MOST_VIEWS:], alone)


@pytest.mark.parametrize("side", [1, 8])
def test_small_pictures_are_moved_by_a_pixel(side):
    assert views_of(pictures(1, side), MOST_VIEWS).shape == (MOST_VIEWS, side, side, 3)
