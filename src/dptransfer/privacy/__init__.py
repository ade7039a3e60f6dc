"""Relation, event, budget and guarantee: plain frozen data that everything else speaks in."""

from dptransfer.privacy.budget import Budget
from dptransfer.privacy.event import (
    SMALLEST_NOISE_MULTIPLIER,
    Event,
    GaussianEvent,
    SelectionEvent,
    event_from_dict,
    event_to_dict,
    in_relation,
    same_relation,
)
from dptransfer.privacy.guarantee import Guarantee
from dptransfer.privacy.relation import Relation

__all__ = [
    "SMALLEST_NOISE_MULTIPLIER",
    "Budget",
    "Event",
    "GaussianEvent",
    "Guarantee",
    "Relation",
    "SelectionEvent",
    "event_from_dict",
    "event_to_dict",
    "in_relation",
    "same_relation",
]
