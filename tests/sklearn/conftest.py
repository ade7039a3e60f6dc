"""Fixtures; this folder is no package, because a package called `sklearn` would hide the real one."""

import numpy as np
import pytest

from dptransfer import Budget, Ledger
from dptransfer.sklearn import private_classifier


@pytest.fixture(autouse=True)
def own_ledger_and_fresh_notices(tmp_path, monkeypatch, repeatable_noise):
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(tmp_path / "ledger.sqlite"))
    private_classifier._warned.clear()


@pytest.fixture
def blobs():
    rng = np.random.default_rng(0)
    y = np.repeat(["cat", "dog", "owl"], 200)
    return np.eye(16)[np.repeat(np.arange(3), 200)] + rng.normal(0, 0.1, (600, 16)), y


@pytest.fixture
def for_three(tmp_path):
    """A ledger file whose budget for 'pets' pays for three fits of epsilon 1, and not for four."""
    ledger = Ledger(tmp_path / "for-three.sqlite")
    ledger.set_budget("pets", Budget(epsilon=2.0, delta=1e-5))
    return ledger
