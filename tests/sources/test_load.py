import shutil

import numpy as np
import pytest

from dptransfer.data import EncoderIdentity, RowMetadata, write_embeddings
from dptransfer.errors import ArgumentError, DataError, Incompatible
from dptransfer.privacy import Unit
from dptransfer.sources import read_private, read_public

X = np.random.default_rng(3).normal(size=(4, 3)).astype(np.float32)
ENCODER = EncoderIdentity("toy", "0" * 64, "none")


def test_private_rows_take_class_list_name_and_encoder_from_the_manifest(tmp_path):
    path = write_embeddings(
        tmp_path / "a.emb",
        X,
        RowMetadata([0, 1, 1, 0], classes=["cat", "dog", "eel"], encoder=ENCODER, name="zoo"),
    )
    private = read_private(path, size=4)
    assert (private.name, private.facts.classes, private.facts.encoder) == (
        "zoo",
        ("cat", "dog", "eel"),
        ENCODER,
    )
    assert private.facts.size == 4
    assert read_private(path, name="other").name == "other"


def test_classes_are_never_inferred_from_private_labels(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=[0, 1, 1, 0])
    with pytest.raises(DataError, match="classes must be declared"):
        read_private(tmp_path / "a.npz")
    path = write_embeddings(tmp_path / "a.emb", X, RowMetadata([0, 1, 1, 0]))
    with pytest.raises(DataError, match="classes must be declared"):
        read_private(path)
    assert read_private(path, classes=["a", "b", "c"]).facts.classes == ("a", "b", "c")


def test_another_order_of_classes_moves_the_labels_with_their_names(tmp_path):
    path = write_embeddings(
        tmp_path / "a.emb", X, RowMetadata(["cat", "dog", "dog", "cat"], classes=["cat", "dog"])
    )
    turned = read_private(path, classes=["dog", "eel", "cat"])
    assert turned.labels.tolist() == [2, 0, 0, 2]
    assert turned.fingerprint != read_private(path).fingerprint
    with pytest.raises(DataError, match="declared classes"):
        read_private(path, classes=["dog", "eel"])


def test_labels_may_come_from_a_second_file(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.array([0, 1, 1, 0]))
    assert read_private(
        tmp_path / "x.npy", labels=tmp_path / "y.npy", classes=["a", "b"]
    ).labels.tolist() == [0, 1, 1, 0]
    with pytest.raises(DataError, match="must have labels"):
        read_private(tmp_path / "x.npy", classes=["a", "b"])
    np.savez(tmp_path / "a.npz", x=X, y=[0, 1, 1, 0])
    with pytest.raises(DataError, match="has its own"):
        read_private(tmp_path / "a.npz", labels=[0, 0, 0, 0], classes=["a", "b"])


def test_public_rows_may_be_unlabelled_or_name_their_own_classes(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=["b", "a", "b", "b"])
    np.save(tmp_path / "x.npy", X)
    assert read_public(tmp_path / "a.npz").classes == ("a", "b")
    assert read_public(tmp_path / "a.npz").labels.tolist() == [1, 0, 1, 1]
    assert read_public(tmp_path / "x.npy").labels is None


def test_public_sources_and_fingerprint_come_from_the_folder(tmp_path):
    path = write_embeddings(
        tmp_path / "a.emb", X, RowMetadata(sources=["1.png", "2.png", "3.png", "4.png"], public=True)
    )
    public = read_public(path)
    np.save(tmp_path / "x.npy", X)
    assert public.sources == ("1.png", "2.png", "3.png", "4.png")
    assert public.fingerprint == read_public(tmp_path / "x.npy").fingerprint


def test_a_folder_that_is_not_public_and_its_copies_are_never_taken_for_public(tmp_path):
    path = write_embeddings(tmp_path / "a.emb", X, RowMetadata([0, 1, 1, 0], classes=["a", "b"]))
    for copy in (
        path,
        shutil.copytree(path, tmp_path / "pool.emb"),
        shutil.copytree(path, tmp_path / "pool"),
    ):
        for verify in (True, False):
            with pytest.raises(DataError, match="must be marked public"):
                read_public(copy, verify=verify)
    (tmp_path / "link.npy").symlink_to(path / "rows-00000.npy")
    shards = write_embeddings(tmp_path / "b.emb", X, shard_rows=3)
    for file in (path / "rows-00000.npy", tmp_path / "link.npy", shards / "rows-00000.npy"):
        with pytest.raises(DataError, match="must be marked public"):
            read_public(file)
        assert len(read_public(file, private_too=True)) > 2
    public = write_embeddings(tmp_path / "c.emb", X, RowMetadata(public=True))
    assert len(read_public(public / "rows-00000.npy")) == 4
    np.save(tmp_path / "free.npy", X)
    for other in ("[1]", '{"public": false}', '{"format": "dptransfer-embeddings"', "{}"):  # of other tools
        (tmp_path / "manifest.json").write_text(other)
        assert len(read_public(tmp_path / "free.npy")) == 4
    assert len(read_public(path, private_too=True)) == 4  # its owner's, for a test without protection
    assert read_private(path).facts.classes == ("a", "b")


def test_digests_of_sources_come_from_the_folder(tmp_path):
    digests = np.array([3, 0, 2**64 - 1, 7], dtype=np.uint64)
    for number, (public, shard_rows) in enumerate(((False, None), (False, 3), (True, None))):
        told = RowMetadata([0, 1, 1, 0], classes=["a", "b"], source_digests=digests, public=public)
        path = write_embeddings(tmp_path / f"{number}.emb", X, told, shard_rows=shard_rows)
        read = (read_public if public else read_private)(path)
        assert read.source_digests.tolist() == digests.tolist()
        mode = (path / "digests.npy").stat().st_mode & 0o077
        assert bool(mode) == public
    assert read_private(path).source_digests.dtype == np.uint64
    for wrong in (digests[:3], digests.astype(np.int64)):
        with pytest.raises(DataError):
            write_embeddings(tmp_path / "x.emb", X, RowMetadata(source_digests=wrong))
    (path / "digests.npy").write_bytes((path / "labels.npy").read_bytes())
    with pytest.raises(DataError, match=r"digests\.npy"):
        read_private(path)


def test_rows_of_two_encoders_do_not_meet(tmp_path):
    other = EncoderIdentity("toy", "0" * 64, "rgb 96")
    private = read_private(
        write_embeddings(
            tmp_path / "a.emb", X, RowMetadata([0, 1, 1, 0], classes=["a", "b"], encoder=ENCODER)
        )
    )
    read_public(
        write_embeddings(tmp_path / "b.emb", X, RowMetadata(encoder=ENCODER, public=True))
    ).require_match(private.facts)
    public = read_public(write_embeddings(tmp_path / "c.emb", X, RowMetadata(encoder=other, public=True)))
    with pytest.raises(Incompatible, match="rgb 96"):
        public.require_match(private.facts)


WHO = ["b", "a", "b", None]


@pytest.fixture
def with_people(tmp_path):
    sources = ["cat/ann/1.png", "dog/ann/2.png", "dog/bob/3.png", "cat/4.png"]
    how = {"classes": ["cat", "dog"], "name": "zoo", "sources": sources}
    return write_embeddings(tmp_path / "people.emb", X, RowMetadata([0, 1, 1, 0], people=WHO, **how))


def test_rows_with_people_on_record_protect_persons_unless_that_is_declined(with_people):
    private = read_private(with_people, person_bound=2.0, rows_per_person=1.5)
    assert private.people.tolist() == [0, 1, 0, 2]
    assert (private.facts.unit, private.facts.person_bound) == (Unit.PERSON, 2.0)
    assert private.facts.rows_per_person == 1.5
    alone = read_private(with_people, people=None)
    assert (alone.people, alone.facts.unit) == (None, Unit.ROW)
    assert alone.fingerprint == private.fingerprint  # one data set, one account
    with pytest.raises(ArgumentError, match="without people"):
        read_private(with_people, people=None, person_bound=2.0)


def test_people_may_be_told_by_ids_a_file_folders_or_a_column(with_people, tmp_path):
    (tmp_path / "who.csv").write_text(
        "path,person\ncat/4.png,x\ncat/ann/1.png,y\ndog/ann/2.png,x\ndog/bob/3.png,y\n"
    )
    np.save(tmp_path / "who.npy", np.array([5, 5, 5, 6]))
    for people, found in (
        (["x", "x", "x", "y"], [0, 0, 0, 1]),
        (tmp_path / "who.csv", [0, 1, 0, 1]),
        (str(tmp_path / "who.npy"), [0, 0, 0, 1]),
        ("folder", [0, 0, 1, 2]),
    ):
        assert read_private(with_people, people=people).people.tolist() == found
    np.savez(tmp_path / "a.npz", x=X, y=[0, 1, 1, 0], who=[7, 7, 8, 8])
    found = read_private(tmp_path / "a.npz", classes=["a", "b"], people="who")
    assert (found.people.tolist(), found.facts.unit) == ([0, 0, 1, 1], Unit.PERSON)
    assert read_private(tmp_path / "a.npz", classes=["a", "b"]).facts.unit is Unit.ROW


@pytest.mark.parametrize(
    ("people", "rule"),
    [
        ("who", "people must be in the column 'who'; there are no columns"),
        ("folder", "these are not on record"),
        ("who.csv", "must be readable"),
        ([1, 2, 3], "one entry per example"),
    ],
)
def test_people_that_nothing_tells_are_refused(tmp_path, people, rule):
    path = write_embeddings(tmp_path / "a.emb", X, RowMetadata([0, 1, 1, 0], classes=["a", "b"]))
    with pytest.raises(DataError, match=rule):
        read_private(path, people=people)


def test_rows_in_many_files_are_looked_through_unless_that_is_declined(tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", np.full_like(X, np.nan))
    with pytest.raises(DataError, match="must be finite"):
        read_public(tmp_path)
    pool = read_public(tmp_path, verify=False)
    assert len(pool) == 8
    assert not pool.on_record
    assert read_public(
        write_embeddings(tmp_path / "c.emb", X, RowMetadata(public=True), shard_rows=2)
    ).on_record
