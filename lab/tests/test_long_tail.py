import numpy as np
import pytest

from dptransfer.data import long_tail_counts
from dptransfer.errors import ArgumentError
from dptransfer_lab.long_tail import long_tail

BALANCED = np.repeat(np.arange(5), [100, 120, 150, 100, 110])


def tail(seed, labels=BALANCED, ratio=10, classes=5):
    return long_tail(labels, ratio, rng=np.random.default_rng(seed), classes=classes)


def test_the_subset_has_the_long_tail_counts_and_the_generator_decides_which_class_is_rare():
    kept = tail(0)
    assert len(set(kept.tolist())) == len(kept)
    found = sorted(np.bincount(BALANCED[kept], minlength=5).tolist(), reverse=True)
    assert found == long_tail_counts(100, 10, 5).tolist()
    assert np.array_equal(tail(1), tail(1))
    assert len({tuple(np.argsort(np.bincount(BALANCED[tail(seed)])).tolist()) for seed in (1, 2)}) == 2


def test_arguments_that_make_no_tail_are_refused():
    for wrong in ({"ratio": 0.5}, {"classes": 6}, {"classes": 4}, {"labels": BALANCED * 1.0}):
        with pytest.raises(ArgumentError):
            tail(0, **wrong)
    assert len(tail(0, classes=["a", "b", "c", "d", "e"]))
