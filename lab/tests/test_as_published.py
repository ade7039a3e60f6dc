import numpy as np
import pytest

from dptransfer.data import PublicEmbeddings
from dptransfer.methods import METHODS, PrivateMethod
from dptransfer.privacy import Budget
from dptransfer_lab.as_published import AS_PUBLISHED
from dptransfer_lab.tasks import Task
from dptransfer_lab.unprotected import PREFIX, Unprotected

CLASSES = ("cat", "dog", "bird")


@pytest.fixture
def task():
    rng = np.random.default_rng(0)
    centres = 3 * np.eye(3, 12)
    labels = np.repeat([0, 1, 2], 60)
    rows = centres[labels] + rng.normal(size=(180, 12))
    pool = PublicEmbeddings(centres[rng.integers(0, 3, 300)] + rng.normal(size=(300, 12)))
    test = centres[labels] + rng.normal(size=(180, 12))
    return Task(rows, labels, CLASSES, test, labels, pool)


def run(name, task, epsilon=50.0, seed=0):
    return AS_PUBLISHED[name].fit(task, Budget(epsilon=epsilon, delta=1e-5), np.random.default_rng(seed))


def right(model, task):
    return (model.scores(task.test_rows).argmax(axis=1) == task.test_labels).mean()


def test_names_say_what_they_are_and_meet_no_method():
    assert all(name.startswith(PREFIX) for name in AS_PUBLISHED)
    assert not set(AS_PUBLISHED) & set(METHODS)
    assert not any(isinstance(one, PrivateMethod) for one in AS_PUBLISHED.values())


@pytest.mark.parametrize("name", AS_PUBLISHED)
def test_with_a_huge_budget_each_learns_and_repeats_itself(name, task):
    model = run(name, task)
    assert isinstance(model, Unprotected)
    assert right(model, task) > 0.8
    assert (model.weights == run(name, task).weights).all()
    assert not hasattr(model, "save")
    assert not hasattr(model, "guarantee")


@pytest.mark.parametrize("name", [n for n in AS_PUBLISHED if not n.endswith(("paragon", "class-means"))])
def test_a_tiny_budget_is_noise(name, task):
    assert np.mean([right(run(name, task, 0.001, seed), task) for seed in range(8)]) < 0.7
