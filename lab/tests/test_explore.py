import numpy as np
import pytest

from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError, DataError
from dptransfer.methods import MeanPrototypes, PublicPrototypes
from dptransfer.methods.surrogate import FAMILIES, surrogates
from dptransfer.privacy import Budget, Unit
from dptransfer_lab.explore import Sizes, explore, resample_task, reshape_task

BUDGETS = [Budget(epsilon=epsilon, delta=1e-5) for epsilon in (0.1, 10.0)]


@pytest.fixture
def pool():
    return PublicEmbeddings(np.random.default_rng(0).normal(size=(400, 16)))


@pytest.fixture
def sample():
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 2], 20)
    rows = 4 * np.eye(3, 16)[labels] + rng.normal(size=(60, 16))
    return PublicEmbeddings(rows, labels, classes=["a", "b", "c"])


def test_more_budget_predicts_more_accuracy(pool):
    outlook = explore(pool, Sizes(4, 2000), BUDGETS, [MeanPrototypes()], repeats=1)
    found = outlook.summary()
    assert found["at_epsilon"].tolist() == [0.1, 10.0]
    low, high = found["mean"]
    assert high > low + 0.05
    assert (found["lowest"] <= found["median"]).all()
    assert (found["median"] <= found["highest"]).all()
    assert found["tasks"].tolist() == [outlook.tasks] * 2
    assert outlook.tasks == sum(family.imbalance <= 10 for family in FAMILIES)
    assert "No private row" in outlook.how


def test_a_sample_of_the_task_predicts_that_task(pool, sample):
    outlook = explore(pool, Sizes(3, 900), BUDGETS, [MeanPrototypes()], sample=sample, repeats=2)
    assert outlook.summary()["mean"][1] > 0.9
    assert "60 labelled public rows" in outlook.how


def test_sizes_and_imbalance_are_those_asked_for(sample):
    task = resample_task(sample, None, Sizes(3, 300, 10.0), 300, rng=np.random.default_rng(0))
    counts = np.bincount(task.private.labels)
    assert sorted(counts.tolist()) == sorted(Sizes(3, 300, 10.0).counts(300).tolist())
    assert counts.max() / counts.min() == pytest.approx(10, rel=0.1)
    tested = np.bincount(task.test_labels)
    assert (tested == tested[0]).all()
    held, trained, shown = (
        {tuple(np.float32(row)) for row in rows}
        for rows in (task.test_rows, task.private.rows, task.public.rows)
    )
    assert not held & (trained | shown)
    assert trained <= shown  # without another pool, the training part of the sample is the pool
    assert task.public.labels is None
    other = PublicEmbeddings(np.eye(16))
    assert resample_task(sample, other, Sizes(3, 30), 30, rng=np.random.default_rng(0)).public is other


def test_a_method_that_cannot_be_fitted_says_why(pool):
    pure = [Budget.pure(1.0)]
    outlook = explore(pool, Sizes(4, 100), pure, [MeanPrototypes(), PublicPrototypes()], repeats=1)
    refused, fitted = outlook.summary().to_dict("records")
    assert refused["tasks"] == 0
    assert "pure" in refused["refusal"]
    assert fitted["tasks"] > 0
    assert fitted["refusal"] != fitted["refusal"]  # none


PEOPLE = Sizes(4, 1200, people=300, person_bound=2.0)


def about_four_rows_each(task):
    each = np.bincount(task.private.people)
    facts = task.private.facts
    assert 3 <= each[each > 0].mean() <= 5.5
    assert (facts.unit, facts.rows_per_person, facts.person_bound) == (Unit.PERSON, 4.0, 2.0)


def test_tasks_of_people_have_as_many_as_asked_for(pool, sample):
    for task in surrogates(pool, 4, 3600, rows_per_person=12.0, rng=np.random.default_rng(0)):
        about_four_rows_each(reshape_task(task, PEOPLE, 1200, rng=np.random.default_rng(0)))
    classes = []
    for many in (False, True):
        three = Sizes(3, 1200, people=300, person_bound=2.0)
        task = resample_task(sample, None, three, 1200, many_classes=many, rng=np.random.default_rng(0))
        about_four_rows_each(task)
        own = task.private.labels[task.private.people == 7]
        classes.append(len(set(own)))
    assert classes[0] == 1 < classes[1]


@pytest.mark.parametrize(
    ("classes", "given", "said"),
    [
        (3, {"people": 0}, "People have"),
        (3, {"people": 101}, "People have"),
        (3, {"people": 10, "person_bound": 0.0}, "person_bound"),
        (3, {"person_bound": 2.0}, "needs people"),
        (1, {}, "classes"),
        (3, {"imbalance": 0.5}, "ratio"),
    ],
)
def test_sizes_that_cannot_be_are_refused(classes, given, said):
    with pytest.raises(ArgumentError, match=said):
        Sizes(classes, 100, **given)


def test_a_sample_that_makes_no_task_is_refused(pool, sample):
    lonely = PublicEmbeddings(np.eye(3), [0, 1, 2], classes=["a", "b", "c"])
    for rows, classes, said in ((pool, 3, "labelled"), (sample, 4, "it has 3"), (lonely, 3, "two rows")):
        with pytest.raises(DataError, match=said):
            resample_task(rows, None, Sizes(classes, 30), 30, rng=np.random.default_rng(0))
