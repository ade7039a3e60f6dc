"""Sums of integer rows by class, exact in int64, on the CPU or on CUDA: the same integers.

Integer addition gives the same sum in any order, so the result does not depend on chunks, row order, threads
or the device, and the backends are compared by ==.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dptransfer import _check
from dptransfer.arrays import AnyArray, Integers
from dptransfer.compute import stream
from dptransfer.compute.device import use_cuda
from dptransfer.errors import ArgumentError

_SLAB_ELEMENTS = 2**23  # 64 MiB in int64, of which the device holds a few


def class_sums(
    rows: Any,
    labels: Any,
    classes: int,
    *,
    device: str = "cpu",
    chunk: int | None = None,
    mapped: Callable[[Any], Any] | None = None,
) -> Integers:
    """(classes, width) sums of integer rows.

    >>> class_sums(np.array([[1, 2], [3, 4], [5, 6]]), np.array([2, 0, 2]), classes=3)
    array([[3, 4],
           [0, 0],
           [6, 8]])

    Args:
        rows: integer rows, or what `mapped` makes integer rows of; an array, a memory map or a torch tensor.
        labels: class of each row.
        classes: number of declared classes.
        device: 'cpu' or 'cuda'; rows that are CUDA tensors are worked on where they are.
        chunk: rows at a time; any value gives the same integers.
        mapped: applied to the rows where they are summed, a chunk at a time; it must work row by row.
    """
    _check.whole("classes", classes)
    if len(labels) != len(rows):
        raise ArgumentError("labels must have one entry per row; it has another number of them.")
    step = _check.whole("chunk", chunk) if chunk else max(1, _SLAB_ELEMENTS // max(1, rows.shape[1]))
    row_map = mapped or (lambda unmapped: unmapped)
    return (_on_cuda if use_cuda(device, rows) else _on_cpu)(rows, labels, classes, step, row_map)


def add_by_class(sums: Integers, rows: Integers, labels: AnyArray) -> None:
    """Add each integer row to its class's sum; one pass over the rows, whatever the number of classes."""
    if len(rows) == 0:
        return
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    sums[ordered[starts]] += np.add.reduceat(rows[order], starts, axis=0, dtype=np.int64)


def _on_cpu(rows: Any, labels: Any, classes: int, step: int, mapped: Callable[[Any], Integers]) -> Integers:
    width = mapped(rows[:0]).shape[1]
    sums = np.zeros((classes, width), dtype=np.int64)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        add_by_class(sums, mapped(rows[part]), labels[part])
    return sums


def _on_cuda(rows: Any, labels: Any, classes: int, step: int, mapped: Callable[[Any], Any]) -> Integers:
    import torch

    owners = stream.to_device(labels).long()
    width = mapped(stream.to_device(rows[:0])).shape[1]
    sums = torch.zeros((classes, width), dtype=torch.int64, device="cuda")
    for place, slab in stream.slabs(rows, min(step, max(1, len(rows)))):
        sums.index_add_(0, owners[place], mapped(slab).long())
    return sums.cpu().numpy()
