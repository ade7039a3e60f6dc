"""Per-example gradients in torch to rows of integers whose norm is bounded exactly.

The same steps as `features.lattice`, for rows of millions of coordinates on any device:

1. a row with a NaN or an infinity becomes zeros, and so does one whose largest entry is below 2⁻⁸⁰: no
   training sees such a gradient, and what of it is subnormal would depend on a flag of the processor;
2. the row is scaled by a power of two, so that its largest entry has b bits before the point, with
   P · 2²ᵇ ≤ 2⁶² for P coordinates;
3. its norm is bounded from above in integers: coordinates, less a grain (2⁻¹⁰), are rounded away from zero,
   and their squares add up to at most 2⁶², exactly, in int64 and in any order. To the root the norm of two
   grains per coordinate is added (one for the grain, one for what its subtraction rounded), and the whole is
   taken a hair (2⁻⁴⁰) large, which is more than conversion, root, sum and product round off together;
4. the row is multiplied by `norm` ÷ max(bound, clip) in float64 and rounded toward zero.

So ‖q‖ ≤ `norm` in exact arithmetic: with a ≥ ‖x‖(1 + 2⁻⁴¹) the float product x·(norm/a) is off by at most
a factor 1 + 2⁻⁵⁰, and |trunc(v)| ≤ |v|. Every step is elementwise and correctly rounded, or an exact integer
sum: the integers are a function of the row's floats alone, the same on CPUs and NVIDIA GPUs.

How much is lost to step 3 is at most √P · 2⁻ᵇ⁺¹ of the norm: for a million coordinates 0.05 %.
"""

from __future__ import annotations

import math
from typing import Any

from dptransfer.compute.plain_floats import square_root
from dptransfer.features.lattice import GRAIN, HAIR, grains

MOST_PARAMETERS = 2**23
"""How many coordinates a gradient may have: b is 19 then, and rounding costs at most 1 % of the norm."""

_SMALLEST = 2.0**-80
_ON_DEVICE = 2**20  # elements that are held as float64 and as int64
_IN_CACHE = 2**17  # the same on a CPU


def rows_at_a_time(gradients: Any) -> int:
    """How many rows to map together: few take little memory, and fewer more time."""
    most = _ON_DEVICE if gradients.is_cuda else _IN_CACHE
    return max(1, most // max(1, int(gradients.shape[1])))


def gradient_lattice(gradients: Any, norm: int, *, clip: float) -> Any:
    """Clip each row to L2 norm `clip`, then map that ball onto the integer ball of radius `norm`.

    Args:
        gradients: (examples, parameters) floats on any device.
        norm: of the integers, at most.
        clip: of the floats.

    >>> import torch
    >>> gradient_lattice(torch.tensor([[3.0, 4.0], [0.3, 0.4], [math.inf, 0.0]]), 1000, clip=1.0)
    tensor([[599, 799],
            [300, 400],
            [  0,   0]])
    """
    import torch

    parameters = gradients.shape[1]
    largest = torch.linalg.vector_norm(gradients, ord=math.inf, dim=1)
    usable = (largest >= _SMALLEST) & (largest < math.inf)  # a NaN is neither
    if gradients.is_cuda or not usable.all():  # a GPU would have to be waited for
        gradients = torch.where(usable[:, None], gradients, 0.0)
    exponent = torch.frexp(torch.where(usable, largest, 1.0))[1].long()
    power = _power_of_two(coordinate_bits(parameters) - exponent)
    x = gradients * power[:, None]  # float64, and exact
    units = x.abs().sub_(GRAIN).ceil_().long()
    squares = units.mul_(units).sum(dim=1)
    above = (square_root(squares.double()) + grains(parameters)) * HAIR
    above = torch.maximum(above, clip * HAIR * power)
    return x.mul_((float(norm) / above)[:, None]).long()  # toward zero


def coordinate_bits(parameters: int) -> int:
    """How many bits b a coordinate may have: the squares of P of them add up to at most P·2²ᵇ ≤ 2⁶².

    >>> coordinate_bits(55_000)
    23
    """
    return (62 - math.ceil(math.log2(parameters))) // 2


def _power_of_two(exponents: Any) -> Any:
    """2**exponent as float64, made of its bits: a library's power need not be exact."""
    import torch

    return ((exponents + 1023) << 52).view(torch.float64)
