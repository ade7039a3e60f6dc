"""Worker pools for large public data: this process, several processes, or a Ray cluster."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
