"""The same steps under another relation, for another unit, or as a group of units meets them.

One argument carries all of it. If data sets that differ by one unit cost a step some distance, then those
that are m such changes apart, one after another, cost at most m times the distance: Gaussian answers are m
times as far apart, the ε and the ranges of selections add up. So a restatement counts changes.

| From | to | row add/remove | row replace-one |
|---|---|---|---|
| row add/remove | | 1 | 2: remove a row, add a row |
| row replace-one | | never: sizes differ | 1 |
| person add/remove | | 2: remove the person, add them with a row more | 4: in two persons |
| person replace-one | | 1: replace the person by the same with a row more | 2: in two persons |

**A row of a person who has others** moves that person's contribution from one vector within the bound B to
another, by up to 2B, while adding the person moves it by B. Hence 2, not 1, and for B of half an example or
less it is reached (`tests/privacy/test_restate.py`). A row whose person has no other is that person, and
costs 1. **A replaced row** may also change hands: one person loses a row and another gains one. **Under
replace-one** the number of people is public, and a person may have no example (`Relation`), so the row of a
new person replaces such a one.

**Rows as persons.** A person with at most k rows is k changes of one row: a group (`for_group`). That k is
the owner's to declare, as a public promise about the data; nothing here infers it. Without it there is no
way, and from replace-one steps on rows there is none at all: two persons may have different numbers of rows.
"""

from __future__ import annotations

from dptransfer import _check
from dptransfer.errors import RelationMismatch
from dptransfer.privacy.event import Event
from dptransfer.privacy.relation import Relation
from dptransfer.privacy.unit import Unit


def in_relation(event: Event, relation: Relation) -> Event:
    """The same step stated under `relation`, safely.

    Add/remove becomes replace-one by taking two steps (remove, then add), so distances double: half the noise
    multiplier, twice the ε. A sampled step keeps its numbers, which say what one row contributes, and is
    priced by the relation itself; only the lattice's share doubles. A cut tail is the same for any data.
    Replace-one says nothing about data sets of different sizes, so the other direction raises.
    """
    if event.relation is relation:
        return event
    if relation is Relation.ADD_REMOVE:
        raise RelationMismatch(
            "A replace-one guarantee does not imply an add/remove one; "
            f"got a {event.kind} step under replace-one. Keep a separate replace-one budget for it."
        )
    return event.under_replace_one()


def for_rows(event: Event, relation: Relation) -> Event:
    """The same step as single rows meet it, under `relation`; the table above says how far apart they are.

    The lattice's share grows like the square of the distance, as for a group. A step on Poisson samples of
    persons raises: given who is in a sample, one person contributes this or that, and add/remove prices this
    or nothing.

    >>> from dptransfer.privacy import GaussianEvent
    >>> sums = GaussianEvent(8.0, Relation.ADD_REMOVE, unit=Unit.PERSON)
    >>> [for_rows(sums, relation).noise_multiplier for relation in Relation]
    [4.0, 2.0]
    """
    return in_relation(event, relation) if event.unit is Unit.ROW else event.for_rows(relation)


def for_people(event: Event, relation: Relation, most_rows: int | None = None) -> Event:
    """The same step as persons with at most `most_rows` rows each meet it, under `relation`.

    Args:
        event: the step; one that protects persons already needs no bound.
        relation: the relation to state it under.
        most_rows: the declared, public bound on rows per person.

    >>> from dptransfer.privacy import GaussianEvent
    >>> for_people(GaussianEvent(8.0, Relation.ADD_REMOVE), Relation.ADD_REMOVE, 4).noise_multiplier
    2.0
    """
    if event.unit is Unit.PERSON:
        return in_relation(event, relation)
    if most_rows is None:
        raise RelationMismatch(
            f"A step that protects rows says nothing of persons without a bound on rows per person; got a "
            f"{event.kind} step. Declare one that is public, or ask for whole persons."
        )
    if event.relation is Relation.REPLACE_ONE:
        raise RelationMismatch(
            f"Replacing rows says nothing of persons, who may have different numbers of them; got a "
            f"{event.kind} step under replace-one. Plan it under add/remove, or for whole persons."
        )
    return in_relation(event.for_people(_check.whole("most_rows_per_person", most_rows)), relation)


def for_group(event: Event, size: int) -> Event:
    """The same step as a group of `size` units (examples, or persons) meets it, under the same relation.

    Every distance and every ε is `size` times as large. A sampled step meets some of the group with
    probability 1 − (1 − q)^size, and then at most `size` times the distance; to assume the largest distance
    whenever it meets any is a bound (`accounting.sampled` shows that larger distances cost more). The
    lattice's share grows like the square of the distance (`noise.lattice_epsilon`: with w = 40 + 40·size
    in place of 80, 1 + w² ≤ size²(1 + 85²)).

    >>> from dptransfer.privacy import SelectionEvent
    >>> for_group(SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential"), 4).epsilon
    2.0
    """
    size = _check.whole("size", size)
    return event if size == 1 else event.of_group(size)
