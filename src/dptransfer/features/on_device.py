"""The feature maps on a torch device: the same integers as on the CPU, from the same steps.

Every step of `features.lattice` is elementwise and correctly rounded (IEEE 754 in float64, on NVIDIA GPUs
too: product, quotient, root, rounding), or an exact sum of integers; so are those of the maps, whose products
are integers below 2⁵². Powers of two are made of their bits and applied in two halves, which rounds as one
product does. So the integers are those of the CPU, bit for bit, and tests compare them with ==.

Torch is imported by those who have tensors; nothing here imports it before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from dptransfer.features.base import FittedFeatures
from dptransfer.features.lattice import HAIR, SUM_BITS, require_exact_norms
from dptransfer.features.public_map import ROW_NORM, FittedPublicMap
from dptransfer.features.unit_norm import FINE_NORM, FittedUnitNorm

if TYPE_CHECKING:
    from torch import Tensor

Rows: TypeAlias = "Callable[[Tensor], Tensor]"


def lattice_on_device(features: FittedFeatures, norm: int, device: str = "cuda") -> Rows:
    """`features.lattice(rows, norm)` for tensors on the device; float64, which holds these integers exactly.

    The map's arrays are brought there once. A map that is not known here is applied on the CPU, and what it
    gives is brought back.
    """
    if isinstance(features, FittedPublicMap):
        return _public_map(features, norm, device)
    if isinstance(features, FittedUnitNorm):
        return partial(_unit_norm, features, norm)
    import torch

    return lambda rows: torch.from_numpy(features.lattice(rows.cpu().numpy(), norm)).to(device).double()


def apply_on_device(features: FittedFeatures, device: str = "cuda") -> Rows:
    """`features.apply` for tensors on the device: mapped rows as floats in the unit ball, for prediction."""
    mapped = lattice_on_device(features, 2**SUM_BITS, device)
    return lambda rows: mapped(rows) * 2.0**-SUM_BITS


def _public_map(features: FittedPublicMap, norm: int, device: str) -> Rows:
    import torch

    mean, matrix = (torch.from_numpy(part).to(device).double() for part in (features.mean, features.matrix))

    def mapped(rows: Tensor) -> Tensor:
        wide = rows.double()
        wide = torch.copysign(wide.abs().sqrt(), wide) if features.root else wide
        return unit_lattice_on_device((unit_lattice_on_device(wide, ROW_NORM) - mean) @ matrix, norm)

    return mapped


def _unit_norm(features: FittedUnitNorm, norm: int, rows: Tensor) -> Tensor:
    if features.pool == 1:
        return unit_lattice_on_device(rows, norm)
    import torch

    missing = features.dimension * features.pool - features.input_dimension
    fine = torch.nn.functional.pad(unit_lattice_on_device(rows, FINE_NORM), (0, missing))
    pooled = fine.reshape(len(rows), features.dimension, features.pool).sum(dim=2)
    return unit_lattice_on_device(pooled, norm)


def unit_lattice_on_device(rows: Tensor, norm: int) -> Tensor:
    """`features.lattice.unit_lattice` in torch; see there for what the steps are for."""
    import torch

    require_exact_norms(rows.shape[1])
    x = rows.double()
    peak = x.abs().amax(dim=1)
    finite = peak.isfinite()
    x = torch.where(finite[:, None], x, 0.0)
    # The exponent's bits; of zeros and subnormal numbers, whose exponent is −1021 or less, as of −1021.
    exponent = (torch.where(finite, peak, 0.0).view(torch.int64) >> 52).sub(1022).clamp(min=-1021)
    half = exponent // 2
    x = x * _power_of_two(-half)[:, None] * _power_of_two(half - exponent)[:, None]
    bits = (52 - math.ceil(math.log2(x.shape[1]))) // 2
    units = (x.abs() * 2.0**bits).ceil()
    above = (units * units).sum(dim=1).sqrt() * (HAIR / 2.0**bits)
    factor = torch.where(above > 0, float(norm) / above, 0.0)
    return (x * factor[:, None]).trunc()


def _power_of_two(exponent: Tensor) -> Tensor:
    import torch

    return ((exponent + 1023) << 52).view(torch.float64)
