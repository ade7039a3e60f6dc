"""Which two data sets count as neighbours: the first word of every guarantee."""

from __future__ import annotations

from enum import Enum

from dptransfer.privacy.unit import Unit


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
