"""The heavy kernels, one function signature each; every backend returns the same integers."""

from dptransfer.compute.cores import usable_cores
from dptransfer.compute.similarity import class_similarity
from dptransfer.compute.sums import class_sums

__all__ = ["class_similarity", "class_sums", "usable_cores"]
