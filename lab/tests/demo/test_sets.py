import numpy as np
import pytest

from dptransfer_lab.demo.sets import PictureSet


def pictures(**changes):
    fields = {"pixels": np.zeros((2, 8, 8), np.uint8), "names": ("a", "b"), "labels": np.array([0, 1])}
    return PictureSet(**{**fields, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"pixels": np.ones((2, 8, 8), np.uint8)},
        {"names": ("a", "c")},
        {"labels": np.array([1, 0])},
        {"labels": None},
    ],
)
def test_the_digest_follows_every_part(changes):
    assert pictures().digest() == pictures().digest()
    assert pictures(**changes).digest() != pictures().digest()
