"""Frozen public encoders, and the way from images or texts to embeddings."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
