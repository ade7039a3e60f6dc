import numpy as np
import pytest

from dptransfer.data import PublicEmbeddings, Vocabulary
from dptransfer.errors import ArgumentError, DataError, Incompatible

WORDS = Vocabulary(("cat", "dog"), np.arange(6.0).reshape(2, 3), np.array([0.5, -0.5]))
POOL = np.random.default_rng(0).normal(size=(5, 3))


def test_it_is_known_by_all_that_it_is_made_of():
    same = Vocabulary(["cat", "dog"], WORDS.weights.copy(), list(WORDS.offset))
    assert same.identity == WORDS.identity
    others = (
        Vocabulary(("dog", "cat"), WORDS.weights, WORDS.offset),
        Vocabulary(WORDS.names, WORDS.weights + 1, WORDS.offset),
        Vocabulary(WORDS.names, WORDS.weights, WORDS.offset + 1),
        Vocabulary(WORDS.names, WORDS.weights, WORDS.offset, unit_rows=True),
    )
    assert len({WORDS.identity, *(other.identity for other in others)}) == 5


def test_nobody_can_change_it_behind_its_back():
    weights = np.zeros((2, 3), dtype=np.float32)
    made = Vocabulary(("a", "b"), weights, np.zeros(2))
    weights += 1
    assert not made.weights.any()
    with pytest.raises(ValueError, match="read-only"):
        made.weights[0, 0] = 1


@pytest.mark.parametrize(
    ("names", "weights", "offset", "told"),
    [
        (("a", "b"), np.zeros((2, 0)), np.zeros(2), "shapes"),
        (("a", "b"), np.zeros((2, 3)), np.zeros(3), "shapes"),
        (("a",), np.zeros((2, 3)), np.zeros(2), "1 names for 2 words"),
        (("a",), np.zeros((1, 3)), np.zeros(1), "two at least"),
        (("a", "b"), np.full((2, 3), 1e300), np.zeros(2), "finite"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(names, weights, offset, told):
    with pytest.raises(DataError, match=told):
        Vocabulary(names, weights, offset)


def test_it_comes_back_from_its_file(tmp_path):
    for words in (WORDS, Vocabulary.from_names(["Käse", "名詞"], np.eye(2))):
        file = words.save(tmp_path / f"{len(words.names[0])}.npz")
        again = Vocabulary.read(file)
        assert (again.identity, again.names, again.unit_rows) == (
            words.identity,
            words.names,
            words.unit_rows,
        )
        with pytest.raises(DataError, match="nothing yet"):
            words.save(file)
    with pytest.raises(DataError, match="ends in"):
        WORDS.save(tmp_path / "words.txt")


def test_files_that_hold_something_else_are_refused(tmp_path):
    parts = {"names": np.array(["a", "b"]), "weights": np.eye(2), "offset": np.zeros(2), "unit_rows": True}
    for number, change in enumerate(({"names": np.zeros(2)}, {"names": np.array("a")}, {"weights": None})):
        file = tmp_path / f"{number}.npz"
        np.savez(file, **{key: value for key, value in {**parts, **change}.items() if value is not None})
        with pytest.raises(DataError, match="vocabulary"):
            Vocabulary.read(file)
    (tmp_path / "no.npz").write_bytes(b"nothing")
    with pytest.raises(DataError, match="archive"):
        Vocabulary.read(tmp_path / "no.npz")


def test_names_become_unit_texts_times_the_scale():
    made = Vocabulary.from_names(["a", "b", "c"], [[3.0, 4.0], [0.0, 9.0], [0.0, 0.0]], scale=10)
    assert made.weights.tolist() == [[6.0, 8.0], [0.0, 10.0], [0.0, 0.0]]
    assert made.unit_rows
    with pytest.raises(DataError, match="each name"):
        Vocabulary.from_names(["a", "b"], [1.0, 2.0])


def test_a_pool_carries_its_words_and_keeps_its_fingerprint():
    plain = PublicEmbeddings(POOL)
    described = PublicEmbeddings(POOL, vocabulary=WORDS)
    assert described.fingerprint == plain.fingerprint
    assert "vocabulary" not in plain.record
    assert described.record["vocabulary"] == {"words": 2, "identity": WORDS.identity}
    assert plain.with_vocabulary(WORDS).vocabulary is WORDS
    assert plain.vocabulary is None
    shots = PublicEmbeddings(POOL[:1], ["a"], classes=["a", "b"])
    assert described.with_shots(shots).vocabulary is WORDS


def test_words_for_rows_of_another_width_are_refused():
    with pytest.raises(Incompatible, match="4; got 3"):
        PublicEmbeddings(np.ones((2, 4)), vocabulary=WORDS)
    with pytest.raises(ArgumentError, match="got str"):
        PublicEmbeddings(POOL, vocabulary="efficientnet-lite0")
