"""Pictures that are the same for everyone and show what a network makes of the unusual."""

import numpy as np
import pytest

from dptransfer.encoders.per_example import probe_pictures


def test_extremes_come_between_noise_and_the_ends_are_noise():
    shown = probe_pictures(15, 8)
    noise, black, white, halves, pixel, board, faint = shown[:7]
    assert shown.shape == (15, 8, 8, 3)
    assert shown.dtype == np.uint8
    assert [black.max(), white.min()] == [0, 255]
    assert [one.astype(int).sum() // 255 // 3 for one in (halves, pixel, board)] == [32, 1, 32]
    assert (halves[:, 0] == 0).all()
    assert (board[0, 0] != board[0, 1]).all()
    assert 0 < np.ptp(faint.astype(int)) < 40
    for one in (noise, shown[7], shown[14]):
        assert np.ptp(one.astype(int)) > 200
    assert len({one.tobytes() for one in shown}) == 10
    assert (probe_pictures(15, 8) == shown).all()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_pictures_begin_and_end_with_noise(count):
    shown = probe_pictures(count, 8)
    assert len(shown) == count
    assert all(np.ptp(one.astype(int)) > 200 for one in (shown[0], shown[-1]))
