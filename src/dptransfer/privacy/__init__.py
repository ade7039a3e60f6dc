"""Relation, unit, event, budget and guarantee: plain frozen data that everything else speaks in."""

from dptransfer.base.lazy_exports import lazy_exports
from dptransfer.privacy import events as events  # a kind can be read once its class is defined

__getattr__, __dir__ = lazy_exports(__name__)
