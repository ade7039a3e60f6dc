"""The fitted classifier, and the same thing as files: release directory, card, verification, ONNX."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
