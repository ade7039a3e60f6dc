"""Small problems for single methods, and a source that draws nothing."""

import numpy as np

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.ledger import Ledger
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation

CLASSES = ("ant", "bee", "cat")
WIDTH = 8
BUDGET = Budget(epsilon=1.0, delta=1e-5)


def clusters(count=600, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    return rng.normal(size=(count, WIDTH)) * 0.3 + 2 * np.eye(3, WIDTH)[y], y


def private(x=None, y=None, **declared):
    if x is None:
        x, y = clusters()
    return PrivateEmbeddings(x, y, classes=CLASSES, name="samples", **declared)


def pool(count=60, seed=1):
    return PublicEmbeddings(clusters(count, seed)[0])


def fit(method, data=None, *, budget=BUDGET, public=None, noise=None):
    return method.fit(
        data or private(), public, budget=budget, ledger=Ledger.in_memory(), noise=noise or SeededNoise(1)
    )


class Silent(SeededNoise):
    """No noise at all: shows what a method computes, and nothing else."""

    def __init__(self):
        super().__init__(0)

    def discrete_gaussian(self, scale, shape):
        return np.zeros(shape, dtype=np.int64)

    discrete_laplace = discrete_gaussian

    def gumbel_argmax(self, scores, scale):
        return int(np.argmax(scores))

    exponential_argmax = gumbel_argmax


REPLACE = Budget(epsilon=1.0, delta=1e-5, relation=Relation.REPLACE_ONE)
