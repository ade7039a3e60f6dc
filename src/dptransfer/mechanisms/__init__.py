"""A query plus noise, with the event that says what it costs."""

from dptransfer.mechanisms.base import Mechanism, Step
from dptransfer.mechanisms.gaussian import GaussianMechanism
from dptransfer.mechanisms.gaussian_shares import GaussianShares, SharesLeft
from dptransfer.mechanisms.joint_rounds import JointRounds, jointly, rounds_of
from dptransfer.mechanisms.rounds import GaussianRounds, RoundsLeft
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
