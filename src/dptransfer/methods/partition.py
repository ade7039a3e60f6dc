"""Which teacher sees whose rows: an independent draw for every unit, so that one unit touches one teacher."""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import Integers, People
from dptransfer.noise import NoiseSource

BALLOTS_REPLACED = 1
"""How many ballots a replaced unit changes at most, where its teacher was drawn here: its successor's too."""


def teacher_of_each_row(rows: int, people: People | None, teachers: int, noise: NoiseSource) -> Integers:
    """The teacher of each row, uniform among `teachers` and independent from unit to unit.

    A unit is a row, or a person with all their rows. Why one unit changes one teacher's part, under either
    relation: draws are independent of each other and of what the units are, so the law of a release is a
    mixture over draws, with the same weights whatever the data. Write two neighbours next to each other, and
    give the units that both have the same draws; under add/remove the unit that one of them has draws for
    itself, and under replace-one the unit and its successor get one draw between them (one of two people may
    have no row; it is with nobody then). This changes no distribution. For every fixed draw the parts of all
    teachers but one are then equal, so that their ballots differ in one at most, and what is true of every
    pair in two mixtures of equal weights is true of the mixtures: hockey-stick divergences are jointly
    convex. (A teacher that is chosen by what a unit *is*, as by a hash of its contents, is another matter:
    the successor may be with another teacher, and two ballots change. See `VoteCounts.replaced`.)

    Neither the number of rows nor their order decides who is with whom, as it would in parts of equal size. A
    run that goes on in a workspace finds the same partition.
    """
    units = rows if people is None else int(people.max(initial=-1)) + 1
    drawn = noise.once("teacher of each unit", lambda: noise.integers(teachers, units))
    return np.asarray(drawn if people is None else drawn[people], dtype=np.int64)
