import numpy as np
import pytest
from contracts.rows import squared_length, steady
from hypothesis import given
from hypothesis import strategies as st

from dptransfer.errors import ArgumentError
from dptransfer.features import OnLattice

whole = st.one_of(st.integers(-12, 12), st.sampled_from([-(2**63), 2**63 - 1, 2**62, 2**32, 3_037_000_500]))


@steady
@given(st.lists(st.tuples(whole, whole, whole), max_size=6))
def test_no_row_beyond_the_norm_passes_and_all_others_do(drawn):
    array = np.array(drawn, dtype=np.int64).reshape(-1, 3)
    made = OnLattice(3, norm=10).lattice(array, norm=10)
    for got, row in zip(made, array, strict=True):
        assert (got == (row if squared_length(row) <= 100 else 0)).all()


def test_overflowing_squares_would_have_passed_without_the_cut():
    row = np.array([[2**32, 0, 0]], dtype=np.int64)
    assert np.einsum("ij,ij->i", row, row) == 0  # 2⁶⁴ wraps to nothing
    assert not OnLattice(3, norm=10).lattice(row, norm=10).any()


def test_another_norm_or_floats_are_refused():
    with pytest.raises(ArgumentError, match="norm 10"):
        OnLattice(2, norm=10).lattice(np.zeros((1, 2), dtype=np.int64), norm=11)
    with pytest.raises(ArgumentError, match="integers"):
        OnLattice(2, norm=10).lattice(np.zeros((1, 2)), norm=10)
