"""Tasks made from public rows: their sizes, what they are made of, and that nothing private is in them."""

import inspect
import itertools

import numpy as np
import pytest

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.methods import surrogate
from dptransfer.methods.surrogate import FAMILIES, Family, surrogates
from dptransfer.privacy import Unit

POOL = PublicEmbeddings(np.random.default_rng(3).normal(size=(400, 32)))
FOUR = PublicEmbeddings(np.eye(4, 12) * [[1.0], [20.0], [1e-3], [5.0]])


def tasks(pool=POOL, classes=6, size=600, seed=0, **people):
    return list(surrogates(pool, classes, size, rng=np.random.default_rng(seed), **people))


def counts(task):
    return np.bincount(task.private.labels, minlength=len(task.private.facts.classes))


@pytest.mark.parametrize(("classes", "size"), [(2, 40), (6, 600), (100, 5000), (500, 5000)])
def test_classes_and_sizes_are_those_asked_for(classes, size):
    made = tasks(classes=classes, size=size)
    assert len(made) == len(FAMILIES)
    for task in made:
        assert len(task.private.facts.classes) == classes
        assert task.private.rows.shape == (len(task.private.labels), POOL.dimension)
        assert len(task.private.labels) == pytest.approx(size, rel=0.05)
        assert counts(task).min() >= 1
        assert task.private.facts.size == size
        assert task.public is POOL
    assert tasks(size=1200)[0].private.rows.shape != tasks(size=600)[0].private.rows.shape


@pytest.mark.parametrize("classes", [2, 7, 500])
def test_test_rows_are_as_many_for_every_class(classes):
    for task in tasks(classes=classes, size=10 * classes):
        (each,) = set(np.bincount(task.test_labels, minlength=classes))
        assert each >= 2
        assert len(task.test_rows) == len(task.test_labels) <= 2000
        assert not np.isin(task.test_rows[:, 0], task.private.rows[:, 0]).all()


def is_mixture(rows, pool, family):
    """On a pool of orthogonal rows the weights can be read off: three parts, that add up to one."""
    places = np.abs(pool.rows).argmax(axis=1)
    weights = np.delete(rows, places, axis=1), rows[:, places]
    own, rest = family.class_part, 1 - family.class_part
    parts = np.array([own * (1 - family.kinship), own * family.kinship, rest])
    sums = [parts @ some for some in itertools.product((0, 1), repeat=3)]
    found = np.unique(weights[1].round(5))
    return (
        not weights[0].any()
        and np.allclose(weights[1].sum(axis=1), 1, atol=1e-5)
        and (np.abs(np.subtract.outer(found, sums)).min(axis=1) < 1e-4).all()
    )


def test_rows_are_mixtures_of_unit_pool_rows_and_of_nothing_else():
    for family, task in zip(FAMILIES, tasks(FOUR, classes=5, size=100), strict=True):
        assert is_mixture(task.private.rows, FOUR, family)
        assert is_mixture(task.test_rows, FOUR, family)
        assert not is_mixture(task.private.rows + 0.01, FOUR, family)
        assert not is_mixture(task.private.rows, FOUR, Family(0.9, 0.1, 1.0))


def test_no_argument_could_carry_a_private_row():
    hints = inspect.get_annotations(surrogates, eval_str=True)
    assert set(hints) == {"public", "classes", "size", "rows_per_person", "person_bound", "rng", "return"}
    assert PrivateEmbeddings not in hints.values()
    with pytest.raises(AttributeError):  # private rows have no shots, and no length, by design
        next(surrogates(tasks()[0].private, 3, 30, rng=np.random.default_rng(0)))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_pools_of_every_precision_and_size_give_unit_mixtures(kind):
    base = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    extreme = {np.float16: 6e4, np.float32: 3e38, np.float64: 1e308}[kind]
    for factor in (extreme / 4, 1.0, float(np.finfo(kind).tiny)):
        unit = surrogate._unit((base * factor).astype(kind))
        assert unit.dtype == np.float32
        assert np.linalg.norm(unit, axis=1) == pytest.approx([1, 0, 1], abs=1e-3)
        pool = PublicEmbeddings((base * factor).astype(kind))
        assert all(np.isfinite(task.private.rows).all() for task in tasks(pool, classes=2, size=20))


def labelled_pool():
    rng, y = np.random.default_rng(4), np.repeat(np.arange(6), 200)
    return PublicEmbeddings(rng.normal(size=(len(y), 32)) + np.eye(6, 32)[y], y, classes=range(6))


def likeness(task):
    """Mean cosine between two rows of one person and one class, less that between rows of a class."""
    data = task.private
    rows = data.rows / np.linalg.norm(data.rows, axis=1, keepdims=True)
    rows = rows - np.array([rows[data.labels == c].mean(axis=0) for c in range(6)])[data.labels]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    same_class = np.equal.outer(data.labels, data.labels) & ~np.eye(len(rows), dtype=bool)
    same_person = np.equal.outer(data.people, data.people)
    cosine = rows @ rows.T
    return cosine[same_class & same_person].mean() - cosine[same_class & ~same_person].mean()


@pytest.mark.parametrize("pool", [POOL, labelled_pool()], ids=["made", "labelled"])
def test_rows_of_a_person_are_so_many_and_alike(pool):
    for family, task in zip(FAMILIES, tasks(pool, rows_per_person=5.0, person_bound=2.0), strict=True):
        facts = task.private.facts
        assert (facts.unit, facts.person_bound, facts.rows_per_person) == (Unit.PERSON, 2.0, 5.0)
        assert set(np.bincount(task.private.people)) <= {4, 5, 6}
        classes = [len(set(task.private.labels[task.private.people == p])) for p in range(100)]
        assert (np.mean(classes) > 2) == family.many_classes
        assert likeness(task) > 0.02
        task.private.people = np.random.default_rng(0).permutation(task.private.people)
        assert likeness(task) < 0.02
    assert {family.many_classes for family in FAMILIES} == {False, True}
