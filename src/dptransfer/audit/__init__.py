"""Checks that never become releases: attacks, each example's own loss, ε bounded from below."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
