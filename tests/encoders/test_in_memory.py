"""Rows are made in memory, of pictures that are prepared ahead of the model, in threads or processes."""

import os
import signal
import threading
import time
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from dptransfer.encoders import (
    encode_images_in_memory,
    encode_pixels,
    encode_texts_in_memory,
    get_encoder,
    in_memory,
    rows_depend_on_neighbours,
)
from dptransfer.encoders.encoder import blank_picture
from dptransfer.encoders.in_memory import PreprocessPool, encoded_batches
from dptransfer.encoders.torch_module import ResizeCrop
from dptransfer.errors import DataError
from dptransfer.sources import PrivateImages, find_images
from dptransfer.sources.decode import open_image

from .toys import MeanColour, WordLengths, pictures, random_images

LONG = 60.0  # seconds; never waited for unless something is broken
SQUEEZE = ResizeCrop(8, 8)
BLANK = np.zeros((8, 8, 3), np.uint8)
with_processes = pytest.mark.skipif(os.name != "posix", reason="processes are given a socket")


@pytest.fixture
def paths(tmp_path):
    return find_images(pictures(tmp_path / "in", 11)).paths


def test_images_in_memory_are_the_encoders_rows(paths):
    paths[7].write_bytes(b"damaged")
    encoder, seen = MeanColour(), []
    found = encode_images_in_memory(paths[:10], encoder, batch=4, progress=lambda *at: seen.append(at))
    assert found.unreadable == (7,)
    assert np.flatnonzero((found.rows == 0).all(axis=1)).tolist() == [7]
    assert encoder.calls == [4, 4, 4]
    assert seen[-1] == (10, 10)
    again = encode_images_in_memory([str(path) for path in paths[:3]], encoder)
    assert np.array_equal(again.rows, found.rows[:3])
    assert list(encoded_batches([], encoder, 4)) == []


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


def test_an_encoder_that_computes_each_alone_is_given_no_blanks(paths):
    encoder = MeanColour()
    encoder.one_by_one = True
    rows = encode_images_in_memory(paths[:3], encoder, batch=8).rows
    assert encoder.calls == [3]
    assert np.array_equal(rows, encode_images_in_memory(paths[:3], MeanColour(), batch=8).rows)


def test_threads_end_with_whoever_stops_early(paths):
    found = encoded_batches(paths, MeanColour(), 4)
    assert np.isfinite(next(found)[1]).all()
    found.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("pictures")]


def test_the_models_input_is_used_again_and_its_last_is_filled_up_with_blanks(tmp_path):
    inputs, memory = [], set()

    class Watched(MeanColour):
        def forward(self, pixels):
            inputs.append(pixels.copy())
            memory.add(pixels.ctypes.data)
            return super().forward(pixels)

    paths = find_images(pictures(tmp_path / "in", 83)).paths
    encoder = Watched()
    rows = np.concatenate([rows for _, rows, _ in encoded_batches(paths, encoder, 4)])
    assert len(memory) < 21
    expected = np.stack([encoder.prepare(open_image(path)) for path in paths])
    assert np.array_equal(np.concatenate(inputs)[:83], expected)
    assert np.array_equal(inputs[-1][3], encoder.prepare(blank_picture()))
    assert np.array_equal(rows, MeanColour().forward(expected).astype(np.float32))


def test_the_model_waits_until_the_last_picture_is_in_its_place(paths):
    later = threading.Event()

    def opened(path):
        if path == paths[3]:
            assert later.wait(LONG)  # threads go on with the next batch meanwhile
            time.sleep(0.2)  # time enough for a model that does not wait
        if path in paths[4:8]:
            later.set()
        return open_image(path)

    with closing(encoded_batches(paths, MeanColour(), 4, opened)) as found:
        _, rows, _ = next(found)
    assert np.array_equal(rows[-1], MeanColour().encode([open_image(paths[3])])[0])


@pytest.mark.parametrize(("side", "dtype"), [(1, np.float32), (8, np.float64)])
def test_pictures_of_several_shapes_or_types_are_refused(paths, side, dtype):
    class ByTheirSize(MeanColour):
        def prepare(self, image):
            if image.size != (12, 12):  # a blank
                return super().prepare(image)
            return np.asarray(image.resize((side, side)), dtype=dtype)

    with (
        closing(encoded_batches(paths, ByTheirSize(), 4)) as found,
        pytest.raises(DataError, match="one shape"),
    ):
        next(found)


@with_processes
def test_processes_prepare_what_this_process_would_and_leave_damaged_pictures(paths):
    paths[2].write_bytes(b"damaged")
    places = np.empty((5, 8, 8, 3), np.uint8)
    Image.fromarray(np.full((8, 8), 2048, np.uint16)).save(paths[5])
    with closing(PreprocessPool(SQUEEZE, BLANK, (0, 4096), processes=1)) as pool:
        assert pool.fill(places[:3], paths[:3]) == [2]
        assert pool.fill(places[2:], paths[3:6]) == []
    expected = [SQUEEZE(open_image(path, (0, 4096))) for path in (*paths[:2], *paths[3:6])]
    assert np.array_equal(places, np.stack(expected))
    assert [child.poll() for child in pool._children] == [-signal.SIGKILL]


@with_processes
def test_nothing_is_imported_from_the_folder_that_we_are_in(paths, tmp_path, monkeypatch):
    """It may be a folder of pictures from anywhere."""
    (tmp_path / "PIL.py").write_text("open('taken', 'w')")
    monkeypatch.chdir(tmp_path)
    with closing(PreprocessPool(SQUEEZE, BLANK, processes=1)) as pool:
        assert pool.fill(np.empty((2, 8, 8, 3), np.uint8), paths[:2]) == []
    assert not (tmp_path / "taken").exists()


@with_processes
def test_what_cannot_travel_or_gives_another_shape_or_dies_is_left(paths):
    places = np.empty((2, 8, 8, 3), np.uint8)
    with closing(PreprocessPool(lambda image: image, BLANK)) as pool:
        assert pool.fill(places, paths[:2]) == [0, 1]
    with closing(PreprocessPool(ResizeCrop(1, 1), BLANK, processes=1)) as pool:
        assert pool.fill(places, paths[:2]) == [0, 1]
        pool._children[0].kill()
        pool._children[0].wait()
        assert pool.fill(places, paths[:2]) == [0, 1]
        assert pool.fill(places, paths[:2]) == [0, 1]


@with_processes
def test_rows_are_the_same_with_processes_and_without(paths, monkeypatch):
    class Squeezes(MeanColour):
        def prepare(self, image):
            return SQUEEZE(image)

    filled, fill = [], PreprocessPool.fill

    def watched(self, places, some):
        left = fill(self, places, some)
        filled.extend(path for each, path in enumerate(some) if each not in left)
        return left

    paths[5].write_bytes(b"damaged")
    monkeypatch.setattr(PreprocessPool, "fill", watched)
    for name, value in {"_WORTH_PROCESSES": 11, "_FEWEST": 1, "usable_cores": lambda: 2}.items():
        monkeypatch.setattr(in_memory, name, value)
    here, there = Squeezes(), Squeezes()
    there.picklable_prepare = SQUEEZE
    known, found = (list(encoded_batches(paths, encoder, 4)) for encoder in (here, there))
    assert len(filled) == 10
    for (at, rows, missing), (at_there, rows_there, missing_there) in zip(known, found, strict=True):
        assert (at, missing) == (at_there, missing_there)
        assert np.array_equal(rows, rows_there)


@pytest.mark.gpu
def test_on_a_gpu_processes_prepare_the_same_rows(tmp_path, monkeypatch):
    paths = find_images(pictures(tmp_path / "in", 40)).paths
    encoder = get_encoder("efficientnet-lite0", size=64, device="cuda")
    assert encoder.picklable_prepare is not None
    known = encode_images_in_memory(paths, encoder, batch=16).rows
    monkeypatch.setattr(in_memory, "_WORTH_PROCESSES", 1)
    assert np.array_equal(encode_images_in_memory(paths, encoder, batch=16).rows, known)
