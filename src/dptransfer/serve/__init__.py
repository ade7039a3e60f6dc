"""A server for one release: the Open Inference Protocol, MLflow's scoring routes, metrics."""

from dptransfer.base.lazy_exports import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__)
