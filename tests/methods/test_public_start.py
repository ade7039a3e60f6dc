"""What is public about classes: names that are words, labelled rows, and how sure both are."""

from dataclasses import replace

import numpy as np
import pytest

from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.data.embeddings import PoolOutline
from dptransfer.data.facts import EncoderIdentity
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.exact.feature_map import FittedSideBySide, apply
from dptransfer.exact.public_map import PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods import PublicPriorPrototypes
from dptransfer.methods.heads import public_start as starts
from dptransfer.methods.replan import contradictions, verify_release
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation, Unit
from dptransfer.release import read_release

WIDTH, CLASSES = 24, ("refund_delayed", "lost card", "exchange rate", "top-up failed", "card swallowed")
FACTS = Facts(CLASSES, (WIDTH,))
RNG = np.random.default_rng(0)
MEANS = RNG.normal(size=(len(CLASSES), WIDTH))
BUDGET = Budget.gdp(0.27)


def rows(labels, seed=0, noise=1.0):
    return MEANS[labels] + noise * np.random.default_rng(seed).normal(size=(len(labels), WIDTH))


POOL = PublicEmbeddings(rows(np.arange(200) % len(CLASSES), seed=1))
NAMES = rows(np.arange(len(CLASSES)), seed=2, noise=0.5)
TESTED = np.arange(1000) % len(CLASSES)


def shots(each=4, classes=CLASSES):
    labels = np.tile(np.arange(len(classes)), each)
    return PublicEmbeddings(rows(labels, seed=3), labels, classes=classes)


def accuracy(start):
    return float(((apply(start.features, rows(TESTED, 4)) @ start.weights.T).argmax(axis=1) == TESTED).mean())


def private(count=100, classes=CLASSES, **more):
    labels = np.arange(count) % len(classes)
    return PrivateEmbeddings(rows(labels, seed=5), labels, classes=classes, name="private", **more)


def fit(pool, data=None, noise=1, **settings):
    method = PublicPriorPrototypes(features=PublicMap(axes=WIDTH), steps=4, **settings)
    return method.fit(
        data or private(), pool, budget=BUDGET, ledger=Ledger.in_memory(), noise=SeededNoise(noise)
    )


def failed_checks(saved):
    return [check.name for check in verify_release(saved).checks if not check.passed]


@pytest.mark.parametrize(
    ("pool", "least", "what"),
    [
        (POOL.with_names(NAMES), 0.7, "class names"),
        (POOL.with_shots(shots()), 0.8, "labelled public rows"),
        (POOL.with_names(NAMES).with_shots(shots()), 0.85, "class names and labelled public rows"),
    ],
)
def test_public_rows_of_classes_make_a_classifier_without_a_private_row(pool, least, what):
    start = starts.public_start(pool, FACTS)
    assert start.what == what
    assert accuracy(start) > least
    assert np.abs(start.weights.mean(axis=0)).max() < 1e-9


def test_a_start_is_as_sure_as_left_out_rows_say():
    sure = starts.public_start(POOL.with_shots(shots(8)), FACTS)
    mixed = shots(8).rows[np.random.default_rng(6).permutation(40)]
    unsure = starts.public_start(
        POOL.with_shots(PublicEmbeddings(mixed, shots(8).labels, classes=CLASSES)), FACTS
    )
    assert np.abs(unsure.weights).mean() < 0.3 * np.abs(sure.weights).mean()


def test_labelled_rows_of_some_classes_are_no_start_and_with_names_they_are():
    some = POOL.with_shots(shots(classes=CLASSES[:3]))
    assert starts.sources_of_start(some, FACTS) == ()
    assert starts.public_start(some, FACTS) is None
    assert "labelled" in starts.public_start(some.with_names(NAMES), FACTS).what
    lacking = PublicEmbeddings(rows(np.zeros(3, dtype=int)), [0, 0, 0], classes=CLASSES)
    assert starts.public_start(POOL.with_shots(lacking), FACTS) is None
    others = shots(classes=("a", "b", "c", "d", "e"))
    assert starts.sources_of_start(POOL.with_shots(others), FACTS) == ()


def test_one_labelled_row_of_each_class_is_as_sure_as_it_comes():
    assert accuracy(starts.public_start(POOL.with_shots(shots(1)), FACTS)) > 0.6


@pytest.mark.parametrize("names", [np.zeros((5, WIDTH + 1)), np.full((5, WIDTH), np.nan)])
def test_rows_of_names_that_no_encoder_of_the_pool_made_are_refused(names):
    with pytest.raises(Incompatible):
        POOL.with_names(names)


def test_rows_of_names_are_one_for_each_class_and_refused_before_anything_is_charged():
    ledger = Ledger.in_memory()
    method = PublicPriorPrototypes(features=PublicMap(axes=WIDTH))
    with pytest.raises(DataError):
        method.fit(private(), POOL.with_names(NAMES[:4]), budget=BUDGET, ledger=ledger, noise=SeededNoise(0))
    assert not ledger.history()


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (("malignant tumour", "healthy"), True),
        (("alt.atheism", "comp.graphics"), True),
        (("感冒", "糖尿病"), True),
        (("C34.1", "C34.2", "J45"), False),
        (("label_1", "label_2", "label_3"), False),
        (("xkcd42", "NTT", "DNS", "cat"), False),
        (range(4), False),
    ],
)
def test_codes_and_numbers_are_no_names(classes, words):
    assert starts.are_in_words(tuple(classes)) is words


IDENTITY = EncoderIdentity("reader", "ab" * 32, "texts")


@pytest.fixture
def reader(monkeypatch):
    """An installed encoder of texts that knows the classes, and which texts it was given."""
    given = []

    class Reader:
        identity, dimension, kind = IDENTITY, WIDTH, "text"

        def encode(self, batch):
            given.extend(batch)
            own = [
                next((n for n, name in enumerate(CLASSES) if starts.readable_name(name) in text), 0)
                for text in batch
            ]
            return NAMES[own].astype(np.float32)

    import dptransfer.encoders as encoders

    monkeypatch.setattr(encoders, "ENCODERS", type("Registry", (), {"names": ("reader",)}))
    monkeypatch.setattr(encoders, "encoder_of", lambda identity: Reader())
    starts._encoded_names.cache_clear()
    yield given
    starts._encoded_names.cache_clear()


def test_names_are_read_by_the_encoder_on_record_and_are_on_record_themselves(reader, tmp_path):
    data = private(encoder=IDENTITY)
    model = fit(POOL, data)
    assert {"refund delayed", "lost card"} <= set(reader)
    assert model.provenance.public["names"]["rows"] == len(CLASSES)
    assert "class names" in model.events[0].label
    assert type(model.features) is FittedSideBySide
    assert failed_checks(model.save(tmp_path / "model", unsafe_for_publication=True)) == ["publishable"]
    again = read_release(tmp_path / "model")
    assert (again.predict(rows(TESTED, 4)) == model.predict(rows(TESTED, 4))).all()
    plain = fit(POOL, data, names="off")
    assert "names" not in plain.provenance.public
    assert "class names" not in plain.events[0].label


def test_a_plan_without_rows_knows_whether_names_can_be_read(reader):
    facts = replace(FACTS, encoder=IDENTITY)
    method = PublicPriorPrototypes(features=PublicMap(axes=WIDTH))
    assert "class names" in method.plan(facts, BUDGET, PoolOutline(200, classes=())).events[0].label
    assert "names" not in method.plan(facts, BUDGET, PoolOutline(200, names=0, classes=())).events[0].label
    assert method.plan_fit(facts, BUDGET, PoolOutline(200, classes=())).pool == (200, 0, len(CLASSES))
    coded = replace(facts, classes=("C1", "C2", "C3", "C4", "C5"))
    assert "names" not in method.plan(coded, BUDGET, PoolOutline(200, classes=())).events[0].label


def test_an_encoder_of_pictures_and_one_that_is_not_here_read_no_names(reader):
    for identity in (EncoderIdentity("reader", "ab" * 32, "rgb 8"), EncoderIdentity("gone", "ab" * 32, "t")):
        assert starts.with_known_names(POOL, replace(FACTS, encoder=identity)).names is None


@pytest.mark.parametrize("labelled", [False, True])
def test_a_release_with_a_start_is_planned_again_from_its_record(labelled, tmp_path):
    pool = POOL.with_shots(shots()) if labelled else POOL.with_names(NAMES)
    saved = fit(pool).save(tmp_path / "model", unsafe_for_publication=True)
    assert failed_checks(saved) == ["publishable"]  # its noise is seeded


@pytest.mark.parametrize("relation", Relation)
def test_persons_are_protected_beside_a_start_too(relation, tmp_path):
    data = private(200, people=np.arange(200) // 3)
    method = PublicPriorPrototypes(features=PublicMap(axes=WIDTH), steps=4)
    budget, ledger = replace(BUDGET, relation=relation), Ledger.in_memory()
    model = method.fit(data, POOL.with_names(NAMES), budget=budget, ledger=ledger, noise=SeededNoise(1))
    assert type(model.features) is FittedSideBySide
    assert {event.unit for event in model.events} == {Unit.PERSON}
    assert failed_checks(model.save(tmp_path / "model", unsafe_for_publication=True)) == ["publishable"]


def test_codes_that_an_encoder_of_texts_could_not_read_bring_advice_that_verifies(tmp_path):
    coded = ("C1", "C2", "C3", "C4", "C5")
    data = private(classes=coded, encoder=IDENTITY)
    model = fit(POOL, data)
    assert starts.IN_CODES in model.provenance.notes
    assert failed_checks(model.save(tmp_path / "model", unsafe_for_publication=True)) == ["publishable"]
    assert starts.IN_CODES not in fit(POOL, data, names="off").provenance.notes
    assert starts.IN_CODES not in fit(POOL, private(classes=coded)).provenance.notes


def test_a_start_that_is_not_on_record_contradicts_the_release():
    model = fit(POOL.with_names(NAMES))
    method = PublicPriorPrototypes(features=PublicMap(axes=WIDTH), steps=4)
    plan = method.plan(model.facts, BUDGET, POOL.with_names(NAMES))
    assert not list(contradictions(model, plan))
    public = {name: value for name, value in model.provenance.public.items() if name != "names"}
    forged = replace(model, provenance=replace(model.provenance, public=public))
    assert list(contradictions(forged, plan))


def test_names_that_help_are_worth_points_and_names_of_other_classes_cost_next_to_none():
    few = private(40)

    def mean(pool):
        found = (fit(pool, few, seed).predict(rows(TESTED, 4)) for seed in range(5))
        return float(np.mean([(np.asarray(one) == np.array(CLASSES)[TESTED]).mean() for one in found]))

    off, named = mean(POOL), mean(POOL.with_names(NAMES))
    assert named > off + 0.1


def test_steps_go_less_far_beside_a_start_while_classes_are_small():
    start = starts.public_start(POOL.with_names(NAMES), FACTS)
    labelled = starts.public_start(POOL.with_shots(shots()), FACTS)
    ways = [start.way(typical) for typical in (-1.0, 0.0, 1.0, 5.0, 15.0, 1e9)]
    assert ways == sorted(ways)
    assert (ways[0], ways[-1]) == (0.0, 1.0)
    assert [start.may_help(typical) for typical in (-1.0, 59.0, 61.0)] == [True, True, False]
    many = starts.public_start(POOL.with_shots(shots(20)), FACTS)
    for few, more in ((start, labelled), (labelled, many)):
        assert few.worth < more.worth
        assert more.way(5.0) < few.way(5.0)
        assert more.may_help(30 * few.worth + 1)
    assert not many.may_help(1e9)
    loud = [np.abs(start.beside(typical)).max() for typical in (-1.0, 0.0, 5.0, 100.0)]
    assert loud == sorted(loud, reverse=True)


def test_a_setting_that_is_neither_is_refused():
    with pytest.raises(ArgumentError):
        PublicPriorPrototypes(names="sometimes")
