"""Feature maps: public, row by row, from floats to integers of bounded norm."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
