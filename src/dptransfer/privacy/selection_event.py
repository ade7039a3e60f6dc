"""A choice among public candidates that is pure ε-DP as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from dptransfer import _check
from dptransfer.errors import ArgumentError
from dptransfer.privacy.event import Event
from dptransfer.privacy.numbers import number, rounded_up
from dptransfer.privacy.relation import Relation
from dptransfer.privacy.unit import Unit


@dataclass(frozen=True)
class SelectionEvent(Event):
    """A choice among public candidates that is `epsilon`-DP as a whole.

    The choices for all declared classes together are one event: an example has one label, so it moves the
    scores of one class (add/remove), or of at most two (replace-one); `epsilon` already says which.

    Attributes:
        epsilon: pure ε of the whole step under `relation`.
        relation: the neighbouring relation.
        bounded_range: whether the privacy loss also lies in an interval of length `epsilon`, which makes
            the step (ε²/8)-zCDP. True of the exponential mechanism, not of permute-and-flip or Laplace.
        mechanism: its name.
        label: what was chosen, in words.
        unit: what one neighbour has more.
    """

    epsilon: float
    relation: Relation
    bounded_range: bool
    mechanism: str
    label: str = ""
    unit: Unit = Unit.ROW
    kind: ClassVar[str] = "selection"
    noise_field: ClassVar[str] = "epsilon"
    checks: ClassVar[_check.Checks] = {"epsilon": _check.positive}

    def __post_init__(self) -> None:
        """Words are words, and "False" is true, which would cost privacy."""
        super().__post_init__()
        given: tuple[Any, Any] = self.bounded_range, self.mechanism
        if not isinstance(given[0], bool) or not isinstance(given[1], str):
            found = f"{given[0]!r} and {given[1]!r}"
            raise ArgumentError(f"bounded_range must be True or False, and mechanism a name; got {found}.")

    def words(self, digits: int = 5) -> str:
        """Its ε.

        >>> SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential").words()
        'epsilon 0.5'
        """
        return f"epsilon {number(self.epsilon, digits)}"

    def table_row(self) -> tuple[str, str]:
        """Mechanism and ε, and what is known of the loss."""
        detail = "bounded range" if self.bounded_range else "pure ε"
        return f"{self.mechanism}, ε = {rounded_up(self.epsilon)}", detail

    def further(self, distance: float, lattice: float = 1) -> Self:
        """So much more of the loss."""
        return replace(self, epsilon=distance * self.epsilon)
