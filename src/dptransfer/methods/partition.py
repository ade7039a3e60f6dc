"""Which teacher sees whose rows: an independent draw for every unit, so that one unit touches one teacher."""

from __future__ import annotations

import numpy as np

from dptransfer.arrays import Integers, People
from dptransfer.noise import NoiseSource


def teacher_of_each_row(rows: int, people: People | None, teachers: int, noise: NoiseSource) -> Integers:
    """The teacher of each row, uniform among `teachers` and independent from unit to unit.

    A unit is a row, or a person with all their rows. Of two neighbours the units in common can be given the
    same draws, so that the parts of all teachers but one (under replace-one, but two) are equal: what is true
    of every such pair of partitions is true of the mixture over draws. Neither the number of rows nor their
    order decides who is with whom, as it would in parts of equal size. A run that goes on in a workspace
    finds the same partition.
    """
    units = rows if people is None else int(people.max(initial=-1)) + 1
    drawn = noise.once("teacher of each unit", lambda: noise.integers(teachers, units))
    return np.asarray(drawn if people is None else drawn[people], dtype=np.int64)
