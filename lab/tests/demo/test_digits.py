import numpy as np
import pytest

from dptransfer.data import long_tail_counts
from dptransfer_lab.demo.digits import CLASSES, RATIO, TEST_PER_CLASS, digits_sets

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


def test_it_is_the_same_on_every_run(sets):
    again = digits_sets(glyphs=20)
    for part in ("private", "test", "public"):
        assert getattr(again, part).digest() == getattr(sets, part).digest()


def test_pictures_keep_the_label_scikit_learn_gives_them(sets):
    from sklearn.datasets import load_digits

    target = load_digits().target
    for pictures in (sets.private, sets.test):
        numbers = [int(name.removeprefix("digit-")) for name in pictures.names]
        assert np.array_equal(target[numbers], pictures.labels)
