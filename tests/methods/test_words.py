"""Methods on rows in words; which words bear a name, what they are worth, and how sums in them are read."""

import numpy as np
import pytest

from dptransfer import Budget, Ledger, PrivateEmbeddings, PublicEmbeddings, SeededNoise, verify
from dptransfer.data import EncoderIdentity, Vocabulary
from dptransfer.data.embeddings import PoolOutline
from dptransfer.encoders import registry as vocabularies
from dptransfer.errors import DataError
from dptransfer.exact.vocabulary_map import FittedVocabularyMap, VocabularyMap
from dptransfer.methods import MeanPrototypes, NoisyGD, PublicPriorPrototypes
from dptransfer.methods.heads.words import named_words, sparse_posterior, word_share, words_may_pay
from dptransfer.release import read_release

from .samples import check_steps

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
    return method.fit(data, pool, budget=BUDGET, ledger=Ledger(tmp_path / "l"), noise=SeededNoise(0))


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
    plan = method.plan_fit(data.facts, BUDGET, PoolOutline(30, WORDS, classes=()))
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
    from dptransfer.methods.replan import recorded_pool

    assert METHOD.features.output_dimension(3, recorded_pool({"rows": 5, "vocabulary": {"words": 7}})) == 7
    for words in (0, -1, 2.5, True, "7"):
        with pytest.raises(ValueError, match="number of words"):
            recorded_pool({"rows": 5, "vocabulary": {"words": words}})


NAMES = [
    "tabby, tabby cat",
    "Persian cat",
    "crane (bird)",
    "crane (machine)",
    "soccer ball",
    "binoculars, field glasses",
    "bus",
    "princess",
    "Käse",
]


def found(name):
    (row,) = named_words([name], NAMES)
    return {NAMES[place]: float(row[place]) for place in np.flatnonzero(row)}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("soccer_ball", {"soccer ball": 1.0}),
        ("SoccerBalls", {"soccer ball": 1.0}),
        ("field glass", {}),
        ("field-glasses", {"binoculars, field glasses": 1.0}),
        ("crane", {"crane (bird)": 0.5, "crane (machine)": 0.5}),
        ("wild_cat", {"tabby, tabby cat": 0.5, "Persian cat": 0.5}),
        ("bus", {"bus": 1.0}),
        ("käse", {"Käse": 1.0}),
        ("class 7", {}),
        ("", {}),
        (7, {}),
    ],
)
def test_a_class_finds_the_words_that_bear_its_name_or_its_last_word(name, words):
    assert found(name) == words


def named_task(scale, *, borne, seed=0, classes=30, words=200):
    """Each class has one word; where names are `borne`, it is the one that bears the class's name."""
    rng = np.random.default_rng(seed)
    means = np.full((classes, words), 0.002)
    own = np.arange(classes) if borne else np.arange(classes) + 100
    means[np.arange(classes), own] = 0.5
    sums = 20 * means + scale * rng.normal(size=means.shape)
    return means, sums, np.full(classes, 20.0) + scale * rng.normal(size=classes), np.eye(classes, words), own


def accuracy(posterior, own):
    """Of rows that have the one word of their class."""
    return np.mean(posterior.weights[:, own].argmax(axis=0) == np.arange(len(own)))


def test_names_tell_classes_apart_where_the_sums_say_nothing():
    _, sums, counts, named, own = named_task(scale=100.0, borne=True)
    assert accuracy(sparse_posterior(sums, counts, 100.0, 100.0), own) < 0.4
    assert accuracy(sparse_posterior(sums, counts, 100.0, 100.0, named), own) > 0.9


def test_words_that_the_encoder_is_not_sure_of_get_nothing():
    assert word_share(0.39, 2.0, 1000, named=0.0) == 0
    assert word_share(0.41, 2.0, 1000, named=0.0) == 1
    assert word_share(0.29, 2.0, 1000, named=1.0) == 0
    assert word_share(0.31, 2.0, 1000, named=1.0) == 1


def test_a_word_stands_out_of_the_noise_of_all_nine_times_out_of_ten_where_axes_begin():
    """The claim behind the border, in 2,000 draws; a tenth of them is 200, give or take 13."""
    words, confidence = 1000, 0.5
    border = next(
        signal for signal in np.linspace(1, 20, 2000) if word_share(confidence, signal, words, 1.0) < 1
    )
    rng = np.random.default_rng(0)
    largest = rng.normal(size=(2000, words)).max(axis=1)
    found = np.mean(border * confidence + rng.normal(size=2000) > largest)
    assert 0.9 - 0.035 < found < 1


@pytest.mark.parametrize("confidence", [-3.0, 0.0, 1.7, float("nan")])
def test_noise_may_make_any_number_of_the_confidence(confidence):
    assert (
        word_share(confidence, 5.0, 1000, named=0.5) in (0.0, 1.0)
        or 0.05 <= word_share(confidence, 5.0, 1000, named=0.5) <= 0.75
    )
    assert word_share(0.5, -5.0, 1000, named=0.5) == 1


@pytest.mark.parametrize("named", [0.0, 1.0])
def test_confidence_need_not_be_measured_where_none_would_give_words_a_share(named):
    levels = np.linspace(0, 1, 101)
    for signal in np.geomspace(1, 100, 40):
        could = any(word_share(level, signal, 1000, named) > 0 for level in levels)
        assert words_may_pay(signal, 1000, named) == could


CLASSES, MANY = 12, 200


def task(seed=0, *, scale=4.0, counts=None, active=3):
    """Classes with a few words each, over a little of all words; their noisy sums and counts."""
    rng = np.random.default_rng(seed)
    counts = np.full(CLASSES, 40.0) if counts is None else counts
    means = np.full((CLASSES, MANY), 0.003)
    for own in means:
        own[rng.choice(MANY, active, replace=False)] = rng.uniform(0.2, 0.6, active)
    sums = counts[:, None] * means + scale * rng.normal(size=means.shape)
    return means, sums, counts + scale * rng.normal(size=CLASSES), scale


def test_the_noise_is_taken_off_and_the_words_stay():
    means, sums, counts, scale = task()
    found = sparse_posterior(sums, counts, scale, scale)
    raw = np.square(sums / 40 - means).mean()
    assert np.square(found.means - means).mean() < 0.1 * raw
    assert np.abs(found.means - means)[means > 0.2].mean() < 0.2
    assert found.means.min() >= 0


@pytest.mark.parametrize("count", [-300.0, 0.0, 1e-9, 1e9])
@pytest.mark.parametrize("size", [0.0, 1e-9, 1e9])
def test_whatever_is_released_gives_finite_numbers(count, size):
    """Counts far below zero, sums of nothing, sums far larger than counts: noise may do any of it."""
    sums = size * np.random.default_rng(0).normal(size=(3, 20))
    with np.errstate(all="raise", under="ignore"):
        found = sparse_posterior(sums, np.full(3, count), 2.0, 5.0)
    for part in (found.means, found.weights):
        assert np.isfinite(part).all()
