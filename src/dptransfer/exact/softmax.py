"""Softmax of exact logits, row by row and equal to the last bit on CPU and GPU.

A row's softmax must not depend on the rows next to it or on the device. Logits are integer products that are
exact in any order, in float64 or, on a coarser grid, in float32 (see `IntegerLogits`); the exponential is
looked up in a table of integers at 2⁻¹⁰ steps of the logit, rather than computed by a vector routine whose
tail may round otherwise; sums over classes, of exponentials and of their squares, are sums of integers below
2⁵³.

Matrices by class and row have the shape (classes, rows): passes over them then run along memory.

Exponentials and logarithms are looked up in tables, and what lies between two entries is a polynomial: sums
and products of single numbers, which are rounded the same way wherever a row stands. A softmax's sum over
classes is one of integers below 2⁵³, so that its order does not matter. The result is off by some 2⁻³⁰ for
probabilities above 10⁻⁶; what is below 2⁻³³ is taken for that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import Floats
from dptransfer.errors import ArgumentError
from dptransfer.exact.cuda import Array, namespace, place_beside

_EXACT = 2**52
_COARSE_ROW_NORM = 2**11
_COARSE_LINEAR_NORM = 2**12
_LOGIT_BITS = 10
_LARGEST_COEFFICIENT = 2.0**64
LOGIT_STEP = 2.0**-_LOGIT_BITS
"""Of logits that are whole numbers."""

_LOGIT_DEPTH = 24  # exp(−24) is below 2⁻³³ and any table's resolution


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

    linear: Array
    linear_factor: Array
    offset: Array
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


def logit_steps(rows: Array, logits: IntegerLogits) -> Array:
    """(classes, rows) logits as whole numbers of steps of 2⁻¹⁰, exactly the same in any batch."""
    xp = namespace(rows)
    found = _coarse_product(rows, logits) if logits.is_coarse else place_beside(logits.linear, rows) @ rows.T
    found *= logits.linear_factor
    xp.round(found, out=found)
    if logits.square is not None:
        square = place_beside(logits.square, rows)
        found -= xp.round((square @ (rows * rows).T) * logits.square_factor)
    if logits.offset.any():
        found += place_beside(logits.offset, rows)[:, None]
    return found


def _coarse_product(rows: Array, logits: IntegerLogits) -> Array:
    """(classes, rows), exact, in float32."""
    if isinstance(rows, np.ndarray):
        coarse = rows.astype(np.float32)  # exact, for integers of at most 2²⁴
        coarse *= 1.0 / logits.row_step
        return logits.linear @ np.rint(coarse, out=coarse).T
    # Torch may have been told to multiply float32 with fewer bits (TF32, or bfloat16), which is not exact.
    rounded = torch.round(rows / logits.row_step)
    return (place_beside(logits.linear, rows).double() @ rounded.T).float()


def exponentials(rows: Array, logits: IntegerLogits) -> Array:
    """(classes, rows) exp(logit − largest logit) as integers, whose squares add up to at most 2⁵²."""
    xp = namespace(rows)
    depth = logit_steps(rows, logits)
    xp.subtract(xp.amax(depth, 0), depth, out=depth)
    xp.clip(depth, None, _LOGIT_DEPTH * 2**_LOGIT_BITS, out=depth)
    table = _table(len(depth)) if xp is np else _table_on(len(depth), rows.device)
    return xp.take(table, depth.astype(np.int64) if xp is np else depth.long())


def probabilities(rows: Array, logits: IntegerLogits) -> Array:
    """(classes, rows) softmax of the logits: each row's a function of that row alone, to the last bit."""
    weights = exponentials(rows, logits)
    weights /= weights.sum(0)
    return weights


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


def softmax_resolution(classes: int) -> float:
    """The step in which exponentials are rounded: squares of this many add up to at most 2⁵² steps.

    >>> softmax_resolution(4) == 2.0**-25
    True
    """
    return 2.0 ** -((52 - math.ceil(math.log2(classes))) // 2)


@cache
def exponential_table() -> Floats:
    """exp(−t·2⁻¹⁰) by t, as far as it matters."""
    table: Floats = np.exp(-np.arange(_LOGIT_DEPTH * 2**_LOGIT_BITS + 1) * 2.0**-_LOGIT_BITS)
    return table


@cache
def _table(classes: int) -> Floats:
    """exp(−t·2⁻¹⁰) by t, in steps so fine that the squares of this many add up to at most 2⁵²."""
    return np.rint(exponential_table() / softmax_resolution(classes))


@cache
def _table_on(classes: int, device: Array) -> Array:
    """The same in a device's memory, brought there once and not in every step."""
    return torch.from_numpy(_table(classes)).to(device)


def largest_coefficient(*parts: Floats | None) -> float:
    """The largest absolute value in a head's arrays; an error, before any row is read, if one is not finite.

    >>> largest_coefficient(np.array([[1.0, -3.0]]), np.zeros(1), None)
    3.0
    """
    ends = [end for part in parts if part is not None for end in (part.max(), part.min())]
    largest = float(np.abs(ends).max())
    if not math.isfinite(largest):
        rule = "A head's coefficients must be finite; at least one is not."
        raise ArgumentError(f"{rule} Use settings that are closer to the defaults.")
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


_LOG_BITS = 12
_LEAST = 2.0**-34


def log_mean_softmax(first: Floats, second: Floats) -> Floats:
    """log((softmax(−first) + softmax(−second)) ÷ 2), along the first axis.

    Args:
        first: (classes, rows): how far a logit lies below the row's largest.
        second: the same of other logits.

    >>> np.exp(log_mean_softmax(np.zeros((2, 1)), np.array([[0.0], [np.log(3)]]))).round(9).tolist()
    [[0.625], [0.375]]
    """
    mean = (_softmax(first) + _softmax(second)) * 0.5
    return _logarithm(np.maximum(mean, _LEAST))


def _softmax(depth: Floats) -> Floats:
    """Probabilities, from exponentials that are whole numbers and add up to less than 2⁵³."""
    place = np.minimum(depth, _LOGIT_DEPTH) * 2.0**_LOGIT_BITS
    entry = np.floor(place)
    rest = (place - entry) * 2.0**-_LOGIT_BITS
    # exp(−rest) up to rest⁴/24, at most 2⁻⁴⁴.
    between = 1.0 - rest * (1.0 - rest * (0.5 - rest * (1 / 6)))
    whole = 2.0 ** (52 - math.ceil(math.log2(max(2, len(depth)))))
    weights = np.rint(exponential_table()[entry.astype(np.int64)] * between * whole)
    chances: Floats = weights / weights.sum(axis=0)
    return chances


def _logarithm(values: Floats) -> Floats:
    mantissa, exponent = np.frexp(values)  # from ½ to 1
    entry = np.floor(mantissa * 2.0**_LOG_BITS)
    near = entry * 2.0**-_LOG_BITS
    rest = (mantissa - near) / near
    # log(1 + rest) up to rest⁴/4, at most 2⁻⁴⁶.
    between = rest * (1.0 - rest * (0.5 - rest * (1 / 3)))
    found: Floats = _logarithms()[entry.astype(np.int64)] + between + exponent * math.log(2)
    return found


@cache
def _logarithms() -> Floats:
    """log(t·2⁻¹²) by t, from ½ on."""
    table = np.zeros(2**_LOG_BITS)
    upper = np.arange(2 ** (_LOG_BITS - 1), 2**_LOG_BITS)
    table[upper] = np.log(upper * 2.0**-_LOG_BITS)
    return table
