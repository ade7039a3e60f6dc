"""Which encoder made a set of embeddings: compared before two sets are used together."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dptransfer.data.grey_levels import GreyRange
from dptransfer.errors import Incompatible

_NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"


@dataclass(frozen=True)
class EncoderIdentity:
    """Name, weights, preprocessing and runtime of the encoder behind a set of embeddings.

    Two sets of embeddings live in one space only when all four agree, so all four are compared.

    Attributes:
        name: what a user calls it, for example 'efficientnet-lite0'.
        weights: SHA-256 of the weights.
        transform: the preprocessing in words and numbers, such as 'rgb 224 bicubic (x-127)/128, mean pool'.
        size: the side of the pictures, for encoders that are made for a size of the user's choice. It is not
            compared: `transform` says it too, and older files say it there alone.
        runtime: 'onnx' where ONNX Runtime made the rows of an encoder that torch can run as well: the two
            round differently, so that one picture has a row by each. None is torch, or an encoder's only way.
    """

    name: str
    weights: str
    transform: str
    size: int | None = field(default=None, compare=False)
    runtime: str | None = None

    def __str__(self) -> str:
        by = "" if self.runtime is None else f"; by {self.runtime}"
        return f"{self.name} [{self.weights[:12]}; {self.transform}{by}]"

    @property
    def picture_size(self) -> int | None:
        """`size`, or what `transform` says where a file was written before the size was on record.

        One of unequal sides is the model's own and nobody's choice.
        """
        match self.transform.split():
            case ["rgb", sides, "bicubic", *_] if self.size is None:
                height, _, width = sides.partition("x")
                return int(height) if height.isdecimal() and width in ("", height) else None
        return self.size

    @property
    def grey_range(self) -> GreyRange | None:
        """The declared black and white of pictures of more than bytes; None if files say it themselves."""
        found = re.search(rf", greys ({_NUMBER}) to ({_NUMBER})$", self.transform)
        return None if found is None else (float(found[1]), float(found[2]))

    def reading(self, grey_range: GreyRange) -> EncoderIdentity:
        """The same encoder of pictures whose greys are read so; rows of both do not mix.

        >>> identity = EncoderIdentity("tiny-net", "ab" * 32, "rgb 8").reading((0, 4095))
        >>> identity.transform, identity.grey_range
        ('rgb 8, greys 0.0 to 4095.0', (0.0, 4095.0))
        """
        low, high = map(float, grey_range)
        return replace(self, transform=f"{self.transform}, greys {low!r} to {high!r}")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, fields: dict[str, Any] | None) -> EncoderIdentity | None:
        """Read what `to_dict` wrote; None stays None."""
        return None if fields is None else cls(**fields)


def require_same_encoder(
    first: EncoderIdentity | None, second: EncoderIdentity | None, *, names: tuple[str, str]
) -> None:
    """Raise unless both encoders agree; embeddings without an encoder on record match anything."""
    if first is None or second is None or first == second:
        return
    remedy = "Encode both with the same encoder and the same transform."
    if first.name.startswith(f"{second.name}+"):  # a release changes it, see `EncoderDelta.identity`
        remedy = f"Rows of {second.name} as it was are of no use here: give the pictures themselves."
    if replace(first, runtime=second.runtime) == second:
        remedy = (
            "They differ in their last digits alone, but an example has one row. Encode both the same way, "
            "with 'dptransfer encode --runtime torch', as versions up to 0.5 did, or with --runtime onnx."
        )
    raise Incompatible(
        f"{names[0]} and {names[1]} must come from one encoder; got {first} and {second}. {remedy}"
    )
