"""The feature maps on a torch device: the same integers as on the CPU, from the same steps.

Every step of `features.lattice` is elementwise and correctly rounded (IEEE 754 in float64, on NVIDIA GPUs
too: product, quotient, root, rounding), or an exact sum of integers; so are those of the maps, whose products
are integers below 2⁵². What is subnormal, too large or not finite is told by bits, as there. So the integers
are those of the CPU, bit for bit, and tests compare them with ==.

Torch is imported by those who have tensors; nothing here imports it before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dptransfer.base.arrays import AnyArray
from dptransfer.exact.device import slabs
from dptransfer.exact.feature_map import FINE_NORM, FittedFeatures, FittedUnitNorm
from dptransfer.exact.lattice import (
    GRAIN,
    HAIR,
    LIFT,
    MARGIN,
    SUM_BITS,
    coordinate_bits,
    grains,
    require_exact_norms,
)
from dptransfer.exact.plain_floats import square_root
from dptransfer.exact.public_map import ROW_NORM, FittedPublicMap

if TYPE_CHECKING:
    from torch import Tensor

_SLAB_ELEMENTS = 2**23  # 64 MiB in float64, of which the device holds a few

RowMap: TypeAlias = "Callable[[Tensor], Tensor]"


def lattice_on_device(features: FittedFeatures, norm: int, device: str = "cuda") -> RowMap:
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


def mapped_on_cuda(features: FittedFeatures, rows: AnyArray, norm: int) -> Tensor:
    """`features.lattice(rows, norm)` as a float64 tensor on a GPU, of rows that are brought there in slabs.

    As `OnLattice` does, norms are taken once more and a row beyond its norm becomes zeros.
    """
    import torch

    mapped = lattice_on_device(features, norm)
    whole = torch.empty((len(rows), features.dimension), dtype=torch.float64, device="cuda")
    step = max(1, min(len(rows), _SLAB_ELEMENTS // features.input_dimension))
    for place, slab in slabs(rows, step):
        whole[place] = within(mapped(slab), norm)
    return whole


def within(rows: Tensor, norm: int) -> Tensor:
    """Integer rows, those that are longer than the norm as zeros; exact, for norms up to 2²⁶."""
    # A sum of squares is exact as long as it is below 2⁵³; once above that, nothing brings it back down.
    return rows * ((rows * rows).sum(dim=1) <= norm**2)[:, None]


def apply_on_device(features: FittedFeatures, device: str = "cuda") -> RowMap:
    """`features.apply` for tensors on the device: mapped rows as floats in the unit ball, for prediction."""
    mapped = lattice_on_device(features, 2**SUM_BITS, device)
    return lambda rows: mapped(rows) * 2.0**-SUM_BITS


def _public_map(features: FittedPublicMap, norm: int, device: str) -> RowMap:
    import torch

    mean, matrix = (torch.from_numpy(part).to(device).double() for part in (features.mean, features.matrix))

    def mapped(rows: Tensor) -> Tensor:
        uncentred = unit_lattice_on_device(rows, ROW_NORM, root=features.root)
        return unit_lattice_on_device((uncentred - mean) @ matrix, norm)

    return mapped


def _unit_norm(features: FittedUnitNorm, norm: int, rows: Tensor) -> Tensor:
    if features.pool == 1:
        return unit_lattice_on_device(rows, norm)
    import torch

    missing = features.dimension * features.pool - features.input_dimension
    fine = torch.nn.functional.pad(unit_lattice_on_device(rows, FINE_NORM), (0, missing))
    pooled = fine.reshape(len(rows), features.dimension, features.pool).sum(dim=2)
    return unit_lattice_on_device(pooled, norm)


def unit_lattice_on_device(rows: Tensor, norm: int, *, root: bool = False) -> Tensor:
    """`features.lattice.unit_lattice` in torch; see there for what the steps are for."""
    require_exact_norms(rows.shape[1])
    x = scaled_rows_on_device(rows, coordinate_bits(rows.shape[1]), root=root)
    units = (x.abs() - GRAIN).ceil()
    above: Tensor = (square_root((units * units).sum(dim=1)) + grains(rows.shape[1])) * HAIR
    return (x * (float(norm) / above)[:, None]).trunc()


def scaled_rows_on_device(rows: Tensor, bits: int, *, root: bool = False) -> Tensor:
    """`features.scaled_rows.scaled_rows` in torch, without the powers; see there for what steps are for."""
    import torch

    rows = rows if rows.dtype in (torch.float32, torch.float64) else rows.double()
    kind = np.finfo(np.float32 if rows.dtype == torch.float32 else np.float64)
    whole = rows.view(torch.int32 if kind.bits == 32 else torch.int64)
    sizes = (whole & torch.iinfo(whole.dtype).max).amax(dim=1).long()
    sizes = torch.where(sizes < (kind.maxexp - kind.minexp + 1) << kind.nmant, sizes, 0)
    exponent = (sizes >> kind.nmant).clamp(min=MARGIN) + kind.minexp
    power = 2 * (bits - (exponent + 1) // 2) if root else bits - exponent
    x = rows.double() * ((power + 1023) << 52).view(torch.float64)[:, None]
    x = torch.where((sizes > 0)[:, None], x, 0.0)
    x = torch.copysign(square_root(x.abs()), x) if root else x
    small = (sizes > 0) & (sizes < MARGIN << kind.nmant)
    if small.any():
        x[small] = scaled_rows_on_device(_lifted(rows[small], whole[small], kind), bits, root=root)
    return x


def _lifted(rows: Tensor, whole: Tensor, kind: np.finfo[Any]) -> Tensor:
    import torch

    sizes = whole & torch.iinfo(whole.dtype).max
    subnormal = sizes.double() * 2.0 ** (kind.minexp - kind.nmant + LIFT)
    subnormal = torch.where(whole < 0, -subnormal, subnormal)
    return torch.where(sizes < 1 << kind.nmant, subnormal, rows.double() * 2.0**LIFT)
