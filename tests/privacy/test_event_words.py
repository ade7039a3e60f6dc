import math

from dptransfer.privacy import (
    BestOfManyEvent,
    GaussianEvent,
    Relation,
    SampledGaussianEvent,
    SelectionEvent,
    event_words,
    trials_law,
)

ADD = Relation.ADD_REMOVE


def test_every_kind_is_said_in_a_few_words():
    noise = GaussianEvent(3.73063, ADD)
    assert event_words(noise) == "noise multiplier 3.7306"
    assert event_words(noise, 3) == "noise multiplier 3.73"
    assert event_words(SelectionEvent(0.5, ADD, True, "exponential")) == "epsilon 0.5"
    assert (
        event_words(SampledGaussianEvent(1.1, 0.02, 1, ADD)) == "noise multiplier 1.1, 1 sample at rate 0.02"
    )
    assert event_words(GaussianEvent(20.0, ADD, times=28)).endswith(", 28 times")
    tuned = BestOfManyEvent(((noise,), (noise,)), 21, 1.0)
    assert event_words(tuned) == "best of about 21 trials (geometric) of 2 candidates"
    assert event_words(BestOfManyEvent(((noise,),), 21, 1.0)).endswith("1 candidate")


def test_laws_have_names():
    candidates = ((GaussianEvent(1.0, ADD),),)
    names = [trials_law(BestOfManyEvent(candidates, 9, shape)) for shape in (0.0, 1.0, math.inf, -0.5)]
    assert names == ["logarithmic", "geometric", "Poisson", "negative binomial, shape -0.5"]
