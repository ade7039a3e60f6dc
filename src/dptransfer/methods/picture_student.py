"""What learns from the teachers' answers about public pictures: a linear head, or a network that looks further.

Post-processing, all of it: a student sees public pictures and released answers, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from dptransfer import _check
from dptransfer.arrays import EncodedRows, Floats
from dptransfer.data import EncoderIdentity, PublicEmbeddings, PublicImages
from dptransfer.encoders.in_memory import encode_pixels
from dptransfer.errors import ArgumentError
from dptransfer.features import Features, FittedFeatures, PublicMap, UnitNorm, apply
from dptransfer.methods.base import ImageMethod
from dptransfer.methods.student import linear_student
from dptransfer.methods.voting import Answers, Voting
from dptransfer.noise import NoiseSource
from dptransfer.release.heads import LinearHead

if TYPE_CHECKING:
    from dptransfer.deep.network import Network
    from dptransfer.encoders.delta import EncoderDelta


class Untaught(NamedTuple):
    """A student before it has heard an answer: public, all of it.

    Attributes:
        network: the public network whose rows it works on, or that it starts from.
        features: the map of these rows in front of its head.
        pool: the network's rows of the public pictures, for a linear student; else None.
    """

    network: Network
    features: FittedFeatures
    pool: EncodedRows | None


class Learned(NamedTuple):
    """A student as a run's `Outcome` takes it."""

    head: LinearHead
    features: FittedFeatures
    encoder: EncoderIdentity
    encoder_delta: EncoderDelta | None


@dataclass(frozen=True)
class PictureStudent(Voting, ImageMethod):
    """Base of the methods whose student learns from answers about public pictures.

    Its `prepare` calls `untaught_student` and its `run`, with the answers, `learned`.

    Attributes:
        student: 'linear', a head on frozen rows; or 'fixmatch' or 'freematch', which learn from what they
            make of altered pictures, too.
        student_trains: of the last two: 'head', or 'full' for the network with it.
        student_encoder: the network that the student works on or starts from; None for `encoder`. 'small-cnn'
            has seen no data, so that with 'full' a student learns from scratch.
        student_steps: of the last two: how many steps of training.
        student_batch: of the last two: answered pictures in a step, beside seven times as many of all.
        features: of the linear one: the public map of the network's rows.
        self_training: of the linear one: whether it goes on with pictures that nobody was asked about.
    """

    student: str = "linear"
    student_trains: str = "head"
    student_encoder: str | None = None
    student_steps: int = 1000
    student_batch: int = 64
    features: Features = field(default_factory=lambda: PublicMap(axes=256))
    self_training: bool = True

    checks: ClassVar[_check.Checks] = {
        "student": partial(_check.one_of, allowed=("linear", "fixmatch", "freematch")),
        "student_trains": partial(_check.one_of, allowed=("head", "full")),
        "student_steps": _check.whole,
        "student_batch": _check.whole,
    }

    def __post_init__(self) -> None:
        """Refuse a linear student with a network to train."""
        super().__post_init__()
        if self.student == "linear" and self.student_trains == "full":
            raise ArgumentError(
                "A linear student is a head on frozen rows; student_trains='full' asks for more. "
                "Set student='fixmatch' or 'freematch', or leave student_trains out."
            )

    def untaught_student(self, network: Network, public: PublicImages) -> Untaught:
        """The student's public start; `network` is that of the teachers."""
        if self.student_encoder is not None:
            from dptransfer.deep.network import network_of

            network = network_of(self.student_encoder, size=network.side, device=self.device)
            network.require_shape(public.pixels.shape[1:])
        if self.student != "linear":
            return Untaught(network, UnitNorm().fit(network.dimension, None), None)
        pool = encode_pixels(public.pixels, network.encoder)
        return Untaught(network, self.features.fit(network.dimension, PublicEmbeddings(pool)), pool)

    def learned(
        self, untaught: Untaught, public: PublicImages, answers: Answers, noise: NoiseSource
    ) -> Learned:
        """The student, as the same answers always leave it."""
        network, features, pool = untaught
        if pool is not None:
            soft = self.labels == "soft"
            head = linear_student(apply(features, pool), answers, soft=soft, self_training=self.self_training)
            return Learned(head, features, network.identity, None)
        from dptransfer.deep.semi_supervised import taught

        found = taught(
            network,
            public.pixels,
            answers.positions,
            self._targets(answers),
            rule=self.student,
            trains=self.student_trains,
            steps=self.student_steps,
            batch=self.student_batch,
            kept=noise.kept,
        )
        return Learned(LinearHead(found.weights, found.offset), features, network.identity, found.delta)

    def _targets(self, answers: Answers) -> Floats:
        """(answered, classes) probabilities."""
        if self.labels == "hard":
            return np.eye(answers.votes.shape[1])[answers.labels]
        return nearest_probabilities(answers.votes / answers.teachers)


def nearest_probabilities(rows: Floats) -> Floats:
    """The nearest point of the probability simplex to each row: less a number, and what is then negative zero.

    Of noisy votes it is what they say, if the noise is small, and the favourite alone, if it is large.

    >>> nearest_probabilities(np.array([[0.5, 0.3, 0.0], [9.0, 3.0, -5.0]])).round(3).tolist()
    [[0.567, 0.367, 0.067], [1.0, 0.0, 0.0]]
    """
    ordered = -np.sort(-rows, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    # With the numbers in descending order, those above the mean excess of all so far stay positive.
    stay = (ordered > excess).sum(axis=1)
    return np.maximum(rows - excess[np.arange(len(rows)), stay - 1][:, None], 0.0)
