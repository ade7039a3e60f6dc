"""Several owners, one model: plan a study, share sums with noise, join them into a release."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
