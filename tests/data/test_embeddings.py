import pickle

import numpy as np
import pytest

from dptransfer.data import EncoderIdentity, Facts, PrivateEmbeddings, PublicEmbeddings, ShardedRows
from dptransfer.data.embeddings import PoolOutline, RowsNeeded
from dptransfer.data.examples import finite_rows, picture_digests, text_digests
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.privacy import Bound, Unit

AB = ("a", "b")
OWN, OTHER = (EncoderIdentity(name, "0" * 64, "t") for name in ("own", "other"))


def private(x=((1.0, 2.0), (3.0, 4.0)), y=(0, 1), classes=AB, **told):
    return PrivateEmbeddings(x, y, classes=classes, **told)


def test_private_embeddings_keep_their_counsel():
    made = private(np.full((3, 2), 0.12345), [0, 1, 1], name="zoo")
    assert repr(made) == "PrivateEmbeddings('zoo', 2 declared classes, dimension 2)"
    with pytest.raises(TypeError):
        len(made)


def test_a_private_row_with_nan_is_kept_and_a_public_one_refused():
    rows = [[1.0, 2.0], [np.nan, 0.0]]
    assert len(private(rows).rows) == 2
    with pytest.raises(DataError, match="row 1"):
        PublicEmbeddings(rows)


def test_the_fingerprint_sees_each_value_type_and_label():
    x = np.zeros((3, 2), np.float32)
    told = ((x, [0, 1, 1]), (x, [0, 1, 0]), (x.astype(np.float64), [0, 1, 1]), (x + 1, [0, 1, 1]))
    assert len({private(*one).fingerprint for one in told}) == 4
    assert private(x.copy(), [0, 1, 1]).fingerprint == private(x, [0, 1, 1]).fingerprint


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([[1.0, 2.0], [3.0]], ["a", "b"]),
        (np.zeros((2, 2)), np.array([{}, {}], dtype=object)),
        (np.zeros((2, 0)), ["a", "b"]),
    ],
)
def test_what_is_no_table_is_refused_without_telling_how_many_rows_it_has(x, y):
    with pytest.raises(DataError) as refusal:
        private(x, y, classes=["a", "b", "c"])
    assert "2" not in str(refusal.value)  # two rows


def shots(classes=AB, y=("b", "a", "b"), width=2, **told):
    return PublicEmbeddings(np.arange(len(y) * width).reshape(-1, width), y, classes=classes, **told)


def test_shots_stand_beside_a_pool_and_leave_it_as_it_was():
    pool, labelled, others = PublicEmbeddings(np.ones((4, 2)), name="pool"), shots(), shots(y=("a",))
    joined = pool.with_shots(labelled)
    assert pool.shots is None
    assert joined.shots.labels.tolist() == [1, 0, 1]
    assert joined.rows is pool.rows
    assert (len(joined), joined.name, joined.labels) == (4, "pool", None)
    assert joined.fingerprint == pool.fingerprint != joined.shots.fingerprint
    assert labelled.shots is labelled  # until others are attached
    assert labelled.with_shots(others).shots is others
    with pytest.raises(DataError, match="labelled"):
        pool.with_shots(PublicEmbeddings(np.ones((1, 2))))


@pytest.mark.parametrize(
    ("told", "rule"),
    [
        ({"encoder": OTHER}, "encoder"),
        ({"width": 3}, "dimension"),
        ({"columns": ["age", "size"]}, "one of them"),
        ({"columns": ["dose", "age"]}, "another order"),
    ],
)
def test_rows_of_another_space_do_not_match(told, rule):
    """Those of other columns are as wide, and yet the space that was fitted would be another one."""
    facts = Facts(AB, 2, encoder=OWN, columns=["age", "dose"])
    pool = shots(encoder=OWN, columns=["age", "dose"])
    pool.require_match(facts)
    shots().require_match(facts)  # nothing on record matches anything
    odd = shots(**({"encoder": OWN} | told))
    for meet in (lambda: odd.require_match(facts), lambda: pool.with_shots(odd)):
        with pytest.raises(Incompatible, match=rule):
            meet()


def test_labels_of_shots_are_positions_in_the_private_classes():
    facts = Facts(("c", "b", "a"), 2)
    rows, labels = PublicEmbeddings(np.ones((4, 2))).with_shots(shots()).shots_for(facts)
    assert [facts.classes[label] for label in labels] == ["b", "a", "b"]
    assert rows.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    assert shots().shots_for(Facts(AB, 2))[1].tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="'b'"):
        shots().shots_for(Facts(("a", "z"), 2))
    with pytest.raises(DataError, match="no labels"):
        PublicEmbeddings(np.ones((4, 2))).shots_for(Facts(AB, 2))


def test_rows_of_people_protect_persons_and_say_no_more_than_that():
    plain = private(np.eye(4), [0, 1, 0, 1])
    told = {"people": ["xylo", "ann", "xylo", None], "size": 40, "rows_per_person": 4.0}
    made = private(np.eye(4), [0, 1, 0, 1], **told)
    assert repr(made) == "PrivateEmbeddings(2 declared classes, dimension 4, by person)"
    assert made.people.tolist() == [0, 1, 0, 2]
    assert made.facts.bound == Bound(Unit.PERSON, 1.0)
    assert (made.facts.declared_units, plain.facts.declared_units) == (10, None)
    assert made.fingerprint == plain.fingerprint  # one data set, one account
    assert not any("xylo" in str(value) for value in vars(made).values())
    fields = made.facts.to_dict()
    assert (fields["unit"], fields["person_bound"], fields["rows_per_person"]) == ("person", 1.0, 4.0)
    assert "person_bound" not in plain.facts.to_dict()  # as before there were any


@pytest.mark.parametrize(
    ("declared", "rule"),
    [
        ({"people": [0, 1], "person_bound": 0}, "positive"),
        ({"people": [0, 1], "person_bound": 4096.0}, "between"),
        ({"people": [0, 1], "rows_per_person": 0.5}, "at least 1"),
        ({"person_bound": 2.0}, "needs people"),
        ({"rows_per_person": 2.0}, "without people"),
        ({"class_counts": [-1, 1]}, "class_counts"),
        ({"columns": ["a"]}, "columns"),
        ({"columns": ["a", "a"]}, "columns"),
    ],
)
def test_what_is_declared_must_make_sense(declared, rule):
    with pytest.raises(ArgumentError, match=rule):
        private(**declared)


def shards(folder, rows, *where):
    """The rows in files that end at these places."""
    folder.mkdir(exist_ok=True)
    for number, part in enumerate(np.split(rows, where)):
        np.save(folder / f"{number}.npy", part)
    return ShardedRows([folder / f"{number}.npy" for number in range(len(where) + 1)])


def test_a_pool_in_many_files_is_the_same_pool(tmp_path):
    rows, labels = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float16), [0, 1, 1] * 3
    one, many = PublicEmbeddings(rows), PublicEmbeddings(shards(tmp_path, rows, 2, 7))
    assert repr(many) == repr(one) == "PublicEmbeddings(9 rows, dimension 2, unlabelled)"
    assert (many.record, len(many), many.dimension) == (one.record, 9, 2)
    assert many.with_shots(PublicEmbeddings(rows, labels, classes=AB)).rows is many.rows
    again = pickle.loads(pickle.dumps(many.with_vocabulary(None)))
    assert again.record == one.record
    assert again.rows[1:8].tolist() == rows[1:8].tolist()
    found, positions = PublicEmbeddings(many.rows, labels, classes=AB).shots_for(Facts(AB, 2))
    assert found is many.rows
    assert positions.tolist() == labels


def test_a_public_row_that_is_not_finite_is_told_by_its_file(tmp_path):
    rows = np.zeros((9, 2), np.float32)
    rows[4, 1] = np.inf
    many = shards(tmp_path, rows, 2, 7)
    with pytest.raises(DataError, match=r"row 2 of '.*1\.npy'"):
        PublicEmbeddings(many)
    assert private(many, [0, 1, 1] * 3).rows is many


def test_a_pool_is_read_once_for_all_and_not_again_where_it_is_on_record(tmp_path, monkeypatch):
    rows = np.zeros((9, 2), np.float32)
    many, read, plain = shards(tmp_path, rows, 2, 7), [], ShardedRows.read
    monkeypatch.setattr(
        ShardedRows, "read", lambda self, which, **how: read.append(which) or plain(self, which, **how)
    )
    assert PublicEmbeddings(many).fingerprint == PublicEmbeddings(rows).fingerprint
    assert [one.stop - one.start for one in read] == [9]
    many.finite = True
    assert PublicEmbeddings(many, fingerprint="known").fingerprint == "known"
    assert len(read) == 1


def test_a_part_of_private_rows_in_many_files_is_read_when_it_is_asked_for(tmp_path):
    rows, positions = np.random.default_rng(0).normal(size=(9, 2)), np.array([8, 1, 2, 5])
    one, many = (
        private(x, [0, 1, 1] * 3, people=[0, 0, 1] * 3) for x in (rows, shards(tmp_path, rows, 2, 7))
    )
    assert (one.fingerprint, repr(one)) == (many.fingerprint, repr(many))
    first, second = (whole.part(positions, whole.facts) for whole in (one, many))
    assert isinstance(second.rows, ShardedRows)
    assert second.rows[:].tolist() == first.rows.tolist()
    assert second.fingerprint == first.fingerprint != one.fingerprint
    assert second.people.tolist() == first.people.tolist()
    assert pickle.loads(pickle.dumps(second)).rows[1:].tolist() == first.rows[1:].tolist()
    assert second.part(np.array([3, 0]), one.facts).rows[:].tolist() == rows[[5, 8]].tolist()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_rows_are_finite_that_numpy_finds_finite(kind):
    odd = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan, -np.nan, np.finfo(kind).max, np.finfo(kind).tiny])
    rows = np.stack([np.ones(len(odd)), odd.astype(kind), -odd.astype(kind)], axis=1).astype(kind)
    for some in (rows, rows.T, rows[:0]):
        assert finite_rows(some).tolist() == np.isfinite(some).all(axis=1).tolist()


def test_an_outline_knows_numbers_and_whoever_asks_for_more_is_told():
    pool = PoolOutline(9, 5)
    assert (len(pool), len(pool.vocabulary)) == (9, 5)
    for name in ("rows", "shots", "fingerprint", "dimension"):
        with pytest.raises(RowsNeeded):
            getattr(pool, name)
    assert PoolOutline(9, classes=()).shots is None
    with pytest.raises(ArgumentError, match="whole number"):
        PoolOutline(0)


def test_sources_are_known_again_however_they_are_written():
    composed, decomposed, other, none = text_digests(["caf\u00e9  au lait", "cafe\u0301 au lait", "tea", " "])
    assert composed == decomposed != other
    assert none == 0
    noise = np.random.default_rng(0).integers(0, 256, (2, 4, 6, 3), dtype=np.uint8)
    first, second = picture_digests(noise)
    assert first != second != 0 != first
    assert picture_digests(noise.reshape(2, 6, 4, 3))[0] != first
    assert not picture_digests(np.full((2, 4, 4, 3), [[[[9, 0, 9]]]], dtype=np.uint8)).any()
