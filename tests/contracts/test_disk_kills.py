"""After a kill at any operation on the disk the same command ends well, and nothing private stays behind."""

import shutil
import signal
from contextlib import nullcontext

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer.errors import DataError
from dptransfer.sources import read_table
from encoders.toys import pictures

from . import disk_kills
from .disk_kills import ROWS

SAMPLE = 3
"""So many kills are tried in the default suite, the last ones among them."""
ENCODER = "encoders.toys:MeanColour"
FIT = f"fit photos --encoder {ENCODER} --method mean -e 5 -d 1e-5 --name p --out model".split()
PREDICT = f"predict model photos --encoder {ENCODER}".split()


@pytest.fixture
def killed(ended, tmp_path):
    """Does some work in a process that dies at its n-th operation, or at none; gives its exit code."""

    def at(number, work, *given):
        code = ended(disk_kills.until, number, tmp_path / "tally", work, *given)
        assert code in (0, 2, -signal.SIGKILL)
        return code

    return at


@pytest.fixture
def kills(killed, tmp_path, request):
    """The numbers of operations to die at, once the work was done in whole; and what it begins with."""

    def numbers(folder, work, *given):
        begun = tmp_path / "begun"
        shutil.copytree(folder, begun)
        assert killed(0, work, *given) == 0
        total = int((tmp_path / "tally").read_text())
        assert total > 5
        step = 1 if request.node.get_closest_marker("slow") else total // SAMPLE
        for number in range(total, 0, -step):
            shutil.rmtree(folder)
            shutil.copytree(begun, folder)
            yield number

    return numbers


def names(folder):
    """What lies in a folder; an empty lock of a process that was killed may, and an empty ledger."""
    found = {path.name: path for path in folder.iterdir() if not path.name.startswith(".ledger.sqlite-")}
    locks = [name for name in found if name.endswith(".dptransfer.lock")]
    assert all(not found[name].read_bytes() for name in locks)
    return found.keys() - locks


@pytest.fixture
def folder(tmp_path):
    """What a command works in."""
    pictures(tmp_path / "work" / "photos", 11)
    return tmp_path / "work"


def each_and_a_sample(test):
    """In the default suite a sample of all kills, else all of them."""
    return pytest.mark.parametrize("all_of", [False, pytest.param(True, marks=pytest.mark.slow)])(test)


@each_and_a_sample
def test_a_release_is_replaced_at_once(killed, kills, folder, all_of):
    disk_kills.save(folder)
    (folder / "run").touch()
    for number in kills(folder, disk_kills.save, folder):
        assert killed(number, disk_kills.save, folder) == -signal.SIGKILL
        assert dpt.load(folder / "out").provenance.title in ("number 0", "number 1")
        disk_kills.save(folder)
        assert dpt.load(folder / "out").provenance.title == "number 1"
        assert names(folder) == {"photos", "out", "run"}


@each_and_a_sample
def test_rows_are_replaced_at_once(killed, kills, folder, all_of):
    disk_kills.write(folder)
    (folder / "run").touch()
    for number in kills(folder, disk_kills.write, folder):
        assert killed(number, disk_kills.write, folder) == -signal.SIGKILL
        assert read_table(folder / "out.emb").rows[0, 0] in (0, 1)
        disk_kills.write(folder)
        assert np.array_equal(read_table(folder / "out.emb").rows, ROWS + 1)
        assert names(folder) == {"photos", "out.emb", "run"}


@each_and_a_sample
@pytest.mark.parametrize("work", [disk_kills.encode, disk_kills.encode_in_shards, disk_kills.encode_again])
def test_an_encoding_goes_on_and_leaves_its_result_alone(killed, kills, folder, work, all_of):
    if work is disk_kills.encode_again:
        disk_kills.encode(folder)
    whole = None
    for number in kills(folder, work, folder):
        killed(number, work, folder)
        there = (folder / "out.emb").exists()
        refused = there and work is not disk_kills.encode_again
        with pytest.raises(DataError, match="exists already") if refused else nullcontext():
            work(folder)
        rows = read_table(folder / "out.emb").rows[:]
        whole = rows if whole is None else whole
        assert np.array_equal(rows, whole)
        assert names(folder) == {"photos", "out.emb"}


@each_and_a_sample
def test_a_fit_leaves_no_rows_beside_the_photographs(killed, kills, folder, all_of):
    for number in kills(folder, disk_kills.command, folder, *FIT):
        killed(number, disk_kills.command, folder, *FIT)
        there = (folder / "model").exists()
        assert killed(0, disk_kills.command, folder, *FIT) == (2 if there else 0)
        dpt.load(folder / "model")
        assert names(folder) == {"photos", "model", "ledger.sqlite", "ledger.sqlite.key"}


@each_and_a_sample
@pytest.mark.parametrize(
    "words",
    [
        [*PREDICT, "--out", "answers.csv"],
        pytest.param([*PREDICT, "--out", "answers", "--shard-rows", "4"], marks=pytest.mark.slow),
        pytest.param(["ledger", "export", "--out", "answers"], marks=pytest.mark.slow),
    ],
)
def test_answers_are_there_whole_or_not_at_all(killed, kills, folder, words, all_of):
    assert killed(0, disk_kills.command, folder, *FIT) == 0
    out = folder / words[words.index("--out") + 1]
    whole = None
    for number in kills(folder, disk_kills.command, folder, *words):
        killed(number, disk_kills.command, folder, *words)
        there = content(out)
        assert killed(0, disk_kills.command, folder, *words) == (0 if there is None else 2)
        whole = content(out) if whole is None else whole
        assert whole
        assert content(out) == whole
        assert there in (None, whole)
        assert names(folder) == {"photos", "model", "ledger.sqlite", "ledger.sqlite.key", out.name}


def content(out):
    """All that was written to a file, or to a folder of parts; None where nothing has the name."""
    if not out.exists():
        return None
    parts = sorted(out.glob("part-*")) if out.is_dir() else [out]
    return [part.read_bytes() for part in parts]
