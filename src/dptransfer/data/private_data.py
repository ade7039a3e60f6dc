"""What any private data set has, and any public one beside it, whatever its examples are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from dptransfer.arrays import Labels
from dptransfer.data.facts import Facts


@runtime_checkable
class PrivateData(Protocol):
    """Sensitive labelled examples: `PrivateEmbeddings` and `PrivateImages` are such data.

    It has no length and prints its declared facts alone: the number of examples is private.
    """

    facts: Facts
    name: str | None
    labels: Labels

    @property
    def fingerprint(self) -> str:
        """SHA-256 of examples and labels: for the owner's ledger only, never for a release."""

    @property
    def units(self) -> Labels | None:
        """For each example, whose it is, as a number; None where each is a unit of its own."""


class PublicData(Protocol):
    """Examples that are nobody's secret: `PublicEmbeddings` and `PublicImages`."""

    name: str | None
    sources: tuple[str, ...] | None

    def __len__(self) -> int: ...

    @property
    def record(self) -> Mapping[str, Any]:
        """What a release tells about them."""

    def require_match(self, facts: Facts) -> None:
        """Raise unless they can stand beside private examples of this kind."""
