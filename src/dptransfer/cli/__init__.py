"""The command line, one file per command; `dptransfer.cli.commands` lists them.

The names here are for commands of other packages (entry points in the group `dptransfer.commands`), so that
they look like the library's own. They are loaded when they are first used. Nothing imports numpy, scipy or
torch when it is loaded, so that `dptransfer --help` answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dptransfer.cli.options import AsJson as AsJson
    from dptransfer.cli.options import Overwrite as Overwrite
    from dptransfer.cli.options import PublicPool as PublicPool
    from dptransfer.cli.screen import console as console
    from dptransfer.cli.screen import say as say
    from dptransfer.cli.screen import show_facts as show_facts
    from dptransfer.cli.screen import show_json as show_json
    from dptransfer.cli.screen import show_table as show_table
    from dptransfer.cli.screen import working as working

_HOMES = {
    "options": ("AsJson", "Overwrite", "PublicPool"),
    "screen": ("console", "say", "show_facts", "show_json", "show_table", "working"),
}
_PLACES = {name: f"dptransfer.cli.{home}:{name}" for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)

    def __getattr__(name: str) -> Any:
        from dptransfer.base.plugins import imported

        if name not in _PLACES:
            raise AttributeError(f"module 'dptransfer.cli' has no attribute {name!r}")
        return imported(_PLACES[name])
