import os
import threading
import warnings

import numpy as np
import pytest

from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.noise import integer_noise as stream
from dptransfer.noise.integer_noise import WordStream

from .laws import RARELY, fits_table

DRAWS = {
    "words": lambda: WordStream().words(4),
    "discrete_gaussian": lambda: SecureNoise().discrete_gaussian(1e9, (4,)),
    "discrete_laplace": lambda: SecureNoise().discrete_laplace(1e9, (4,)),
    "poisson_sample": lambda: SecureNoise().poisson_sample(500, 0.5),
}


def in_a_fork(draw):
    """What the child of a fork draws."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads
        child = os.fork()
    if child == 0:
        try:
            os.write(writer, draw().tobytes())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        drawn = pipe.read()
    os.waitpid(child, 0)
    return drawn


def test_it_is_aes_256_in_counter_mode(monkeypatch):
    """The published answer for a key and a block of zeros; the next block is the one for counter 1."""
    monkeypatch.setattr(os, "urandom", bytes)
    first_block = bytes.fromhex("dc95c078a2408989ad48a21492842087")
    assert WordStream().words(2).tobytes() == first_block
    assert WordStream().words(4).tobytes()[16:] == bytes.fromhex("530f8afbc74536b9a963b4f1c4cb738b")


def test_words_go_on_where_the_last_ones_ended(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda size: b"k" * size)
    once, parts = WordStream(), WordStream()
    in_parts = [parts.words(count) for count in (1, 0, 2, 4)]
    assert once.words(7).tolist() == np.concatenate(in_parts).tolist()


def test_more_words_than_fit_the_buffer_of_zeros(monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda size: b"k" * size)
    many = len(stream._ZEROS) // 8 + 3
    words = WordStream().words(many)
    assert words.shape == (many,)
    assert words.dtype == np.uint64
    assert len(np.unique(words)) == many
    assert words[:5].tolist() == WordStream().words(5).tolist()


def test_every_stream_asks_for_a_key_of_its_own(monkeypatch):
    asked = []
    genuine = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or genuine(size))
    WordStream()
    SecureNoise().discrete_gaussian(1e9, (2,))
    SecureNoise().discrete_gaussian(1e9, (2,))
    assert asked == [32, 32, 32]


@pytest.mark.parametrize("name", DRAWS)
def test_neither_calls_nor_threads_repeat_each_other(name):
    drawn = []
    threads = [threading.Thread(target=lambda: drawn.append(DRAWS[name]().tobytes())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    drawn += [DRAWS[name]().tobytes() for _ in range(8)]
    assert len(set(drawn)) == 16


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("name", DRAWS)
def test_the_two_sides_of_a_fork_draw_different_words(name):
    DRAWS[name]()  # whatever is kept between calls is there before the fork
    children = [in_a_fork(DRAWS[name]) for _ in range(2)]
    assert len({*children, DRAWS[name]().tobytes()}) == 3
    assert all(children)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_generator_kept_across_a_fork_would_be_found_out():
    kept = SeededNoise(1)

    def draw():
        return kept.discrete_gaussian(1e9, (4,))

    assert in_a_fork(draw) == draw().tobytes()


def test_bytes_are_uniform_and_a_small_bias_would_show():
    words = WordStream().words(2**18).copy()
    for place in range(8):
        assert fits_table(words.view(np.uint8)[place::8], np.ones(256), RARELY)
    words[::20] &= np.uint64(2**64 - 2)  # one bit of the 64 is now set in 47.5 % of the words
    little_end = words & np.uint64(255)
    assert not fits_table(little_end.astype(np.int64), np.ones(256), RARELY)
