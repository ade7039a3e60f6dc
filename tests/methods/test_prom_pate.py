from dataclasses import replace

import pytest

import dptransfer as dpt
from dptransfer.errors import ArgumentError

pytest.importorskip("torch")

from .test_picture_voting import METHODS, POOL, private  # torch is there

METHOD = METHODS["prom-pate"]


def teachers(**settings):
    return replace(METHOD, **settings).prepare(private().facts, POOL).teachers


def test_its_settings_are_those_of_its_prompts():
    assert teachers().inner == 4
    assert teachers(inner=None).inner == 7
    assert [len(teachers(label_map=one).start(1)) for one in ("random", "one-layer", "two-layer")] == [
        1,
        3,
        5,
    ]
    assert teachers(mask=True)._mask.sum() == 8 * 8 - 4 * 4
    assert teachers(mask=False)._mask.sum() == 8 * 8


def test_a_label_map_of_another_name_is_refused():
    with pytest.raises(ArgumentError, match="label_map must be one of one-layer, random, two-layer"):
        dpt.methods.PromPATE(label_map="three-layer")


def test_its_course_is_the_papers():
    course = (
        dpt.methods.PromPATE(encoder=METHOD.encoder, teachers=4).prepare(private(size=200).facts, POOL).course
    )
    assert (course.batch, course.rate, course.decay) == (16, 0.05, 0.7)
    assert course.steps == 32  # ten times fifty pictures, in batches of sixteen
