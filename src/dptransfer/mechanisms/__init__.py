"""A query plus noise, with the event that says what it costs."""

from dptransfer.mechanisms.base import Mechanism
from dptransfer.mechanisms.gaussian import GaussianMechanism
from dptransfer.mechanisms.selection import (
    SELECTIONS,
    ExponentialMechanism,
    LaplaceNoisyMax,
    PermuteAndFlip,
    Selection,
)
from dptransfer.mechanisms.top_k import TopKMechanism

__all__ = [
    "SELECTIONS",
    "ExponentialMechanism",
    "GaussianMechanism",
    "LaplaceNoisyMax",
    "Mechanism",
    "PermuteAndFlip",
    "Selection",
    "TopKMechanism",
]
