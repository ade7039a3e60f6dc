import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from dptransfer.exact.feature_map import UnitNorm
from dptransfer.privacy import Bound, Relation, Unit
from dptransfer.queries import ClassCounts, ClassSums, SimilarityScores
from dptransfer.testing.contract import ContractBroken
from dptransfer.testing.query_rules import QUERY_CHECKS, check_query, one_person, with_people

WIDTH, CLASSES = 3, 3
UNIT_MAP = UnitNorm().fit(WIDTH, None)
PERSON = Bound(Unit.PERSON, 1.0)
EMPTY = (np.zeros((0, WIDTH)), np.zeros(0, dtype=np.int64))
EAST = np.eye(1, WIDTH)
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
STATEMENT, ANSWERS, UNITS, WITHIN, REACHED = QUERY_CHECKS


def scores(kind=SimilarityScores):
    blank = kind(UNIT_MAP, np.zeros((0, WIDTH), int), CLASSES, 0.0, 2.0, "float16")
    pool = np.random.default_rng(0).normal(size=(9, WIDTH))
    return kind(UNIT_MAP, UNIT_MAP.lattice(pool, blank.norm), CLASSES, 0.0, 2.0, "float16")


HONEST = {
    "sums": ClassSums(UNIT_MAP, CLASSES),
    "sums of persons": ClassSums(UNIT_MAP, CLASSES, bound=PERSON),
    "counts": ClassCounts(CLASSES),
    "counts of persons": ClassCounts(CLASSES, bound=Bound(Unit.PERSON, 2.5)),
    "scores": scores(),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_queries_keep_every_rule(name):
    check_query(HONEST[name], width=WIDTH, classes=CLASSES, cases=60)


def test_a_worst_pair_reaches_the_sensitivity():
    one, other = (EAST, np.array([0])), (-EAST, np.array([0]))
    check_query(HONEST["sums"], worst={ADD: (EMPTY, one), REPLACE: (one, other)}, cases=5)
    forty = with_people([one_person([EAST] * 40, 0, WIDTH)])
    nobody = (*EMPTY, np.zeros(0, dtype=np.int64))
    check_query(HONEST["sums of persons"], worst={ADD: (nobody, forty)}, cases=5)


class Nameless(ClassCounts):
    label = " "


class HalfGrid(ClassCounts):
    grid = 0.5


class Infinite(ClassCounts):
    def l2_sensitivity(self, relation):
        return np.inf


class InFloats(ClassCounts):
    def of_rows(self, rows, labels):
        return super().of_rows(rows, labels) / 2


CALLS = itertools.count()


class Forgetful(ClassCounts):
    def of_rows(self, rows, labels):
        return super().of_rows(rows, labels) + next(CALLS) % 2


class Scribbles(ClassCounts):
    def of_rows(self, rows, labels):
        rows[:] = 0.0
        return super().of_rows(rows, labels)


class OtherShape(ClassCounts):
    def of_rows(self, rows, labels):
        return super().of_rows(rows, labels)[:1]


class TakesAnybody(ClassSums):
    def require_unit(self, people):
        pass


class Boasts(ClassSums):
    def l2_sensitivity(self, relation):
        return 0.99 * super().l2_sensitivity(relation)


class BoastsOfReplaced(ClassSums):
    def l2_sensitivity(self, relation):
        return super().l2_sensitivity(ADD)


class CountsEachRow(ClassSums):
    def of_people(self, rows, labels, people):
        return self.of_rows(rows, labels)


@dataclass(frozen=True)
class Scores:
    """Scores of two candidates; what each does wrong is in `of`."""

    classes: int = CLASSES
    score_range: int = 4
    unit: Unit = Unit.ROW
    label: str = "scores"

    def __call__(self, rows, labels):
        return np.stack([self.of(np.bincount(labels, minlength=CLASSES))] * 2)

    def of(self, counts):
        return counts


class Lowers(Scores):
    def of(self, counts):
        return -counts


class ScoresTooFar(Scores):
    def of(self, counts):
        return 5 * counts


class ScoresOtherClasses(Scores):
    def of(self, counts):
        return counts + counts.sum()


CHEATS = {
    STATEMENT: [Nameless(CLASSES), HalfGrid(CLASSES), Infinite(CLASSES), Scores(score_range=0.5), Scores(2)],
    ANSWERS: [InFloats(CLASSES), Forgetful(CLASSES), Scribbles(CLASSES), OtherShape(CLASSES)],
    UNITS: [TakesAnybody(UNIT_MAP, CLASSES)],
    WITHIN: [
        Boasts(UNIT_MAP, CLASSES),
        BoastsOfReplaced(UNIT_MAP, CLASSES),
        CountsEachRow(UNIT_MAP, CLASSES, bound=PERSON),
        Lowers(),
        ScoresTooFar(),
        ScoresOtherClasses(),
    ],
}


@pytest.mark.parametrize(
    ("rule", "query"), [pytest.param(rule, query) for rule in CHEATS for query in CHEATS[rule]]
)
def test_every_rule_catches_a_query_that_breaks_it(rule, query):
    with pytest.raises(ContractBroken, match=rule):
        check_query(query, cases=60, skip=[other for other in QUERY_CHECKS if other != rule])


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize("far", [0.5, 2.0])
def test_a_worst_pair_that_is_none_is_noticed(relation, far):
    class Claims(ClassSums):
        def l2_sensitivity(self, relation):
            return super().l2_sensitivity(relation) * far

    pairs = {ADD: (EMPTY, (EAST, np.array([0]))), REPLACE: ((EAST, np.array([0])), (-EAST, np.array([0])))}
    others = [other for other in QUERY_CHECKS if other != REACHED]
    with pytest.raises(ContractBroken, match=REACHED):
        check_query(Claims(UNIT_MAP, CLASSES), worst={relation: pairs[relation]}, skip=others)


def test_random_neighbours_alone_find_a_boast_too():
    """Where rows are no table of floats, extreme ones cannot be made up."""

    def bytes_of(rng, count):
        return rng.integers(0, 2, (count, WIDTH)).astype(np.uint8), rng.integers(0, CLASSES, count)

    check_query(HONEST["sums"], draw=bytes_of)
    with pytest.raises(ContractBroken, match=WITHIN):
        check_query(Boasts(UNIT_MAP, CLASSES), draw=bytes_of, skip=[ANSWERS])


def test_a_relation_that_a_query_does_not_know_is_left_out():
    check_query(BoastsOfReplaced(UNIT_MAP, CLASSES), relations=[ADD], cases=20)
