from typer.core import TyperGroup

from dptransfer.cli.main import app
from dptransfer.cli.quick_help import QuickHelp


def test_every_group_of_commands_has_quick_help():
    """A group that were left out would load pydantic for each of its commands' help."""
    from typer.main import get_command

    whole = get_command(app)
    groups = [one for one in whole.commands.values() if isinstance(one, TyperGroup)]
    assert {group.name for group in groups} == {"ledger", "bench"}
    assert all(isinstance(group, QuickHelp) for group in (whole, *groups))


def test_help_is_still_an_option_that_works(cli):
    for words in ((), ("bench",), ("ledger",)):
        assert "--help" in cli(*words, "--help").stdout
        assert "Usage" in cli(*words, "-h").stdout
