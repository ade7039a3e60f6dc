"""Methods; `METHODS` finds them, and those of other packages, by name."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
