import numpy as np
import pytest

from dptransfer.data import long_tail_counts
from dptransfer_lab.demo.digits import CLASSES, FONTS, RATIO, TEST_PER_CLASS, digits_sets, draw_glyphs

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def sets():
    return digits_sets(glyphs=20)


def test_private_and_test_pictures_share_none(sets):
    assert not set(sets.private.names) & set(sets.test.names)
    together = np.concatenate([sets.private.pixels, sets.test.pixels]).reshape(-1, 64)
    assert len(np.unique(together, axis=0)) == len(together)


def test_the_private_set_is_long_tailed_as_declared_and_the_test_set_balanced(sets):
    assert np.bincount(sets.test.labels).tolist() == [TEST_PER_CLASS] * len(CLASSES)
    counts = np.bincount(sets.private.labels, minlength=10)
    assert tuple(counts.tolist()) == sets.sizes
    assert sorted(counts, reverse=True) == long_tail_counts(max(sets.sizes), RATIO, len(CLASSES)).tolist()


def test_pictures_keep_the_label_scikit_learn_gives_them(sets):
    from sklearn.datasets import load_digits

    target = load_digits().target
    for pictures in (sets.private, sets.test):
        numbers = [int(name.removeprefix("digit-")) for name in pictures.names]
        assert np.array_equal(target[numbers], pictures.labels)


@pytest.fixture(scope="module")
def glyphs():
    return draw_glyphs(300, rng=np.random.default_rng(3))


def test_a_seed_gives_the_same_glyphs_and_another_seed_others(glyphs):
    again = draw_glyphs(300, rng=np.random.default_rng(3))
    other = draw_glyphs(300, rng=np.random.default_rng(4))
    assert np.array_equal(again.pixels, glyphs.pixels)
    assert again.names == glyphs.names
    assert not np.array_equal(other.pixels, glyphs.pixels)


def test_glyphs_are_distinct_named_apart_and_never_blank(glyphs):
    assert len(np.unique(glyphs.pixels.reshape(len(glyphs), -1), axis=0)) == len(glyphs)
    assert len(set(glyphs.names)) == len(glyphs)
    assert (glyphs.pixels.max(axis=(1, 2)) >= 120).all()
    assert (glyphs.pixels % 15 == 0).all()  # 17 shades, as of the digits


def test_there_are_all_digits_and_letters_and_their_labels_are_their_names(glyphs):
    assert set(glyphs.labels.tolist()) == set(range(-1, 10))
    assert {
        name.split("-", 3)[3] for name in draw_glyphs(20 * len(FONTS), rng=np.random.default_rng(1)).names
    } == set(FONTS)
    for name, digit in zip(glyphs.names, glyphs.labels, strict=True):
        _, _, character, font = name.split("-", 3)
        assert font in FONTS
        assert character.isalpha() if digit < 0 else character == str(digit)


def test_the_share_of_digits_is_what_was_asked_for():
    assert (draw_glyphs(40, rng=np.random.default_rng(0), digit_share=1.0).labels >= 0).all()
    assert (draw_glyphs(40, rng=np.random.default_rng(0), digit_share=0.0).labels < 0).all()
