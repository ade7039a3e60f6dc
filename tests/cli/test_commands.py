"""Commands: those of plug-ins, and command lines that cannot be read."""

import json
import sys
from importlib.metadata import EntryPoint
from itertools import pairwise
from types import ModuleType

import pytest
import typer
from typer.core import TyperGroup

from dptransfer.cli.commands import Group, app, read_command
from dptransfer.errors import ArgumentError, DataError

GROUP = "dptransfer.commands"
HELLO = typer.Typer(no_args_is_help=True)


@HELLO.callback()
def hello() -> None:
    """Greet people."""


@HELLO.command()
def once(times: int = 1) -> None:
    """Greet once.

    Example: dptransfer hello once --times 2
    """
    print("hello " * times)


@HELLO.command()
def twice() -> None:
    """Greet twice."""


def shout(word: str) -> None:
    """Say a word aloud."""
    if word == "nothing":
        raise DataError("A word must be audible; this is not. Choose another.")
    print(word.upper())


@pytest.fixture(autouse=True)
def plug_ins(monkeypatch):
    """A group, a function, one that cannot be imported, and one that is called as a command of ours."""
    module = ModuleType("a_plug_in")
    module.HELLO, module.shout = HELLO, shout
    monkeypatch.setitem(sys.modules, "a_plug_in", module)
    values = {
        "hello": "a_plug_in:HELLO",
        "shout": "a_plug_in:shout",
        "broken": "no_such_package.cli:app",
    }
    found = [EntryPoint(name, value, GROUP) for name, value in values.items()]
    # In the place of what is kept of what is installed, so that nothing of this is kept for other tests.
    monkeypatch.setattr(
        "dptransfer.base.plugins._entry_points", lambda group, _: found if group == GROUP else []
    )


def test_a_group_and_a_function_are_commands_and_come_last_in_the_help(cli):
    assert cli("hello", "once", "--times", "2").stdout.split() == ["hello", "hello"]
    assert cli("shout", "fire").stdout == "FIRE\n"
    shown = cli("--help").stdout
    assert "Greet people." in shown
    assert "Say a word aloud." in shown
    assert shown.index("│ ledger ") < shown.index("│ broken ") < shown.index("│ hello ")
    assert "Usage: dptransfer hello" in cli("hello", "-h").stdout


def test_a_broken_one_says_so_and_leaves_the_others_alone(cli):
    assert "│ broken " in cli("--help").stdout
    said = cli("broken", "--any", "word", code=2).stderr
    assert said.startswith("Error: What a package adds must load; the command 'broken'")
    assert "No module named" in said
    assert cli("hello", "once").stdout.strip() == "hello"


def test_their_errors_are_one_line_too(cli):
    assert cli("shout", "nothing", code=2).stderr.startswith("Error: A word must be audible")
    assert "'once'?" in cli("hello", "onec", code=2).stderr
    for words in (["--times", "x"], ["--times"]):
        assert cli("hello", "once", *words, code=2).stderr.startswith("dptransfer hello once: ")


def test_without_the_laboratory_its_command_says_how_to_get_it(cli):
    said = cli("bench", "run", "demo", code=2).stderr
    assert "dptransfer[lab]" in said


def test_two_answers_to_whom_the_promise_is_made_are_refused(cli):
    for words in ("plan --person patient --person none", "ledger budget clinic --unit row --unit person"):
        assert "given 2 times" in cli(*words.split(), code=2).stderr
    fine = "plan -e 1 -d 1e-5 --classes 3 --dim 8 -m mean --set data.size=50 --set device=cpu -e 2 --json"
    assert json.loads(cli(*fine.split()).stdout)["epsilon"] > 1.9


def test_help_flows_to_the_width_of_the_terminal(cli):
    told = cli("fit", "--help").stdout
    lines = [line.strip() for line in told.partition("Arguments")[0].splitlines()]
    broken = [line for line, after in pairwise(lines) if line and after and len(line) < 60]
    assert not broken


def test_every_group_has_help_at_once():
    """A group that were left out would load pydantic for each of its commands' help."""
    whole = typer.main.get_command(app)
    groups = [whole.get_command(None, name) for name in whole.list_commands(None)]
    groups = [one for one in groups if isinstance(one, TyperGroup)]
    assert {group.name for group in groups} == {"encoder", "federate", "pate", "ledger", "hello"}
    assert all(isinstance(group, Group) for group in (whole, *groups))


@pytest.mark.parametrize(
    ("words", "path", "named"),
    [
        ("pla", "dptransfer", "'plan'?"),
        ("ledger shwo", "dptransfer ledger", "'show'?"),
        ("plan --epsilom 1", "dptransfer plan", "--epsilon)"),
        ("fit", "dptransfer fit", "Example: dptransfer fit photos/"),
        ("plan --epsilon abc", "dptransfer plan", "--epsilon"),
        ("predict m x.npy --top 0", "dptransfer predict", "--top"),
        ("plan photos/", "dptransfer plan", "photos/"),
    ],
)
def test_the_line_names_the_command_and_what_to_type(cli, words, path, named):
    result = cli(*words.split(), code=2)  # the fixture counts the lines
    assert result.stderr.startswith(f"{path}: ")
    assert named in result.stderr
    assert result.stdout == ""


def test_what_a_command_would_be_called_with_is_read_and_nothing_runs(cli, tmp_path):
    words = ["photos", "-e", "2", "--person", "folder", "--out", str(tmp_path / "model")]
    given = read_command("fit", words)
    assert (given["budget"].epsilon, given["release"].out) == (2.0, tmp_path / "model")
    assert given["examples"].declared.person == "folder"
    assert not any(tmp_path.iterdir())
    with pytest.raises(ArgumentError):
        read_command("fit", ["photos", "--epsilom", "1"])
