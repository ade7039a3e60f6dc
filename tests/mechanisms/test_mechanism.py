from dataclasses import replace

import numpy as np
import pytest

from dptransfer.mechanisms import GaussianMechanism, joint_rounds
from dptransfer.mechanisms.mechanism import ROUND_UP, at_noise_of
from dptransfer.privacy import Relation, SelectionEvent
from dptransfer.queries import ClassCounts

from .test_gaussian import parts

ADD = Relation.ADD_REMOVE


def test_scales_are_rounded_up_by_more_than_a_float_product_can_lose():
    assert ROUND_UP > 1 + 4 * np.finfo(np.float64).eps
    assert ROUND_UP < 1 + 1e-11


def test_a_step_takes_the_noise_of_a_recorded_event_of_its_kind():
    step = GaussianMechanism(ClassCounts(3), 2.0, ADD)
    assert at_noise_of(replace(step.event, noise_multiplier=5.0), step) == replace(step, noise_multiplier=5.0)
    assert at_noise_of(SelectionEvent(0.5, ADD, True, "exponential"), step) is step


def test_joint_rounds_take_it_all_together():
    (joint,) = joint_rounds(parts(), "both")
    louder = at_noise_of(replace(joint.event, noise_multiplier=2 * joint.event.noise_multiplier), joint)
    assert louder.event.noise_multiplier == pytest.approx(2 * joint.event.noise_multiplier)
    assert louder.reach == joint.reach
    first, second = ([one.noise_multiplier for one in each.parts] for each in (joint, louder))
    assert second == pytest.approx([2 * one for one in first])
