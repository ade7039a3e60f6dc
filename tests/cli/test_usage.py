"""A command line that cannot be read: one line with the command, what is wrong and what to type."""

import pytest
import typer

from dptransfer.cli.commands import app


@pytest.mark.parametrize(
    ("words", "path", "named"),
    [
        ("pla", "dptransfer", "'plan'?"),
        ("zzz", "dptransfer", "See: dptransfer --help"),
        ("ledger shwo", "dptransfer ledger", "'show'?"),
        ("plan --epsilom 1", "dptransfer plan", "--epsilon)"),
        ("--nothing", "dptransfer", "--nothing"),
        ("fit", "dptransfer fit", "Example: dptransfer fit photos/"),
        ("encode x", "dptransfer encode", "--out"),
        ("plan --epsilon abc", "dptransfer plan", "--epsilon"),
        ("plan --epsilon", "dptransfer plan", "--epsilon"),
        ("plan --relation x", "dptransfer plan", "replace-one"),
        ("predict m x.npy --top 0", "dptransfer predict", "--top"),
        ("card m --json=3", "dptransfer card", "--json"),
        ("plan photos/", "dptransfer plan", "photos/"),
        ("card one two three", "dptransfer card", "two three"),
    ],
)
def test_the_line_names_the_command_and_what_to_type(cli, words, path, named):
    result = cli(*words.split(), code=2)  # the fixture counts the lines
    assert result.stderr.startswith(f"{path}: ")
    assert named in result.stderr
    assert result.stdout == ""


def test_control_characters_do_not_reach_the_terminal(cli):
    assert "\x1b" not in cli("plan", "--epsilon", "\x1b[31m", code=2).stderr


def test_no_command_has_more_than_35_parameters():
    whole = typer.main.get_command(app)
    most = {name: len(whole.get_command(None, name).params) for name in whole.list_commands(None)}
    assert max(most.values()) <= 35
    assert most["fit"] > 20  # so they are counted
