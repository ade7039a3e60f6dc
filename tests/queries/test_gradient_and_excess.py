import math

import numpy as np
import pytest
from hypothesis import strategies as st

from dptransfer.errors import ArgumentError
from dptransfer.exact import chunks
from dptransfer.methods.heads import start as softmax
from dptransfer.privacy import Relation
from dptransfer.queries import GradientAndExcess, SoftmaxGradient

from .neighbours import CLASSES, EMPTY, MAPS, WIDTH, of_neighbours, reach, stays_within

UNIT = MAPS["unit norm"]


def asked(threshold=0.5, weight=0.25, clip=1.0, size=1.0, seed=0):
    linear = np.random.default_rng(seed).normal(size=(CLASSES, WIDTH)) * size
    return GradientAndExcess(SoftmaxGradient(UNIT, linear, np.zeros(CLASSES), clip=clip), threshold, weight)


@of_neighbours(
    seed=st.integers(0, 9),
    weight=st.sampled_from([2**-16, 0.25, 0.3, 1.0, 7.7]),
    clip=st.sampled_from([0.01, 0.5, 1.4]),
)
def test_answers_stay_within_their_sensitivity(data, first, second, seed, weight, clip):
    assert stays_within(asked(clip, weight, clip, 3.0, seed), data, first, second)


@pytest.mark.parametrize("weight", [0.25, 1.0, 3.0])
def test_the_sensitivity_is_reached(weight):
    """Add: a long gradient that is counted. Replace: gradients 2 apart of which one is counted.

    With a steep offset the wrong guess has a residual of norm √2. Its opposite row, a hair shorter than the
    threshold, has the same direction and is not counted: a second label and a threshold between do that.
    """
    steep = SoftmaxGradient(UNIT, np.zeros((CLASSES, WIDTH)), np.array([0.0, 1e3, 0.0]), clip=0.1)
    right = ([1.0, 0.0, 0.0], 0)
    counted = GradientAndExcess(steep, 1.0, weight)
    assert 0.99 <= reach(counted, right, right, Relation.ADD_REMOVE) <= 1

    # Residuals of the two rows: (p−1, 1−p, 0) with p a little more than ½ and a little less.
    gentle = np.zeros((CLASSES, WIDTH))
    gentle[0, 0] = 0.01
    offset = np.array([0.0, 0.0, -30.0])
    between = GradientAndExcess(SoftmaxGradient(UNIT, gentle, offset, clip=0.1), math.sqrt(0.5), weight)
    left = ([-1.0, 0.0, 0.0], 0)
    assert between(np.array([left[0]]), np.array([0]))[-1] > between(np.array([right[0]]), np.array([0]))[-1]
    assert 0.99 <= reach(between, right, left, Relation.REPLACE_ONE) <= 1


class Uncounted(GradientAndExcess):
    """A planted bug: the count is released with the gradient and its sensitivity is forgotten."""

    def l2_sensitivity(self, relation):
        return self.gradient.l2_sensitivity(relation)


def test_the_check_catches_a_count_that_is_not_paid_for():
    steep = SoftmaxGradient(UNIT, np.zeros((CLASSES, WIDTH)), np.array([0.0, 1e3, 0.0]), clip=0.1)
    right = ([1.0, 0.0, 0.0], 0)
    assert stays_within(GradientAndExcess(steep, 1.0, 0.25), EMPTY, right, right)
    assert not stays_within(Uncounted(steep, 1.0, 0.25), EMPTY, right, right)


def test_it_is_the_gradient_and_the_number_of_long_ones():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(300, WIDTH)), rng.integers(0, CLASSES, 300)
    made = asked(threshold=0.8, size=2.0)
    answer = made(x, y)
    assert answer.shape == made.shape == (CLASSES * WIDTH + 1,)
    assert (answer[:-1].reshape(CLASSES, WIDTH) == made.gradient(x, y)).all()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    norms = np.linalg.norm(softmax.residuals(made.gradient.linear, unit, y), axis=1)
    close = np.abs(norms - 0.8) < 2e-3  # rounded logits may put these on either side
    found = answer[-1] / made.grid / 0.25
    assert (norms > 0.8).sum() - close.sum() <= found <= (norms > 0.8).sum() + close.sum()
    assert close.sum() < 10 < found < 290


@pytest.mark.parametrize("elements", [1, 64, 10**9])
def test_chunks_and_row_order_do_not_change_an_integer(monkeypatch, elements):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, WIDTH)), rng.integers(0, CLASSES, 200)
    wanted = asked()(x, y)
    monkeypatch.setattr(chunks, "_CHUNK_ELEMENTS", elements)
    order = rng.permutation(200)
    assert (asked()(x[order], y[order]) == wanted).all()


def test_the_threshold_does_not_change_the_price():
    for relation in Relation:
        assert asked(0.1).l2_sensitivity(relation) == asked(1.3, clip=0.2).l2_sensitivity(relation)
    assert asked(weight=1.0).l2_sensitivity(Relation.ADD_REMOVE) == pytest.approx(math.sqrt(2))
    assert asked(weight=1.0).l2_sensitivity(Relation.REPLACE_ONE) == pytest.approx(math.sqrt(5))
    assert not asked()(*EMPTY).any()


@pytest.mark.parametrize("weight", [0.0, 2.0**-17, 16.1, 1e300, math.nan])
def test_a_weight_that_the_grid_cannot_hold_is_refused_before_rows_are_read(weight):
    with pytest.raises(ArgumentError, match="count_weight"):
        asked(weight=weight)
    assert asked(weight=16)(*EMPTY)[-1] == 0
