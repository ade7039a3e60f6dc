"""The summed, clipped gradient of a softmax loss in exact integers, on the CPU or a GPU: the same integers.

The gradient of one example is residual ⊗ row, with residual = softmax(logits) − onehot, so its norm is the
product of two norms, and clipping needs no per-example gradient in memory.

Exactness. A row's residual must not depend, even in its last bit, on the rows next to it or on the device.
Logits are integer products that stay below 2⁵², so float64 gets them right in any order; the exponential is
looked up in a table of integers at 2⁻¹⁰ steps of the logit, rather than computed by a vector routine whose
tail may round otherwise; sums over classes are sums of integers; the rest is elementwise and correctly
rounded (IEEE 754 division and square root, on NVIDIA GPUs too). The product of residuals and rows is again
one of integers below 2⁵³.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

RESIDUAL_NORM = 2**14
"""Grid norm of a clipped residual; an example's gradient has at most this × the grid norm of its row."""

MOST_ROWS = 2**20
"""Rows in one call: products of at most 2³⁰ then add up to less than 2⁵³."""

_EXACT = 2**52
_LOGIT_BITS = 10
_LOGIT_DEPTH = 24  # exp(−24) is below the table's resolution
_HAIR = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)
class IntegerLogits:
    """offset + linear·x − ½ precision·x² for integer rows x of norm at most `row_norm`, in steps of 2⁻¹⁰.

    Attributes:
        linear: integer (classes, dimension) matrix.
        linear_factor: what a unit of its product is, in logit steps.
        offset: (classes,), in logit steps.
        square: integer (classes, dimension) matrix, or None for logits that are linear in x.
        square_factor: what a unit of its product is, in logit steps.
    """

    linear: FloatArray
    linear_factor: float
    offset: FloatArray
    square: FloatArray | None
    square_factor: float

    @classmethod
    def of(
        cls, linear: FloatArray, offset: FloatArray, precision: FloatArray | None, row_norm: int
    ) -> IntegerLogits:
        """Round the coefficients so that products with rows of norm at most `row_norm` are exact."""
        steps = _steps(float(np.linalg.norm(linear, axis=1).max()), row_norm)
        square, squared = None, 1.0
        if precision is not None and precision.any():
            squared = _steps(float(np.abs(precision).max()), row_norm**2)
            square = np.trunc(precision * squared)
        return cls(
            linear=np.trunc(linear * steps),
            linear_factor=2.0**_LOGIT_BITS / (steps * row_norm),
            offset=np.rint(offset * 2.0**_LOGIT_BITS),
            square=square,
            square_factor=0.5 * 2.0**_LOGIT_BITS / (squared * row_norm**2),
        )


def clipped_gradient(
    rows: Any, labels: Any, logits: IntegerLogits, clip: float, inputs: Any | None = None
) -> NDArray[np.int64]:
    """Σ over rows of clip(residual) ⊗ input, in steps of clip/(RESIDUAL_NORM · grid norm of the inputs).

    Args:
        rows: integer rows as float64, at most `MOST_ROWS`: a NumPy array, or a torch tensor on any device.
        labels: class of each row, where the rows are.
        logits: the current head.
        clip: norm that residuals are clipped to.
        inputs: what the residuals are multiplied with, if not the rows themselves.
    """
    grid = residual_lattice(residuals(rows, labels, logits), clip)
    return whole_numbers(grid.T @ (rows if inputs is None else inputs))


def probabilities(rows: Any, logits: IntegerLogits) -> Any:
    """Softmax of the logits, (rows, classes): each row a function of itself alone, to the last bit."""
    xp = _namespace(rows)
    depth = logit_steps(rows, logits)
    depth -= xp.amax(depth, 1)[:, None]
    xp.clip(depth, -_LOGIT_DEPTH * 2**_LOGIT_BITS, None, out=depth)
    weights = _there(xp, _exponentials(), rows)[_whole(xp, -depth)]
    weights /= weights.sum(1)[:, None]
    return weights


def residuals(rows: Any, labels: Any, logits: IntegerLogits) -> Any:
    """Softmax of the logits less one at the label; entries in [−1, 1]."""
    residual = probabilities(rows, logits)
    residual[_there(_namespace(rows), np.arange(len(rows)), rows), labels] -= 1.0
    return residual


def norms_above(residual: Any) -> Any:
    """A bound on each residual's norm, larger by a few parts in a million, from exact integers."""
    xp = _namespace(residual)
    bits = (52 - math.ceil(math.log2(residual.shape[1]))) // 2
    units = xp.ceil(xp.abs(residual) * 2.0**bits)
    return xp.sqrt((units * units).sum(1)) * (_HAIR / 2.0**bits)


def residual_lattice(residual: Any, clip: float) -> Any:
    """Residuals, whose entries lie in [−1, 1], clipped to L2 norm `clip` and put on the integer ball of 2¹⁴.

    Rounded toward zero after division by an upper bound on the norm, which is taken in exact integers (see
    `features.lattice`), so that the norm is at most 2¹⁴ in exact arithmetic.

    >>> residual_lattice(np.array([[0.6, -0.8]]), clip=0.5)
    array([[  9830., -13107.]])
    """
    factor = RESIDUAL_NORM / norms_above(residual).clip(clip * _HAIR, None)
    return _namespace(residual).trunc(residual * factor[:, None])


def whole_numbers(values: Any) -> NDArray[np.int64]:
    """Integer-valued floats as int64, on the CPU."""
    array = values if isinstance(values, np.ndarray) else values.cpu().numpy()
    return array.astype(np.int64)


def logit_steps(rows: Any, logits: IntegerLogits) -> Any:
    """(rows, classes) logits as whole numbers of steps of 2⁻¹⁰, exactly the same in any batch."""
    xp = _namespace(rows)
    # The product of the transposes is the same integers, and a fifth faster where classes are few.
    found = (_there(xp, logits.linear, rows) @ rows.T).T
    found *= logits.linear_factor
    xp.round(found, out=found)
    if logits.square is not None:
        square = _there(xp, logits.square, rows)
        found -= xp.round(((rows * rows) @ square.T) * logits.square_factor)
    found += _there(xp, logits.offset, rows)
    return found


def _steps(largest: float, row_norm: int) -> float:
    """A power of two that keeps products of rows with coefficients of at most `largest` below 2⁵²."""
    return float(2.0 ** np.floor(np.log2(_EXACT / 2 / row_norm / max(largest, 1e-12))))


@cache
def _exponentials() -> FloatArray:
    """exp(−t·2⁻¹⁰) in steps of 2⁻⁴⁰, as integers: their sums over classes are exact in float64."""
    steps = np.arange(_LOGIT_DEPTH * 2**_LOGIT_BITS + 1) * 2.0**-_LOGIT_BITS
    return np.rint(np.exp(-steps) * 2.0**40)


def _namespace(array: Any) -> Any:
    """NumPy, or torch for its tensors: both know the few functions used here by the same names."""
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def _there(xp: Any, array: NDArray[Any], rows: Any) -> Any:
    """The array where the rows are."""
    return array if xp is np else xp.from_numpy(array).to(rows.device)


def _whole(xp: Any, values: Any) -> Any:
    return values.astype(np.int64) if xp is np else values.long()
