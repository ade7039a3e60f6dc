"""Names that other packages add, and what is left of them where those packages are broken."""

import shutil

import pytest

from dptransfer.base.plugins import Registry
from dptransfer.errors import ArgumentError
from dptransfer.release.manifest import current_versions


def numbers(name, found):
    if not isinstance(found, int):
        raise ArgumentError(f"must be a whole number; got {found!r}")
    return found


REGISTRY = Registry("number", "dptransfer.numbers", {"two": "numbers_of_ours:TWO"}, numbers)


@pytest.fixture
def package(install):
    def installed(name, code, **entries):
        install(name, {name: code}, {"dptransfer.numbers": entries})
        return REGISTRY

    return installed


@pytest.fixture(autouse=True)
def ours(package):
    package("numbers_of_ours", "TWO = 2")


def test_own_names_come_first_and_those_of_packages_after(package):
    found = package("theirs", "SEVEN = 7\nSIX = 6", seven="theirs:SEVEN", six="theirs:SIX")
    assert dict(found) == {"two": 2, "seven": 7, "six": 6}
    assert found.names == ("two", "seven", "six")
    assert found.problems == ()
    assert (found.package("two"), found.package("six")) == (None, "theirs")
    assert "nine" not in found
    with pytest.raises(KeyError):
        found["nine"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("SEVEN = 'seven'", "must be a whole number; got 'seven'"),
        ("EIGHT = 8", "has no attribute 'SEVEN'"),
    ],
)
def test_a_broken_package_breaks_what_it_adds_and_nothing_else(package, code, said):
    package("fine", "SIX = 6", six="fine:SIX")
    found = package("broken", code, seven="broken:SEVEN")
    assert dict(found) == {"two": 2, "six": 6}
    assert len(found) == 2
    assert "seven" in found.names  # listed without a look
    (problem,) = found.problems
    assert said in problem
    assert "package broken 1.0" in problem
    for ask in (found.__getitem__, found.find):
        with pytest.raises(ArgumentError) as refusal:
            ask("seven")
        assert str(refusal.value) == problem


def test_own_names_cannot_be_taken(package):
    found = package("greedy", "SEVEN = 7", two="greedy:SEVEN")
    assert dict(found) == {"two": 2}
    assert found.find("two") == 2
    assert "cannot be taken" in found.problems[0]


def test_a_name_that_two_packages_add_stands_for_neither(package):
    package("one", "SEVEN = 7", seven="one:SEVEN")
    found = package("another", "SEVEN = 77", seven="another:SEVEN")
    assert dict(found) == {"two": 2}
    with pytest.raises(ArgumentError, match=r"one 1\.0.*Uninstall"):
        found["seven"]


def test_a_person_may_name_a_place(package):
    found = package("unlisted", "NINE = 9\nWORD = 'x'")
    assert found.find("unlisted:NINE") == 9
    assert "unlisted:NINE" not in found  # a word in a file is looked up here, and imports nothing
    with pytest.raises(ArgumentError, match="whole number"):
        found.find("unlisted:WORD")
    for wrong in ("unlisted:TEN", "not_there:NINE"):
        with pytest.raises(ArgumentError, match=wrong):
            found.find(wrong)


def test_what_is_installed_while_a_process_runs_is_found_and_what_is_removed_is_not(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert "late" not in REGISTRY.names
    told = tmp_path / "late-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[dptransfer.numbers]\nlate = late:Late\n")
    assert "late" in REGISTRY.names
    assert current_versions("late")["late"] == "1.0"
    shutil.rmtree(told)
    assert "late" not in REGISTRY.names
    assert current_versions("late")["late"] == "unknown"
