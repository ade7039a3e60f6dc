import json
import pickle
from copy import deepcopy

import numpy as np
import pytest
from pydantic import TypeAdapter

from dptransfer.data import (
    EncoderIdentity,
    Facts,
    PrivateEmbeddings,
    PublicEmbeddings,
    ShardedRows,
    require_same_encoder,
)
from dptransfer.data.examples import finite_rows
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.ledger import Ledger
from dptransfer.methods import MeanPrototypes, PublicPrototypes
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Bound, Budget, Unit


def test_private_embeddings_keep_their_counsel():
    private = PrivateEmbeddings(np.full((3, 2), 0.12345), [0, 1, 1], classes=["a", "b"], name="zoo")
    assert repr(private) == "PrivateEmbeddings('zoo', 2 declared classes, dimension 2)"
    with pytest.raises(TypeError):
        len(private)


def test_an_unknown_label_is_refused_without_being_named():
    with pytest.raises(DataError, match="at least one is not") as caught:
        PrivateEmbeddings([[1.0], [2.0]], ["a", "rare-disease"], classes=["a", "b"])
    assert "rare-disease" not in str(caught.value)


def test_a_private_row_with_nan_is_kept_and_a_public_one_refused():
    rows = [[1.0, 2.0], [np.nan, 0.0]]
    assert len(PrivateEmbeddings(rows, [0, 1], classes=["a", "b"]).rows) == 2
    with pytest.raises(DataError, match="row 1"):
        PublicEmbeddings(rows)


def test_the_fingerprint_sees_each_value_type_and_label():
    def of(x, y):
        return PrivateEmbeddings(x, y, classes=["a", "b"]).fingerprint

    x = np.zeros((3, 2), np.float32)
    prints = {of(x, [0, 1, 1]), of(x, [0, 1, 0]), of(x.astype(np.float64), [0, 1, 1]), of(x + 1, [0, 1, 1])}
    assert len(prints) == 4
    assert of(x.copy(), [0, 1, 1]) in prints


def test_whole_number_classes_are_values_and_word_classes_take_positions():
    assert PrivateEmbeddings(np.eye(2), [20, 10], classes=[10, 20]).labels.tolist() == [1, 0]
    assert PrivateEmbeddings(np.eye(2), [1, 0], classes=["a", "b"]).labels.tolist() == [1, 0]
    with pytest.raises(DataError):
        PrivateEmbeddings(np.eye(2), [1, 0], classes=[10, 20])


def test_facts_survive_json_and_refuse_nonsense():
    facts = Facts(("a", "b"), 3, size=10, class_counts=(4, 6), encoder=EncoderIdentity("e", "0", "t"))
    assert TypeAdapter(Facts).validate_json(json.dumps(facts.to_dict())) == facts
    for bad in (
        {"classes": ("a",)},
        {"classes": ("a", "a")},
        {"classes": ("a", 1)},
        {"shape": 0},
        {"shape": ()},
        {"shape": (8, 8)},
        {"shape": (8, 8, 4)},
        {"class_counts": (1,)},
    ):
        with pytest.raises(ArgumentError):
            Facts(**({"classes": ("a", "b"), "shape": 3} | bad))


@pytest.mark.parametrize("part", ["name", "weights", "transform"])
def test_encoders_that_differ_in_any_part_are_incompatible(part):
    fields = {"name": "e", "weights": "0" * 64, "transform": "t"}
    first = EncoderIdentity(**fields)
    require_same_encoder(first, EncoderIdentity(**fields), names=("a", "b"))
    require_same_encoder(first, None, names=("a", "b"))
    with pytest.raises(Incompatible):
        require_same_encoder(first, EncoderIdentity(**(fields | {part: "other"})), names=("a", "b"))


@pytest.mark.parametrize("y", [[0, 1], ["a", "b"], [0.0, 1.0]])
def test_labels_without_any_declared_class_are_refused(y):
    with pytest.raises(DataError, match="one of the 0 declared classes"):
        PublicEmbeddings(np.ones((2, 3)), y, classes=[])


def test_public_rows_of_another_encoder_or_width_do_not_match():
    own, other = (EncoderIdentity(name, "0" * 64, "t") for name in ("own", "other"))
    facts = Facts(("a", "b"), 3, encoder=own)
    PublicEmbeddings(np.ones((2, 3)), encoder=own).require_match(facts)
    with pytest.raises(Incompatible, match="encoder"):
        PublicEmbeddings(np.ones((2, 3)), encoder=other).require_match(facts)
    with pytest.raises(Incompatible, match="dimension"):
        PublicEmbeddings(np.ones((2, 4)), encoder=own).require_match(facts)


@pytest.mark.parametrize(
    "classes",
    [
        [["a", "b"]], [0.5, 1.5], [True, False], "ab", 3.0, [None, "a"], ["a", 1], [1, "a"], ["a", True],
        [["a"], ["b", "c"]], ["\ud800", "a"],
    ],
)  # fmt: skip
def test_classes_are_one_list_of_words_or_whole_numbers(classes):
    with pytest.raises(DataError, match="classes must be"):
        PrivateEmbeddings(np.zeros((0, 2)), [], classes=classes)
    assert PrivateEmbeddings(np.zeros((0, 2)), [], classes=["a", "b"]).facts.classes == ("a", "b")


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([[1.0, 2.0], [3.0]], ["a", "b"]),
        (np.zeros((2, 2)), [["a"], ["a", "b"]]),
        (np.zeros((2, 2)), np.array([{}, {}], dtype=object)),
        (np.zeros((2, 0)), ["a", "b"]),
    ],
)
def test_what_is_no_table_is_refused_without_telling_how_many_rows_it_has(x, y):
    with pytest.raises(DataError) as refusal:
        PrivateEmbeddings(x, y, classes=["a", "b", "c"])
    assert "2" not in str(refusal.value)  # two rows


def test_class_counts_are_whole_numbers():
    for counts in (["q", 1], [0.5, 1], [-1, 1]):
        with pytest.raises(ArgumentError, match="class_counts"):
            PrivateEmbeddings(np.zeros((0, 2)), [], classes=["a", "b"], class_counts=counts)


def shots(classes=("a", "b"), y=("b", "a", "b"), width=2, **declared):
    return PublicEmbeddings(np.arange(len(y) * width).reshape(-1, width), y, classes=classes, **declared)


def test_shots_stand_beside_a_pool_and_leave_it_as_it_was():
    pool = PublicEmbeddings(np.ones((4, 2)), name="pool")
    joined = pool.with_shots(shots())
    assert pool.shots is None
    assert joined.shots.labels.tolist() == [1, 0, 1]
    assert joined.rows is pool.rows
    assert (len(joined), joined.name, joined.labels) == (4, "pool", None)
    assert joined.fingerprint == pool.fingerprint != joined.shots.fingerprint


def test_labelled_rows_are_their_own_shots_until_others_are_attached():
    labelled = shots()
    assert labelled.shots is labelled
    others = shots(y=("a",))
    assert labelled.with_shots(others).shots is others


def test_shots_must_be_labelled_and_live_in_the_same_space():
    pool = PublicEmbeddings(np.ones((4, 2)), encoder=EncoderIdentity("e", "0", "t"))
    with pytest.raises(DataError, match="labelled"):
        pool.with_shots(PublicEmbeddings(np.ones((1, 2))))
    with pytest.raises(Incompatible, match="dimension"):
        pool.with_shots(shots(width=3))
    with pytest.raises(Incompatible):
        pool.with_shots(shots(encoder=EncoderIdentity("other", "0", "t")))


def test_labels_of_shots_are_positions_in_the_private_classes():
    facts = Facts(("c", "b", "a"), 2)
    rows, labels = PublicEmbeddings(np.ones((4, 2))).with_shots(shots()).shots_for(facts)
    assert [facts.classes[label] for label in labels] == ["b", "a", "b"]
    assert rows.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    same, labels = shots().shots_for(Facts(("a", "b"), 2))
    assert labels.tolist() == [1, 0, 1]
    assert same.shape == (3, 2)


def test_shots_of_another_class_and_missing_shots_are_refused():
    with pytest.raises(DataError, match="'b'"):
        shots().shots_for(Facts(("a", "z"), 2))
    with pytest.raises(DataError, match="no labels"):
        PublicEmbeddings(np.ones((4, 2))).shots_for(Facts(("a", "b"), 2))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_float_labels_are_taken_where_they_are_whole(kind):
    x = np.eye(3)
    for classes in (["a", "b"], [0, 1], [0.0, 1.0], np.array([0, 1], dtype=kind)):
        found = PrivateEmbeddings(x, np.array([0, 1, 1], dtype=kind), classes=classes)
        assert found.labels.tolist() == [0, 1, 1]
        assert not any(isinstance(name, float) for name in found.facts.classes)
        for y in ([0, 1, 0.5], [0, 1, np.nan], [0, 1, 7], [0, 1, np.inf], [0, 1, -1]):
            with pytest.raises(DataError, match="at least one is not") as caught:
                PrivateEmbeddings(x, np.array(y, dtype=kind), classes=classes)
            assert not {"7", "nan", "0.5", "inf"} & set(str(caught.value).split())
    with pytest.raises(DataError, match="words or of whole numbers"):
        PrivateEmbeddings(x, [0, 1, 1], classes=[0.0, 1.5])


def test_public_rows_are_not_copied_and_private_ones_not_shared():
    pool = PublicEmbeddings([[0.1, 0.2], [0.3, 0.4]])
    assert deepcopy({"public": pool})["public"] is pool
    private = PrivateEmbeddings([[1.0], [2.0]], [0, 1], classes=["a", "b"])
    assert deepcopy(private).rows is not private.rows


def test_rows_of_people_protect_persons_and_say_no_more_than_that():
    ids = ["xylo", "ann", "xylo", None]
    plain = PrivateEmbeddings(np.eye(4), [0, 1, 0, 1], classes=["cat", "dog"])
    private = PrivateEmbeddings(
        np.eye(4), [0, 1, 0, 1], classes=["cat", "dog"], people=ids, size=40, rows_per_person=4.0
    )
    assert repr(private) == "PrivateEmbeddings(2 declared classes, dimension 4, by person)"
    assert private.people.tolist() == [0, 1, 0, 2]
    assert private.facts.bound == Bound(Unit.PERSON, 1.0)
    assert (private.facts.declared_units, plain.facts.declared_units) == (10, None)
    assert private.fingerprint == plain.fingerprint  # one data set, one account
    assert not any("xylo" in str(value) for value in vars(private).values())
    told = private.facts.to_dict()
    assert (told["unit"], told["person_bound"], told["rows_per_person"]) == ("person", 1.0, 4.0)
    assert "person_bound" not in plain.facts.to_dict()  # as before there were any


def test_declared_numbers_are_pythons_own_and_can_be_written():
    facts = PrivateEmbeddings(
        np.eye(2),
        [0, 1],
        classes=["cat", "dog"],
        people=[0, 1],
        size=np.int64(40),
        person_bound=np.float16(2),
        rows_per_person=np.float32(4),
    ).facts
    assert [type(one) for one in (facts.size, facts.person_bound, facts.rows_per_person)] == [
        int,
        float,
        float,
    ]
    assert json.loads(json.dumps(facts.to_dict()))["person_bound"] == 2.0


@pytest.mark.parametrize(
    ("declared", "rule"),
    [
        ({"people": [0, 1], "person_bound": 0}, "person_bound must be a positive"),
        ({"people": [0, 1], "person_bound": -1.0}, "person_bound must be a positive"),
        ({"people": [0, 1], "person_bound": float("nan")}, "person_bound must"),
        ({"people": [0, 1], "person_bound": 4096.0}, "between"),
        ({"people": [0, 1], "rows_per_person": 0.5}, "at least 1"),
        ({"person_bound": 2.0}, "without people"),
        ({"rows_per_person": 2.0}, "without people"),
    ],
)
def test_what_is_declared_about_people_must_make_sense(declared, rule):
    with pytest.raises(ArgumentError, match=rule):
        PrivateEmbeddings(np.eye(2), [0, 1], classes=["cat", "dog"], **declared)


def test_a_pool_whose_columns_are_called_otherwise_is_refused():
    """Same width, other measurements: the space that was fitted would be another one."""
    private = PrivateEmbeddings(np.eye(2), [0, 1], classes=[0, 1], columns=["age", "dose"])
    assert private.facts.columns == ("age", "dose")
    for columns in (["age", "dose"], None):
        PublicEmbeddings(np.eye(2), columns=columns).require_match(private.facts)
    with pytest.raises(Incompatible, match="'size' is in one of them alone"):
        PublicEmbeddings(np.eye(2), columns=["age", "size"]).require_match(private.facts)
    with pytest.raises(Incompatible, match="another order"):
        PublicEmbeddings(np.eye(2), columns=["dose", "age"]).require_match(private.facts)


@pytest.mark.parametrize("columns", [["a"], ["a", "a"], ["a", "b", "c"]])
def test_each_feature_has_a_name_of_its_own_or_none_has(columns):
    with pytest.raises(ArgumentError, match="a name of its own"):
        PrivateEmbeddings(np.eye(2), [0, 1], classes=[0, 1], columns=columns)


def shards(folder, rows, *where):
    """The rows in files that end at these places."""
    for number, part in enumerate(np.split(rows, where)):
        np.save(folder / f"{number}.npy", part)
    return ShardedRows([folder / f"{number}.npy" for number in range(len(where) + 1)])


def test_a_pool_in_many_files_is_the_same_pool(tmp_path):
    rows = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float16)
    one, many = PublicEmbeddings(rows), PublicEmbeddings(shards(tmp_path, rows, 2, 7))
    assert repr(many) == repr(one) == "PublicEmbeddings(9 rows, dimension 2, unlabelled)"
    assert (many.record, len(many), many.dimension) == (one.record, 9, 2)
    assert many.with_shots(PublicEmbeddings(rows, [0, 1, 1] * 3, classes=["a", "b"])).rows is many.rows
    again = pickle.loads(pickle.dumps(many.with_vocabulary(None)))
    assert again.record == one.record
    assert again.rows[1:8].tolist() == rows[1:8].tolist()
    labelled = PublicEmbeddings(many.rows, [0, 1, 1] * 3, classes=["a", "b"])
    found, labels = labelled.shots_for(Facts(("a", "b"), 2))
    assert found is many.rows
    assert labels.tolist() == [0, 1, 1] * 3


def test_a_public_row_that_is_not_finite_is_told_by_its_file(tmp_path):
    rows = np.zeros((9, 2), np.float32)
    rows[4, 1] = np.inf
    many = shards(tmp_path, rows, 2, 7)
    with pytest.raises(DataError, match=r"finite; row 2 of '.*1\.npy' is not\. Remove it from the pool\."):
        PublicEmbeddings(many)
    assert PrivateEmbeddings(many, [0, 1, 1] * 3, classes=["a", "b"]).rows is many


def test_a_pool_is_read_once_for_all_and_not_again_where_it_is_on_record(tmp_path, monkeypatch):
    rows = np.zeros((9, 2), np.float32)
    many, read = shards(tmp_path, rows, 2, 7), []
    plain = ShardedRows.read
    monkeypatch.setattr(
        ShardedRows, "read", lambda self, which, **how: read.append(which) or plain(self, which, **how)
    )
    pool = PublicEmbeddings(many)
    assert pool.fingerprint == PublicEmbeddings(rows).fingerprint
    assert [one.stop - one.start for one in read] == [9]
    many.finite = True
    assert PublicEmbeddings(many, fingerprint="known").fingerprint == "known"
    assert len(read) == 1


def test_a_part_of_private_rows_in_many_files_is_read_when_it_is_asked_for(tmp_path):
    rows, labels = np.random.default_rng(0).normal(size=(9, 2)), [0, 1, 1] * 3
    positions = np.array([8, 1, 2, 5])
    one, many = (
        PrivateEmbeddings(x, labels, classes=["a", "b"], people=[0, 0, 1] * 3)
        for x in (rows, shards(tmp_path, rows, 2, 7))
    )
    assert one.fingerprint == many.fingerprint
    assert repr(one) == repr(many)
    first, second = (whole.part(positions, whole.facts) for whole in (one, many))
    assert isinstance(second.rows, ShardedRows)
    assert second.rows[:].tolist() == first.rows.tolist()
    assert second.fingerprint == first.fingerprint != one.fingerprint
    assert second.people.tolist() == first.people.tolist()
    assert pickle.loads(pickle.dumps(second)).rows[1:].tolist() == first.rows[1:].tolist()
    again = second.part(np.array([3, 0]), one.facts)
    assert again.rows[:].tolist() == rows[[5, 8]].tolist()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_rows_are_finite_that_numpy_finds_finite(kind):
    odd = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan, -np.nan, np.finfo(kind).max, np.finfo(kind).tiny])
    rows = np.stack([np.ones(len(odd)), odd.astype(kind), -odd.astype(kind)], axis=1).astype(kind)
    assert finite_rows(rows).tolist() == np.isfinite(rows).all(axis=1).tolist()
    assert finite_rows(rows.T).tolist() == np.isfinite(rows.T).all(axis=1).tolist()
    assert finite_rows(rows[:0]).tolist() == []


@pytest.mark.parametrize("people", [None, np.arange(40) // 3])
def test_a_fit_does_not_depend_on_how_its_rows_are_cut(tmp_path, people):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 40)
    rows, pool = np.eye(4)[labels] + rng.normal(0, 0.3, (40, 4)), rng.normal(size=(30, 4))
    released = []
    for number, cuts in enumerate(((), (3, 20), range(1, 30))):
        x, public = rows, PublicEmbeddings(pool)
        if cuts:
            (tmp_path / f"{number}x").mkdir()
            (tmp_path / f"{number}p").mkdir()
            x = shards(tmp_path / f"{number}x", rows, *cuts)
            public = PublicEmbeddings(shards(tmp_path / f"{number}p", pool, *cuts))
        private = PrivateEmbeddings(x, labels, classes=["a", "b"], name="zoo", people=people)
        for method in (MeanPrototypes(), PublicPrototypes()):
            how = {"budget": Budget(2.0, 1e-5), "noise": SeededNoise(1), "ledger": Ledger.in_memory()}
            model = method.fit(private, public=public, **how)
            released.append((model.scores(pool).tolist(), model.provenance.public))
    assert released[0:2] == released[2:4] == released[4:6]
