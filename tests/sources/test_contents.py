import numpy as np
import pytest

from dptransfer.data import Columns, PublicEmbeddings, ShardedRows
from dptransfer.errors import DataError
from dptransfer.sources import find_images, read_private, read_public, read_table
from dptransfer.sources.readers import contents_of, shards_in

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

LISTS = pa.array([[0.5]], type=pa.list_(pa.float32()))
ROWS = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float16)
LABELS = ["cat", "dog", "dog"] * 8


@pytest.mark.parametrize(
    ("columns", "form"),
    [
        ({"embedding": LISTS, "text": ["a"]}, "rows"),
        ({"image": [{"bytes": b"", "path": ""}], "text": ["a"], "label": [1]}, "images"),
        ({"text": ["a"], "age": [1]}, "texts"),
        ({"age": [1], "label": [1]}, "rows"),
    ],
)
def test_the_columns_of_a_table_or_of_a_folder_of_tables_tell_what_it_holds(tmp_path, columns, form):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    for path in (tmp_path, tmp_path / "a.parquet"):
        assert contents_of(path) == form
        assert contents_of(path, Columns(features="a*")) == "rows"


@pytest.mark.parametrize(
    ("header", "columns", "form"),
    [
        ("path,label", Columns(), "images"),
        ("text,path", Columns(text="text"), "texts"),
        ("note,path", Columns(text="note"), "texts"),
        ("a,b", Columns(text="note"), "rows"),
        ("photo;label", Columns(path="photo"), "images"),
        ("photo;label", Columns(path="photo", features="p*"), "rows"),
    ],
)
def test_the_first_line_of_a_csv_tells_what_it_holds(tmp_path, header, columns, form):
    (tmp_path / "a.csv").write_text(f"{header}\n1,2\n")
    assert contents_of(tmp_path / "a.csv", columns) == form


@pytest.mark.parametrize("name", ["rows.mat", "rows"])
def test_a_file_of_an_unknown_type_is_refused_with_the_types_there_are(tmp_path, name):
    (tmp_path / name).touch()
    for door in (contents_of, find_images):
        with pytest.raises(DataError) as refusal:
            door(tmp_path / name)
        assert all(one in str(refusal.value) for one in (".emb .npy .npz", "images", ".zip", ".txt"))


def test_names_tell_the_rest(tmp_path):
    (tmp_path / "photos.2024").mkdir()  # a folder may be called anything
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "manifest.json").touch()
    for names, form in (
        (("rows", "a.emb", "a.npz", "missing.parquet"), "rows"),
        (("missing.csv", "photos.zip", "photos.zip/train", ".", "photos.2024"), "images"),
        (("notes.txt",), "texts"),
    ):
        assert {contents_of(tmp_path / name) for name in names} == {form}


# --- rows in many files ---


@pytest.fixture
def folder(tmp_path):
    """Twelve files, as embedding tools number them, with a list of names and a hidden file."""
    made = tmp_path / "img_emb"
    made.mkdir()
    for number, part in enumerate(np.split(ROWS, 12)):
        np.save(made / f"img_emb_{number}.npy", part)
    (made / "names.json").write_text("[]")
    (made / "._img_emb_0.npy").write_bytes(b"")
    return made


def test_a_folder_is_the_table_that_one_array_is_in_the_order_of_its_numbers(folder, tmp_path):
    assert [file.name for file in shards_in(folder)] == [f"img_emb_{number}.npy" for number in range(12)]
    table = read_table(folder)
    assert isinstance(table.rows, ShardedRows)
    assert (table.rows[:].tolist(), table.labels, contents_of(folder)) == (ROWS.tolist(), None, "rows")
    assert read_public(folder).record == PublicEmbeddings(ROWS).record
    np.save(tmp_path / "labels.npy", np.array(LABELS))
    people = list(range(12)) * 2
    told = {"labels": tmp_path / "labels.npy", "classes": ["cat", "dog"], "people": people}
    private = read_private(folder, **told)
    assert private.labels.tolist() == [int(one == "dog") for one in LABELS]
    assert private.people.tolist() == people


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lambda f: np.save(f / "labels.npy", np.zeros(24)), r"labels\.npy"),
        (lambda f: (f / "a.parquet").touch(), r"\.npy and \.parquet"),
        (lambda f: (f / "a.PNG").touch(), r"\.npy and pictures"),
        (lambda f: np.save(f / "img_emb_3.npy", ROWS[:0]), r"img_emb_3\.npy': .*one row"),
        (lambda f: [file.unlink() for file in f.iterdir()], "none of them"),
    ],
)
def test_a_folder_that_is_no_table_is_told_in_one_line(folder, spoil, rule):
    spoil(folder)
    with pytest.raises(DataError, match=rule) as caught:
        read_public(folder)
    assert "\n" not in str(caught.value)


def test_a_folder_of_pictures_stays_one_whatever_lies_beside_them(tmp_path):
    (tmp_path / "photos" / "cat" / "ann").mkdir(parents=True)
    np.save(tmp_path / "photos" / "rows.npy", ROWS)
    assert contents_of(tmp_path / "photos") == "rows"
    (tmp_path / "photos" / "cat" / "ann" / "1.jpg").touch()
    assert contents_of(tmp_path / "photos") == "images"


def parquet(folder, number, rows, **columns):
    folder.mkdir(exist_ok=True)
    lists = pa.array(rows.astype(np.float32).tolist(), type=pa.list_(pa.float32()))
    table = pa.table({"embedding": lists, **columns})
    pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=3)


@pytest.mark.parametrize("name", ["parts", "parts.parquet"])
def test_a_folder_of_parquet_files_brings_labels_and_people(tmp_path, name):
    folder = tmp_path / name
    for number, part in enumerate(np.split(np.arange(24), [1, 5, 20])):
        own = {"label": [LABELS[row] for row in part], "who": [f"p{row % 5}" for row in part], "age": part}
        parquet(folder, number, ROWS[part], **own)
    (folder / "_SUCCESS").touch()
    assert contents_of(folder) == "rows"
    table = read_table(folder, Columns(person="who"))
    assert isinstance(table.rows, ShardedRows)
    assert table.rows[:].tolist() == ROWS.astype(np.float32).tolist()
    assert (table.labels.tolist(), table.classes) == (LABELS, None)
    private = read_private(folder, classes=["cat", "dog"], people="who")
    assert private.people.tolist() == [row % 5 for row in range(24)]
    assert (
        read_public(folder).record
        == PublicEmbeddings(ROWS.astype(np.float32), LABELS, classes=["cat", "dog"]).record
    )
    ages = read_table(folder, Columns(features="age")).rows
    assert ages[4:21].tolist() == [[float(age)] for age in range(4, 21)]
    with pytest.raises(DataError, match="column 'nobody'"):
        read_table(folder, Columns(person="nobody"))


@pytest.mark.parametrize("second", [{}, {"label": [1]}, {"label": [None]}])
def test_parquet_files_that_tell_different_things_are_refused(tmp_path, second):
    parquet(tmp_path, 0, ROWS[:1], label=["cat"])
    parquet(tmp_path, 1, ROWS[1:2], **second)
    with pytest.raises(DataError, match=r"part-1\.parquet': .*label"):
        read_table(tmp_path)


def test_labels_of_any_name_and_names_of_features_are_those_of_all_files(tmp_path):
    for number in range(2):
        table = pa.table({"f2": [1.0, 2.0], "dx": [number, 1], "f1": [3.0, 4.0]})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    found = read_table(tmp_path, Columns(label="dx"))
    assert (found.columns, found.labels.tolist()) == (("f1", "f2"), [0, 1, 1, 1])
    assert found.rows[:].tolist() == [[3, 1], [4, 2]] * 2
    assert read_table(tmp_path, Columns(features=["f2", "f1"])).rows[:2].tolist() == [[1, 3], [2, 4]]
    pq.write_table(pa.table({"f2": [1.0], "dx": [1], "f3": [3.0]}), tmp_path / "2.parquet")
    with pytest.raises(DataError, match="the same columns"):
        read_table(tmp_path, Columns(label="dx"))
