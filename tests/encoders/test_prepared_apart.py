import os
import pickle
import signal
import socket
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from PIL import Image

from dptransfer.encoders import encode_images_in_memory, get_encoder
from dptransfer.encoders import preprocess as lookahead
from dptransfer.encoders import preprocess as picklable_prepare
from dptransfer.encoders.efficientnet import _squeezed
from dptransfer.encoders.preprocess import PreprocessPool, encoded_batches
from dptransfer.sources import find_images
from dptransfer.sources.decode import open_image

from .toys import MeanColour, pictures

SQUEEZED = partial(_squeezed, size=8)
BLANK = np.zeros((8, 8, 3), np.uint8)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are given a socket")


@pytest.fixture
def paths(tmp_path):
    return find_images(pictures(tmp_path / "in", 11)).paths


def test_pictures_are_those_that_this_process_prepares_and_damaged_ones_are_left(paths):
    paths[2].write_bytes(b"damaged")
    places = np.empty((5, 8, 8, 3), np.uint8)
    with closing(PreprocessPool(SQUEEZED, BLANK, processes=1)) as apart:
        assert apart.fill(places[:3], paths[:3]) == [2]
        assert apart.fill(places[2:], paths[3:6]) == []
    expected = [SQUEEZED(open_image(path)) for path in (*paths[:2], *paths[3:6])]
    assert np.array_equal(places, np.stack(expected))
    assert [child.poll() for child in apart._children] == [-signal.SIGKILL]


def test_nothing_is_imported_from_the_folder_that_we_are_in(paths, tmp_path, monkeypatch):
    """It may be a folder of pictures from anywhere."""
    (tmp_path / "PIL.py").write_text("open('taken', 'w')")
    monkeypatch.chdir(tmp_path)
    with closing(PreprocessPool(SQUEEZED, BLANK, processes=1)) as apart:
        assert apart.fill(np.empty((2, 8, 8, 3), np.uint8), paths[:2]) == []
    assert not (tmp_path / "taken").exists()


def test_a_process_ends_over_a_picture_that_hangs_though_nobody_is_left_to_end_it(paths, monkeypatch):
    alarms, ours = [], socket.socketpair()
    monkeypatch.setattr(picklable_prepare, "alarm", alarms.append)
    ours[0].sendall(pickle.dumps((SQUEEZED, BLANK.shape, BLANK.dtype, None)) + pickle.dumps(paths[:2]))
    ours[0].shutdown(socket.SHUT_WR)
    with ours[0]:
        picklable_prepare.serve(ours[1].detach())
    assert alarms == [120, 120, 0]  # none goes off while it waits for the next list


def test_processes_read_greys_as_declared(tmp_path):
    file = tmp_path / "a.png"
    Image.fromarray(np.full((8, 8), 2048, np.uint16)).save(file)
    places = np.empty((1, 8, 8, 3), np.uint8)
    with closing(PreprocessPool(SQUEEZED, BLANK, (0, 4096), processes=1)) as apart:
        assert apart.fill(places, [file]) == []
    assert np.array_equal(places[0], SQUEEZED(open_image(file, (0, 4096))))


def test_what_cannot_travel_or_gives_another_shape_or_dies_is_left(paths):
    places = np.empty((2, 8, 8, 3), np.uint8)
    with closing(PreprocessPool(lambda image: image, BLANK)) as apart:
        assert apart.fill(places, paths[:2]) == [0, 1]
    with closing(PreprocessPool(partial(_squeezed, size=1), BLANK, processes=1)) as apart:
        assert apart.fill(places, paths[:2]) == [0, 1]
        apart._children[0].kill()
        apart._children[0].wait()
        assert apart.fill(places, paths[:2]) == [0, 1]
        assert apart.fill(places, paths[:2]) == [0, 1]


def test_rows_are_the_same_with_processes_and_without(paths, monkeypatch):
    class Squeezes(MeanColour):
        def prepare(self, image):
            return SQUEEZED(image)

    class Apart(Squeezes):
        picklable_prepare = SQUEEZED

    filled, fill = [], PreprocessPool.fill

    def watched(self, places, some):
        left = fill(self, places, some)
        filled.extend(path for each, path in enumerate(some) if each not in left)
        return left

    paths[5].write_bytes(b"damaged")
    monkeypatch.setattr(PreprocessPool, "fill", watched)
    monkeypatch.setattr(lookahead, "_WORTH_PROCESSES", 11)
    monkeypatch.setattr(lookahead, "_FEWEST", 1)
    monkeypatch.setattr(lookahead, "usable_cores", lambda: 2)
    monkeypatch.setattr("dptransfer.encoders.preprocess.usable_cores", lambda: 2)
    batches = [(start // 4, paths[start : start + 4]) for start in range(0, 11, 4)]
    told = {}
    for encoder in (Squeezes(), Apart()):
        with closing(encoded_batches(batches, encoder, 4)) as found:
            told[type(encoder)] = list(found)
    assert len(filled) == 10
    for (at, rows, missing), (at_there, rows_there, missing_there) in zip(*told.values(), strict=True):
        assert (at, missing) == (at_there, missing_there)
        assert np.array_equal(rows, rows_there)


@pytest.mark.gpu
def test_on_a_gpu_processes_prepare_the_same_rows(tmp_path, monkeypatch):
    paths = find_images(pictures(tmp_path / "in", 40)).paths
    encoder = get_encoder("efficientnet-lite0", size=64, device="cuda")
    assert encoder.picklable_prepare is not None
    known = encode_images_in_memory(paths, encoder, batch=16).rows
    monkeypatch.setattr(lookahead, "_WORTH_PROCESSES", 1)
    assert np.array_equal(encode_images_in_memory(paths, encoder, batch=16).rows, known)
