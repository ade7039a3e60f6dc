"""The summed, clipped gradient of a softmax loss in exact integers, on the CPU or a GPU: the same integers.

The gradient of one example is residual ⊗ row, with residual = softmax(logits) − onehot, so its norm is the
product of two norms, and clipping needs no per-example gradient in memory.

Exactness. A row's residual must not depend, even in its last bit, on the rows next to it or on the device.
Exponentials and their sums are integers (`compute.exact_softmax`); the rest is elementwise and correctly
rounded (IEEE 754 division and square root, on NVIDIA GPUs too). The product of residuals and rows is again
one of integers below 2⁵³, and takes the residuals, (classes, rows), as they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dptransfer.arrays import Floats, Integers
from dptransfer.compute.device import on_host, there
from dptransfer.compute.exact_softmax import IntegerLogits, exponentials, namespace, probabilities
from dptransfer.compute.plain_floats import square_root

RESIDUAL_NORM = 2**14
"""Grid norm of a clipped residual; an example's gradient has at most this × the grid norm of its row."""

MOST_ROWS = 2**20
"""Rows in one call: products of at most 2³⁰ then add up to less than 2⁵³."""

_HAIR = 1 + 2.0**-40


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
    others[at] = own - own  # zeros from where the rows are: no copy, which a recorded step cannot have
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
    xp = namespace(residual.others)
    factor = norm / (norms_above(residual).clip(clip * _HAIR * residual.ease, None) * residual.total)
    if weights is not None:
        factor *= there(weights, residual.others)[residual.labels]
    grid = residual.others
    grid *= factor
    xp.trunc(grid, out=grid)
    grid[residual.labels, _places(factor)] = -xp.trunc(residual.short * factor)
    return grid


def whole_numbers(values: Any) -> Integers:
    """Integers, in whatever type, as int64, on the CPU."""
    return on_host(values).astype(np.int64, copy=False)


def _places(rows: Any) -> Any:
    """0, 1, 2, …, one for each row, where the rows are."""
    if isinstance(rows, np.ndarray):
        return np.arange(len(rows))
    import torch

    return torch.arange(len(rows), device=rows.device)
