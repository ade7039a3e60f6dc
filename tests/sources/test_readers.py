import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

from dptransfer.data import Columns, RowMetadata, write_embeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer.privacy import Unit
from dptransfer.sources import read_private, read_public, read_table

X = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
Y = np.array([0, 1, 0, 1, 0, 1])
AB = {"classes": ["a", "b"]}
WHO = ["b", "a", "", "b", "", "a"]
WHOSE = [0, 1, 2, 0, 3, 1]


@pytest.fixture
def npz(tmp_path):
    def made(name="a.npz", **arrays):
        np.savez(tmp_path / name, **arrays)
        return tmp_path / name

    return made


@pytest.fixture
def emb(tmp_path):
    def made(file="a.emb", labels=None, how=None, **told):
        labels = Y if labels is None and not told.get("public") else labels
        return write_embeddings(tmp_path / file, X, RowMetadata(labels, **told), **how or {})

    return made


@pytest.fixture
def npy(tmp_path):
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy"


# --- any format ---


def test_npy_holds_rows_and_is_memory_mapped(npy):
    table = read_table(npy)
    assert isinstance(table.rows, np.memmap)
    assert (table.rows.tolist(), table.labels) == (X.tolist(), None)


@pytest.mark.parametrize(
    ("rows", "labels"), [("x", "y"), ("features", "labels"), ("embeddings", "label"), ("embedding", "y")]
)
def test_npz_is_read_under_each_documented_name(npz, rows, labels):
    table = read_table(npz(**{rows: X, labels: Y, "classes": np.array(["cat", "dog"])}))
    assert (table.rows.tolist(), table.labels.tolist()) == (X.tolist(), Y.tolist())
    assert table.classes == ("cat", "dog")
    assert repr(table) == "RawTable(dimension 3, labelled)"  # and no value


@pytest.fixture
def packed(npz):
    """Rows as small integers, with splits."""

    def made(*splits):
        arrays = {"scale": np.array([0.5, 1, 2]), "offset": np.array([0, -1, 3]), "classes": ["cat", "dog"]}
        for place, split in enumerate(splits):
            arrays[f"q_{split}"] = np.full((4, 3), place + 2, np.uint8)
            arrays[f"y_{split}"] = np.array([0, 1, 1, 0], np.int16)
        return npz(**arrays)

    return made


def test_rows_packed_as_small_integers_are_scaled_back(packed):
    path = packed("train", "test")
    assert read_table(path, Columns(split="train")).rows[0].tolist() == [1, 1, 7]
    table = read_table(path, Columns(split="test"))
    assert (table.rows[0].tolist(), table.rows.dtype) == ([1.5, 2, 9], np.float32)
    assert table.labels_are_positions
    for split, rule in ((None, "test, train"), ("dev", "split='dev'")):
        with pytest.raises(DataError, match=rule):
            read_table(path, Columns(split=split))
    assert len(read_table(packed("train")).rows) == 4  # the only one need not be named


def test_no_packed_row_makes_reading_warn_or_fail_whatever_the_caller_told_numpy(npz):
    q = np.array([[0, 1], [255, 255]], np.uint8)
    path = npz(q_all=q, scale=np.array([np.inf, 3e38]), offset=np.array([0.0, 1e-40]))
    with np.errstate(all="raise"):
        assert not np.isfinite(read_table(path).rows).all()


def test_python_objects_are_never_unpickled(npz, tmp_path):
    poison = np.array([{"a": 1}, None], dtype=object)
    np.save(tmp_path / "b.npy", poison)
    for path, rule in ((npz(x=X, y=poison), "never unpickled"), (tmp_path / "b.npy", r"b\.npy")):
        with pytest.raises(DataError, match=rule):
            read_table(path)


def test_safetensors_come_back_with_their_class_list(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"x": X, "who": np.array([3, 3, 1, 2, 1, 1])}, path, metadata={"classes": '["cat", "dog"]'})
    table = read_table(path, Columns(person="who"))
    assert (table.rows.tolist(), table.classes) == (X.tolist(), ("cat", "dog"))
    assert table.people.tolist() == [0, 0, 1, 2, 1, 1]


class Poison:
    def __reduce__(self):
        return (print, ("a pickle was run",))


def test_torch_files_hold_a_tensor_or_a_dict_and_run_no_code(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    told = {"x": torch.tensor(X).bfloat16(), "y": torch.tensor(Y), "classes": ["a", "b"]}
    for name, content in (("x.pt", torch.tensor(X)), ("d.pt", told), ("p.pt", {"x": Poison()})):
        torch.save(content, tmp_path / name)
    assert np.array_equal(read_table(tmp_path / "x.pt").rows, X)
    table = read_table(tmp_path / "d.pt")
    assert np.allclose(table.rows, X, atol=0.02)
    assert (table.labels.tolist(), table.classes) == (Y.tolist(), ("a", "b"))
    with pytest.raises(DataError, match="weights_only"):
        read_table(tmp_path / "p.pt")
    assert capsys.readouterr().out == ""
    torch.load(tmp_path / "p.pt", weights_only=False)  # the poison works where it is let in
    assert "a pickle was run" in capsys.readouterr().out


def test_unknown_missing_and_misshapen_files_are_refused(npz, tmp_path):
    (tmp_path / "a.mat").touch()
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "one.npy", X[0])
    npz("short.npz", x=X, y=Y[:3])
    npz("names.npz", foo=X)
    for name, message in (
        ("a.mat", "'.mat'"),
        ("folder", "none of"),
        ("nothing.npz", "must exist"),
        ("one.npy", "dimensions"),
        ("short.npz", "one label"),
        ("names.npz", "found foo"),
    ):
        with pytest.raises(DataError, match=message):
            read_table(tmp_path / name)


def test_archives_may_have_ids_of_people_and_labels_under_any_name(npz, npy):
    ids = np.array(WHO)
    path = npz(x=X, y=Y, dx=1 - Y, who=ids, on=ids == "a", part=ids[:3], square=np.stack([ids, ids]))
    assert read_table(path, Columns(person="who", label="dx")).people.tolist() == WHOSE
    assert read_table(path, Columns(label="dx")).labels.tolist() == (1 - Y).tolist()
    assert (read_table(path).people, read_table(path).labels.tolist()) == (None, Y.tolist())
    for name, rule in (
        ("nobody", "found dx, on"),
        ("on", "type bool"),
        ("part", "one entry"),
        ("square", "one entry"),
    ):
        with pytest.raises(DataError, match=rule):
            read_table(path, Columns(person=name))
    with pytest.raises(DataError, match="no columns"):
        read_table(npy, Columns(person="who"))
    path = npz("s.npz", x_train=X, x_test=X[:2], who_train=ids, who_test=ids[:2], one=ids)
    assert read_table(path, Columns(person="who", split="test")).people.tolist() == [0, 1]
    assert read_table(path, Columns(person="one", split="train")).people.tolist() == WHOSE


# --- private and public rows ---


def test_classes_are_never_inferred_from_private_labels(npz, emb):
    path = emb()
    for one in (npz(x=X, y=Y), path):
        with pytest.raises(DataError, match="must be declared"):
            read_private(one)
    assert read_private(path, classes=["a", "b", "c"]).facts.classes == ("a", "b", "c")


def test_labels_may_come_from_a_second_file(npz, npy, tmp_path):
    np.save(tmp_path / "y.npy", Y)
    assert read_private(npy, labels=tmp_path / "y.npy", **AB).labels.tolist() == Y.tolist()
    for read, rule in (
        (lambda: read_private(npy, **AB), "must have labels"),
        (lambda: read_private(npz(x=X, y=Y), labels=Y, **AB), "has its own"),
        (lambda: read_private(npy, labels=tmp_path / "y.csv", **AB), r"numpy\.save"),
    ):
        with pytest.raises(DataError, match=rule):
            read()


def test_public_rows_may_be_unlabelled_or_name_their_own_classes(npz, npy, emb):
    labelled = read_public(npz(x=X, y=["b", "a"] * 3))
    assert (labelled.classes, labelled.labels.tolist()) == (("a", "b"), [1, 0] * 3)
    assert read_public(npy).labels is None
    stored = read_public(emb(public=True, sources="abcdef"))
    assert (stored.sources, stored.fingerprint) == (tuple("abcdef"), read_public(npy).fingerprint)


def test_a_folder_that_is_not_public_and_its_copies_are_never_taken_for_public(emb, npy, tmp_path):
    path, shards = emb(**AB), emb("b.emb", how={"shard_rows": 4}, **AB)
    copies = [shutil.copytree(path, tmp_path / name) for name in ("pool.emb", "pool")]
    (tmp_path / "link.npy").symlink_to(path / "rows-00000.npy")
    files = [path / "rows-00000.npy", tmp_path / "link.npy", shards / "rows-00000.npy"]
    for one in (path, *copies, *files):
        for verify in (True, False):
            with pytest.raises(DataError, match="marked public"):
                read_public(one, verify=verify)
        assert len(read_public(one, private_too=True)) > 2  # its owner's, for a test without protection
    assert len(read_public(emb("c.emb", public=True) / "rows-00000.npy")) == 6
    for other in ("[1]", '{"public": false}', '{"format": "dptransfer-embeddings"', "{}"):  # of other tools
        (tmp_path / "manifest.json").write_text(other)
        assert len(read_public(npy)) == 6


@pytest.mark.parametrize(("public", "shard_rows"), [(False, None), (False, 3), (True, None)])
def test_digests_of_sources_come_from_the_folder(emb, public, shard_rows):
    digests = np.array([3, 0, 2**64 - 1, 7, 8, 9], dtype=np.uint64)
    path = emb(labels=Y, source_digests=digests, public=public, how={"shard_rows": shard_rows}, **AB)
    read = (read_public if public else read_private)(path)
    assert (read.source_digests.tolist(), read.source_digests.dtype) == (digests.tolist(), np.uint64)
    assert bool((path / "digests.npy").stat().st_mode & 0o077) == public
    for wrong in (digests[:3], digests.astype(np.int64)):
        with pytest.raises(DataError):
            emb("x.emb", source_digests=wrong)
    (path / "digests.npy").write_bytes((path / "labels.npy").read_bytes())
    with pytest.raises(DataError, match=r"digests\.npy"):
        read_private(path)


def test_rows_with_people_on_record_protect_persons_unless_that_is_declined(emb):
    path = emb(people=WHO, **AB)
    private = read_private(path, person_bound=2.0, rows_per_person=1.5)
    facts = private.facts
    assert private.people.tolist() == WHOSE
    assert (facts.unit, facts.person_bound, facts.rows_per_person) == (Unit.PERSON, 2.0, 1.5)
    alone = read_private(path, people=None)
    assert (alone.people, alone.facts.unit) == (None, Unit.ROW)
    assert alone.fingerprint == private.fingerprint  # one data set, one account
    with pytest.raises(ArgumentError, match="needs people"):
        read_private(path, people=None, person_bound=2.0)


def test_people_may_be_told_by_ids_a_file_folders_or_a_column(emb, npz, tmp_path):
    sources = ["cat/ann/1.png", "dog/ann/2.png", "dog/bob/3.png", "cat/4.png", "cat/bob/5.png", "dog/6.png"]
    path = emb(people=WHO, sources=sources, **AB)
    lines = ["path,person", *(f"{source},{place % 2}" for place, source in enumerate(sources))]
    (tmp_path / "who.csv").write_text("\n".join(lines))
    np.save(tmp_path / "who.npy", np.array([5, 5, 5, 6, 5, 5]))
    for people, found in (
        (list("xxxyxx"), [0, 0, 0, 1, 0, 0]),
        (tmp_path / "who.csv", [0, 1] * 3),
        (str(tmp_path / "who.npy"), [0, 0, 0, 1, 0, 0]),
        ("folder", [0, 0, 1, 2, 1, 3]),
    ):
        assert read_private(path, people=people).people.tolist() == found
    table = npz(x=X, y=Y, who=[7, 7, 8, 8, 7, 7])
    found = read_private(table, people="who", **AB)
    assert (found.people.tolist(), found.facts.unit) == ([0, 0, 1, 1, 0, 0], Unit.PERSON)
    assert read_private(table, **AB).facts.unit is Unit.ROW


@pytest.mark.parametrize(
    ("people", "rule"),
    [("who", "no columns"), ("folder", "not on record"), ("who.csv", "readable"), ([1, 2, 3], "one entry")],
)
def test_people_that_nothing_tells_are_refused(emb, people, rule):
    with pytest.raises(DataError, match=rule):
        read_private(emb(**AB), people=people)
