"""Neighbouring relation, privacy unit and bound: what two neighbouring data sets differ in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dptransfer.base import checks
from dptransfer.errors import ArgumentError


class Unit(Enum):
    """What a guarantee protects as a whole; a fact of the data, so no budget names it.

    An example by default. A person where examples come with the person they are from: then two data sets are
    neighbours if they differ in all examples of one person.

    >>> Unit("person").words
    'person, with all their examples'
    """

    ROW = "row"
    PERSON = "person"

    @property
    def words(self) -> str:
        """How one of them is called in a sentence, after 'one'."""
        return "example" if self is Unit.ROW else "person, with all their examples"


@dataclass(frozen=True)
class Bound:
    """How much one unit counts in any answer: a person, with all their examples, as so many examples at most.

    An example counts as one. With a bound of 1 a person has one voice, however many examples they have;
    a larger bound lets those with many say more, and noise grows with it.

    Attributes:
        unit: what one neighbour has more.
        examples: as how many examples it counts, at most; between 2⁻¹⁰ and 2¹⁰, and 1 where the unit is one.
    """

    unit: Unit = Unit.ROW
    examples: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a bound that is none, and one that integer sums have no room for."""
        # Python's own number: in half precision 2 × 2³⁰ steps are infinite, and nobody would be bounded.
        object.__setattr__(self, "examples", float(checks.positive("person_bound", self.examples)))
        if not 2.0**-10 <= self.examples <= 2.0**10:
            raise ArgumentError(
                f"person_bound must lie between 2**-10 and 2**10; got {self.examples!r}. Use 1, the default."
            )
        if self.unit is Unit.ROW and self.examples != 1:
            raise ArgumentError(
                f"person_bound needs people; got {self.examples!r} without. Say whose each example is."
            )


EACH_ROW = Bound()
"""Every example is a unit of its own."""


class Relation(Enum):
    """The neighbouring relation a guarantee is stated under; never left out, never converted silently.

    Add/remove: one data set has one example more than the other, so the number of examples is protected.
    Replace-one: both have the same, public number of examples and differ in one of them, label included.
    Where the `Unit` is a person, read "person, with all their examples" for "example"; of the people that are
    counted under replace-one some may have no example.
    A mechanism that is safe under add/remove is safe under replace-one at twice the distance (remove one,
    add one); there is no way back.

    >>> Relation("add/remove") is Relation.ADD_REMOVE
    True
    """

    ADD_REMOVE = "add/remove"
    REPLACE_ONE = "replace-one"

    def sentence(self, unit: Unit = Unit.ROW) -> str:
        """How the relation reads inside a sentence.

        >>> Relation.REPLACE_ONE.sentence()
        'replacing one example by any other'
        >>> Relation.ADD_REMOVE.sentence(Unit.PERSON)
        'adding or removing one person, with all their examples'
        """
        if self is Relation.ADD_REMOVE:
            return f"adding or removing one {unit.words}"
        return f"replacing one {unit.words}{',' * (unit is Unit.PERSON)} by any other"

    def words(self, unit: Unit = Unit.ROW) -> str:
        """The relation in a word or two, for lists and refusals.

        >>> Relation.ADD_REMOVE.words(), Relation.ADD_REMOVE.words(Unit.PERSON)
        ('add/remove', 'add/remove, by person')
        """
        return self.value if unit is Unit.ROW else f"{self.value}, by {unit.value}"
