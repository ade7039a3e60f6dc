"""What methods that see pixels have in common: a public network, and how pictures are read for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from dptransfer.base import checks
from dptransfer.data import PrivateData, PublicData
from dptransfer.data.grey_levels import GreyRange, declared_range
from dptransfer.errors import Incompatible
from dptransfer.methods.base import PrivateMethod
from dptransfer.sources import PrivateImages, PublicImages

if TYPE_CHECKING:
    from dptransfer.data.identity import EncoderIdentity
    from dptransfer.encoders import Encoder
    from dptransfer.encoders.base import EncoderDelta
    from dptransfer.methods.deep.network import Network


@dataclass(frozen=True)
class ImageMethod(PrivateMethod):
    """Base of the methods that must see pixels; their outcome brings its own feature map.

    Attributes:
        encoder: the public encoder whose network it works with, as `get_encoder` takes it.
        size: side of the pictures, for encoders that leave it open.
        device: where it computes: 'cpu', 'cuda', ...
        grey_range: how the pictures were read, as `PrivateImages` takes it; a release reads others so.
    """

    encoder: str = "efficientnet-lite0"
    size: int | None = None
    device: str = "cpu"
    grey_range: GreyRange | None = field(default=None, kw_only=True)

    field_checks: ClassVar[checks.Checks] = {"grey_range": lambda _, value: declared_range(value)}
    takes: ClassVar[type[Any]] = PrivateImages
    takes_public: ClassVar[type[Any]] = PublicImages

    def network(self) -> Network:
        """The public network, loaded; its `side` is that of the pictures."""
        from dptransfer.methods.deep.network import network_of

        return network_of(self.encoder, size=self.size, device=self.device, grey_range=self.grey_range)

    def _require_data(self, private: PrivateData, public: PublicData | None) -> None:
        super()._require_data(private, public)
        if {getattr(one, "grey_range", self.grey_range) for one in (private, public)} != {self.grey_range}:
            raise Incompatible(
                f"Pictures must be read as the method says, with grey_range={self.grey_range}; some are not. "
                "Say the same to the method, the private and the public pictures."
            )

    def encoder_after(self, base: EncoderIdentity | None, delta: EncoderDelta | None) -> Encoder:
        """The encoder whose rows a run's result takes: this one, as the run has left it."""
        from dptransfer.encoders import adapted, encoder_of

        base = base if delta is None else delta.base
        own: Encoder = self.network().encoder  # first, as it may be one that is found by its place alone
        if base is not None and base != own.identity:
            return encoder_of(base, device=self.device, delta=delta)
        return own if delta is None else adapted(own, delta)
