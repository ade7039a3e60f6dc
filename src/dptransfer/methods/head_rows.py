"""Private rows as the iterative heads visit them: mapped once, on the grid, on the CPU or a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dptransfer.arrays import People
from dptransfer.compute.people import by_size
from dptransfer.compute.stream import to_device
from dptransfer.data import PrivateEmbeddings
from dptransfer.features import FittedFeatures, OnLattice
from dptransfer.features.chunks import over_chunks
from dptransfer.features.on_device import mapped_on_cuda
from dptransfer.queries.softmax_gradient import ROW_NORM


@dataclass(frozen=True, eq=False)
class HeadRows:
    """Rows on the grid of `SoftmaxGradient`, with their labels, and whose they are.

    Where persons are protected, theirs are put next to each other, once, so that no step has to. So labels
    and people must be taken from here too, and not from where the rows come from.

    Attributes:
        rows: int32 on the CPU; a float64 tensor of the same integers on a GPU.
        labels: class of each row, where the rows are.
        features: the identity map that checks rows on the CPU again.
        private: where they come from.
        people: whose each row is, where persons are protected.
    """

    rows: Any
    labels: Any
    features: OnLattice
    private: PrivateEmbeddings
    people: People | None = None


def head_rows(features: FittedFeatures, private: PrivateEmbeddings, device: str = "cpu") -> HeadRows:
    """Map the rows once, where they will be visited; on the CPU at most half of float64's memory is kept."""
    rows, labels, people = private.rows, private.labels, private.people
    order = None if people is None else by_size(people).order
    if people is not None:
        labels, people = labels[order], people[order]
    identity = OnLattice(features.dimension, ROW_NORM)
    if device == "cuda":
        there = mapped_on_cuda(features, rows, ROW_NORM)
        there = there if order is None else there[to_device(order)]
        return HeadRows(there, to_device(labels), identity, private, people)
    mapped = np.empty((len(rows), features.dimension), dtype=np.int32)

    def fill(chunk: slice) -> None:
        mapped[chunk] = features.lattice(rows[chunk if order is None else order[chunk]], ROW_NORM)

    for _ in over_chunks(fill, len(rows), features.input_dimension):
        pass
    return HeadRows(mapped, labels, identity, private, people)
