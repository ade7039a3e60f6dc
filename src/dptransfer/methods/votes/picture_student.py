"""What learns from answers about public pictures: a linear head, or a network that looks further.

Post-processing, all of it: a student sees public pictures and released answers, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from dptransfer.base.types import EncodedRows
from dptransfer.data import EncoderIdentity, PublicEmbeddings
from dptransfer.encoders.in_memory import encode_pixels
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import Features, FittedFeatures, UnitNorm, apply
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods.about import Whole, one_of
from dptransfer.methods.method import ImageMethod
from dptransfer.methods.votes.student import linear_student
from dptransfer.methods.votes.voting import Answers, Voting
from dptransfer.noise import NoiseSource
from dptransfer.release.classifier import probabilities
from dptransfer.release.heads import LinearHead
from dptransfer.sources import PublicImages

if TYPE_CHECKING:
    from dptransfer.encoders.encoder import EncoderDelta
    from dptransfer.methods.deep.network import Network


class Untaught(NamedTuple):
    """A student before it has heard an answer: public, all of it.

    Attributes:
        network: the public network whose rows it works on, or that it starts from.
        pool: the network's rows of the public pictures.
        features: the map of these that a linear student works on.
    """

    network: Network
    pool: EncodedRows
    features: FittedFeatures


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
            make of altered pictures, too: with hard `labels` from the teachers' own, else from what a linear
            student makes of their votes.
        student_trains: of the last two: 'head', or 'full' for the network with it.
        student_encoder: the network that the student works on or starts from; None for `encoder`. 'small-cnn'
            has seen no data, so that with 'full' a student learns from scratch; then with hard `labels`,
            since a linear student makes little of such a network's rows.
        student_steps: of the last two: how many steps of training.
        student_batch: of the last two: answered pictures in a step, beside seven times as many of all.
        features: the public map of the network's rows that a linear student works on.
        self_training: whether a linear student goes on with pictures that nobody was asked about.
    """

    student: Annotated[str, one_of("linear", "fixmatch", "freematch")] = "linear"
    student_trains: Annotated[str, one_of("head", "full")] = "head"
    student_encoder: str | None = None
    student_steps: Whole = 1000
    student_batch: Whole = 64
    features: Features = field(default_factory=lambda: PublicMap(axes=256))
    self_training: bool = True

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
            from dptransfer.methods.deep.network import network_of

            network = network_of(
                self.student_encoder, size=network.side, device=self.device, grey_range=self.grey_range
            )
            network.require_shape(public.pixels.shape[1:])
        pool = encode_pixels(public.pixels, network.encoder)
        return Untaught(network, pool, self.features.fit(network.dimension, PublicEmbeddings(pool)))

    def learned(
        self, untaught: Untaught, public: PublicImages, answers: Answers, noise: NoiseSource
    ) -> Learned:
        """The student, as the same answers always leave it."""
        network, pool, features = untaught
        rows, soft = apply(features, pool), self.labels == "soft"
        linear = linear_student(rows, answers, soft=soft, self_training=self.self_training)
        if self.student == "linear":
            return Learned(linear, features, network.identity, None)
        from dptransfer.methods.deep.semi_supervised import taught

        # A single picture's votes are mostly noise, which a network would learn by heart; the linear student
        # averages it out.
        found_by_all = probabilities(linear.scores(rows[answers.positions]), linear.temperature)
        targets = found_by_all if soft else np.eye(answers.votes.shape[1])[answers.labels]
        found = taught(
            network,
            public.pixels[:],  # files are decoded once
            answers.positions,
            targets,
            rule=self.student,
            trains=self.student_trains,
            steps=self.student_steps,
            batch=self.student_batch,
            kept=noise.keep,
        )
        head = LinearHead(found.weights, found.offset)
        return Learned(head, UnitNorm().fit(network.dimension, None), network.identity, found.delta)
