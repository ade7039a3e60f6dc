"""The summed, clipped gradient of a softmax loss in exact integers, on the CPU or a GPU: the same integers.

The gradient of one example is residual ⊗ row, with residual = softmax(logits) − onehot, so its norm is the
product of two norms, and clipping needs no per-example gradient in memory.

Exactness. A row's residual must not depend, even in its last bit, on the rows next to it or on the device.
Logits are integer products that are exact in any order, in float64 or, on a coarser grid, in float32 (see
`IntegerLogits`); the exponential is looked up in a table of integers at 2⁻¹⁰ steps of the logit, rather than
computed by a vector routine whose tail may round otherwise; sums over classes, of exponentials and of their
squares, are sums of integers below 2⁵³; the rest is elementwise and correctly rounded (IEEE 754 division and
square root, on NVIDIA GPUs too). The product of residuals and rows is again one of integers below 2⁵³.

Matrices by class and row have the shape (classes, rows): passes over them then run along memory, and the last
product takes them as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dptransfer.arrays import AnyArray, Floats, Integers
from dptransfer.compute.plain_floats import square_root
from dptransfer.errors import ArgumentError

RESIDUAL_NORM = 2**14
"""Grid norm of a clipped residual; an example's gradient has at most this × the grid norm of its row."""

MOST_ROWS = 2**20
"""Rows in one call: products of at most 2³⁰ then add up to less than 2⁵³."""

_EXACT = 2**52
_COARSE_ROW_NORM = 2**11
_COARSE_LINEAR_NORM = 2**12
_LOGIT_BITS = 10
_LARGEST_COEFFICIENT = 2.0**64
_LOGIT_DEPTH = 24  # exp(−24) is below the table's resolution
_HAIR = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)
class IntegerLogits:
    """offset + linear·x − ½ precision·x² for integer rows x of norm at most `row_norm`, in steps of 2⁻¹⁰.

    **Fine**, by `of`: coefficients are so small that products with rows stay below 2⁵², so float64 gets them
    right in any order.

    **Coarse**, by `coarse`, for logits that are linear in x: rows are rounded to norm 2¹¹, coefficients to
    norm 2¹². Rounding moves each of at most 2¹⁴ coordinates by at most ½, so norms grow by at most 64, and
    all partial sums of a product are at most (2¹¹ + 64)(2¹² + 64) < 2²⁴ (Cauchy-Schwarz): float32 gets them
    right in any order, and takes half as long. A logit is then off by about 2⁻¹² times the norm of its
    coefficients, as if the row had been rounded to 12 bits: nothing to a gradient, and too much for a count
    of near ties.

    Attributes:
        linear: integer (classes, dimension) matrix; float32 if coarse.
        linear_factor: what a unit of its product is, in logit steps; a power of two, and so exact.
        offset: (classes,), in logit steps; float32 if coarse.
        row_step: what rows are divided by before they are rounded; 1 if fine.
        square: integer (classes, dimension) matrix, or None for logits that are linear in x.
        square_factor: what a unit of its product is, in logit steps.
        beside: the logits of a fixed second head, where the loss is that of the mean of both softmaxes.
    """

    linear: AnyArray
    linear_factor: float
    offset: AnyArray
    row_step: float = 1.0
    square: Floats | None = None
    square_factor: float = 1.0
    beside: IntegerLogits | None = None

    @classmethod
    def of(cls, linear: Floats, offset: Floats, precision: Floats | None, row_norm: int) -> IntegerLogits:
        """Round the coefficients so that products with rows of norm at most `row_norm` are exact."""
        scale = _bearable(linear, offset, precision)
        if scale < 1:
            linear, offset = linear * scale, offset * scale
            precision = None if precision is None else precision * scale
        steps = _steps(_longest(linear), _EXACT / 2 / row_norm)
        square, squared = None, 1.0
        if precision is not None and precision.any():
            squared = _steps(float(np.abs(precision).max()), _EXACT / 2 / row_norm**2)
            square = np.trunc(precision * squared)
        return cls(
            linear=np.trunc(linear * steps),
            linear_factor=2.0**_LOGIT_BITS / (steps * row_norm),
            offset=np.rint(offset * 2.0**_LOGIT_BITS),
            square=square,
            square_factor=0.5 * 2.0**_LOGIT_BITS / (squared * row_norm**2),
        )

    @classmethod
    def coarse(cls, linear: Floats, offset: Floats, row_norm: int) -> IntegerLogits:
        """Round the coefficients so that products with coarse rows are exact in float32."""
        scale = _bearable(linear, offset)
        if scale < 1:
            linear, offset = linear * scale, offset * scale
        steps = _steps(_longest(linear), _COARSE_LINEAR_NORM)
        whole = linear * steps
        return cls(
            linear=np.rint(whole, out=whole).astype(np.float32),
            linear_factor=2.0**_LOGIT_BITS / (steps * _COARSE_ROW_NORM),
            offset=np.rint(offset * 2.0**_LOGIT_BITS).astype(np.float32),
            row_step=row_norm / _COARSE_ROW_NORM,
        )

    @property
    def is_coarse(self) -> bool:
        """Whether products are taken in float32."""
        return self.row_step != 1


class Residuals(NamedTuple):
    """Softmax of the logits less one at the label, times the sum of the exponentials: integers.

    Attributes:
        others: (classes, rows) exponentials; 0 at the label.
        short: what the label's exponential lacks of the sum; the entry at the label is −short.
        total: the sum; a residual is these integers ÷ total.
        labels: class of each row.
        ease: what a row's clip is multiplied with; more than 1 where a second head knows the label.
    """

    others: Any
    short: Any
    total: Any
    labels: Any
    ease: Any = 1.0


def clipped_gradient(
    rows: Any,
    labels: Any,
    logits: IntegerLogits,
    clip: float,
    inputs: Any | None = None,
    weights: Floats | None = None,
) -> Any:
    """Σ over rows of clip(residual) ⊗ input, in steps of clip/(RESIDUAL_NORM · grid norm of the inputs).

    Integers as float64, where the rows are. So are sums of several, as long as they are of at most
    `MOST_ROWS` rows in all: no addition rounds.

    Args:
        rows: integer rows as float64, at most `MOST_ROWS`: a NumPy array, or a torch tensor on any device.
        labels: class of each row, where the rows are.
        logits: the current head.
        clip: norm that residuals are clipped to.
        inputs: what the residuals are multiplied with, if not the rows themselves.
        weights: of each class's clipped residuals, at most 1; None for ones.
    """
    grid = residual_lattice(residuals(rows, labels, logits), clip, weights=weights)
    return grid @ (rows if inputs is None else inputs)


def exponentials(rows: Any, logits: IntegerLogits) -> Any:
    """(classes, rows) exp(logit − largest logit) as integers, whose squares add up to at most 2⁵²."""
    xp = _namespace(rows)
    depth = logit_steps(rows, logits)
    xp.subtract(xp.amax(depth, 0), depth, out=depth)
    xp.clip(depth, None, _LOGIT_DEPTH * 2**_LOGIT_BITS, out=depth)
    table = _table(len(depth)) if xp is np else _table_on(len(depth), rows.device)
    return xp.take(table, _whole(xp, depth))


def softmax(depth: Floats) -> Floats:
    """(classes, rows) softmax of minus the depths, which are how far a logit lies below the row's largest.

    Each row's is a function of its own depths alone, to the last bit.

    >>> softmax(np.array([[0.0, 0.0], [0.0, 1e300]])).tolist()
    [[0.5, 1.0], [0.5, 0.0]]
    """
    places = np.rint(np.minimum(depth, _LOGIT_DEPTH) * 2.0**_LOGIT_BITS).astype(np.int64)
    weights = _table(len(depth))[places]
    chances: Floats = weights / weights.sum(axis=0)
    return chances


def probabilities(rows: Any, logits: IntegerLogits) -> Any:
    """(classes, rows) softmax of the logits: each row's a function of that row alone, to the last bit."""
    weights = exponentials(rows, logits)
    weights /= weights.sum(0)
    return weights


def residuals(rows: Any, labels: Any, logits: IntegerLogits) -> Residuals:
    """Softmax of the logits less one at the label, in integers.

    With a second head beside it the loss is −log((p + r)/2), for the probabilities p and r of the label, and
    its gradient is p/(p + r) times the residual. A residual with a weight, clipped, is a weight times the
    residual clipped at clip ÷ weight: `ease` is 1 ÷ weight = 1 + r/p, and nothing else changes. Where p is
    too small for the table it is taken for half of the table's step.
    """
    others = exponentials(rows, logits)
    at = labels, _places(rows)
    total, own = others.sum(0), others[at]
    ease = 1.0
    if logits.beside is not None:
        ease = 1.0 + probabilities(rows, logits.beside)[at] * total / own.clip(0.5, None)
    others[at] = 0.0
    return Residuals(others, total - own, total, labels, ease)


def norms_above(residual: Residuals) -> Any:
    """An upper bound on each residual's norm, larger by a hair.

    The squares of the others add up exactly. What is done to their sum is five correctly rounded operations,
    each off by a factor of at most 1 ± 2⁻⁵³, and the hair is 2⁻⁴⁰.
    """
    squares = (residual.others * residual.others).sum(0) + residual.short * residual.short
    return square_root(squares) * _HAIR / residual.total


def residual_lattice(
    residual: Residuals, clip: float, norm: int = RESIDUAL_NORM, weights: Floats | None = None
) -> Any:
    """(classes, rows) residuals clipped to L2 norm `clip`, eased, and put on the integer ball of `norm`.

    Rounded toward zero after division by an upper bound on the norm, or by the clip where that is larger.
    Both are a hair (2⁻⁴⁰) above, and the few float operations that follow are off by less than 2⁻⁵⁰, so the
    result is no longer than `norm` in exact arithmetic. The residual's memory becomes the result's.

    Weights, one for each class and at most 1, shorten the residuals of its rows: rounding keeps order, so the
    factor of a row does not grow, and neither does any entry.

    >>> entries = Residuals(np.array([[0.0], [4.0], [3.0]]), np.array([7.0]), np.array([8.0]), np.array([0]))
    >>> residual_lattice(entries, clip=1.0).T
    array([[-13332.,   7618.,   5713.]])
    """
    xp = _namespace(residual.others)
    factor = norm / (norms_above(residual).clip(clip * _HAIR * residual.ease, None) * residual.total)
    if weights is not None:
        factor *= _there(xp, weights, residual.others)[residual.labels]
    grid = residual.others
    grid *= factor
    xp.trunc(grid, out=grid)
    grid[residual.labels, _places(factor)] = -xp.trunc(residual.short * factor)
    return grid


def whole_numbers(values: Any) -> Integers:
    """Integer-valued floats as int64, on the CPU."""
    array = values if isinstance(values, np.ndarray) else values.cpu().numpy()
    return array.astype(np.int64)


def logit_steps(rows: Any, logits: IntegerLogits) -> Any:
    """(classes, rows) logits as whole numbers of steps of 2⁻¹⁰, exactly the same in any batch."""
    xp = _namespace(rows)
    found = _coarse_product(rows, logits) if logits.is_coarse else _there(xp, logits.linear, rows) @ rows.T
    found *= logits.linear_factor
    xp.round(found, out=found)
    if logits.square is not None:
        square = _there(xp, logits.square, rows)
        found -= xp.round((square @ (rows * rows).T) * logits.square_factor)
    if logits.offset.any():
        found += _there(xp, logits.offset, rows)[:, None]
    return found


def _coarse_product(rows: Any, logits: IntegerLogits) -> Any:
    """(classes, rows), exact, in float32."""
    if isinstance(rows, np.ndarray):
        coarse = rows.astype(np.float32)  # exact, for integers of at most 2²⁴
        coarse *= 1.0 / logits.row_step
        return logits.linear @ np.rint(coarse, out=coarse).T
    import torch

    # Torch may have been told to multiply float32 with fewer bits (TF32, or bfloat16), which is not exact.
    rounded = torch.round(rows / logits.row_step)
    return (_there(torch, logits.linear, rows).double() @ rounded.T).float()


def largest_coefficient(*parts: Floats | None) -> float:
    """The largest absolute value in a head's arrays; an error, before any row is read, if one is not finite.

    >>> largest_coefficient(np.array([[1.0, -3.0]]), np.zeros(1), None)
    3.0
    """
    ends = [end for part in parts if part is not None for end in (part.max(), part.min())]
    largest = float(np.abs(ends).max())
    if not math.isfinite(largest):
        raise ArgumentError(
            "A head's coefficients must be finite; at least one is not. "
            "Use settings that are closer to the defaults."
        )
    return largest


def _bearable(*parts: Floats | None) -> float:
    """What to multiply a head with so that its logits, in steps, are far from float32's largest number.

    One with coefficients beyond 2⁶⁴ gives all of a row's probability to one class, and so it does after that.
    """
    return min(1.0, _LARGEST_COEFFICIENT / max(largest_coefficient(*parts), 1.0))


def _longest(linear: Floats) -> float:
    """The largest norm of a class's coefficients."""
    return math.sqrt(float(np.einsum("ij,ij->i", linear, linear).max()))


def _steps(largest: float, most: float) -> float:
    """The largest power of two that keeps coefficients of at most `largest`, times it, at most `most`."""
    return float(2.0 ** np.floor(np.log2(most / max(largest, 1e-12))))


def softmax_resolution(classes: int) -> float:
    """The step in which exponentials are rounded: squares of this many add up to at most 2⁵² steps.

    >>> softmax_resolution(4) == 2.0**-25
    True
    """
    return 2.0 ** -((52 - math.ceil(math.log2(classes))) // 2)


@cache
def _table(classes: int) -> Floats:
    """exp(−t·2⁻¹⁰) by t, in steps so fine that the squares of this many add up to at most 2⁵²."""
    steps = np.arange(_LOGIT_DEPTH * 2**_LOGIT_BITS + 1) * 2.0**-_LOGIT_BITS
    return np.rint(np.exp(-steps) / softmax_resolution(classes))


@cache
def _table_on(classes: int, device: Any) -> Any:
    """The same in a device's memory, brought there once and not in every step."""
    import torch

    return torch.from_numpy(_table(classes)).to(device)


def _namespace(array: Any) -> Any:
    """NumPy, or torch for its tensors: both know the few functions used here by the same names."""
    if isinstance(array, np.ndarray):
        return np
    import torch

    return torch


def _there(xp: Any, array: AnyArray, rows: Any) -> Any:
    """The array where the rows are."""
    return array if xp is np else xp.from_numpy(array).to(rows.device)


def _places(rows: Any) -> Any:
    """0, 1, 2, …, one for each row, where the rows are."""
    if isinstance(rows, np.ndarray):
        return np.arange(len(rows))
    import torch

    return torch.arange(len(rows), device=rows.device)


def _whole(xp: Any, values: Any) -> Any:
    return values.astype(np.int64) if xp is np else values.long()
