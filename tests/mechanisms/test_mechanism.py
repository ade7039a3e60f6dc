import numpy as np
import pytest

from dptransfer.mechanisms.mechanism import ROUND_UP
from dptransfer.noise import SeededNoise
from dptransfer.privacy import GaussianEvent, SelectionEvent

from .test_gaussian import sums
from .test_selection import LAWS, top_k
from .test_selection import mechanism as selection

SCORES = [1, 2, 3, 4]
MECHANISMS = {
    "gaussian": sums(classes=2, width=3),
    "top-k": top_k(2, scores=SCORES),
    **{name: selection(name, scores=SCORES) for name in LAWS},
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_has_its_event_before_it_sees_a_row_and_releases_by_noise_alone(name):
    made = MECHANISMS[name]
    before = made.event
    assert isinstance(before, GaussianEvent | SelectionEvent)
    first, again, other = (
        made.release(np.eye(3), np.array([0, 1, 1]), noise=SeededNoise(s)) for s in (1, 1, 2)
    )
    assert (first == again).all()
    assert name != "gaussian" or (first != other).all()
    assert made.event == before


def test_scales_are_rounded_up_by_more_than_a_float_product_can_lose():
    assert ROUND_UP > 1 + 4 * np.finfo(np.float64).eps
    assert ROUND_UP < 1 + 1e-11
