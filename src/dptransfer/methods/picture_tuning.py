"""Choosing among configurations of methods that see pixels, on private pictures, and paying for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from dptransfer.arrays import AnyArray
from dptransfer.encoders import encode_pixels
from dptransfer.errors import ArgumentError
from dptransfer.methods.base import Outcome, PrivateMethod
from dptransfer.methods.image_method import ImageMethod
from dptransfer.methods.private_tuning import PrivateTuning

_SHARED = ("encoder", "size", "device", "grey_range")


@dataclass(frozen=True)
class PictureTuning(ImageMethod, PrivateTuning):
    """`PrivateTuning` among methods on pictures: a trial is scored by the encoder as the trial has left it.

    Releases:      the result of the best trial, with the candidate's name.
    Guarantee:     one BestOfManyEvent: each candidate's events and its score's, repeated by the law of
                   trials.
    Relation:      add/remove one unit, or replace one unit, an example or a person; the budget says which.
    Sensitivity:   the candidates', and `CorrectCount`'s: a picture's row is a function of that picture and of
                   the trial's encoder, which is part of the trial's private output.
    Assumes:       what `PrivateTuning` assumes, and what the candidates do of their networks.
    Reference:     Papernot and Steinke (2022), "Hyperparameter tuning with Rényi differential privacy".

    Attributes:
        encoder: that of the candidates, who have one; so with size, device and grey_range.
    """

    chooses: ClassVar[type[Any]] = ImageMethod

    def __post_init__(self) -> None:
        """Refuse what is no fixed list of methods on the same pictures."""
        PrivateTuning.__post_init__(self)
        first = self.candidates[0]
        if any(getattr(one, name) != getattr(first, name) for one in self.candidates for name in _SHARED):
            raise ArgumentError(
                "Candidates on pictures must be of one encoder, size, device and grey_range, as the pictures "
                "are read once for all of them; these differ. Tune something else."
            )
        if self.tune_on_public:
            raise ArgumentError(
                "Tuning on public data tries configurations on tasks made of public rows, and "
                f"'{first.name}' takes pictures. Leave tune_on_public out."
            )
        for name in _SHARED:
            object.__setattr__(self, name, getattr(first, name))

    def rows_for(self, method: PrivateMethod, outcome: Outcome, private: Any) -> AnyArray:
        """Rows of the private pictures by the trial's encoder, each a function of its picture alone."""
        seen_by = cast(ImageMethod, method).encoder_after(outcome.encoder, outcome.encoder_delta)
        return encode_pixels(private.pixels, seen_by)
