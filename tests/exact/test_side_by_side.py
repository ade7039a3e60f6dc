import numpy as np
import pytest
from hypothesis import given

from contracts.rows import rows, squared_length, steady
from dptransfer.exact.feature_map import STRETCHES, FittedSideBySide, UnitNorm, apply, describe, read_features
from dptransfer.exact.public_map import PublicMap

from .test_feature_map import POOL

PAIR = FittedSideBySide(PublicMap(axes=3).fit(6, POOL), UnitNorm(pool=2).fit(6, None))


@steady
@given(rows(6))
def test_rows_of_any_kind_stay_within_the_norm(array):
    for norm in (1, 2, 2047, 2**30):
        assert all(squared_length(row) <= norm**2 for row in PAIR.lattice(array, norm))


def test_each_side_is_its_own_map_and_a_bit_shorter():
    x = np.random.default_rng(0).normal(size=(20, 6))
    got = apply(PAIR, x)
    assert np.abs(STRETCHES[0] * got[:, :3] - apply(PAIR.first, x)).max() < 1e-8
    assert np.abs(STRETCHES[1] * got[:, 3:] - apply(PAIR.second, x)).max() < 1e-8
    assert PAIR.dimension == got.shape[1] == 6


def test_a_pair_comes_back_from_a_release_and_damaged_ones_do_not():
    again = read_features(PAIR.arrays(), describe(PAIR))
    x = np.random.default_rng(1).normal(size=(20, 6))
    assert (again.lattice(x, 2**30) == PAIR.lattice(x, 2**30)).all()
    told = describe(PAIR)
    nested = {**told, "second": told}
    with pytest.raises(ValueError, match="pairs"):
        read_features(PAIR.arrays(), nested)
    narrow = {**told, "second": {**told["second"], "input_dimension": 5}}
    with pytest.raises(ValueError, match="same rows"):
        read_features(PAIR.arrays(), narrow)
