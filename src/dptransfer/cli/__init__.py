"""The command line, one file per command; `dptransfer.cli.commands` lists them.

The names here are for commands of other packages (entry points in the group `dptransfer.commands`), so that
they look like the library's own. They are loaded when they are first used. Nothing imports numpy, scipy or
torch when it is loaded, so that `dptransfer --help` answers at once.
"""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
