"""Groups of commands whose help is there at once."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class QuickHelp(TyperGroup):
    """A group that does not load what only its commands need."""

    def get_help_option(self, ctx: Any) -> Any:
        """The group's own `--help`, which is off unless it is given.

        Typer leaves it undecided, and loads pydantic, a third of the whole time, to find out what that means
        for a switch.
        """
        option = super().get_help_option(ctx)
        if option is not None and option.default is None:
            option.default = False
        return option
