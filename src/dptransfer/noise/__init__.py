"""Privacy noise: sources, exact samplers, and what their arithmetic costs."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
