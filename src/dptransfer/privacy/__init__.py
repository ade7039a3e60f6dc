"""Relation, unit, event, budget and guarantee: plain frozen data that everything else speaks in."""

from dptransfer.privacy.budget import Budget
from dptransfer.privacy.event import (
    Event,
    event_words,
    for_group,
    for_people,
    for_rows,
    in_relation,
    same_relation,
    same_unit,
)
from dptransfer.privacy.event_json import event_from_dict, event_to_dict
from dptransfer.privacy.events import (
    SMALLEST_NOISE_MULTIPLIER,
    BestOfManyEvent,
    DisjointEvent,
    GaussianEvent,
    SampledGaussianEvent,
    SelectionEvent,
)
from dptransfer.privacy.guarantee import LABEL_KEPT, Guarantee
from dptransfer.privacy.numbers import number, plain_exponents, rounded_up, typeset
from dptransfer.privacy.relation import EACH_ROW, Bound, Relation, Unit

__all__ = [
    "EACH_ROW",
    "LABEL_KEPT",
    "SMALLEST_NOISE_MULTIPLIER",
    "BestOfManyEvent",
    "Bound",
    "Budget",
    "DisjointEvent",
    "Event",
    "GaussianEvent",
    "Guarantee",
    "Relation",
    "SampledGaussianEvent",
    "SelectionEvent",
    "Unit",
    "event_from_dict",
    "event_to_dict",
    "event_words",
    "for_group",
    "for_people",
    "for_rows",
    "in_relation",
    "number",
    "plain_exponents",
    "rounded_up",
    "same_relation",
    "same_unit",
    "typeset",
]
