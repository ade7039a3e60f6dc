"""How an encoder describes itself, once: what it is, what a user should know of it, and how it is loaded."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from dptransfer.encoders.base import Encoder, Kind
from dptransfer.errors import ArgumentError


@dataclass(frozen=True)
class EncoderNote:
    """What is known about an encoder before it is loaded.

    Attributes:
        name: what to pass to `get_encoder`; the encoder's identity bears it too, so that a release finds it.
        load: makes the encoder, a class or a function; `device` and `size` are passed if it takes them.
        summary: what it is, in one line.
        kind: images or texts.
        dimension: width of its rows; None if that depends on settings.
        install: how to get it.
        licence: of the weights.
        training_data: what it has seen. Privacy covers the private data only if they are not among this.
    """

    name: str
    load: Callable[..., Encoder]
    summary: str = ""
    kind: Kind = "image"
    dimension: int | None = None
    install: str = ""
    licence: str = "not stated"
    training_data: str = "not stated"

    @property
    def sized(self) -> bool:
        """Whether it leaves the size of pictures open."""
        return "size" in inspect.signature(self.load).parameters

    def encoder(self, *, size: int | None = None, device: str = "cpu") -> Encoder:
        """The encoder itself, loaded.

        Args:
            size: picture size, for encoders that leave it open.
            device: 'cpu', 'cuda', 'cuda:1', ...
        """
        given: dict[str, int | str] = {}
        if "device" in inspect.signature(self.load).parameters:
            given["device"] = device
        elif device != "cpu":
            raise ArgumentError(f"The encoder '{self.name}' runs on the cpu; got '{device}'. Leave it out.")
        if size is not None:
            given["size"] = size
        if size is not None and not self.sized:
            raise ArgumentError(
                f"size does not apply to the encoder '{self.name}'; it has its own. Leave it out."
            )
        loaded = self.load(**given)
        if not isinstance(loaded, Encoder):
            raise ArgumentError(
                f"An encoder has identity, dimension, kind and encode; '{self.name}' loads as "
                f"{type(loaded).__name__}. The page 'Adding a method' shows one."
            )
        return loaded
