import numpy as np
import pytest

from dptransfer import Ledger
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import MeanEstimation, MeanPrototypes
from dptransfer.noise import SeededNoise

from .samples import BUDGET, REPLACE, WIDTH, Silent, clusters, fit, pool, private


def test_without_noise_the_prototypes_are_the_sums_of_unit_rows():
    x, y = clusters()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    want = np.array([unit[y == c].sum(axis=0) for c in range(3)])
    assert np.allclose(fit(MeanPrototypes(), noise=Silent()).weights["prototypes"], want, atol=1e-3)


def test_the_noise_does_not_depend_on_how_many_examples_there_are():
    """The mean's noise, as printed, would tell the class size."""
    x, y = clusters()
    few = fit(MeanPrototypes(), private(x[:5], y[:5])).weights["prototypes"]
    quiet = fit(MeanPrototypes(), private(x[:5], y[:5]), noise=Silent()).weights["prototypes"]
    many = fit(MeanPrototypes()).weights["prototypes"]
    loud = fit(MeanPrototypes(), noise=Silent()).weights["prototypes"]
    assert np.allclose(few - quiet, many - loud, atol=1e-6)


def test_an_empty_class_is_a_prototype_of_pure_noise():
    x, y = clusters()
    with_two = fit(MeanPrototypes(), private(x[y != 2], y[y != 2])).weights["prototypes"]
    nothing = fit(MeanPrototypes(), private(x[:0], y[:0])).weights["prototypes"]
    assert (with_two[2] == nothing[2]).all()
    assert nothing.any(axis=1).all()


def test_it_learns():
    x, y = clusters(seed=9)
    assert fit(MeanPrototypes()).score(x, y) > 0.95
    assert fit(MeanPrototypes(features=PublicMap(axes=4)), public=pool()).score(x, y) > 0.95


@pytest.mark.parametrize(("budget", "scale"), [(BUDGET, 3.7306), (REPLACE, 7.4613)])
def test_the_noise_is_the_smallest_that_fits(budget, scale):
    (event,) = fit(MeanPrototypes(), budget=budget).events
    assert event.scale == pytest.approx(scale, rel=1e-4)


def test_pooled_features_need_fewer_draws():
    model = fit(MeanPrototypes(features=UnitNorm(pool=4)), noise=SeededNoise(3))
    assert model.weights["prototypes"].shape == (3, WIDTH // 4)


@pytest.mark.parametrize("method", [MeanPrototypes, MeanEstimation])
def test_a_device_that_is_not_there_is_refused_before_anything_is_charged(method, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match=r"device='cuda' needs .* Use device='cpu'"):
        method(device="cuda").fit(private(), budget=BUDGET, ledger=ledger, noise=SeededNoise(0))
    assert not ledger.history()
    method().fit(private(), budget=BUDGET, ledger=ledger, noise=SeededNoise(0))
    assert ledger.history()
    with pytest.raises(ArgumentError, match="must be one of"):
        method(device="tpu")


@pytest.mark.gpu
@pytest.mark.parametrize("method", [MeanPrototypes, MeanEstimation])
@pytest.mark.parametrize("features", [UnitNorm(), UnitNorm(pool=4), PublicMap(axes=4)])
@pytest.mark.parametrize("people", [None, np.arange(600) // 7])
def test_a_fit_on_cuda_releases_what_one_on_the_cpu_does(method, features, people):
    here, there = (
        fit(method(features=features, device=device), private(people=people), public=pool())
        for device in ("cpu", "cuda")
    )
    for name, array in here.weights.items():
        assert (there.weights[name] == array).all()
