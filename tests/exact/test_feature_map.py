import numpy as np
import pytest

from dptransfer.data import PublicEmbeddings, Vocabulary
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact.feature_map import UnitNorm, apply, describe, read_features
from dptransfer.exact.lattice import SUM_BITS
from dptransfer.exact.public_map import PublicMap
from dptransfer.exact.vocabulary_map import VocabularyMap

WORDS = Vocabulary(("cat", "dog", "eel"), np.eye(3, 6), np.zeros(3))
POOL = PublicEmbeddings(np.random.default_rng(0).normal(size=(40, 6)), vocabulary=WORDS)


@pytest.mark.parametrize("features", [UnitNorm(), UnitNorm(pool=4), PublicMap(axes=3), VocabularyMap()])
def test_a_map_has_the_width_it_said_and_comes_back_from_a_release(features):
    fitted = features.fit(6, POOL)
    assert fitted.input_dimension == 6
    assert fitted.dimension == features.output_dimension(6, POOL)
    again = read_features(fitted.arrays(), describe(fitted))
    x = np.random.default_rng(1).normal(size=(20, 6))
    assert (again.lattice(x, 2**30) == fitted.lattice(x, 2**30)).all()


def test_prediction_sees_exactly_the_integers_that_were_learned_from():
    fitted = PublicMap(axes=3).fit(6, POOL)
    x = np.random.default_rng(2).normal(size=(20, 6))
    assert (apply(fitted, x) * 2**SUM_BITS == fitted.lattice(x, 2**SUM_BITS)).all()


@pytest.mark.parametrize("shape", [(4,), (4, 5), (4, 6, 1)])
def test_rows_of_another_shape_are_refused(shape):
    with pytest.raises(DataError, match="6"):
        apply(UnitNorm().fit(6, None), np.zeros(shape))


def test_an_unknown_kind_is_refused():
    with pytest.raises(ArgumentError, match="kind"):
        read_features({}, {"kind": "magic"})
