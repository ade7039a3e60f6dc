"""Audits that never become releases: membership attacks, per-instance losses, lower bounds on ε."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
