"""What makes each method on images quick enough to be tried; the images are those of `dptransfer.testing`."""

from dataclasses import fields

from dptransfer.testing.sample_data import IMAGES as PICTURES
from methods.deep.tiny import PLACE

__all__ = ["PICTURES", "QUICK", "quick"]
QUICK = {
    "encoder": PLACE,
    "steps": 2,
    "sampling_rate": 1.0,  # samples take long to account for, and have tests of their own
    "micro_batch": 8,
    "rank": 2,
    "teachers": 4,
    "queries": 6,
    "epochs": 2.0,
    "rate": 0.02,
    "batch": 4,
    "student_steps": 2,
}
"""Settings of methods on pictures; each method takes those that it has."""


def quick(kind):
    """The method as it comes, but with a tiny network, few steps and few teachers."""
    return kind(**{one.name: QUICK[one.name] for one in fields(kind) if one.name in QUICK})
