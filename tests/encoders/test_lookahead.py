import threading
import time
from contextlib import closing

import numpy as np
import pytest

from dptransfer.encoders import preprocess as lookahead
from dptransfer.encoders.encoder import blank_picture
from dptransfer.encoders.preprocess import encoded_batches
from dptransfer.errors import DataError
from dptransfer.sources import find_images
from dptransfer.sources.decode import open_image

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


def test_pictures_are_opened_while_the_model_works_on_those_before(batches):
    second = threading.Event()

    class Waits(MeanColour):
        def forward(self, pixels):
            assert second.wait(LONG)
            return super().forward(pixels)

    def opened(path):
        if path in batches[1][1]:
            second.set()
        return open_image(path)

    with closing(encoded_batches(batches, Waits(), 4, opened)) as found:
        assert next(found)[0] == 0


def test_the_model_works_on_the_thread_of_who_asks(batches):
    class Watched(MeanColour):
        def forward(self, pixels):
            assert threading.current_thread() is threading.main_thread()
            return super().forward(pixels)

    assert len(list(encoded_batches(batches, Watched(), 4))) == 3


@pytest.mark.parametrize(("size", "expected"), [(7_000, 4), (40_000, 9), (10**6, 16)])
def test_small_pictures_get_few_threads_and_large_ones_all_cores(tmp_path, monkeypatch, size, expected):
    monkeypatch.setattr(lookahead, "usable_cores", lambda: 16)
    (tmp_path / "a.jpg").write_bytes(bytes(size))
    batches = [(i, [tmp_path / "a.jpg", tmp_path / "missing.jpg"]) for i in range(100)]
    assert lookahead._threads_for([*batches, (100, [tmp_path / "missing.jpg"])]) == expected
    assert lookahead._threads_for([]) == 4


def test_what_the_model_raises_comes_after_the_batches_before_it(batches):
    found = encoded_batches(batches, MeanColour(fails_after=2), 4)
    assert [next(found)[0], next(found)[0]] == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        next(found)


def test_threads_end_with_whoever_stops_early(batches):
    found = encoded_batches(batches, MeanColour(), 4)
    assert np.isfinite(next(found)[1]).all()
    found.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("pictures")]


def test_the_models_input_is_used_again_and_its_last_is_filled_up_with_blanks(tmp_path):
    class Watched(MeanColour):
        def __init__(self):
            super().__init__()
            self.inputs, self.memory = [], set()

        def forward(self, pixels):
            self.inputs.append(pixels.copy())
            self.memory.add(pixels.ctypes.data)
            return super().forward(pixels)

    paths = find_images(pictures(tmp_path / "in", 83)).paths
    encoder = Watched()
    split = [(start // 4, paths[start : start + 4]) for start in range(0, 83, 4)]
    with closing(encoded_batches(split, encoder, 4)) as found:
        rows = np.concatenate([rows for _, rows, _ in found])
    assert len(encoder.memory) < len(split)
    expected = np.stack([encoder.prepare(open_image(path)) for path in paths])
    assert np.array_equal(np.concatenate(encoder.inputs)[:83], expected)
    assert np.array_equal(encoder.inputs[-1][3], encoder.prepare(blank_picture()))
    assert np.array_equal(rows, MeanColour().forward(expected).astype(np.float32))


def test_the_model_waits_until_the_last_picture_is_in_its_place(batches):
    last, later = batches[0][1][-1], threading.Event()

    def opened(path):
        if path == last:
            assert later.wait(LONG)  # threads go on with the next batch meanwhile
            time.sleep(0.2)  # time enough for a model that does not wait
        if path in batches[1][1]:
            later.set()
        return open_image(path)

    with closing(encoded_batches(batches, MeanColour(), 4, opened)) as found:
        _, rows, _ = next(found)
    assert np.array_equal(rows[-1], MeanColour().encode([open_image(last)])[0])


@pytest.mark.parametrize(("side", "dtype"), [(1, np.float32), (8, np.float64)])
def test_pictures_of_several_shapes_or_types_are_refused(batches, side, dtype):
    class ByTheirSize(MeanColour):
        def prepare(self, image):
            if image.size != (12, 12):  # a blank
                return super().prepare(image)
            return np.asarray(image.resize((side, side)), dtype=dtype)

    with (
        closing(encoded_batches(batches, ByTheirSize(), 4)) as found,
        pytest.raises(DataError, match="one shape and type"),
    ):
        next(found)
