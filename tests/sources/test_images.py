import numpy as np
import pytest
from PIL import Image

from dptransfer.data import Columns, Labelled
from dptransfer.errors import DataError
from dptransfer.sources import ImageList, find_images


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


def test_sub_folders_declare_the_classes_the_empty_one_included(zoo):
    found = find_images(zoo)
    assert found.classes == ("cat", "dog", "eel")
    assert found.sources() == ("cat/deep/3.PNG", "dog/1.jpg", "dog/2.png")
    assert found.labels.tolist() == [0, 1, 1]
    assert repr(found) == "ImageList(3 declared classes)"


def test_more_classes_may_be_declared_but_not_fewer(zoo):
    assert find_images(zoo, classes=["fox", "dog", "cat"]).labels.tolist() == [2, 1, 1]
    with pytest.raises(DataError, match="at least one is not") as caught:
        find_images(zoo, classes=["dog", "eel"])
    assert "cat" not in str(caught.value)


def test_a_flat_folder_a_file_and_a_list_are_unlabelled(zoo):
    assert find_images(zoo / "dog").sources() == ("1.jpg", "2.png")
    assert find_images(zoo / "dog").labels is None
    assert find_images(zoo / "dog" / "2.png").sources() == ("2.png",)
    assert len(find_images([zoo / "dog" / "2.png", "elsewhere.png"])) == 2


def test_folders_of_splits_are_not_taken_for_classes(zoo, tmp_path):
    picture(tmp_path / "set" / "train" / "cat" / "1.png")
    picture(tmp_path / "set" / "test" / "cat" / "1.png")
    with pytest.raises(DataError, match="look like splits"):
        find_images(tmp_path / "set")
    picture(tmp_path / "flat" / "train" / "1.png")
    assert find_images(tmp_path / "flat").classes == ("train",)


def test_folders_that_cannot_be_read_as_a_data_set_are_refused(zoo, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()
    picture(zoo / "loose.png")
    for path, message in (
        (tmp_path / "empty", "no file of a known type"),
        (zoo, "beside class folders"),
        (tmp_path / "nothing", "must exist"),
        (tmp_path / "notes.txt", "images come as"),
    ):
        with pytest.raises(DataError, match=message):
            find_images(path)


def test_a_csv_lists_paths_beside_it(zoo):
    (zoo / "list.csv").write_text("path,label\ndog/1.jpg,dog\ncat/deep/3.PNG,cat\n")
    found = find_images(zoo / "list.csv", classes=["cat", "dog"])
    assert found.paths[0] == zoo / "dog" / "1.jpg"
    assert found.labels.tolist() == [1, 0]
    with pytest.raises(DataError, match="never inferred"):
        find_images(zoo / "list.csv")
    with pytest.raises(DataError, match="at least one is not"):
        find_images(zoo / "list.csv", classes=["cat", "eel"])


def test_a_csv_of_texts_is_recognised_as_such(zoo):
    (zoo / "notes.csv").write_text("text,label\nhello,dog\n")
    with pytest.raises(DataError, match="for texts choose an encoder of texts"):
        find_images(zoo / "notes.csv")


def test_the_labels_of_a_csv_may_be_passed_over(zoo):
    (zoo / "list.csv").write_text("path,label\ndog/1.jpg,whatever\n")
    found = find_images(zoo / "list.csv", labelled=False)
    assert (len(found), found.labels, found.classes) == (1, None, None)


def test_a_csv_may_number_its_classes_or_leave_them_out(zoo):
    (zoo / "a.csv").write_text("label,path\n7,dog/1.jpg\n3,cat/deep/3.PNG\n")
    assert find_images(zoo / "a.csv", classes=[3, 7]).labels.tolist() == [1, 0]
    (zoo / "b.csv").write_text("\ufeffpath\ndog/1.jpg\n")
    assert find_images(zoo / "b.csv").labels is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,label\na,b\n", "column 'path'"),
        ("", "column 'path'"),
        ("path,label\n", "no examples"),
        ("path,label\na.png\n", "every column"),
        ('path\n"a', "CSV in UTF-8"),
    ],
)
def test_a_csv_that_breaks_the_rules_says_which(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        find_images(tmp_path / "a.csv", classes=["a", "b"])


def test_there_is_one_label_per_image():
    with pytest.raises(DataError, match="one label per image"):
        ImageList((), Labelled(np.zeros(1, np.int64), ("a", "b")))


def test_a_folder_for_each_person_in_each_class(tmp_path):
    for name in ("cat/ann/1.png", "cat/bob/1.png", "dog/ann/1.png", "dog/ann/deep/2.png", "dog/9.png"):
        picture(tmp_path / name)
    found = find_images(tmp_path, Columns(person="folder"))
    assert found.sources() == (
        "cat/ann/1.png",
        "cat/bob/1.png",
        "dog/9.png",
        "dog/ann/1.png",
        "dog/ann/deep/2.png",
    )
    assert found.people.tolist() == [0, 1, 2, 0, 0]
    assert find_images(tmp_path).people is None
    assert "ann" not in repr(found)


def test_people_of_images_come_from_a_column_or_a_file(zoo, tmp_path):
    (zoo / "list.csv").write_text(
        "path,label,who,folder\ndog/1.jpg,dog,7,x\ndog/2.png,dog,8,x\ncat/deep/3.PNG,cat,7,"
    )
    listed = find_images(zoo / "list.csv", Columns(person="who"), classes=["cat", "dog"])
    assert listed.people.tolist() == [0, 1, 0]
    by_column = find_images(zoo / "list.csv", Columns(person="folder"), labelled=False)
    assert by_column.people.tolist() == [0, 0, 1]
    (zoo / "list.csv").rename(tmp_path / "list.csv")
    (tmp_path / "people.csv").write_text("path,person\ndog/2.png,ann\ndog/1.jpg,bob\ncat/deep/3.PNG,ann\n")
    assert find_images(zoo, Columns(person=tmp_path / "people.csv")).people.tolist() == [0, 1, 0]
    paths = find_images(zoo).paths  # a list has no root, so the paths in the file are whole
    lines = [f"{path},{path.parent.name}" for path in reversed(paths)]
    (tmp_path / "people.csv").write_text("\n".join(["path,person", *lines]))
    assert find_images(paths, Columns(person=tmp_path / "people.csv")).people.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("source", "person", "rule"),
    [
        ("zoo", "who", "got 'who'"),
        ("zoo/dog", "folder", "class/person/picture"),
        ("zoo/dog/2.png", "folder", "class/person/picture"),
        ("list.csv", "who", "the column 'who'"),
        ("list.csv", "folder", "the column 'folder'"),
        ("zoo", "none.csv", "must be readable"),
    ],
)
def test_people_that_nothing_tells_are_refused(zoo, tmp_path, source, person, rule):
    (tmp_path / "list.csv").write_text("path,label\nzoo/dog/1.jpg,dog\n")
    with pytest.raises(DataError, match=rule):
        find_images(tmp_path / source, Columns(person=person), classes=["cat", "dog"])


def test_a_list_with_people_needs_one_for_each_file():
    with pytest.raises(DataError, match="one person per image or text"):
        ImageList(("a.png",), people=np.zeros(2, dtype=np.int64))
