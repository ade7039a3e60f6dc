"""Embeddings, labels, people and facts: types, and the .emb folder."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
