import pytest

from dptransfer.data import Columns
from dptransfer.errors import DataError
from dptransfer.sources import find_images
from dptransfer.sources.contents import contents_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

LISTS = pa.array([[0.5]], type=pa.list_(pa.float32()))


@pytest.mark.parametrize(
    ("columns", "form"),
    [
        ({"embedding": LISTS, "text": ["a"]}, "rows"),
        ({"image": [{"bytes": b"", "path": ""}], "text": ["a"], "label": [1]}, "images"),
        ({"text": ["a"], "age": [1]}, "texts"),
        ({"age": [1], "label": [1]}, "rows"),
    ],
)
def test_the_columns_of_a_table_tell_what_it_holds(tmp_path, columns, form):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert contents_of(tmp_path / "a.parquet") == form
    assert contents_of(tmp_path / "a.parquet", Columns(features="a*")) == "rows"


@pytest.mark.parametrize(
    ("header", "form"),
    [("path,label", "images"), ("text,path", "images"), ("note,text", "texts"), ("a,b", "rows")],
)
def test_the_first_line_of_a_csv_tells_what_it_holds(tmp_path, header, form):
    (tmp_path / "a.csv").write_text(f"{header}\n1,2\n")
    assert contents_of(tmp_path / "a.csv") == form
    named = "texts" if "note" in header else form
    assert contents_of(tmp_path / "a.csv", Columns(text="note")) == named


def test_a_column_of_paths_may_have_any_name(tmp_path):
    (tmp_path / "a.csv").write_text("photo;label\n1;2\n")
    assert contents_of(tmp_path / "a.csv") == "rows"
    assert contents_of(tmp_path / "a.csv", Columns(path="photo")) == "images"
    assert contents_of(tmp_path / "a.csv", Columns(path="other")) == "rows"
    assert contents_of(tmp_path / "a.csv", Columns(path="photo", features="p*")) == "rows"


@pytest.mark.parametrize("name", ["rows.mat", "rows.h5", "photos.heic", "rows", "notes.md", "a.xlsx"])
def test_a_file_of_an_unknown_type_is_refused_with_the_types_there_are(tmp_path, name):
    (tmp_path / name).touch()
    for door in (contents_of, find_images):
        with pytest.raises(DataError) as refusal:
            door(tmp_path / name)
        for known in ("rows .emb .npy .npz", "images", ".zip", "texts .txt"):
            assert known in str(refusal.value)


def test_a_folder_may_be_called_anything(tmp_path):
    (tmp_path / "photos.2024").mkdir()
    assert contents_of(tmp_path / "photos.2024") == "images"


def test_names_tell_the_rest(tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "manifest.json").touch()
    for name, form in (
        ("rows", "rows"),
        ("a.emb", "rows"),
        ("a.npz", "rows"),
        ("missing.parquet", "rows"),
        ("missing.csv", "images"),
        ("notes.txt", "texts"),
        ("photos.zip", "images"),
        ("photos.zip/train", "images"),
        (".", "images"),
    ):
        assert contents_of(tmp_path / name) == form
