"""Columns of tables by name, in CSV and Parquet files and saved data sets; damage is one error of ours."""

import errno
import json
import tokenize
import warnings
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from dptransfer.data import Columns
from dptransfer.data.table_files import delimiter_of
from dptransfer.data.tables import ListedExamples, feature_names, natural_order, parsing
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sources import find_images, find_texts, read_private, read_public, read_table

DAMAGE = [
    tokenize.TokenError("EOF", (2, 0)),
    RecursionError("too deep"),
    UnicodeDecodeError("utf-8", b"secret", 0, 1, "bad"),
    KeyError("secret"),
    OSError("Failed to interpret the file"),
]


def raised(problem):
    with parsing(Path("a.npz"), "it must be whole; it is not.", "Mend it."):
        raise problem


@pytest.mark.parametrize("problem", DAMAGE, ids=lambda problem: type(problem).__name__)
def test_damage_of_every_kind_is_a_data_error_that_states_the_rule(problem):
    with pytest.raises(DataError) as caught:
        raised(problem)
    assert str(caught.value) == "'a.npz': it must be whole; it is not. Mend it."
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("problem", "kind", "words"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "a.npz"), DataError, "Permission denied"),
        (MemoryError(), DataError, "fit in memory"),
        (ArgumentError("another rule"), ArgumentError, "^another rule$"),
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_what_is_no_damage_is_told_from_it(problem, kind, words):
    with pytest.raises(kind, match=words):
        raised(problem)


def test_warnings_of_a_parser_are_not_shown_since_they_may_quote_the_file():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with parsing(Path("a.npz"), "rule.", "remedy."):
            warnings.warn("secret", stacklevel=1)
    assert shown == []


def test_numbers_of_any_length_count_as_numbers_and_no_two_names_are_equal():
    names = ["a2b10", "a2b9", "a10", "a02", "a2", "a", "b1", f"a{10**30}", "2", "10"]
    ordered = ["2", "10", "a", "a02", "a2", "a2b9", "a2b10", "a10", f"a{10**30}", "b1"]
    assert sorted(names, key=natural_order) == sorted(names[::-1], key=natural_order) == ordered


pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

X = np.random.default_rng(2).normal(size=(6, 3)).astype(np.float32)
HERE = Path("a.csv")


def lists(kind=None):
    return pa.array(X.tolist(), type=kind or pa.list_(pa.float32()))


@pytest.fixture
def written(tmp_path):
    def made(**columns):
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        return tmp_path / "a.parquet"

    return made


# --- which columns are features ---


def test_the_order_of_features_is_that_of_their_names_and_not_of_the_file():
    one = ["f10", "f9", "f2", "x", "f02", "label"]
    assert feature_names(HERE, one, None) == feature_names(HERE, one[::-1], None)
    assert feature_names(HERE, one, "f*")[-2:] == ["f9", "f10"]
    names = ["f" + "9" * 5000, "f" + "1" * 5001, "f²", "", "é1"]  # of any length and script
    assert sorted(feature_names(HERE, names, None)) == sorted(names)
    assert feature_names(HERE, names[:2], None) == names[:2]


def test_labels_people_and_row_numbers_are_no_features():
    columns = ["label", "y", "labels", "patient", "__index_level_0__", "a"]
    assert feature_names(HERE, columns, None, ["patient"]) == ["a"]
    assert "patient" in feature_names(HERE, columns, None)
    assert feature_names(HERE, columns, "y,a", ["patient"]) == ["a", "y"]  # who names it wants it
    for names, wanted, rule in ((["f1"], "f*,g*", r"'g\*'"), (["f1", "f1"], None, "one name")):
        with pytest.raises(DataError, match=rule):
            feature_names(HERE, names, wanted)


def test_a_column_per_feature_gives_rows_in_the_order_of_names(written):
    path = written(
        f10=[10, None, 10],
        f2=pa.array([2.0, 2.5, -2.0], type=pa.float32()),
        label=[1.0, 0.0, 1.0],
        word=["a", "b", "c"],
        seen=[True, False, None],
        who=[7, 8, 7],
        __index_level_0__=[5, 6, 7],
    )
    table = read_table(path, Columns(person="who"))
    expected = [[2, 10, 1], [2.5, np.nan, 0], [-2, 10, np.nan]]
    assert np.array_equal(table.rows, expected, equal_nan=True)
    assert (table.labels.tolist(), table.people.tolist()) == ([1.0, 0.0, 1.0], [0, 1, 0])
    assert read_private(path, classes=[0, 1], people="who").labels.tolist() == [1, 0, 1]
    assert read_table(path, Columns(features="f*")).rows.shape == (3, 2)
    named = read_table(path, Columns(features=["seen", "f2"]))
    assert (named.columns, named.rows[:, 1].tolist()) == (("seen", "f2"), [2, 2.5, -2])
    for wanted in ("word", ["f2", "word"]):
        with pytest.raises(DataError, match="'word'"):
            read_table(path, Columns(features=wanted))


# --- rows ---


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 3)]
)
def test_lists_of_any_kind_come_back(written, kind):
    table = read_table(written(embedding=lists(kind), label=["a", "b"] * 3))
    assert np.array_equal(table.rows, X)
    assert (table.labels.tolist(), table.classes) == (["a", "b"] * 3, None)
    assert read_table(written(x=lists(kind))).labels is None


def test_an_empty_cell_becomes_a_row_of_nan(written):
    column = pa.array([X[0].tolist(), None, X[2].tolist()], type=pa.list_(pa.float32()))
    rows = read_table(written(embedding=column)).rows
    assert np.isnan(rows).all(axis=1).tolist() == [False, True, False]
    assert np.array_equal(rows[2], X[2])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"embedding": pa.array([[1.0], [1.0, 2.0]])}, "one length"),
        ({"embedding": pa.array(["a", "b"])}, "lists of numbers"),
        ({"vector": lists()}, "found vector"),
        ({"x": lists(), "label": pa.array([1, None, 1, 1, 1, 1])}, "label"),
    ],
)
def test_columns_that_cannot_be_rows_are_refused(written, columns, message):
    with pytest.raises(DataError, match=message):
        read_table(written(**columns))


# --- labels and people ---


def test_the_column_of_labels_may_have_any_name_and_be_a_dictionary(written):
    path = written(
        x=[[1.0], [2.0]], dx=pa.array(["b", "a"]).dictionary_encode(), label=[["x"]] * 2, note=["hi", "ho"]
    )
    assert read_table(path, Columns(label="dx")).labels.tolist() == ["b", "a"]
    assert read_private(path, Columns(label="dx"), classes=["a", "b"]).labels.tolist() == [1, 0]
    notes = find_texts(path, Columns(text="note", label="dx"), classes=["a", "b"])
    assert notes.labels.tolist() == [1, 0]
    assert find_texts(written(note=["hi"], dx=["a"]), Columns(text="note")).labels is None


@pytest.mark.parametrize("label", [[["a"], ["a", "b"]], [{"name": "a"}] * 2, [date(2026, 1, 1)] * 2])
def test_labels_that_are_no_words_or_numbers_are_refused_by_their_type(written, label):
    path = written(embedding=[[1.0], [2.0]], text=["so"] * 2, label=label)
    for door in (read_table, find_texts):
        with pytest.raises(DataError, match="one word"):
            door(path)


@pytest.mark.parametrize("names", [["a", ["b"]], [0.5, 1.5], {"a": 1}])
def test_recorded_class_names_that_are_none_are_refused(tmp_path, names):
    table = pa.table({"embedding": lists(), "label": [0, 1] * 3})
    told = json.dumps({"info": {"features": {"label": {"names": names}}}})
    pq.write_table(table.replace_schema_metadata({"huggingface": told}), tmp_path / "a.parquet")
    with pytest.raises(DataError):
        read_table(tmp_path / "a.parquet")


def test_a_column_tells_whose_each_row_is(written):
    ids = pa.array(["b", "a", None, "b", "", "a"]).dictionary_encode()
    path = written(x=lists(), label=[0, 1] * 3, patient=ids, odd=lists())
    assert read_table(path, Columns(person="patient")).people.tolist() == [0, 1, 2, 0, 3, 1]
    assert read_table(path).people is None
    for person, rule in (("who", "found label, odd"), ("odd", "type list")):
        with pytest.raises(DataError, match=rule):
            read_table(path, Columns(person=person))


# --- data sets of Hugging Face ---


def test_a_hugging_face_folder_brings_its_class_names(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        embedding=datasets.Sequence(datasets.Value("float32")),
        label=datasets.ClassLabel(names=["cat", "dog"]),
    )
    plain = datasets.Dataset.from_dict({"embedding": X.tolist(), "label": [0, 1] * 3}, features=features)
    datasets.DatasetDict(train=plain, test=plain.select([5, 0])).save_to_disk(tmp_path / "splits")
    plain.save_to_disk(tmp_path / "one")
    plain.to_parquet(tmp_path / "one.parquet")
    for name in ("one", "one.parquet"):
        table = read_table(tmp_path / name)
        assert np.array_equal(table.rows, X)
        assert (table.classes, table.labels.tolist()) == (("cat", "dog"), [0, 1] * 3)
    assert np.array_equal(read_table(tmp_path / "splits", Columns(split="test")).rows, X[[5, 0]])
    for name, split, rule in (("splits", None, "test, train"), ("one", "train", "no splits")):
        with pytest.raises(DataError, match=rule):
            read_table(tmp_path / name, Columns(split=split))
    for file in (tmp_path / "one").glob("*.arrow"):
        file.unlink()
    with pytest.raises(DataError, match="load_from_disk"):
        read_table(tmp_path / "one")


def streamed(file, **columns):
    table = pa.table(columns)
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)


def listing(folder, *names, **more):
    files = [{"filename": one} for one in names]
    (folder / "state.json").write_text(json.dumps({"_data_files": files, **more}))


@pytest.fixture
def saved(tmp_path):
    """A data set as `datasets.Dataset.save_to_disk` writes it, in two files."""
    for number, start in enumerate((0, 2)):
        streamed(tmp_path / f"data-{number}.arrow", x=[[float(start)], [start + 1.0]], label=[0, 1])
    (tmp_path / "dataset_info.json").write_text("{}")
    listing(tmp_path, "data-0.arrow", "data-1.arrow")
    return tmp_path


def test_the_files_of_a_saved_data_set_are_read_in_their_order(saved):
    assert read_table(saved).rows.ravel().tolist() == [0, 1, 2, 3]
    listing(saved, "data-0.arrow", _indices_data_files=[{"filename": "indices.arrow"}])
    with pytest.raises(DataError, match="flatten_indices"):  # chosen rows beside the files
        read_table(saved)


@pytest.mark.parametrize("name", ["../data-0.arrow", "/etc/passwd", "..", "a\\b"])
def test_a_listing_that_leads_out_of_its_folder_is_refused(saved, name):
    listing(saved, name)
    with pytest.raises(DataError, match="outside"):
        read_table(saved)


def test_damage_is_one_error(saved):
    whole = (saved / "data-0.arrow").read_bytes()
    for content in (b"", whole[: len(whole) // 2], b"\xff" * 64):
        (saved / "data-0.arrow").write_bytes(content)
        with pytest.raises(DataError):
            read_table(saved)
    (saved / "state.json").write_text("[]")
    with pytest.raises(DataError, match="load_from_disk"):
        read_table(saved)


def test_offsets_that_lead_out_of_the_file_are_refused(saved):
    """They would be followed only when a cell is looked at, and end the process."""
    file = saved / "data-0.arrow"
    streamed(file, text=["a" * 40, "b" * 40], label=[0, 1])
    listing(saved, "data-0.arrow")
    offsets = np.array([0, 40, 80], "<i4").tobytes()
    assert file.read_bytes().count(offsets) == 1
    file.write_bytes(file.read_bytes().replace(offsets, np.array([0, 2**30, 80], "<i4").tobytes()))
    with pytest.raises(DataError, match="load_from_disk"):
        find_texts(saved, labelled=False)


TABLE = "f2,label,f10,patient,f1\n2,cat,10,ann,1\n2.5,dog,,bob,1e3\n-2,cat,10,ann,nan\n"
CAT_DOG = {"classes": ["cat", "dog"]}


@pytest.fixture
def csv(tmp_path):
    def written(text):
        (tmp_path / "a.csv").write_text(text)
        return tmp_path / "a.csv"

    return written


def test_a_column_per_feature_gives_rows_in_the_order_of_names_in_a_csv_too(csv):
    table = csv(TABLE)
    read = read_table(table, Columns(person="patient"))
    assert np.array_equal(read.rows, [[1, 2, 10], [1000, 2.5, np.nan], [np.nan, -2, 10]], equal_nan=True)
    assert (read.labels.tolist(), read.people.tolist()) == (["cat", "dog", "cat"], [0, 1, 0])
    assert read_table(table, Columns(features="f1*")).rows.shape == (3, 2)
    private = read_private(table, Columns(features="f2"), people="patient", **CAT_DOG)
    assert (private.labels.tolist(), private.people.tolist()) == ([0, 1, 0], [0, 1, 0])
    assert read_public(table, Columns(features="f2")).classes == ("cat", "dog")
    with pytest.raises(DataError, match="must be declared"):
        read_private(table, people="patient")
    with pytest.raises(DataError, match="column 'who'"):
        read_table(table, Columns(person="who"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f1,f2\n1,secret\n", "must hold numbers"),
        ("0.5,0.25\n1,2\n", "with words"),
        ("label\ncat\n", "no column"),
        ('f1,f2\n"1,2\n', "must be a CSV"),
        ("f1;label\n0,25;secret\n", "decimal point"),
        ("f1,diagnosis\n1,secret\n", "--label-column NAME"),
    ],
)
def test_what_is_no_table_of_features_is_refused_without_a_word_of_it(csv, text, message):
    with pytest.raises(DataError, match=message) as refusal:
        read_table(csv(text))
    assert not any(word in str(refusal.value) for word in ("secret", "0.25"))


def test_whole_numbers_are_matched_however_they_are_written(csv, tmp_path):
    for words, classes, found in (
        (["1", "1.0", " 2 ", "2.00"], [1, 2], [0, 0, 1, 1]),
        (["1.0", "1"], ["1", "1.0"], [1, 0]),
    ):
        assert (
            ListedExamples([], words, None, None).match_labels(tmp_path, classes).positions.tolist() == found
        )
    with pytest.raises(DataError, match="at least one"):
        ListedExamples([], ["1.5"], None, None).match_labels(tmp_path, [1, 2])
    assert read_private(csv("f1,label\n0,1.0\n1,0\n"), classes=[0, 1]).labels.tolist() == [1, 0]


def test_labels_may_be_in_a_column_of_any_name_which_is_then_no_feature(csv):
    path = csv("f1,grade,f2,label\n1,3,2,7\n4,5,6,7\n")
    private = read_private(path, Columns(label="grade", features="*"), classes=[3, 5])
    assert private.labels.tolist() == [0, 1]
    assert private.rows.tolist() == [[1, 2, 7], [4, 6, 7]]  # 'label' was asked for, 'grade' says the class
    assert read_private(path, Columns(label="grade"), classes=[3, 5]).rows.tolist() == [[1, 2], [4, 6]]
    assert read_public(path, Columns(label="nowhere")).labels is None  # a pool need not have it
    with pytest.raises(DataError, match="under 'nowhere'"):
        read_private(path, Columns(label="nowhere"), classes=[3, 5])


@pytest.mark.parametrize(
    ("mark", "lines"),
    [
        (",", ("path,label", "path", "", "a;b,c", '"a;b;c",label', '"unfinished;a,b')),  # quotes are a name
        (";", ("path;label", "a;b\tc", "a,b;c;d")),  # of equals the comma, and then the semicolon
        ("\t", ("path\tlabel",)),
    ],
)
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_the_first_line_says_what_separates_columns_and_all_are_read_alike(tmp_path, mark, lines, start):
    assert {delimiter_of(line) for line in lines} == {mark}

    def written(name, *lines):
        text = "\n".join(mark.join(line) for line in lines)
        (tmp_path / name).write_text(start + text + "\n", encoding="utf-8")
        return tmp_path / name

    rows = written("rows.csv", ("f1", "label", "f2"), ("0.5", "cat", "1"), ("2", "dog", ""))
    read = read_private(rows, **CAT_DOG)
    assert np.array_equal(read.rows, [[0.5, 1], [2, np.nan]], equal_nan=True)
    assert read.labels.tolist() == [0, 1]
    paths = written("paths.csv", ("path", "label", "who"), ("a.png", "dog", "x"), ("b.png", "cat", ""))
    found = find_images(paths, Columns(person="who"), **CAT_DOG)
    assert [path.name for path in found.paths] == ["a.png", "b.png"]
    assert (found.labels.tolist(), found.people.tolist()) == ([1, 0], [0, 1])
    texts = written("texts.csv", ("text", "label"), ('"so, so; so\tso"', "cat"))
    assert find_texts(texts, **CAT_DOG).texts == ("so, so; so\tso",)


def test_paths_may_be_in_a_column_of_any_name(csv, tmp_path):
    photo = Columns(path="photo")
    for text, name in (
        ("photo;label\na.png;cat\n", "a.png"),
        ("path,photo,label\na.png,b.png,cat\n", "b.png"),
        ("path,label\na.png,cat\n", "a.png"),  # one name for all tables: a pool need not have it
    ):
        assert find_images(csv(text), photo, classes=["cat"]).paths == (tmp_path / name,)
    with pytest.raises(DataError, match="'photo'"):
        find_images(csv("file,label\na.png,cat\n"), photo)


@pytest.mark.parametrize(
    ("find", "columns", "line"),
    [
        (find_images, Columns(person="patient_id"), "path,label,patient_id"),
        (find_images, Columns(label="diagnosis"), "path,diagnosis"),
        (find_texts, Columns(), "text,label"),
    ],
)
def test_the_advice_for_a_first_line_keeps_labels_and_people(csv, find, columns, line):
    with pytest.raises(DataError, match=f"{line}.*-column"):
        find(csv("file,dx\na.png,cat\n"), columns)
