"""Events in a few words, for lists and tables."""

from __future__ import annotations

import math

from dptransfer.privacy.event import (
    BestOfManyEvent,
    Event,
    SampledGaussianEvent,
    SelectionEvent,
)
from dptransfer.privacy.numbers import number

_LAWS = {0.0: "logarithmic", 1.0: "geometric", math.inf: "Poisson"}


def event_words(event: Event, digits: int = 5) -> str:
    """What was done, without the label.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> event_words(GaussianEvent(20.0, Relation.ADD_REMOVE, times=28))
    'noise multiplier 20, 28 times'
    >>> event_words(SampledGaussianEvent(1.1, 0.01, 500, Relation.ADD_REMOVE))
    'noise multiplier 1.1, 500 samples at rate 0.01'
    """
    if isinstance(event, SelectionEvent):
        return f"epsilon {number(event.epsilon, digits)}"
    if isinstance(event, BestOfManyEvent):
        count = len(event.candidates)
        tried = f"{count} candidate{'s' * (count != 1)}"
        return f"best of about {number(event.mean_trials, digits)} trials ({trials_law(event)}) of {tried}"
    noise = f"noise multiplier {number(event.noise_multiplier, digits)}"
    if isinstance(event, SampledGaussianEvent):
        samples = f"{event.times} sample{'s' * (event.times != 1)}"
        return f"{noise}, {samples} at rate {number(event.sampling_rate, digits)}"
    return noise + (f", {event.times} times" if event.times > 1 else "")


def trials_law(event: BestOfManyEvent) -> str:
    """The law of the number of trials.

    >>> from dptransfer.privacy import GaussianEvent, Relation
    >>> trials_law(BestOfManyEvent(((GaussianEvent(2.0, Relation.ADD_REMOVE),),), 10, 1.0))
    'geometric'
    """
    return _LAWS.get(event.shape, f"negative binomial, shape {number(event.shape)}")
