"""The likelihood-ratio attack: what noise hides it does not find, and without noise it does."""

import numpy as np
import pytest

from dptransfer.audit import shadow_attack as module
from dptransfer.audit.membership import membership_attack
from dptransfer.audit.shadow_attack import shadow_models
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.methods import LeastSquares
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget
from dptransfer.testing.sample_data import NoNoise

WIDTH, COUNT = 400, 60
CLASSES = ("a", "b")


def draw(seed, count=COUNT):
    """Rows that say little about their classes, so that a model must learn them by heart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    return rng.normal(size=(count, WIDTH)) + 0.3 * (2 * y[:, None] - 1), y


def fitted(noise):
    x, y = draw(0)
    data = PrivateEmbeddings(x, y, classes=CLASSES, name="samples")
    budget = Budget(epsilon=1.0, delta=1e-5)
    return LeastSquares().fit(data, budget=budget, ledger=Ledger.in_memory(), noise=noise)


def attack(model, count=8):
    x, y = draw(2, 2 * COUNT)
    shadows = shadow_models(model, PublicEmbeddings(x, y, classes=CLASSES), count=count)
    return membership_attack(model, draw(0), draw(1), shadows=shadows)


def test_what_noise_hides_is_not_found():
    found = attack(fitted(SeededNoise(1)))
    assert found.within_ceiling
    assert found.fair


def test_without_noise_members_are_found(monkeypatch):
    monkeypatch.setattr(module, "SeededNoise", lambda seed: NoNoise())
    found = attack(fitted(NoNoise()))
    by_loss = membership_attack(fitted(NoNoise()), draw(0), draw(1), check_sets=False)
    assert found.auc > by_loss.auc + 0.05
    assert not found.within_ceiling
    assert found.contradicts_guarantee


def test_shadow_models_need_labelled_rows():
    with pytest.raises(ArgumentError):
        shadow_models(fitted(SeededNoise(1)), PublicEmbeddings(draw(2)[0]))
