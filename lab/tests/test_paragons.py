import numpy as np

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.privacy import Budget
from dptransfer_lab.as_published import AS_PUBLISHED

from .test_as_published import CLASSES, run, task

__all__ = ["task"]


def test_references_without_noise_do_not_look_at_the_budget(task):
    for name in ("as-published-paragon", "as-published-class-means"):
        assert (run(name, task, 0.001).weights == run(name, task, 50.0).weights).all()


def test_the_paragon_learns_from_shots_too(task):
    private, pool, test, _ = task
    shots = PublicEmbeddings(-5 * np.eye(3, 12), [0, 1, 2], classes=CLASSES)
    paragon, budget = AS_PUBLISHED["as-published-paragon"], Budget(epsilon=1.0, delta=1e-5)
    alone, both = (
        paragon(private, p, budget, np.random.default_rng(0)) for p in (pool, pool.with_shots(shots))
    )
    assert not np.allclose(alone.weights, both.weights)
    one = PrivateEmbeddings(np.ones((3, 12)), [1, 1, 1], classes=CLASSES)
    assert set(paragon(one, None, budget, np.random.default_rng(0)).predict(test)) == {"dog"}
    two = PrivateEmbeddings(np.array([[1.0, 0, 0], [0, 1.0, 0]]), [0, 2], classes=CLASSES)
    found = paragon(two, None, budget, np.random.default_rng(0)).predict([[1.0, 0, 0], [0, 1.0, 0]])
    assert found.tolist() == ["cat", "bird"]
