"""A static page that runs a release in the visitor's browser, and sends nothing anywhere."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
