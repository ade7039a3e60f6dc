"""Sets in every form that a fit takes, with labels and people as a fit would find them."""

import shutil

import numpy as np
import pytest
from PIL import Image

from contracts.dicom_files import dicom
from dptransfer.api.checked_examples import UNKNOWN, read_examples
from dptransfer.api.source import Source
from dptransfer.data import Columns, RowMetadata, write_embeddings
from dptransfer.errors import ArgumentError, DataError


def test_a_folder_per_class(photos):
    found = read_examples(Source(photos / "private"), "private")
    assert (found.kind, found.count, found.classes) == ("images", 60, ("cat", "dog"))
    assert found.positions.tolist() == [0] * 30 + [1] * 30
    assert found.name(31) == "dog/01.png"
    assert repr(found) == "Examples(private images)"


def test_a_folder_that_is_no_declared_class_is_read_and_not_refused(photos):
    found = read_examples(Source(photos / "private", classes=["cat", "bird"]), "private")
    assert set(found.positions.tolist()) == {0, UNKNOWN}
    assert found.labels[-1] == "dog"


def test_people_by_folder_have_ids(photos):
    (photos / "private/cat/ann").mkdir()
    (photos / "private/cat/00.png").rename(photos / "private/cat/ann/00.png")
    found = read_examples(Source(photos / "private", people="folder"), "private")
    assert sorted(str(one) for one in set(found.ids)) == ["None", "ann"]
    assert len(set(found.people.tolist())) == 60


def test_an_archive_of_folders(photos):
    archive = shutil.make_archive(str(photos / "all"), "zip", photos, "private")
    found = read_examples(Source(f"{archive}/private"), "private")
    assert (found.count, found.classes) == (60, ("cat", "dog"))
    with Image.open(found.images[0]) as opened:
        assert opened.size == (12, 12)


def test_a_csv_of_pictures_whose_classes_are_numbers(photos):
    lines = [f"private/cat/{n:02}.png, {n % 2} ,p{n // 2}" for n in range(4)]
    (photos / "list.csv").write_text("\n".join(["path,label,who", *lines, "private/cat/04.png,7,"]) + "\n")
    found = read_examples(Source(photos / "list.csv", classes=[0, 1], people="who"), "private")
    assert found.positions.tolist() == [0, 1, 0, 1, UNKNOWN]
    assert found.ids == ["p0", "p0", "p1", "p1", ""]
    assert found.people.tolist() == [0, 0, 1, 1, 2]


def test_a_table_with_a_column_per_feature(tmp_path):
    (tmp_path / "a.csv").write_text("f0,f1,label,who\n1,2,0,ann\n3,4,1.0,bob\n")
    found = read_examples(Source(tmp_path / "a.csv", classes=[0, 1], people="who"), "private")
    assert (found.kind, found.rows.tolist()) == ("rows", [[1, 2], [3, 4]])
    assert (found.positions.tolist(), found.ids) == ([0, 1], ["ann", "bob"])


def test_parquet_of_rows_and_of_texts(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    who = ["ann", None]
    parquet.write_table(
        pa.table({"x": [[1.0], [2.0]], "label": ["a", "b"], "who": who}), tmp_path / "r.parquet"
    )
    parquet.write_table(
        pa.table({"text": ["one", "two"], "label": ["a", "c"], "who": who}), tmp_path / "t.parquet"
    )
    rows = read_examples(Source(tmp_path / "r.parquet", classes=["a", "b"], people="who"), "private")
    texts = read_examples(Source(tmp_path / "t.parquet", classes=["a", "b"], people="who"), "private")
    assert (rows.kind, rows.ids, rows.positions.tolist()) == ("rows", who, [0, 1])
    assert (texts.kind, texts.ids, texts.positions.tolist()) == ("texts", who, [0, UNKNOWN])


def test_parquet_of_pictures(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import io

    import pyarrow.parquet as parquet

    stream = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(stream, "PNG")
    cells = [{"bytes": stream.getvalue(), "path": f"{n}.png"} for n in range(2)]
    parquet.write_table(pa.table({"image": cells, "label": ["a", "x"]}), tmp_path / "p.parquet")
    found = read_examples(Source(tmp_path / "p.parquet", classes=["a", "b"]), "private")
    assert (found.kind, found.positions.tolist()) == ("images", [0, UNKNOWN])


def test_a_store_tells_people_by_numbers_that_no_other_file_shares(tmp_path):
    write_embeddings(
        tmp_path / "a.emb",
        np.ones((2, 3)),
        RowMetadata(["x", "y"], classes=["x", "y"], people=["ann", "bob"], sources="ab"),
    )
    found = read_examples(Source(tmp_path / "a.emb"), "private")
    assert (found.labels, found.people.tolist(), found.ids) == (["x", "y"], [0, 1], None)
    assert found.name(1) == "b"
    assert read_examples(Source(tmp_path / "a.emb", people="none"), "private").people is None
    renamed = read_examples(Source(tmp_path / "a.emb", classes=["y", "z"]), "private")
    assert renamed.positions.tolist() == [UNKNOWN, 0]


@pytest.mark.parametrize("labels", [[0, 1, 5, -1], [0.0, 1.0, 0.5, np.nan], ["a", "b", "A", ""]])
def test_labels_are_found_as_a_fit_finds_them(tmp_path, labels):
    np.savez(tmp_path / "a.npz", x=np.ones((4, 2)), y=np.array(labels))
    found = read_examples(Source(tmp_path / "a.npz", classes=["a", "b"]), "private")
    assert found.positions.tolist() == [0, 1, UNKNOWN, UNKNOWN]


def test_people_may_be_given_as_they_are_or_in_a_file(tables):
    ids = ["ann"] * 40 + ["bob"] * 40
    given = read_examples(Source(tables / "private.npz", people=ids), "private")
    np.save(tables / "ids.npy", np.array(ids))
    in_file = read_examples(Source(tables / "private.npz", people=str(tables / "ids.npy")), "private")
    assert given.people.tolist() == in_file.people.tolist() == [0] * 40 + [1] * 40
    assert (given.ids, in_file.ids) == (ids, None)


def test_parts_of_an_archive_have_their_own_people(tmp_path):
    parts = {f"x_{part}": np.ones((2, 3)) for part in ("train", "test")}
    np.savez(tmp_path / "a.npz", **parts, who_train=["a", "b"], who_test=["c", "d"])
    assert read_examples(
        Source(tmp_path / "a.npz", people="who", columns=Columns(split="test")), "test"
    ).ids == ["c", "d"]


def test_labels_that_are_not_one_each_are_an_error(tables):
    np.save(tables / "rows.npy", np.ones((3, 2)))
    with pytest.raises(DataError, match="one for each row"):
        read_examples(Source(tables / "rows.npy", y=[1, 2]), "private")
    with pytest.raises(DataError, match="has its own"):
        read_examples(Source(tables / "private.npz", y=[1] * 80), "private")


def test_examples_in_memory_are_read_as_a_fit_takes_them(whole_photos):
    rows = read_examples(
        Source(np.ones((2, 3)), ["cat", "cow"], ["cat", "dog"], people=["ann", "bob"]), "private"
    )
    assert (rows.kind, rows.labels, rows.positions.tolist()) == ("rows", ["cat", "cow"], [0, -1])
    assert (rows.people.tolist(), rows.ids) == ([0, 1], ["ann", "bob"])
    assert read_examples(Source(["a note", "another"]), "public").texts == ("a note", "another")
    files = sorted(whole_photos.rglob("*.png"))
    assert read_examples(Source(files), "test").images == tuple(files)
    with pytest.raises(ArgumentError, match="files"):
        read_examples(Source(np.zeros((2, 4, 4, 3), np.uint8)), "private")


def test_a_column_of_texts_that_is_not_there_is_an_error(tables):
    with pytest.raises(ArgumentError, match="without texts in 'note'"):
        read_examples(Source(tables / "private.npz", columns=Columns(text="note")), "private")


def test_people_by_dicom_have_ids(tmp_path):
    pytest.importorskip("pydicom")
    samples = np.random.default_rng(0).integers(0, 256, (4, 4)).astype(np.uint8)
    (tmp_path / "cat").mkdir()
    dicom(tmp_path / "cat" / "1.dcm", samples, PatientID="ann")
    dicom(tmp_path / "cat" / "2.dcm", samples)
    found = read_examples(Source(tmp_path, people="dicom"), "private")
    assert (found.ids, found.people.tolist()) == (["ann", None], [0, 1])
