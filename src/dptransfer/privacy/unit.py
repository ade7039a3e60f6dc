"""Whose data are protected: what one neighbour has more, an example or a person with all their examples."""

from __future__ import annotations

from enum import Enum


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
