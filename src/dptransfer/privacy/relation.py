"""Which two data sets count as neighbours: the first word of every guarantee."""

from __future__ import annotations

from enum import Enum


class Relation(Enum):
    """The neighbouring relation a guarantee is stated under; never left out, never converted silently.

    Add/remove: one data set has one example more than the other, so the number of examples is protected.
    Replace-one: both have the same, public number of examples and differ in one of them, label included.
    A mechanism that is safe under add/remove is safe under replace-one at twice the distance (remove one,
    add one); there is no way back.

    >>> Relation("add/remove") is Relation.ADD_REMOVE
    True
    """

    ADD_REMOVE = "add/remove"
    REPLACE_ONE = "replace-one"

    @property
    def sentence(self) -> str:
        """How the relation reads inside a sentence.

        >>> Relation.REPLACE_ONE.sentence
        'replacing one example by any other'
        """
        if self is Relation.ADD_REMOVE:
            return "adding or removing one example"
        return "replacing one example by any other"
