import numpy as np
import pytest
from hypothesis import given

from contracts.rows import rows, squared_length, steady
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import FittedUnitNorm, UnitNorm
from dptransfer.exact.lattice import unit_lattice

from .test_lattice import does_not_depend_on_the_batch


def test_without_pooling_it_is_the_unit_lattice():
    array = np.random.default_rng(0).normal(size=(9, 5))
    assert (UnitNorm().fit(5, None).lattice(array, 2**30) == unit_lattice(array, 2**30)).all()


def test_pooling_averages_neighbours_and_the_last_group_may_be_smaller():
    fitted = UnitNorm(pool=2).fit(5, None)
    assert fitted.dimension == UnitNorm(pool=2).output_dimension(5, None) == 3
    made = fitted.lattice(np.array([[1.0, 3.0, 0.0, 0.0, 3.0]]), 10**6)
    assert np.abs(made - np.array([[800_000, 0, 600_000]])).max() <= 2


@steady
@given(rows(5))
def test_pooled_rows_are_within_the_norm_exactly(array):
    made = FittedUnitNorm(5, pool=2).lattice(array, 2047)
    assert all(squared_length(row) <= 2047**2 for row in made)


def test_a_pooled_row_gets_the_same_integers_in_every_batch():
    rng = np.random.default_rng(1)
    array = rng.normal(size=(150, 23)).astype(np.float32)
    fitted = FittedUnitNorm(23, pool=4)
    assert does_not_depend_on_the_batch(lambda x: fitted.lattice(x, 2**30), array, rng)
    assert not does_not_depend_on_the_batch(
        lambda x: fitted.lattice(x - x.sum(axis=0) / 1e3, 2**30), array, rng
    )


def test_it_is_written_and_read_back():
    fitted = FittedUnitNorm(23, pool=4)
    assert FittedUnitNorm.read(fitted.arrays(), fitted.settings()) == fitted


def test_bad_windows_and_widths_are_refused_before_any_row_is_seen():
    with pytest.raises(ArgumentError, match="pool"):
        UnitNorm(pool=0)
    with pytest.raises(ArgumentError, match="dimensions"):
        UnitNorm().fit(2**14 + 1, None)
