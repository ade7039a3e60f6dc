"""Methods on rows in words: from a pool with a vocabulary, or with an encoder that is known to have one."""

import numpy as np
import pytest

from dptransfer import Budget, Ledger, PrivateEmbeddings, PublicEmbeddings, SeededNoise, verify
from dptransfer.data import EncoderIdentity, Vocabulary
from dptransfer.data.embeddings import PoolOutline
from dptransfer.encoders import registry as vocabularies
from dptransfer.errors import DataError
from dptransfer.exact.vocabulary_map import FittedVocabularyMap, VocabularyMap
from dptransfer.methods import MeanPrototypes, NoisyGD, PublicPriorPrototypes
from dptransfer.methods.configuration import named_method
from dptransfer.methods.replan import check_steps
from dptransfer.release import read_release

WIDTH, WORDS = 8, 20
RNG = np.random.default_rng(0)
VOCABULARY = Vocabulary(
    tuple(f"word {n}" for n in range(WORDS)), RNG.normal(size=(WORDS, WIDTH)), np.zeros(WORDS)
)
ENCODER = EncoderIdentity("worded", "ab" * 32, "rgb 8")
LABELS = np.arange(120) % 3
ROWS = 2 * np.eye(3, WIDTH)[LABELS] + 0.5 * RNG.normal(size=(120, WIDTH))
METHOD = MeanPrototypes(features=VocabularyMap())
BUDGET = Budget(epsilon=8.0, delta=1e-5)


def fit(method, pool, tmp_path, **private):
    data = PrivateEmbeddings(ROWS, LABELS, classes=[0, 1, 2], **private)
    return method.fit(
        data,
        pool,
        budget=BUDGET,
        ledger=Ledger(tmp_path / "l"),
        noise=SeededNoise(0),
    )


@pytest.mark.filterwarnings("ignore:A new ledger")
@pytest.mark.parametrize(
    ("method", "people"),
    [(METHOD, None), (METHOD, np.arange(120) // 4), (NoisyGD(features=VocabularyMap(), steps=5), None)],
)
def test_a_model_in_words_is_saved_verified_and_read_back(method, people, tmp_path):
    pool = PublicEmbeddings(RNG.normal(size=(30, WIDTH)), vocabulary=VOCABULARY)
    model = fit(method, pool, tmp_path, people=people)
    again = read_release(model.save(tmp_path / "release", unsafe_for_publication=True))
    assert (again.predict(ROWS) == model.predict(ROWS)).all()
    assert isinstance(again.features, FittedVocabularyMap)
    assert again.features.names == VOCABULARY.names
    assert again.provenance.public["vocabulary"]["identity"] == VOCABULARY.identity
    steps = check_steps(again)
    assert steps.passed, steps.detail
    assert verify(tmp_path / "release").epsilon <= 8


@pytest.mark.filterwarnings("ignore:A new ledger")
@pytest.mark.parametrize("method", [MeanPrototypes(), PublicPriorPrototypes()])
def test_a_plan_for_rows_that_are_not_encoded_yet_is_one_for_the_rows(method, monkeypatch, tmp_path):
    monkeypatch.setattr(vocabularies, "known_vocabulary", lambda identity: VOCABULARY if identity else None)
    data = PrivateEmbeddings(ROWS, LABELS, classes=[0, 1, 2], encoder=ENCODER)
    plan = method.plan_fit(data.facts, BUDGET, PoolOutline(30, WORDS, unlabelled=True))
    pool = PublicEmbeddings(RNG.normal(size=(30, WIDTH)), encoder=ENCODER)
    made = method.fit(data, pool, budget=BUDGET, ledger=Ledger(tmp_path / "l"), plan=plan)
    assert made.events == plan.events


@pytest.mark.filterwarnings("ignore:A new ledger")
def test_the_words_of_a_known_encoder_come_by_themselves(monkeypatch, tmp_path):
    monkeypatch.setattr(vocabularies, "known_vocabulary", lambda identity: VOCABULARY if identity else None)
    pool = PublicEmbeddings(RNG.normal(size=(30, WIDTH)), encoder=ENCODER)
    model = fit(METHOD, pool, tmp_path)
    assert model.features.vocabulary == VOCABULARY.identity
    assert model.provenance.public["vocabulary"] == VOCABULARY.record
    assert "vocabulary" not in fit(MeanPrototypes(), pool, tmp_path).provenance.public
    with pytest.raises(DataError, match="came without"):
        fit(METHOD, PublicEmbeddings(pool.rows), tmp_path)


def test_a_recorded_number_of_words_that_is_none_is_refused():
    from dptransfer.methods.replan import _recorded_pool

    assert METHOD.features.output_dimension(3, _recorded_pool(5, {"words": 7})) == 7
    for words in (0, -1, 2.5, True, "7"):
        with pytest.raises(ValueError, match="number of words"):
            _recorded_pool(5, {"words": words})


def test_the_map_is_set_by_its_name():
    assert named_method("mean", {"features": "vocabulary"}) == METHOD


def test_a_default_that_reads_words_leaves_out_more_than_would_fit_beside_its_axes():
    many = Vocabulary(tuple(map(str, range(2**13 + 1))), np.zeros((2**13 + 1, WIDTH)), np.zeros(2**13 + 1))
    pool = PublicEmbeddings(RNG.normal(size=(5, WIDTH)), vocabulary=many)
    assert PublicPriorPrototypes().with_words(pool).vocabulary is None
    assert METHOD.with_words(pool).vocabulary is many
    assert PublicPriorPrototypes().with_words(pool.with_vocabulary(VOCABULARY)).vocabulary is VOCABULARY
