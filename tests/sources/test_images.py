import gc
import io

import numpy as np
import pytest
from PIL import Image

from dptransfer.data import Columns
from dptransfer.data.table_files import picture_column
from dptransfer.errors import DataError
from dptransfer.sources import find_images, find_texts, open_image

CAT_DOG = {"classes": ["cat", "dog"]}


def picture(path, colour=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (colour, 0, 0)).save(path)


@pytest.fixture
def zoo(tmp_path):
    for name in ("dog/2.png", "dog/1.jpg", "cat/deep/3.PNG", "dog/.hidden.png", "__MACOSX/x.png"):
        picture(tmp_path / "zoo" / name)
    (tmp_path / "zoo" / "eel").mkdir()
    (tmp_path / "zoo" / "dog" / "notes.txt").touch()
    (tmp_path / "zoo" / "README.md").touch()
    return tmp_path / "zoo"


@pytest.fixture
def csv(zoo):
    def written(text):
        (zoo / "list.csv").write_text(text)
        return zoo / "list.csv"

    return written


def test_sub_folders_declare_the_classes_the_empty_one_included(zoo):
    found = find_images(zoo)
    assert found.classes == ("cat", "dog", "eel")
    assert found.sources() == ("cat/deep/3.PNG", "dog/1.jpg", "dog/2.png")
    assert found.labels.tolist() == [0, 1, 1]
    assert repr(found) == "ImageList(3 declared classes)"
    assert find_images(zoo, classes=["fox", "dog", "cat"]).labels.tolist() == [2, 1, 1]  # more, not fewer
    with pytest.raises(DataError, match="declared classes") as caught:
        find_images(zoo, classes=["dog", "eel"])
    assert "cat" not in str(caught.value)


def test_a_flat_folder_a_file_and_a_list_are_unlabelled(zoo):
    assert find_images(zoo / "dog").sources() == ("1.jpg", "2.png")
    assert find_images(zoo / "dog").labels is None
    assert find_images(zoo / "dog" / "2.png").sources() == ("2.png",)
    assert len(find_images([zoo / "dog" / "2.png", "elsewhere.png"])) == 2


def test_folders_that_cannot_be_read_as_a_data_set_are_refused(zoo, tmp_path):
    for name in ("set/train/cat/1.png", "set/test/cat/1.png", "flat/train/1.png", "zoo/loose.png"):
        picture(tmp_path / name)
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    for name, message in (
        ("set", "look like splits"),
        ("empty", "known type"),
        ("zoo", "beside class folders"),
        ("nothing", "must exist"),
        ("notes.txt", "images come as"),
    ):
        with pytest.raises(DataError, match=message):
            find_images(tmp_path / name)
    assert find_images(tmp_path / "flat").classes == ("train",)


def test_a_csv_lists_paths_beside_it(csv, zoo):
    path = csv("path,label\ndog/1.jpg,dog\ncat/deep/3.PNG,cat\n")
    found = find_images(path, **CAT_DOG)
    assert found.paths[0] == zoo / "dog" / "1.jpg"
    assert found.labels.tolist() == [1, 0]
    unlabelled = find_images(path, labelled=False)
    assert (len(unlabelled), unlabelled.labels, unlabelled.classes) == (2, None, None)
    for classes, rule in ((None, "never inferred"), (["cat", "eel"], "at least one")):
        with pytest.raises(DataError, match=rule):
            find_images(path, classes=classes)
    path = csv("label,path\n7,dog/1.jpg\n3,cat/deep/3.PNG\n")
    assert find_images(path, classes=[3, 7]).labels.tolist() == [1, 0]
    assert find_images(csv("\ufeffpath\ndog/1.jpg\n")).labels is None


@pytest.mark.parametrize(
    ("text", "message"),
    [("file,label\na,b\n", "column 'path'"), ("text,label\nhello,dog\n", "encoder of texts")],
)
def test_a_csv_that_breaks_the_rules_says_which(csv, text, message):
    with pytest.raises(DataError, match=message):
        find_images(csv(text), classes=["a", "b"])


def test_a_folder_for_each_person_in_each_class(tmp_path):
    names = ("cat/ann/1.png", "cat/bob/1.png", "dog/9.png", "dog/ann/1.png", "dog/ann/deep/2.png")
    for name in names:
        picture(tmp_path / name)
    found = find_images(tmp_path, Columns(person="folder"))
    assert (found.sources(), found.people.tolist()) == (names, [0, 1, 2, 0, 0])
    assert find_images(tmp_path).people is None
    assert "ann" not in repr(found)


def test_people_of_images_come_from_a_column_or_a_file(zoo, csv, tmp_path):
    path = csv("path,label,who,folder\ndog/1.jpg,dog,7,x\ndog/2.png,dog,8,x\ncat/deep/3.PNG,cat,7,")
    assert find_images(path, Columns(person="who"), **CAT_DOG).people.tolist() == [0, 1, 0]
    assert find_images(path, Columns(person="folder"), labelled=False).people.tolist() == [0, 0, 1]
    path.unlink()
    people = tmp_path / "people.csv"
    people.write_text("path,person\ndog/2.png,ann\ndog/1.jpg,bob\ncat/deep/3.PNG,ann\n")
    assert find_images(zoo, Columns(person=people)).people.tolist() == [0, 1, 0]
    paths = find_images(zoo).paths  # a list has no root, so the paths in the file are whole
    lines = [f"{path},{path.parent.name}" for path in reversed(paths)]
    people.write_text("\n".join(["path,person", *lines]))
    assert find_images(paths, Columns(person=people)).people.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("source", "person", "rule"),
    [
        ("zoo", "who", "got 'who'"),
        ("zoo/dog", "folder", "class/person/picture"),
        ("list.csv", "who", "the column 'who'"),
        ("zoo", "none.csv", "must be readable"),
    ],
)
def test_people_that_nothing_tells_are_refused(zoo, tmp_path, source, person, rule):
    (tmp_path / "list.csv").write_text("path,label\nzoo/dog/1.jpg,dog\n")
    with pytest.raises(DataError, match=rule):
        find_images(tmp_path / source, Columns(person=person), **CAT_DOG)


# --- pictures in tables ---


def content(level):
    stream = io.BytesIO()
    Image.new("RGB", (2, 2), (level, 0, 0)).save(stream, "PNG")
    return stream.getvalue()


def test_structs_of_bytes_and_path_are_pictures(parquet, place):
    cells = [{"bytes": content(9), "path": "ann.PNG"}, {"bytes": None, "path": "x/b.jpg"}, None]
    path = parquet(photo=cells, label=["b", "a", "b"], who=["p", "q", "p"])
    found = find_images(path, Columns(person="who"), classes=["a", "b"])
    assert found.sources() == ("00000000.png", "00000001.jpg", "00000002")
    assert (found.labels.tolist(), found.people.tolist()) == ([1, 0, 1], [0, 1, 0])
    assert np.asarray(open_image(found.paths[0])).max() == 9
    assert [file.stat().st_size for file in found.paths[1:]] == [0, 0]
    assert found.paths[0].stat().st_mtime_ns == path.stat().st_mtime_ns
    with pytest.raises(DataError, match="never inferred"):
        find_images(path)
    assert find_images(path, labelled=False).labelled is None
    del found
    gc.collect()
    assert list(place.iterdir()) == []


def test_bytes_under_a_usual_name_are_pictures_and_others_are_not(parquet):
    import pyarrow as pa

    assert len(find_images(parquet(image=[content(1), content(2)]))) == 2
    assert picture_column(pa.schema({"code": pa.binary(), "n": pa.int64()})) is None
    with pytest.raises(DataError, match="found code"):
        find_images(parquet(code=[b"1"], text=["a"]))


def test_a_hugging_face_data_set_brings_pictures_or_texts_labels_and_class_names(tmp_path, place):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        image=datasets.Image(), text=datasets.Value("string"), label=datasets.ClassLabel(names=["cat", "dog"])
    )
    levels = [10, 20, 30]
    images = [Image.new("RGB", (2, 2), (one, 0, 0)) for one in levels]
    columns = {"image": images, "text": ["hi", "so", "bye"], "label": [1, 0, 1]}
    made = datasets.Dataset.from_dict(columns, features=features)
    made.save_to_disk(tmp_path / "one")
    made.to_parquet(tmp_path / "one.parquet")
    datasets.DatasetDict(train=made, test=made.select([2])).save_to_disk(tmp_path / "two")
    for name in ("one", "one.parquet", "two/train"):
        found = find_images(tmp_path / name)
        assert (found.classes, found.labels.tolist()) == (("cat", "dog"), [1, 0, 1])
        assert [np.asarray(open_image(path)).max() for path in found.paths] == levels
    assert find_images(tmp_path / "one", classes=["dog", "cat", "eel"]).labels.tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="two/train"):
        find_images(tmp_path / "two")
    texts = find_texts(tmp_path / "one")
    assert (texts.texts, texts.labels.tolist()) == (("hi", "so", "bye"), [1, 0, 1])
    made.map(lambda one: {"label": -1}).save_to_disk(tmp_path / "none")
    with pytest.raises(DataError, match="at least one"):
        find_texts(tmp_path / "none")
