import ast
import json
import pickle
import sys

import numpy as np
import pytest

from dptransfer.data import Columns, RawTable
from dptransfer.errors import ArgumentError, DataError
from dptransfer.sources import read_table
from dptransfer.sources.readers import READERS, contents_of, has_added_reader, read_with
from dptransfer.testing import reader_rules as module
from dptransfer.testing.contract import ContractBroken
from dptransfer.testing.reader_rules import READER_CHECKS, check_reader

EXACT, PICKLES, DAMAGE, SIZES = READER_CHECKS
ROWS = np.arange(12.0).reshape(4, 3)
LABELS = ["a", "b", "a", "b"]


def read_json(path):
    """Rows and labels in JSON: `{"rows": [[...]], "labels": [...]}`."""
    found = json.loads(path.read_text())
    return RawTable(np.array(found["rows"], dtype=np.float64), np.array(found["labels"]))


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "example.rows"
    path.write_text(json.dumps({"rows": ROWS.tolist(), "labels": LABELS}))
    return path


def test_an_honest_reader_keeps_every_rule(example):
    check_reader(read_json, example, rows=ROWS, labels=LABELS)


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors", "csv", "parquet", "pt"])
def test_the_librarys_own_readers_keep_every_rule(ending, tmp_path):
    path, labels = tmp_path / f"own.{ending}", None
    if ending == "npy":
        np.save(path, ROWS)
    elif ending == "npz":
        labels = np.array(LABELS)
        np.savez(path, x=ROWS, y=labels)
    elif ending == "csv":
        labels = LABELS
        lines = [",".join(map(str, (*row, label))) for row, label in zip(ROWS, LABELS, strict=True)]
        path.write_text("\n".join(["f1,f2,f3,label", *lines]) + "\n")
    elif ending == "parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        labels = LABELS
        parquet.write_table(pyarrow.table({"x": ROWS.tolist(), "label": LABELS}), path)
    elif ending == "pt":
        torch = pytest.importorskip("torch")
        torch.save({"x": torch.tensor(ROWS)}, path)
    else:
        from safetensors.numpy import save_file

        save_file({"x": ROWS}, str(path))
    check_reader(read_table, path, rows=ROWS, labels=labels, cases=60)


def changed(change):
    """A reader that reads as it should, and changes what it read."""
    return lambda path: change(read_json(path))


def or_else(action):
    """A reader that does something else with damaged files."""

    def read(path):
        try:
            return read_json(path)
        except ValueError:
            return action(path)

    return read


def writes_beside(path):
    path.with_suffix(".cache").write_text("read")
    return read_json(path)


def changes_the_file(path):
    found = read_json(path)
    path.write_text(path.read_text() + " ")
    return found


def unpickles_by_class(path):
    with open(path, "rb") as file:
        pickle.Unpickler(file).load()
    return RawTable(np.zeros((1, 3)))


def complain_at_length(path):
    raise DataError("first line\nsecond line")


class Lazy:
    """Rows that are read later, where nobody expects an error."""

    def __init__(self, path):
        self.path, self.ndim = path, 2

    def __len__(self):
        return 4

    def __array__(self, dtype=None, copy=None):
        return np.array(json.loads(self.path.read_text())["rows"], dtype=np.float64)


def gives_objects(path):
    return RawTable(np.array(ast.literal_eval(path.read_text())["rows"], dtype=object))


def believes_sizes(path):
    text = path.read_text()
    np.ones(2**28 if text.count("[") != 6 else 1, dtype=np.uint8)
    return read_json(path)


CHEATS = {
    EXACT: {
        "rounds": changed(lambda found: RawTable(np.round(found.rows, -1), found.labels)),
        "loses labels": changed(lambda found: RawTable(found.rows)),
        "turns labels": changed(lambda found: RawTable(found.rows, found.labels[::-1])),
        "writes beside": writes_beside,
        "changes the file": changes_the_file,
    },
    PICKLES: {
        "unpickles": or_else(lambda path: RawTable(pickle.loads(path.read_bytes()))),
        "unpickles by class": or_else(unpickles_by_class),
        "unpickles arrays": or_else(lambda path: RawTable(np.load(path, allow_pickle=True))),
    },
    DAMAGE: {
        "exits": or_else(lambda path: sys.exit("damaged")),
        "complains at length": or_else(complain_at_length),
        "reads later": lambda path: RawTable(Lazy(path), np.array(LABELS)),
        "gives objects": gives_objects,
    },
    SIZES: {"believes sizes": believes_sizes},
}


@pytest.mark.parametrize(("rule", "cheat"), [(rule, cheat) for rule in CHEATS for cheat in CHEATS[rule]])
def test_every_rule_catches_a_reader_that_breaks_it(rule, cheat, example):
    others = [other for other in READER_CHECKS if other != rule]
    with pytest.raises(ContractBroken, match=rule):
        check_reader(CHEATS[rule][cheat], example, rows=ROWS, labels=LABELS, skip=others)


def test_every_rule_has_a_cheat():
    assert CHEATS.keys() == READER_CHECKS.keys()


def test_labels_that_are_not_in_the_example_are_noticed(example):
    with pytest.raises(ContractBroken, match=EXACT):
        check_reader(read_json, example, rows=ROWS)


def test_a_reader_that_takes_too_long_is_noticed(example, monkeypatch):
    monkeypatch.setattr(module, "_SLOWEST", -1.0)
    with pytest.raises(ContractBroken, match=DAMAGE):
        check_reader(read_json, example, rows=ROWS, labels=LABELS, skip=[EXACT, PICKLES, SIZES])


@pytest.fixture
def installed(install):
    code = (
        "import json\nimport numpy as np\nfrom dptransfer.data import RawTable\n"
        "def read(path, *, split=None, person=None):\n"
        "    found = json.loads(path.read_text())\n"
        "    people = None if person is None else np.array([0, 0, 1, 1])\n"
        "    rows = np.array(found['rows'])\n"
        "    return RawTable(rows if split is None else rows[:2], people=people)\n"
        "def plain(path):\n    return RawTable(np.zeros((2, 3)), labels=np.zeros(5))\n"
        "def nothing(path):\n    return np.zeros((2, 3))\n"
        "def flat(path):\n    return RawTable(np.zeros(3))\n"
        "WORD = 'x'\n"
    )
    names = {
        "rows": "theirs:read",
        "plain": "theirs:plain",
        "nothing": "theirs:nothing",
        "flat": "theirs:flat",
        "word": "theirs:WORD",
        "TSV": "theirs:read",
        "npy": "theirs:plain",
        "png": "theirs:plain",
    }
    return install("theirs", {"theirs": code}, {"dptransfer.readers": names})


def test_an_installed_reader_is_found_by_the_ending(installed, example):
    assert has_added_reader(example)
    assert contents_of(example) == "rows"
    check_reader(".rows", example, rows=ROWS, cases=20)


def test_arguments_reach_a_reader_that_takes_them_and_no_other(installed, example):
    assert len(read_table(example, Columns(split="train")).rows) == 2
    assert read_table(example, Columns(person="patient")).people.tolist() == [0, 0, 1, 1]
    assert np.array_equal(read_table(example, Columns(label="diagnosis")).rows, ROWS)
    plain = example.rename(example.with_suffix(".plain"))
    for wanted in ({"split": "train"}, {"person": "patient"}, {"features": "f*"}):
        with pytest.raises(DataError):
            read_table(plain, Columns(**wanted))


@pytest.mark.parametrize("ending", ["plain", "nothing", "flat"])
def test_what_is_no_table_is_refused(installed, example, ending):
    with pytest.raises(DataError):
        read_table(example.rename(example.with_suffix(f".{ending}")))


def test_what_is_no_function_is_refused_by_name(installed, example):
    with pytest.raises(ArgumentError, match="theirs"):
        read_table(example.rename(example.with_suffix(".word")))


def test_endings_of_the_library_cannot_be_taken(installed, tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    assert np.array_equal(read_table(tmp_path / "rows.npy").rows, ROWS)
    assert not has_added_reader(tmp_path / "photo.png")
    assert len(READERS.problems) == 4  # those, what is no function, and what no ending is called


def test_an_error_quotes_nothing_of_the_file(example):
    def quotes(path):
        raise ValueError("patient Smith")

    with pytest.raises(DataError) as refusal:
        read_with(quotes, example)
    assert "Smith" not in str(refusal.value)
