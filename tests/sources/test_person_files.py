"""People told by a file of its own, or by folders: matched by path, every example found, no id told."""

import numpy as np
import pytest

from dptransfer.data import Columns
from dptransfer.errors import DataError
from dptransfer.sources.listings import find_images, people_by_folder, people_in_file


@pytest.fixture
def csv(tmp_path):
    def written(*lines):
        (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
        return tmp_path / "people.csv"

    return written


def test_examples_are_found_by_path_however_it_is_written(csv, tmp_path, monkeypatch):
    lines = ["person,path", "ann,a/1.png", "bob,./b/../a/2.png", f"ann,{tmp_path}/root/b/3.png", ",zoo/9.png"]
    names = ("b/3.png", "a/1.png", "a/2.png")
    paths, root = [tmp_path / "root" / name for name in names], tmp_path / "root"
    assert people_in_file(csv(*lines), 3, paths=paths, root=root).tolist() == [0, 0, 1]
    monkeypatch.chdir(tmp_path)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for folder in ("root", "./root", root):
        assert find_images(folder, Columns(person=csv(*lines))).people.tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="elsewhere") as caught:  # or everybody would be a stranger
        people_in_file(csv(*lines), 3, paths=paths, root=tmp_path / "elsewhere")
    assert "ann" not in str(caught.value)


def test_examples_without_a_path_are_found_by_number_from_zero(csv):
    assert people_in_file(csv("example,person", "2,ann", " 0,bob", "1 , ann "), 3).tolist() == [0, 1, 1]
    assert people_in_file(csv("example,person", "0,", "1, ", "2", "3,ann"), 4).tolist() == [0, 1, 2, 3]


THREE = ("example,person", "0,secret", "1,secret", "2,secret")


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        (THREE[:3], "must be listed"),
        ((*THREE, "2,secret"), "listed twice"),
        ((*THREE, "3,secret"), "not be listed"),
        (("example,patient", "0,secret"), "the column 'person'"),
        (("path,person", "0,secret"), "example,label,person"),
        (("example,secret", "secret,1"), "in the column"),
        (("secret,person", "secret,1"), "in the column"),
    ],
)
def test_a_file_that_leaves_an_example_open_or_is_about_others_is_refused(csv, lines, rule):
    with pytest.raises(DataError, match=rule) as caught:
        people_in_file(csv(*lines), 3)
    assert "secret" not in str(caught.value)


def test_an_array_has_the_ids_in_order(tmp_path):
    np.save(tmp_path / "ids.npy", np.array(["b", "a", "b"]))
    assert people_in_file(tmp_path / "ids.npy", 3).tolist() == [0, 1, 0]
    for name, rule in (("ids.npy", "one entry"), ("none.npy", "readable"), ("none.csv", "readable")):
        with pytest.raises(DataError, match=rule):
            people_in_file(tmp_path / name, 4)


def test_the_folder_in_that_of_the_class_is_the_person(tmp_path):
    names = "cat/ann/1.png cat/ann/visit/2.png cat/3.png dog/ann/4.png dog/bob/5.png dog/6.png".split()
    assert people_by_folder(tmp_path, names).tolist() == [0, 0, 1, 0, 2, 3]
    with pytest.raises(DataError, match="class/person/picture"):
        people_by_folder(tmp_path, ["cat/3.png", "4.png"])
