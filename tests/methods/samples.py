"""Small problems for single methods, and a source that draws nothing."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import logsumexp

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.methods import METHODS, MeanPrototypes, replan
from dptransfer.methods.replan import verify_release
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, Relation
from dptransfer.release.heads import CosineHead
from dptransfer.release.verify import RECORD, STEPS, Check
from dptransfer.sources import PrivateImages
from dptransfer.testing.sample_data import NoNoise

CLASSES = ("ant", "bee", "cat")
WIDTH = 8
SIDE = 8  # of a picture
BUDGET = Budget(epsilon=1.0, delta=1e-5)


class Watched(PrivateEmbeddings):
    """Rows that tell how often they are looked at."""

    reads = 0

    @property
    def rows(self):
        self.reads += 1
        return self._rows

    @rows.setter
    def rows(self, x):
        self._rows = x


@dataclass(frozen=True)
class Backwards(MeanPrototypes):
    """A method that is planted to be bad: it takes the class that is least alike."""

    name: ClassVar[str] = "backwards"

    def run(self, task):
        outcome = super().run(task)
        return replace(outcome, head=CosineHead(-outcome.head.prototypes))


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


def shots(each=3, seed=2):
    """A few labelled public rows of each class."""
    rng, y = np.random.default_rng(seed), np.repeat(np.arange(3), each)
    x = rng.normal(size=(len(y), WIDTH)) * 0.3 + 2 * np.eye(3, WIDTH)[y]
    return PublicEmbeddings(x, y, classes=CLASSES)


def muddled(count=900, seed=3):
    """Classes that overlap, so that softmax regression has an optimum; few gradients vanish."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    return rng.normal(size=(count, WIDTH)) + np.eye(3, WIDTH)[y], y


def pictures(count=90, seed=0):
    """Noisy pictures whose class is a colour."""
    rng, labels = np.random.default_rng(seed), np.arange(count) % 3
    pixels = rng.integers(0, 120, (count, SIDE, SIDE, 3))
    pixels[np.arange(count), ..., labels] += 100
    return pixels.astype(np.uint8), labels


def images(**named):
    pixels, labels = pictures()
    return PrivateImages(pixels, labels, classes=["red", "green", "blue"], **{"name": "photos"} | named)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def loss(weights, x, y):
    """Mean softmax loss of rows scaled to unit norm."""
    logits = unit(x) @ weights.T
    return float(np.mean(logsumexp(logits, axis=1) - logits[np.arange(len(y)), y]))


def fit(method, data=None, *, budget=BUDGET, public=None, noise=None):
    return method.fit(
        data or private(), public, budget=budget, ledger=Ledger.in_memory(), noise=noise or SeededNoise(1)
    )


Silent = NoNoise


def silent_weights(method, data=None, public=None):
    """The weights that a fit without noise gives."""
    return fit(method, data, public=public, noise=Silent()).weights["weights"]


def refused_uncharged(method, data=None, public=None, budget=BUDGET, error=ArgumentError):
    """The words in which a fit is refused; the ledger must still be empty."""
    ledger = Ledger.in_memory()
    with pytest.raises(error) as refusal:
        method.fit(data or private(), public, budget=budget, ledger=ledger)
    assert ledger.history() == []
    return str(refusal.value)


REPLACE = Budget(epsilon=1.0, delta=1e-5, relation=Relation.REPLACE_ONE)


class Repeatable(SeededNoise):
    """The same noise in every run, though it says that it is secure: so that a model can be saved."""

    seeded = False


def released(model, folder):
    """Saved, carded and verified; a method that is not the library's, as far as it can be."""
    path = model.save(folder / "release")
    assert model.guarantee.relation.sentence(model.guarantee.unit) in (path / "README.md").read_text()
    found = verify_release(path)
    own = model.provenance.method in METHODS
    assert (found.outcome, found.failures) == ("verified" if own else "not all checked", ())
    checked = next(one.detail for one in found.checks if one.name == STEPS)
    assert own or "no method of this library" in checked
    return path


def check_steps(model):
    """Whether the recorded steps are those that the recorded method plans."""
    return replan.check_steps(model)[0]


def check_record(model):
    """Whether what is listed beside the steps follows from them."""
    steps, plan = replan.check_steps(model)
    return Check(RECORD, False, steps.detail) if plan is None else replan.check_record(model, plan)
