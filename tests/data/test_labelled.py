import numpy as np
import pytest

from dptransfer.data import Labelled, PrivateEmbeddings, PublicEmbeddings, RowMetadata, write_embeddings
from dptransfer.data.labels import class_positions, places
from dptransfer.errors import DataError
from dptransfer.sources import read_private

ROWS = np.eye(3)


@pytest.mark.parametrize("classes", [("a", "b", "c"), (7, 0, 1)])
def test_names_and_positions_are_inverses(classes):
    found = Labelled.of([classes[2], classes[0], classes[2]], classes)
    assert found.positions.tolist() == [2, 0, 2]
    assert found.names.tolist() == [classes[2], classes[0], classes[2]]
    assert class_positions(found.names, classes).tolist() == [2, 0, 2]
    assert found.of_rows(np.array([False, True, True])).positions.tolist() == [0, 2]


def test_whole_numbers_are_names_where_classes_are_numbers_and_positions_where_they_are_words():
    assert Labelled.of([1, 0], [0, 1]).positions.tolist() == [1, 0]
    assert Labelled.of([1, 0], [1, 0]).positions.tolist() == [0, 1]
    assert Labelled.of([1, 0], ["x", "y"]).positions.tolist() == [1, 0]


def test_another_list_must_have_every_class_that_occurs_and_may_lack_the_others():
    found = Labelled.of(["b", "b"], ["a", "b"])
    assert found.among(("c", "b")).positions.tolist() == [1, 1]
    assert found.among(found.classes) is found
    with pytest.raises(DataError, match="at least one is not"):
        found.among(("a", "c"))


@pytest.mark.parametrize("positions", [[-1], [0, 2]])
def test_a_position_that_is_none_cannot_exist(positions):
    with pytest.raises(DataError, match="one of the 2 declared classes"):
        Labelled(np.array(positions), ("a", "b"))
    assert len(Labelled(np.zeros(0, np.int64), ("a", "b"))) == 0


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.uint64])
def test_positions_are_of_the_type_that_every_sum_by_class_is_made_for(kind):
    """On a GPU an array of bytes would be taken for a mask, and a narrow product wraps round."""
    labelled = Labelled(np.array([1, 0, 1], dtype=kind), ("a", "b"))
    assert PrivateEmbeddings(ROWS, labelled).labels.dtype == np.int64


@pytest.mark.parametrize("positions", [[0, 1], np.array([0.0, 1.0]), np.zeros((2, 2), np.int64)])
def test_what_are_no_positions_is_refused_with_the_way_out(positions):
    with pytest.raises(DataError, match=r"Labelled\.of"):
        Labelled(positions, ("a", "b"))


def test_a_list_is_never_read_off_the_labels():
    for make in (Labelled.of, lambda y: PrivateEmbeddings(ROWS, y), lambda y: PublicEmbeddings(ROWS, y)):
        with pytest.raises(DataError, match="never inferred"):
            make(["a", "b", "a"])


def test_printing_labels_shows_none_of_them():
    assert repr(Labelled.of([1, 0, 1], ["a", "b"])) == "Labelled(2 declared classes)"


@pytest.mark.parametrize("classes", [("a", "b"), (1, 0)])
def test_rows_and_stores_take_them_as_they_are(tmp_path, classes):
    labelled = Labelled(np.array([1, 0, 1]), classes)
    private = PrivateEmbeddings(ROWS, labelled)
    assert private.facts.classes == classes
    assert private.labels is labelled.positions
    assert PublicEmbeddings(ROWS, labelled).labels is labelled.positions
    stored = write_embeddings(tmp_path / "a.emb", ROWS, RowMetadata(labelled))
    assert read_private(stored).labels.tolist() == [1, 0, 1]
    assert read_private(stored, classes=classes[::-1]).labels.tolist() == [0, 1, 0]


def test_labels_have_the_place_of_their_class_or_none():
    assert places([7, 3, 4, None, [3], 7.0], [3, 7]).tolist() == [1, 0, -1, -1, -1, 1]
    assert places([3, 7], ["3", "7"]).tolist() == [-1, -1]
