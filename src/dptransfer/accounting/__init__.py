"""From events to numbers: the exact curve, composition, calibration, and the attacker's view."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
