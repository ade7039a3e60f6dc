"""Relation, unit, event, budget and guarantee: plain frozen data that everything else speaks in."""

from dptransfer.privacy.best_of_many_event import BestOfManyEvent
from dptransfer.privacy.budget import Budget
from dptransfer.privacy.disjoint_event import DisjointEvent
from dptransfer.privacy.event import Event, event_words, same_relation, same_unit
from dptransfer.privacy.event_json import event_from_dict, event_to_dict
from dptransfer.privacy.gaussian_event import SMALLEST_NOISE_MULTIPLIER, GaussianEvent, SampledGaussianEvent
from dptransfer.privacy.guarantee import LABEL_KEPT, Guarantee
from dptransfer.privacy.numbers import number, plain_exponents, rounded_up, typeset
from dptransfer.privacy.relation import Relation
from dptransfer.privacy.restate import for_group, for_people, for_rows, in_relation
from dptransfer.privacy.selection_event import SelectionEvent
from dptransfer.privacy.unit import EACH_ROW, Bound, Unit

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
