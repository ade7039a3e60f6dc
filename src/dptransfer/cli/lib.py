"""Names of the library for commands, each imported when it is first used, so that help is fast."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
