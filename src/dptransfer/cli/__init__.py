"""The command line, one file per command; `dptransfer.cli.commands` lists them.

The names here are for commands of other packages (entry points in the group `dptransfer.commands`), so that
they look like the library's own. Nothing imports numpy, scipy or torch when it is loaded, so that `dptransfer
--help` answers at once.
"""

from dptransfer.cli.options import AsJson, Overwrite, PublicPool
from dptransfer.cli.screen import console, say, show_facts, show_json, show_table, working

__all__ = [
    "AsJson",
    "Overwrite",
    "PublicPool",
    "console",
    "say",
    "show_facts",
    "show_json",
    "show_table",
    "working",
]
