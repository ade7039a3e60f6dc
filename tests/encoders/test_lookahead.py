import threading
from contextlib import closing

import numpy as np
import pytest

from dptransfer.data import find_images
from dptransfer.encoders.lookahead import encoded_batches

from .toys import MeanColour, pictures

LONG = 60.0  # seconds; never waited for unless something is broken


@pytest.fixture
def batches(tmp_path):
    paths = find_images(pictures(tmp_path / "in", 11)).paths
    return [(start // 4, paths[start : start + 4]) for start in range(0, 11, 4)]


def test_batches_come_in_order_with_a_row_for_each_picture(batches):
    batches[1][1][2].write_bytes(b"damaged")
    with closing(encoded_batches(batches, MeanColour(), 4)) as found:
        told = list(found)
    assert [(index, len(rows), missing) for index, rows, missing in told] == [
        (0, 4, ()),
        (1, 4, (2,)),
        (2, 3, ()),
    ]
    assert not told[1][1][2].any()
    assert all(row.any() for place, row in enumerate(told[1][1]) if place != 2)
    assert list(encoded_batches([], MeanColour(), 4)) == []


def test_the_model_works_on_while_rows_are_written(batches):
    class Watched(MeanColour):
        second = threading.Event()

        def forward(self, pixels):
            if self.calls:
                self.second.set()
            return super().forward(pixels)

    with closing(encoded_batches(batches, Watched(), 4)) as found:
        next(found)
        assert Watched.second.wait(LONG)  # nobody has asked for the second batch


def test_what_the_model_raises_comes_after_the_batches_before_it(batches):
    found = encoded_batches(batches, MeanColour(fails_after=2), 4)
    assert [next(found)[0], next(found)[0]] == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        next(found)


def test_threads_end_with_whoever_stops_early(batches):
    found = encoded_batches(batches, MeanColour(), 4)
    assert np.isfinite(next(found)[1]).all()
    found.close()
    assert not [one for one in threading.enumerate() if one.name.startswith(("pictures", "encoder"))]
