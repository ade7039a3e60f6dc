"""People told by a file of its own, or by folders: matched by path, every example found, no id told."""

import numpy as np
import pytest

from dptransfer.data import Columns
from dptransfer.data.columns import is_person_file
from dptransfer.errors import DataError
from dptransfer.sources.images import find_images
from dptransfer.sources.person_files import people_by_folder, people_in_file


@pytest.fixture
def csv(tmp_path):
    def written(*lines):
        (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
        return tmp_path / "people.csv"

    return written


def test_a_file_is_told_from_a_column_by_its_ending(tmp_path):
    assert [
        is_person_file(one) for one in ("a.csv", tmp_path / "A.NPY", "patient", "folder", None, ["a.csv"])
    ] == [True, True, False, False, False, False]


def test_examples_are_found_by_path_however_it_is_written(csv, tmp_path):
    file = csv(
        "person,path", "ann,a/1.png", "bob,./b/../a/2.png", f"ann,{tmp_path}/root/b/3.png", ",zoo/9.png"
    )
    paths = [tmp_path / "root" / name for name in ("b/3.png", "a/1.png", "a/2.png")]
    assert people_in_file(file, 3, paths=paths, root=tmp_path / "root").tolist() == [0, 0, 1]


def test_pictures_of_a_folder_that_is_named_from_here_are_found(csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/1.png", "b/2.png"):
        (tmp_path / "scans" / name).parent.mkdir(parents=True)
        (tmp_path / "scans" / name).touch()
    file = csv("path,person", "a/1.png,ann", "b/2.png,ann")
    for folder in ("scans", "./scans", tmp_path / "scans"):
        assert find_images(folder, Columns(person=file)).people.tolist() == [0, 0]


def test_examples_without_a_path_are_found_by_number_from_zero(csv):
    file = csv("example,person", "2,ann", " 0,bob", "1 , ann ")
    assert people_in_file(file, 3).tolist() == [0, 1, 1]


def test_an_empty_person_is_alone(csv):
    assert people_in_file(csv("example,person", "0,", "1, ", "2", "3,ann"), 4).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("lines", "rule"),
    [
        (("example,person", "0,secret", "1,secret"), "every example must be listed"),
        (("example,person", "0,secret", "1,secret", "02,secret"), "every example must be listed"),
        (("example,person", "0,secret", "1,secret", "2,secret", "2,secret"), "listed twice"),
        (("example,person", "0,secret", "1,secret", "2,secret", "3,secret"), "others must not be listed"),
        (("example,patient", "0,secret"), "people must be in the column 'person'; the first line names none"),
        (("path,person", "0,secret"), "example,label,person"),
        (("example,person",), "no examples"),
    ],
)
def test_a_file_that_leaves_an_example_open_or_is_about_others_is_refused(csv, lines, rule):
    with pytest.raises(DataError, match=rule) as caught:
        people_in_file(csv(*lines), 3)
    assert "secret" not in str(caught.value)


def test_a_file_without_a_header_is_refused_and_not_repeated(csv):
    for first in ("secret,0", "example,secret", "secret,person"):
        with pytest.raises(DataError, match="in the column") as caught:
            people_in_file(csv(first, "secret,1"), 2)
        assert "secret" not in str(caught.value)


def test_paths_from_another_root_do_not_make_everybody_strangers(csv, tmp_path):
    file = csv("path,person", "a/1.png,secret")
    with pytest.raises(DataError, match=r"Name their files, relative to .*elsewhere") as caught:
        people_in_file(file, 1, paths=[tmp_path / "a/1.png"], root=tmp_path / "elsewhere")
    assert "secret" not in str(caught.value)


def test_an_array_has_the_ids_in_order(tmp_path):
    np.save(tmp_path / "ids.npy", np.array(["b", "a", "b"]))
    assert people_in_file(tmp_path / "ids.npy", 3).tolist() == [0, 1, 0]
    with pytest.raises(DataError, match="one entry per example"):
        people_in_file(tmp_path / "ids.npy", 4)
    with pytest.raises(DataError, match="must be readable"):
        people_in_file(tmp_path / "none.npy", 4)
    with pytest.raises(DataError, match="must be readable"):
        people_in_file(tmp_path / "none.csv", 4)


def test_the_folder_in_that_of_the_class_is_the_person(tmp_path):
    names = [
        "cat/ann/1.png",
        "cat/ann/visit/2.png",
        "cat/3.png",
        "dog/ann/4.png",
        "dog/bob/5.png",
        "dog/6.png",
    ]
    assert people_by_folder(tmp_path, names).tolist() == [0, 0, 1, 0, 2, 3]
    with pytest.raises(DataError, match="pictures must lie in class/person/picture; none does"):
        people_by_folder(tmp_path, ["cat/3.png", "4.png"])
