"""Differentially private classifiers from private embeddings and public encoders.

Names are imported when they are first used, so that `import dptransfer` costs next to nothing.
"""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
