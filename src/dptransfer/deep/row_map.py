"""The public feature maps in floats, so that gradients flow through them: what a head that is trained sees.

The released classifier maps rows by the exact integers of `features`; these floats are the same numbers, but
for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dptransfer.errors import ArgumentError
from dptransfer.features import FittedFeatures
from dptransfer.features.public_map import FittedPublicMap
from dptransfer.features.unit_norm import FittedUnitNorm

_FLAT = 0.01
"""Below this share of a row's mean entry the slope of a square root counts as there: at 0 it has none."""


def row_map(features: FittedFeatures, device: Any) -> Callable[[Any], Any]:
    """From rows of an encoder, a tensor (pictures, dimension) there, to rows as the map gives them."""
    import torch

    normalised: Callable[[Any], Any] = torch.nn.functional.normalize
    if isinstance(features, FittedUnitNorm) and features.pool == 1:
        return normalised
    if not isinstance(features, FittedPublicMap):
        raise ArgumentError(
            f"A head that is trained with its network takes rows of unit norm or a PublicMap; got "
            f"{features.kind}. Set another feature map."
        )
    centre, axes = (
        torch.from_numpy(part).float().to(device) for part in (features.centre(), features.axis_vectors())
    )

    def mapped(rows: Any) -> Any:
        centred = normalised(_signed_root(rows) if features.root else rows) - centre
        # A product for each row: threads that share one product of all round some rows otherwise than others.
        return normalised(torch.bmm(centred[:, None], axes.expand(len(rows), -1, -1))[:, 0])

    return mapped


def _signed_root(rows: Any) -> Any:
    """Signed square roots, whose slope stays finite: the value is exact, the slope that of a shifted root."""
    sizes = rows.abs()
    shift = (_FLAT * sizes.mean(dim=1, keepdim=True)).detach() + 1e-30
    sloped = (sizes + shift).sqrt()
    return rows.sign() * (sloped + (sizes.sqrt() - sloped).detach())
