import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rows import squared_length, steady
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import OnLattice, UnitNorm, lattice_floats

whole = st.one_of(
    st.integers(-12, 12), st.sampled_from([-(2**63), 2**63 - 1, 2**62, 2**32, 2**30, 2**30 - 1, -(2**16)])
)


@steady
@given(st.lists(st.tuples(whole, whole, whole), max_size=6), st.sampled_from([10, 2**16, 2**30]))
def test_no_row_beyond_the_norm_passes_and_all_others_do(drawn, norm):
    array = np.array(drawn, dtype=np.int64).reshape(-1, 3)
    made = OnLattice(3, norm).lattice(array, norm)
    for got, row in zip(made, array, strict=True):
        assert (got == (row if squared_length(row) <= norm**2 else 0)).all()


@pytest.mark.parametrize("dimension", [7, 8, 16, 1280, 2**14])
@pytest.mark.parametrize("norm", [2**16, 2**30])
@pytest.mark.parametrize("entry", [2**30, 2**30 + 1, 2**31, 2**62, -(2**63)])
def test_a_long_row_does_not_pass_because_its_squares_wrap_around(dimension, norm, entry):
    row = np.full((1, dimension), entry, dtype=np.int64)
    assert not OnLattice(dimension, norm).lattice(row, norm).any()


def test_plain_squares_would_let_such_rows_pass():
    for dimension, entry in ((3, 2**32), (16, 2**30 + 1)):
        row = np.full((1, dimension), entry, dtype=np.int64)
        assert np.einsum("ij,ij->i", row, row)[0] <= 2**60 < squared_length(row)


@pytest.mark.parametrize("dimension", [1, 4, 1024, 2**14])
def test_a_row_that_reaches_the_norm_exactly_passes_and_one_step_more_does_not(dimension):
    entry = 2**30 // int(dimension**0.5)
    row = np.full((2, dimension), entry, dtype=np.int64)
    row[1, 0] += 1
    assert squared_length(row[0]) == 2**60
    assert (OnLattice(dimension, 2**30).lattice(row, 2**30).any(axis=1) == [True, False]).all()


def test_another_norm_or_floats_are_refused():
    with pytest.raises(ArgumentError, match="norm 10"):
        OnLattice(2, norm=10).lattice(np.zeros((1, 2), dtype=np.int64), norm=11)
    with pytest.raises(ArgumentError, match="integers"):
        OnLattice(2, norm=10).lattice(np.zeros((1, 2)), norm=10)
    for dimension, norm in ((2, 0), (2, 2**30 + 1), (2**14 + 1, 5)):
        with pytest.raises(ArgumentError):
            OnLattice(dimension, norm)


@steady
@given(st.lists(st.tuples(whole, whole, whole), max_size=6), st.sampled_from([10, 2**16, 2**30]))
def test_floats_are_the_same_integers(drawn, norm):
    array = np.array(drawn, dtype=np.int64).reshape(-1, 3)
    made = OnLattice(3, norm)
    floats = made.floats(array, norm)
    assert floats.dtype == np.float64
    assert (floats == made.lattice(array, norm)).all()
    assert floats is not array


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
def test_floats_take_any_width_of_integer_and_leave_it_as_it_was(dtype):
    rows = np.array([[300, -400], [30000, 30000], [0, 0]], dtype=dtype)
    before = rows.copy()
    floats = OnLattice(2, norm=500).floats(rows, 500)
    assert floats.tolist() == [[300.0, -400.0], [0.0, 0.0], [0.0, 0.0]]
    floats += 1
    assert (rows == before).all()


def test_floats_refuse_another_norm_and_rows_that_are_no_integers():
    with pytest.raises(ArgumentError, match="norm 10"):
        OnLattice(2, norm=10).floats(np.zeros((1, 2), dtype=np.int64), 11)
    with pytest.raises(ArgumentError, match="integers"):
        OnLattice(2, norm=10).floats(np.full((1, 2), 0.5), 10)


def test_mapped_rows_are_the_same_floats_with_and_without_the_detour():
    x = np.random.default_rng(0).normal(size=(20, 4))
    unit = UnitNorm().fit(4, None)
    wanted = unit.lattice(x, 2**16)
    assert (lattice_floats(unit, x, 2**16) == wanted).all()
    assert (lattice_floats(OnLattice(4, 2**16), wanted.astype(np.int32), 2**16) == wanted).all()
