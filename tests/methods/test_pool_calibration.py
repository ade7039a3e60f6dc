from dataclasses import replace

import numpy as np
import pytest

from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.ledger import Ledger
from dptransfer.methods import LeastSquares, MeanPrototypes
from dptransfer.methods import auto as module
from dptransfer.methods.auto import calibrate_on_public
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget
from dptransfer.release.calibration import SIMULATED

BUDGET = Budget(epsilon=2.0, delta=1e-6)
CLASSES = ["a", "b", "c"]


def blobs(count, seed, classes, dimension=12):
    rng = np.random.default_rng(seed)
    centres = 4 * rng.normal(size=(classes, dimension))
    labels = np.arange(count) % classes
    return (centres[labels] + rng.normal(size=(count, dimension))).astype(np.float32), labels


def fitted(method, seed=1, **facts):
    x, y = blobs(600, 0, 3)
    private = PrivateEmbeddings(x, y, classes=CLASSES, name="blobs", **facts)
    return method.fit(private, budget=BUDGET, ledger=Ledger.in_memory(), noise=SeededNoise(seed))


def pool(classes=6, *, labelled=True):
    x, y = blobs(400, 5, classes)
    return PublicEmbeddings(x, y, classes=list(range(classes))) if labelled else PublicEmbeddings(x)


def test_a_head_that_is_too_careful_is_made_surer_and_says_from_what():
    model = fitted(LeastSquares(), size=20_000)
    made = calibrate_on_public(model, pool(), budget=BUDGET)
    assert made.calibration.source == SIMULATED
    assert made.calibration.temperature < 0.9
    assert made.calibration.offsets == (0.0, 0.0, 0.0)
    x, y = blobs(600, 0, 3)
    sure, right = made.predict_proba(x).max(axis=1).mean(), (made.predict(x) == np.array(CLASSES)[y]).mean()
    assert abs(sure - right) < abs(model.predict_proba(x).max(axis=1).mean() - right)


def test_it_is_the_same_whenever_it_is_asked_and_whatever_the_noise_of_the_model():
    models = (fitted(LeastSquares(), seed, size=20_000) for seed in (1, 2))
    one, other = (calibrate_on_public(model, pool(), budget=BUDGET).simulated for model in models)
    assert one == other is not None


@pytest.mark.parametrize("public", [None, pool(labelled=False), pool(classes=2)])
def test_public_rows_without_enough_classes_calibrate_nothing(public):
    model = fitted(MeanPrototypes())
    assert calibrate_on_public(model, public, budget=BUDGET) is model


def test_a_charged_evaluation_or_a_method_that_is_not_here_leaves_the_model_as_it_is():
    model = fitted(MeanPrototypes())
    charged = replace(model, charged=object())
    assert calibrate_on_public(charged, pool(), budget=BUDGET) is charged
    unknown = replace(model, provenance=replace(model.provenance, configuration={"type": "Elsewhere"}))
    assert calibrate_on_public(unknown, pool(), budget=BUDGET) is unknown


def test_a_method_that_fails_on_public_tasks_does_not_lose_the_model(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    model = fitted(MeanPrototypes())
    monkeypatch.setattr(module, "fitted_on", fail)
    assert calibrate_on_public(model, pool(), budget=BUDGET) is model


def test_half_of_the_smallest_change_is_taken_and_none_where_tasks_disagree(monkeypatch):
    model = fitted(MeanPrototypes())

    def made(*asked):
        said = iter(asked)
        monkeypatch.setattr(module, "_log_temperature", lambda *_: next(said))
        return calibrate_on_public(model, pool(), budget=BUDGET)

    assert np.isclose(np.log(made(-0.8, -0.4, -1.0, -0.6).simulated.temperature), -0.2)
    assert made(-0.8, 0.4, -1.0, -0.6) is model
