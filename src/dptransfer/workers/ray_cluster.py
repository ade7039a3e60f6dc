"""Ray tasks on the machines of a cluster that its owner names; whatever is lost is done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dptransfer._check import positive, whole
from dptransfer.workers.base import Piece, Result


@dataclass(frozen=True)
class RayCluster:
    """Ray Core tasks; a cluster is named, and never found by itself.

    Args:
        address: 'local' for one that is started on this machine and ends with this process, host:port of
            one that this machine belongs to, or ray://host:port.
        workers: tasks side by side, each on one core; default as many as there are cores.
        patience: as of `Processes`.
    """

    address: str
    workers: int | None = None
    patience: float | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            object.__setattr__(self, "workers", whole("workers", self.workers))
        if self.patience is not None:
            object.__setattr__(self, "patience", positive("patience", self.patience))

    def ready(self) -> None:
        """Connect."""
        raise NotImplementedError

    def each(
        self, work: Callable[[Piece], Result], pieces: Sequence[Piece], what: str
    ) -> Iterator[tuple[int, Result]]:
        """As they come back."""
        raise NotImplementedError
