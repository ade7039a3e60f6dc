"""Deterministic functions of private rows that know their own sensitivity."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
