"""The heavy kernels, one function signature each; every backend returns the same integers."""

from dptransfer.compute.similarity import class_similarity

__all__ = ["class_similarity"]
