import numpy as np
import pytest

from dptransfer.data import Columns, PublicEmbeddings, ShardedRows
from dptransfer.errors import DataError
from dptransfer.sources import read_private, read_public, read_table
from dptransfer.sources.contents import contents_of, shards_in

ROWS = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float16)
LABELS = ["cat", "dog", "dog"] * 8


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


def test_files_are_in_the_order_of_their_numbers(folder):
    assert [file.name for file in shards_in(folder)] == [f"img_emb_{number}.npy" for number in range(12)]
    table = read_table(folder)
    assert isinstance(table.rows, ShardedRows)
    assert (table.rows[:].tolist(), table.labels) == (ROWS.tolist(), None)
    assert contents_of(folder) == "rows"


def test_a_folder_is_the_pool_that_one_array_is(folder):
    assert read_public(folder).record == PublicEmbeddings(ROWS).record
    np.save(folder.parent / "labels.npy", np.array(LABELS))
    labelled = read_public(folder, labels=folder.parent / "labels.npy")
    assert (labelled.classes, labelled.labels.tolist()) == (("cat", "dog"), [0, 1, 1] * 8)
    private = read_private(folder, labels=LABELS, classes=["cat", "dog"], people=list(range(12)) * 2)
    assert private.rows[3:9].tolist() == ROWS[3:9].tolist()
    assert private.people.tolist() == list(range(12)) * 2


@pytest.mark.parametrize(
    ("spoil", "rule"),
    [
        (lambda f: np.save(f / "labels.npy", np.zeros(24)), r"labels\.npy': .*Move the file elsewhere"),
        (lambda f: (f / "a.parquet").touch(), r"one kind; this has \.npy and \.parquet"),
        (lambda f: (f / "a.PNG").touch(), r"one kind; this has \.npy and pictures"),
        (lambda f: np.save(f / "img_emb_3.npy", ROWS[:0]), r"img_emb_3\.npy': .*at least one row"),
        (lambda f: (f / "img_emb_3.npy").write_bytes(b""), r"img_emb_3\.npy': .*cut short"),
        (lambda f: [file.unlink() for file in f.iterdir()], "none of them"),
    ],
)
def test_a_folder_that_is_no_table_is_told_in_one_line(folder, spoil, rule):
    spoil(folder)
    with pytest.raises(DataError, match=rule) as caught:
        read_public(folder)
    assert "\n" not in str(caught.value)


def test_what_rows_alone_do_not_have_cannot_be_asked_for(folder):
    for asked, rule in (
        ({"features": "f*"}, "Leave the names of columns out"),
        ({"person": "who"}, "there are no columns"),
        ({"split": "train"}, "no splits"),
    ):
        with pytest.raises(DataError, match=rule):
            read_table(folder, Columns(**asked))


def test_a_folder_of_pictures_stays_one_whatever_lies_beside_them(tmp_path):
    (tmp_path / "photos" / "cat" / "ann").mkdir(parents=True)
    np.save(tmp_path / "photos" / "rows.npy", ROWS)
    assert contents_of(tmp_path / "photos") == "rows"
    (tmp_path / "photos" / "cat" / "ann" / "1.jpg").touch()
    assert contents_of(tmp_path / "photos") == "images"


def parquet(folder, number, rows, groups=3, **columns):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder.mkdir(exist_ok=True)
    lists = pa.array(rows.astype(np.float32).tolist(), type=pa.list_(pa.float32()))
    table = pa.table({"embedding": lists, **columns})
    pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=groups)


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
    assert read_public(folder).record == PublicEmbeddings(ROWS.astype(np.float32)).record
    ages = read_table(folder, Columns(features="age")).rows
    assert ages[4:21].tolist() == [[float(age)] for age in range(4, 21)]
    with pytest.raises(DataError, match="people must be in the column 'nobody'"):
        read_table(folder, Columns(person="nobody"))


def test_parquet_files_that_tell_different_things_are_refused(tmp_path):
    for place, second in enumerate(({}, {"label": [1]}, {"label": [None]})):
        folder = tmp_path / str(place)
        parquet(folder, 0, ROWS[:1], label=["cat"])
        parquet(folder, 1, ROWS[1:2], **second)
        with pytest.raises(DataError, match=r"part-1\.parquet': .*label"):
            read_table(folder)


def test_a_folder_of_parquet_files_without_rows_in_them_is_what_its_columns_say(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"text": ["a"], "label": [1]}), tmp_path / "a.parquet")
    assert contents_of(tmp_path) == "texts"
    assert contents_of(tmp_path, Columns(features="label")) == "rows"


def test_labels_of_any_name_and_names_of_features_are_those_of_all_files(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number in range(2):
        table = pa.table({"f2": [1.0, 2.0], "dx": [number, 1], "f1": [3.0, 4.0]})
        parquet.write_table(table, tmp_path / f"{number}.parquet")
    found = read_table(tmp_path, Columns(label="dx"))
    assert (found.columns, found.labels.tolist()) == (("f1", "f2"), [0, 1, 1, 1])
    assert found.rows[:].tolist() == [[3, 1], [4, 2]] * 2
    assert read_table(tmp_path, Columns(features=["f2", "f1"])).rows[:2].tolist() == [[1, 3], [2, 4]]
    parquet.write_table(pa.table({"f2": [1.0], "dx": [1], "f3": [3.0]}), tmp_path / "2.parquet")
    with pytest.raises(DataError, match="the same columns of features"):
        read_table(tmp_path, Columns(label="dx"))
