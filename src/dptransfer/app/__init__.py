"""An application in the browser for a fit: data, persons, accuracy, charge, model."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
