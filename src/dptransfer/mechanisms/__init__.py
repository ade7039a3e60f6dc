"""A query plus noise, with the event that says what it costs."""

from dptransfer.mechanisms.base import Mechanism, Step
from dptransfer.mechanisms.gaussian import GaussianMechanism, GaussianShares, SharesLeft
from dptransfer.mechanisms.rounds import GaussianRounds, JointRounds, RoundsLeft, jointly, rounds_of
from dptransfer.mechanisms.selection import (
    SELECTIONS,
    ExponentialMechanism,
    LaplaceNoisyMax,
    PermuteAndFlip,
    Selection,
    TopKMechanism,
)

__all__ = [
    "SELECTIONS",
    "ExponentialMechanism",
    "GaussianMechanism",
    "GaussianRounds",
    "GaussianShares",
    "JointRounds",
    "LaplaceNoisyMax",
    "Mechanism",
    "PermuteAndFlip",
    "RoundsLeft",
    "Selection",
    "SharesLeft",
    "Step",
    "TopKMechanism",
    "jointly",
    "rounds_of",
]
