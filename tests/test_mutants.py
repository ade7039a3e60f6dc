"""The list of planted faults fits the tree; the runner knows a fault that is caught from a survivor."""

import shutil
from subprocess import CompletedProcess, TimeoutExpired

import pytest

import mutants
from mutants import ROOT, Mutant, outcome, read_mutants, require_passing

MUTANTS = read_mutants()


def test_every_entry_of_the_list_still_applies():
    stale = {f"{mutant.file}: {mutant.why}": problem for mutant in MUTANTS if (problem := mutant.stale(ROOT))}
    assert stale == {}


def test_every_entry_is_another_fault_and_every_part_of_the_library_has_some():
    assert len({(mutant.file, mutant.find, mutant.replace) for mutant in MUTANTS}) == len(MUTANTS) >= 40
    parts = {mutant.file.split("src/")[1].split("/")[-2] for mutant in MUTANTS}
    assert parts >= {*"accounting exact ledger mechanisms methods noise privacy queries".split()}


TEST = (
    "from dptransfer import double\n\ndef test_two():\n    assert double(1) == 2\n\ndef test_none(): pass\n"
)


@pytest.fixture
def tree(tmp_path):
    """A library of one line with a test that guards it and one that does not."""
    root = tmp_path / "tree"
    (root / "src" / "dptransfer").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "src" / "dptransfer" / "__init__.py").write_text("def double(x):\n    return 2 * x\n")
    (root / "tests" / "test_double.py").write_text(TEST)
    shutil.copy(ROOT / "conftest.py", root)
    return root


def planted(replace, test="tests/test_double.py::test_two", find="2 * x"):
    return Mutant("doubled", "src/dptransfer/__init__.py", find, replace, (test,))


def test_a_fault_is_caught_or_survives(tree):
    assert outcome(planted("3 * x"), tree) == "caught"
    assert outcome(planted("3 * x", "tests/test_double.py::test_none"), tree) == "SURVIVED"
    assert "2 * x" in (tree / "src" / "dptransfer" / "__init__.py").read_text()  # only copies are changed


@pytest.mark.parametrize("status", [2, 3, 4, 5])
def test_tests_that_do_not_run_decide_nothing(tree, monkeypatch, status):
    ended = CompletedProcess([], status, "1 error in 0.1s\n")
    monkeypatch.setattr(mutants, "run_tests", lambda root, tests: ended)
    found = outcome(planted("3 *"), tree)
    assert found.startswith("UNDECIDED")
    assert f"ended with {status}" in found


def test_tests_that_do_not_end_decide_nothing(tree, monkeypatch):
    def hang(root, tests):
        raise TimeoutExpired([], 300)

    monkeypatch.setattr(mutants, "run_tests", hang)
    assert outcome(planted("3 * x"), tree).startswith("UNDECIDED: its tests took more than")


@pytest.mark.parametrize(
    ("mutant", "problem"),
    [
        (planted("3 * x", find="4 * x"), "found 0 times"),
        (planted("y", find="x"), "found 2 times"),
        (planted("2 * x"), "changes nothing"),
        (planted("3 * x", "tests/test_double.py::test_three"), "no test tests/test_double.py::test_three"),
        (planted("3 * x", "tests/test_triple.py"), "no test tests/test_triple.py"),
        (Mutant("", "src/dptransfer/gone.py", "a", "b", ()), "not there"),
    ],
)
def test_an_entry_that_no_longer_fits_is_stale(tree, mutant, problem):
    assert problem in mutant.stale(tree)
    assert outcome(mutant, tree).startswith("STALE")


def test_guards_that_fail_without_a_fault_prove_nothing(tree):
    planted("3 * x").plant(tree)
    again = Mutant("halved", "src/dptransfer/__init__.py", "3 * x", "x", ("tests/test_double.py::test_two",))
    assert "fail already" in require_passing(tree, [again], 1)


def test_another_tree_than_the_copy_proves_nothing(tree, tmp_path):
    assert "what Python imports" in require_passing(tmp_path, [], 1)
