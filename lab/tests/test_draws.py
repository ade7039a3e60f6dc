import numpy as np

from dptransfer_lab.tasks import drawn_by_class


def test_as_many_of_each_class_are_drawn_and_none_twice():
    labels = np.random.default_rng(0).integers(0, 3, 100)
    drawn = drawn_by_class(labels, 5, rng=np.random.default_rng(1))
    assert np.bincount(labels[drawn]).tolist() == [5, 5, 5]
    assert len(set(drawn.tolist())) == 15
    assert drawn.tolist() == sorted(drawn.tolist())


def test_the_number_may_depend_on_the_size_of_the_class():
    labels = np.repeat([0, 1, 2], [1, 4, 8])
    drawn = drawn_by_class(labels, lambda rows: rows // 2, rng=np.random.default_rng(1))
    assert np.bincount(labels[drawn], minlength=3).tolist() == [0, 2, 4]
