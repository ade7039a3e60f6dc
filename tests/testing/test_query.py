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


def changed(kind, **functions):
    """A kind of query that does some things otherwise."""
    return type("Changed", (kind,), functions)


def counts_of(change):
    """Counts whose answer is changed."""
    return changed(ClassCounts, of_rows=lambda self, x, y: change(ClassCounts.of_rows(self, x, y)))(CLASSES)


def scribble(self, rows, labels):
    rows[:] = 0.0
    return ClassCounts.of_rows(self, rows, labels)


CALLS = itertools.count()
Boasts = changed(ClassSums, l2_sensitivity=lambda self, to: 0.99 * ClassSums.l2_sensitivity(self, to))
BoastsOfReplaced = changed(ClassSums, l2_sensitivity=lambda self, to: ClassSums.l2_sensitivity(self, ADD))


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


CHEATS = {
    STATEMENT: {
        "no label": changed(ClassCounts, label=" ")(CLASSES),
        "half a grid": changed(ClassCounts, grid=0.5)(CLASSES),
        "infinite": changed(ClassCounts, l2_sensitivity=lambda self, relation: np.inf)(CLASSES),
        "half a range": Scores(score_range=0.5),
        "two classes": Scores(2),
    },
    ANSWERS: {
        "in floats": counts_of(lambda counts: counts / 2),
        "forgetful": counts_of(lambda counts: counts + next(CALLS) % 2),
        "scribbles": changed(ClassCounts, of_rows=scribble)(CLASSES),
        "another shape": counts_of(lambda counts: counts[:1]),
    },
    UNITS: {"anybody": changed(ClassSums, require_unit=lambda self, people: None)(UNIT_MAP, CLASSES)},
    WITHIN: {
        "boasts": Boasts(UNIT_MAP, CLASSES),
        "boasts of replaced": BoastsOfReplaced(UNIT_MAP, CLASSES),
        "counts each row": changed(ClassSums, of_people=lambda self, x, y, people: self.of_rows(x, y))(
            UNIT_MAP, CLASSES, bound=PERSON
        ),
        "lowers": changed(Scores, of=lambda self, counts: -counts)(),
        "too far": changed(Scores, of=lambda self, counts: 5 * counts)(),
        "other classes": changed(Scores, of=lambda self, counts: counts + counts.sum())(),
    },
}


@pytest.mark.parametrize(("rule", "cheat"), [(rule, cheat) for rule in CHEATS for cheat in CHEATS[rule]])
def test_every_rule_catches_a_query_that_breaks_it(rule, cheat):
    others = [other for other in QUERY_CHECKS if other != rule]
    with pytest.raises(ContractBroken, match=rule):
        check_query(CHEATS[rule][cheat], cases=60, skip=others)


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
