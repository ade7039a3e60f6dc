import numpy as np
import pytest

from dptransfer.errors import ArgumentError
from dptransfer.noise import SecureNoise, SeededNoise
from dptransfer.noise import integer_noise as uniform
from dptransfer.noise.integer_noise import uniform_integers


def chi_square(drawn, below):
    expected = len(drawn) / below
    return float(((np.bincount(drawn, minlength=below) - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(3)], ids=repr)
def test_every_integer_below_is_as_likely_as_any_other(noise):
    drawn = noise.integers(7, 70_000)
    assert drawn.dtype == np.int64
    assert chi_square(drawn, 7) < 45  # 6 degrees of freedom: 5e-8 above
    assert chi_square(np.minimum(drawn, 5), 7) > 45


def test_a_word_above_the_largest_multiple_is_thrown_away(monkeypatch):
    words = iter([[2**64 - 1, 5], [2**64 - 2, 6], [8]])

    class Words:
        def words(self, count):
            return np.array(next(words)[:count], dtype=np.uint64)

    monkeypatch.setattr(uniform, "WordStream", Words)
    assert uniform_integers(3, 2).tolist() == [2, 2]  # 2⁶⁴ − 1 = 0 mod 3 has no two companions
    assert uniform_integers(4, 1).tolist() == [0]  # where 2⁶⁴ is a multiple, all are kept


@pytest.mark.parametrize("below", [0, -1, 2**32 + 1])
def test_bounds_that_are_none_are_refused(below):
    with pytest.raises(ArgumentError):
        SecureNoise().integers(below, 3)
