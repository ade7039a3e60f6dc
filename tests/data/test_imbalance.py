import numpy as np
import pytest

from dptransfer.data import long_tail, long_tail_counts
from dptransfer.errors import ArgumentError

LABELS = np.repeat(np.arange(5), [100, 120, 150, 100, 110])


def test_counts_fall_from_the_largest_to_exactly_its_ratio():
    assert long_tail_counts(1000, 100, 3).tolist() == [1000, 100, 10]
    assert long_tail_counts(1000, 1, 3).tolist() == [1000] * 3
    assert long_tail_counts(5, 100, 3).tolist() == [5, 1, 1]
    assert long_tail_counts(7, 9, 1).tolist() == [7]


def test_the_published_exponent_is_the_same_one():
    t = np.linspace(0, 10, 10)
    assert long_tail_counts(500, 50, 10).tolist() == np.rint(500 * 50.0 ** (-t / 10)).astype(int).tolist()


def test_the_subset_has_the_long_tail_counts_with_n_the_smallest_class():
    kept = long_tail(LABELS, 10, rng=np.random.default_rng(0), classes=5)
    assert len(set(kept.tolist())) == len(kept)
    found = sorted(np.bincount(LABELS[kept], minlength=5).tolist(), reverse=True)
    assert found == long_tail_counts(100, 10, 5).tolist()


def test_the_generator_alone_decides_which_class_is_rare():
    first, same, other = (
        long_tail(LABELS, 10, rng=np.random.default_rng(seed), classes=5) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, same)
    orders = {tuple(np.argsort(np.bincount(LABELS[kept], minlength=5)).tolist()) for kept in (first, other)}
    assert len(orders) == 2


def test_arguments_that_make_no_tail_are_refused():
    rng = np.random.default_rng(0)
    for labels, ratio, classes in ((LABELS, 0.5, 5), (LABELS, 10, 6), (LABELS, 10, 4), (LABELS * 1.0, 10, 5)):
        with pytest.raises(ArgumentError):
            long_tail(labels, ratio, rng=rng, classes=classes)
    assert len(long_tail(LABELS, 10, rng=rng, classes=["a", "b", "c", "d", "e"]))
