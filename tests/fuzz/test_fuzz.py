"""A few seconds of fuzz with a fixed seed; `make fuzz` is the same for minutes. See `__main__`."""

import random
import resource
import warnings

import pytest

from dptransfer.errors import DataError
from dptransfer.ledger import Ledger

from . import __main__ as program
from .__main__ import all_targets, failures, fuzz, fuzz_apart
from .ledgers import LedgerFile
from .target import Failure, Target, require, run_case

SLOW_TO_START = {"pt", "release of DP-SGD", "release of private tuning"}  # torch, numerical accounting
RELEASES = [name for name in all_targets() if name.startswith("release") and name not in SLOW_TO_START]
READERS = [name for name in all_targets() if name not in {*RELEASES, *SLOW_TO_START, "ledger"}]


@pytest.mark.parametrize(
    ("names", "cases"), [(READERS, 12), (RELEASES, 16), (["ledger"], 30)], ids=lambda one: str(one)[:30]
)
def test_damaged_files_are_refused_or_are_what_they_were(names, cases, tmp_path):
    found = fuzz_apart(names, 20261116, range(cases), tmp_path)
    assert {name: failures(ends) for name, ends in found.items() if failures(ends)} == {}
    for name, ends in found.items():
        assert sum(ends.values()) == cases
        assert name == "pictures" or ends["refused"] > 0  # the damage is real
        assert ends["accepted"] > 0  # and not so great that nothing behind the first check is reached


class Careless(Target):
    """A reader that makes one mistake when the number is not 1."""

    name = "careless"

    def __init__(self, mistake):
        self._mistake = mistake

    def write(self, folder):
        (folder / "number").write_text("1")

    def damage(self, folder, dice):
        (folder / "number").write_text(dice.choice("23456789"))
        return False

    def use(self, folder, repaired):
        if (folder / "number").read_text() != "1":
            self._mistake(folder)


def refuses(folder, message="A number must be 1; it is not. Write it again."):
    raise DataError(message)


@pytest.mark.parametrize(
    ("mistake", "cause"),
    [
        (lambda folder: {}["missing"], "KeyError at "),
        (lambda folder: (folder / "half.tmp").write_text("1"), "reading changed the files"),
        (lambda folder: (folder / "number").unlink(), "reading changed the files"),
        (lambda folder: bytes(2**50), "MemoryError at "),
        (lambda folder: warnings.warn("the number is odd", stacklevel=1), "warns: UserWarning at "),
        (lambda folder: require(False, "another number is accepted"), "BrokenPromise: another number"),
        (lambda folder: refuses(folder, "A number must be 1.\nIt is not."), "BrokenPromise: a message"),
    ],
)
def test_every_mistake_is_a_failure_and_its_input_is_kept(mistake, cause, tmp_path):
    ends = fuzz(Careless(mistake), 0, range(2), tmp_path)
    ((found, count),) = ends.items()
    assert (found.startswith(cause), count) == (True, 2)
    kept = sorted(tmp_path.iterdir())
    assert [place.name for place in kept] == ["careless-0-0", "careless-0-1"]
    assert (kept[0] / "why.txt").read_text().startswith(cause)


def test_a_refusal_is_none(tmp_path):
    assert run(Careless(refuses), tmp_path) == "refused"
    assert run(Careless(lambda folder: None), tmp_path) == "accepted"


def run(target, tmp_path):
    intact = tmp_path / "intact"
    intact.mkdir(exist_ok=True)
    target.write(intact)
    return run_case(target, intact, tmp_path / "case", random.Random(0))


def test_a_process_that_dies_or_reserves_too_much_is_a_failure(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("sys.executable", "/bin/false")
        assert "ended with 1" in str(fuzz_apart(["npy"], 0, range(1), tmp_path))
    seen = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: seen.append((what, limits)))
    monkeypatch.setattr("sys.argv", ["fuzz", "--child", "npy", "--cases", "1", "--out", str(tmp_path)])
    assert program.main() == 0
    assert seen == [(resource.RLIMIT_AS, (6 * 10**9, 6 * 10**9))]


def test_the_same_seed_gives_the_same_damage(tmp_path):
    contents = set()
    for _ in range(2):
        run(all_targets()["npz"], tmp_path)
        contents.add((tmp_path / "case" / "rows.npz").read_bytes())
    (damaged,) = contents
    assert damaged != (tmp_path / "intact" / "rows.npz").read_bytes()


def test_a_ledger_that_grants_too_much_is_a_broken_promise(tmp_path, monkeypatch):
    target = LedgerFile()
    monkeypatch.setattr(target, "damage", lambda folder, dice: False)
    assert run(target, tmp_path) == "accepted"
    monkeypatch.setattr(Ledger, "charge", lambda *_, **__: None)
    end = run_case(target, tmp_path / "intact", tmp_path / "case", random.Random(0))
    assert isinstance(end, Failure)
    assert "BrokenPromise" in end.cause
