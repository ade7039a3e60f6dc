"""How a picture of any shape becomes one of the shape that a model takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dptransfer.base.types import PixelArray
from dptransfer.errors import DataError
from dptransfer.sources.decode import in_colour

if TYPE_CHECKING:
    from PIL import Image

_WAYS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}  # as Pillow numbers
_MOST_PIXELS = 2**27  # 400 MB; one picture of 1 × 60,000 would take 12 GB, and everybody's encoding with it


@dataclass(frozen=True)
class Framing:
    """A picture squeezed to a shape, or the middle of one whose shorter side is squeezed first.

    Attributes:
        height: of what leaves.
        width: likewise.
        resample: how pixels are interpolated: 'bicubic', 'bilinear', 'lanczos', ...
        shortest: what the shorter side is squeezed to before the middle is cut out; None squeezes all of it.
    """

    height: int
    width: int
    resample: str = "bicubic"
    shortest: int | None = None

    def __post_init__(self) -> None:
        """Check what may come from somebody's file."""
        most = max(self.height, self.width) if self.shortest is None else self.shortest
        if not 0 < min(self.height, self.width) <= max(self.height, self.width) <= most:
            raise DataError(
                f"A framing must cut out less than there is; got '{self}'. Export the model again."
            )
        if self.resample not in _WAYS:
            raise DataError(
                f"A framing must interpolate as Pillow does; got '{self}'. Export the model again."
            )

    def __str__(self) -> str:
        first = "" if self.shortest is None else f" middle of {self.shortest}"
        return f"{self.height}x{self.width} {self.resample}{first}"

    def __call__(self, image: Image.Image) -> PixelArray:
        """The picture's bytes, (height, width, 3)."""
        from PIL.Image import Resampling

        image, way = in_colour(image), Resampling(_WAYS[self.resample])
        if self.shortest is None:
            return np.asarray(image.resize((self.width, self.height), way))
        short, long = min(image.size), max(image.size)
        sides = [self.shortest, int(self.shortest * long / short)]
        if self.shortest * sides[1] > _MOST_PIXELS:
            raise DataError(
                "A picture must not be a strip that grows beyond 2**27 pixels when its shorter side fits the "
                "model; this one is. Cut it."
            )
        across, down = sides if image.width <= image.height else sides[::-1]
        left, above = (across - self.width) // 2, (down - self.height) // 2
        whole = np.asarray(image.resize((across, down), way))
        return whole[above : above + self.height, left : left + self.width]

    @classmethod
    def of_processor(cls, told: dict[str, Any]) -> Framing | None:
        """What a `transformers` image processor says that it does; None where it is something else."""
        size, crop = dict(told.get("size") or {}), dict(told.get("crop_size") or {})
        way = next((name for name, number in _WAYS.items() if number == told.get("resample")), None)
        if not told.get("do_resize") or told.get("do_pad") or way is None:
            return None
        cut = bool(told.get("do_center_crop"))
        if set(size) == {"height", "width"} and not cut:
            return cls(size["height"], size["width"], way)
        if set(size) == {"shortest_edge"} and cut and set(crop) == {"height", "width"}:
            fits = max(crop.values()) <= size["shortest_edge"]
            return cls(crop["height"], crop["width"], way, size["shortest_edge"]) if fits else None
        return None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return asdict(self)
