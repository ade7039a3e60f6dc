"""Stands in for public rows that are not at hand: a plan knows how many there are, and little else."""

from __future__ import annotations

from typing import Any, cast

from dptransfer import _check
from dptransfer.data.embeddings import PublicEmbeddings
from dptransfer.errors import DPTransferError


class RowsNeeded(DPTransferError):
    """A plan asked for more than an outline has; who made the outline says what that means."""


class PoolOutline(PublicEmbeddings):
    """Public rows by number alone: those that a release records, or that nobody has encoded yet.

    Args:
        count: of the rows.
        words: of their encoder, where it has some.
        unlabelled: whether it is known that no label of theirs is of use; otherwise a plan that asks for them
            has asked for too much.
    """

    def __init__(self, count: int, words: int | None = None, *, unlabelled: bool = False) -> None:
        self._count = _check.whole("the number of public rows", count)
        # A plan asks how many there are, and nothing else.
        self.vocabulary = None if words is None else cast(Any, range(_check.whole("words", words)))
        if unlabelled:
            self.labelled, self._shots = None, None

    def __len__(self) -> int:
        return self._count

    def __getattr__(self, name: str) -> Any:
        raise RowsNeeded(f"The {name} of public rows were asked for, which are not at hand.")
