from dataclasses import replace

import numpy as np
import pytest

from contracts.rows import squared_length
from dptransfer.data import PublicEmbeddings, Vocabulary
from dptransfer.errors import ArgumentError, DataError
from dptransfer.exact import vocabulary_map
from dptransfer.exact.feature_map import apply
from dptransfer.exact.vocabulary_map import FittedVocabularyMap, VocabularyMap

from .test_lattice import does_not_depend_on_the_batch

WIDTH, WORDS = 24, 40
NAMES = tuple(f"word {number}" for number in range(WORDS))


def words(seed=0, *, unit_rows=False, count=WORDS, width=WIDTH):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(count, width)) * (20.0 if unit_rows else 0.5)
    return Vocabulary(NAMES[:count], weights, rng.normal(size=count), unit_rows)


def fitted(vocabulary):
    pool = PublicEmbeddings(np.ones((2, vocabulary.dimension)), vocabulary=vocabulary)
    return VocabularyMap().fit(vocabulary.dimension, pool)


def some_rows(count=300, seed=1):
    return np.abs(np.random.default_rng(seed).normal(size=(count, WIDTH))).astype(np.float32)


def probabilities(vocabulary, x):
    x = x.astype(np.float64)
    if vocabulary.unit_rows:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    logits = x @ vocabulary.weights.astype(np.float64).T + vocabulary.offset
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    return chances / chances.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("unit_rows", [False, True])
def test_a_row_becomes_the_roots_of_its_probabilities_above_chance(unit_rows):
    vocabulary, x = words(unit_rows=unit_rows), some_rows()
    above = np.maximum(probabilities(vocabulary, x) - 1 / WORDS, 0)
    wanted = np.sqrt(above / above.sum(axis=1, keepdims=True))
    got = apply(fitted(vocabulary), x)
    assert np.abs(got**2 - wanted**2).max() < 1e-2
    assert np.abs(np.linalg.norm(got, axis=1) - 1).max() < 1e-7
    assert got.min() == 0


def test_the_confidence_of_a_row_is_its_largest_probability():
    vocabulary, x = words(), some_rows()
    sure = fitted(vocabulary).confidence(x, 2**30) * 2.0**-30
    assert np.abs(sure - probabilities(vocabulary, x).max(axis=1)).max() < 2e-3


def of_floats(vocabulary, x, norm):
    """A planted fault: logits of float32 products, which a BLAS rounds by the shape of the batch."""
    logits = x @ vocabulary.weights.T
    chances = np.exp(logits.astype(np.float64))
    return np.trunc(np.sqrt(chances / chances.sum(axis=1, keepdims=True)) * norm)


@pytest.mark.parametrize("unit_rows", [False, True])
def test_confidence_is_of_the_row_alone_and_a_map_of_float_products_would_be_caught(unit_rows):
    vocabulary, norm = words(unit_rows=unit_rows), 2**30
    made, x, rng = fitted(vocabulary), some_rows(1000), np.random.default_rng(2)
    assert does_not_depend_on_the_batch(lambda some: made.confidence(some, norm), x, rng)
    assert does_not_depend_on_the_batch(lambda some: made.lattice(some, norm), x, rng)
    assert not does_not_depend_on_the_batch(lambda some: of_floats(vocabulary, some, norm), x, rng)


@pytest.mark.parametrize("count", [2, 1000, 2**16])
def test_the_norm_holds_where_all_words_are_nearly_alike(count):
    """Small differences at the top: what is left above chance is next to nothing, and is stretched most."""
    offset = np.where(np.arange(count) % 2, 0.0, 2.0**-10)
    made = FittedVocabularyMap.of(Vocabulary(tuple(map(str, range(count))), np.ones((count, 2)), offset))
    row = made.lattice(np.ones((1, 2)), 2**30)[0]
    assert 0.999 * 2**60 <= squared_length(row) <= 2**60


def test_every_partial_sum_stays_where_floats_are_integers():
    """Rows along the weights of a word are the worst; the sum of absolute terms bounds any partial sum."""
    made, x = fitted(words()), np.vstack([some_rows(20), words().weights * 1e4])
    integers, _ = vocabulary_map.rows_and_lengths(x, vocabulary_map.WORD_NORM)
    assert (np.abs(integers) @ np.abs(made.matrix.astype(np.float64))).max() < 2**24
    assert all(squared_length(column) <= 4064**2 for column in made.matrix.T)
    wide = Vocabulary(("a", "b"), np.ones((2, 2**14)), np.zeros(2))
    assert squared_length(FittedVocabularyMap.of(wide).matrix[:, 0]) <= 4064**2


def test_rows_that_are_no_numbers_or_nothing_become_zeros():
    x = np.array([[np.nan] * WIDTH, [np.inf] + [0.0] * (WIDTH - 1), [0.0] * WIDTH])
    made = fitted(words())
    assert not made.lattice(x, 2**30).any()
    assert not made.confidence(x, 2**30).any()


def test_a_map_says_whose_words_they_are_and_names_are_part_of_its_identity():
    made = fitted(words())
    assert (made.names, made.vocabulary) == (NAMES, words().identity)
    with pytest.raises(DataError, match="identity"):
        FittedVocabularyMap.read(made.arrays(), {**made.settings(), "names": NAMES[::-1]})
    with pytest.raises(DataError, match="texts"):
        replace(made, names=(*NAMES[:-1], 7))


def test_a_map_whose_products_would_not_be_exact_cannot_exist():
    made = fitted(words())
    for arrays in ({"matrix": np.full_like(made.matrix, 2**12)}, {"offset": made.offset[1:]}):
        with pytest.raises(DataError, match="must be small"):
            FittedVocabularyMap.read({**made.arrays(), **arrays}, made.settings())
    for scale in (1e30, 0.0, float("nan"), "1"):
        with pytest.raises(DataError, match="near 1"):
            FittedVocabularyMap.read(made.arrays(), {**made.settings(), "scale": scale})


def test_what_is_public_and_wrong_is_said_before_any_row_is_read():
    with pytest.raises(DataError, match="vocabulary="):
        VocabularyMap().output_dimension(3, PublicEmbeddings(np.eye(3)))
    with pytest.raises(DataError, match="came without"):
        VocabularyMap().fit(3, None)
    many = Vocabulary(tuple(map(str, range(2**16 + 1))), np.zeros((2**16 + 1, 1)), np.zeros(2**16 + 1))
    with pytest.raises(ArgumentError, match="at most 65536 words"):
        FittedVocabularyMap.of(many)
    with pytest.raises(DataError, match="below a million"):
        FittedVocabularyMap.of(Vocabulary(("a", "b"), np.ones((2, 3)), np.array([3e6, 0.0])))
    with pytest.raises(DataError, match="below a million"):
        FittedVocabularyMap.of(Vocabulary(("a", "b"), np.full((2, 3), 1e20), np.zeros(2)))


def test_weights_and_offsets_are_the_same_numbers_as_floats():
    rng = np.random.default_rng(4)
    words = Vocabulary(tuple(map(str, range(300))), rng.normal(size=(300, 2)), 5 * rng.normal(size=300))
    fitted = vocabulary_map.FittedVocabularyMap.of(words)
    weights, offset = fitted._floats
    assert np.abs(fitted.matrix).max() > 2048
    assert (weights == fitted.matrix).all()
    assert (offset == fitted.offset).all()
