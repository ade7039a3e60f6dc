"""Limits on what one client may ask of a server."""

from __future__ import annotations

from dataclasses import dataclass

from dptransfer.base import checks


@dataclass(frozen=True)
class Limits:
    """What one client may ask for.

    Attributes:
        megabytes: of the body of a request.
        inputs: of a request.
        megapixels: of a picture.
        seconds: for a request to arrive, and for it to be answered.
        waiting: requests that wait to be scored.
    """

    megabytes: float = 32.0
    inputs: int = 4096
    megapixels: float = 50.0
    seconds: float = 30.0
    waiting: int = 256

    def __post_init__(self) -> None:
        for name in ("megabytes", "megapixels", "seconds"):
            checks.positive(name, getattr(self, name))
        for name in ("inputs", "waiting"):
            checks.whole(name, getattr(self, name), at_least=1)
