"""Methods that train a network on pictures: what they learn, what they release and what they refuse."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import dptransfer as dpt
from dptransfer.audit.release_audit import audit_release
from dptransfer.encoders import apply_delta, get_encoder
from dptransfer.errors import ArgumentError, Incompatible
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods import FiLM, LoRA, Pace
from dptransfer.methods.deep.fine_tuning import TwoDescents
from dptransfer.methods.deep.network import network_of
from dptransfer.methods.deep.network_gradient import NetworkGradient
from dptransfer.methods.deep.picture_loss import PictureLoss, Pictures, losses
from dptransfer.methods.replan import verify_release
from dptransfer.privacy import Budget, Relation
from dptransfer.sources import PublicImages
from methods.deep.toys import Active
from methods.samples import SIDE, Repeatable, images, pictures

BUDGET = Budget(epsilon=6.0, delta=1e-5)
TINY = {
    "encoder": "small-cnn",
    "size": SIDE,
    "steps": 12,
    "sampling_rate": 0.5,
    "micro_batch": 16,
}
METHODS = {
    "film": FiLM(**TINY),
    "bias": FiLM(**TINY, train="bias"),
    "film, views": FiLM(**TINY, views=3, blocks=1),
    "lora": LoRA(**TINY, rank=2),
}


def fitted(method, data=None, **given):
    given = {"budget": BUDGET, "ledger": Ledger.in_memory(), "noise": Repeatable(2)} | given
    return method.fit(data or images(), **given)


def rows_of(model, pixels):
    """Rows of the encoder that the model changed, as a user makes them."""
    encoder = apply_delta(get_encoder("small-cnn", size=SIDE), model.encoder_delta)
    return encoder.encode([Image.fromarray(one) for one in pixels])


@pytest.fixture(scope="module")
def models():
    return {name: fitted(method) for name, method in METHODS.items()}


@pytest.mark.parametrize("name", METHODS)
def test_new_pictures_are_told_apart_through_the_changed_encoder(models, name, tmp_path):
    pixels, labels = pictures(60, seed=5)
    model = models[name]
    rows = rows_of(model, pixels)
    assert model.score(rows, labels) > 0.9
    plain = get_encoder("small-cnn", size=SIDE).encode([Image.fromarray(one) for one in pixels])
    assert not np.allclose(rows, plain, atol=1e-3)
    path = model.save(tmp_path / "release")
    again = dpt.load(path)
    assert again.encoder == model.encoder_delta.identity
    assert (again.predict_proba(rows) == model.predict_proba(rows)).all()
    assert verify_release(path).outcome == "verified"


def test_what_is_trained_is_what_is_asked_for(models):
    names = {name: set(model.encoder_delta.arrays) for name, model in models.items()}
    norms = {f"{stage}.1.{which}" for stage in range(3) for which in ("weight", "bias")}
    assert names["film"] == norms
    assert names["bias"] == {one for one in norms if one.endswith("bias")}
    assert names["film, views"] == {"2.1.weight", "2.1.bias"}
    assert names["lora"] == {f"{stage}.0.weight.{which}" for stage in range(3) for which in ("up", "down")}
    assert {name: model.encoder_delta.kind for name, model in models.items() if name in ("film", "lora")} == {
        "film": "state",
        "lora": "low-rank",
    }


def loss_after(method, pixels, labels, reach, steps=20):
    """What is left of the loss after training without noise."""
    parts = method.parts(network_of("small-cnn", size=SIDE), 2, None)
    loss = PictureLoss(Pictures(parts, pixels, micro_batch=30))
    paid = GaussianRounds(NetworkGradient(), 0.03, Relation.ADD_REMOVE, steps)
    descent = TwoDescents(parts, paid, Pace(), reach)
    for _ in range(steps):
        query = NetworkGradient(parts.size, loss.gradients_at(descent.theta), 30)
        descent.step(query(np.arange(len(labels)), labels) / query.grid)
    maps = loss.pictures.at(np.arange(len(labels)))
    logits = parts.logits(torch.from_numpy(descent.result).float(), maps)
    return float(losses(logits, torch.from_numpy(labels)).mean())


@pytest.mark.parametrize(
    "method", [FiLM(), FiLM(train="all"), LoRA(rank=4, blocks=3)], ids=lambda one: one.name
)
def test_a_network_learns_what_its_head_alone_cannot(method):
    """Which half of a picture is brighter: rows of the plain network, means over space, hardly tell."""
    rng, labels = np.random.default_rng(0), np.arange(30) % 2
    pixels = rng.integers(0, 200, (30, SIDE, SIDE, 3))
    pixels[labels == 1, :, : SIDE // 2] += 55
    pixels[labels == 0, :, SIDE // 2 :] += 55
    pixels = pixels.astype(np.uint8)
    far, near = (loss_after(method, pixels, labels, reach) for reach in (20.0, 1e-6))
    assert far < 0.7 * near


def test_public_pictures_give_the_head_a_map_and_a_declared_number_gives_the_steps_a_rate():
    public = PublicImages(np.random.default_rng(0).integers(0, 256, (40, SIDE, SIDE, 3), dtype=np.uint8))
    model = fitted(FiLM(**TINY, axes=8), public=public)
    assert (model.features.kind, model.features.dimension) == ("public-map", 8)
    pixels, labels = pictures(60, seed=5)
    assert model.score(rows_of(model, pixels), labels) > 0.8
    facts = images().facts
    rates = [FiLM().rate(replace(facts, size=size)) for size in (None, 4096, 8192)]
    assert rates == [1.0, 1.0, 0.5]


# A chance for each row would make the accounting wrong: the rate is one public number, for all.
RATES = (np.full(90, 0.5), (0.5,) * 90, [0.1, 0.2], {0: 0.5}, "0.5", 1.5)
BAD = [("steps", 0), ("clip", 0.0), ("views", 11), ("blocks", 0), ("train", "low-rank")]


@pytest.mark.parametrize(("name", "value"), [*BAD, *(("sampling_rate", rate) for rate in RATES)])
def test_bad_settings_are_refused_when_the_method_is_made(name, value):
    with pytest.raises(ArgumentError, match=f"{name} must"):
        FiLM(**TINY | {name: value})


PUBLIC_FAULTS = {
    "another size": (FiLM(**TINY | {"size": 16}), Incompatible, "must be 16 × 16"),
    "no network of this name": (FiLM(**TINY | {"encoder": "no-such"}), Exception, "no-such"),
    "no such device": (FiLM(**TINY | {"device": "cuda:99"}), ArgumentError, "cuda:99"),
}


@pytest.mark.parametrize("fault", PUBLIC_FAULTS)
def test_what_is_public_and_wrong_is_refused_before_anything_is_charged(fault):
    method, kind, words = PUBLIC_FAULTS[fault]
    ledger = Ledger.in_memory()
    with pytest.raises(kind, match=words):
        fitted(method, ledger=ledger)
    assert ledger.history() == []


def test_a_network_that_cannot_be_trained_truly_is_refused_before_the_charge(monkeypatch):
    network = network_of("small-cnn", size=SIDE)
    network.encoder.module = network.module = torch.nn.Sequential(*network.stages, Active(2, 128))
    monkeypatch.setattr("dptransfer.methods.method.network_of", lambda *_, **__: network)
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match="what is released"):
        fitted(METHODS["film"], ledger=ledger)
    assert not ledger.datasets()


def test_kernels_that_do_not_keep_pictures_apart_are_found_before_the_charge(monkeypatch):
    """The layers of a known network, of which one is not what it was."""
    plain = torch.nn.functional.group_norm
    rolled = lambda maps, *given, **how: plain(maps + maps.roll(1, 0), *given, **how)  # noqa: E731
    monkeypatch.setattr("torch.nn.functional.group_norm", rolled)
    ledger = Ledger.in_memory()
    with pytest.raises(ArgumentError, match="pictures beside it"):
        fitted(METHODS["film"], ledger=ledger)
    assert not ledger.datasets()


@pytest.mark.parametrize(("signal", "moved"), [(0.0, False), (1.0, True)])
def test_a_fit_says_whether_the_network_moved_beyond_noise(signal, moved):
    parts = SimpleNamespace(trunk=4000, classes=2, features=SimpleNamespace(dimension=3))
    descents = TwoDescents(parts, SimpleNamespace(scale=10.0, times=30), Pace(), 1.0)
    rng = np.random.default_rng(0)
    for _ in range(30):
        descents.step(rng.normal(0, 10.0, 4006) + signal)
    (note,) = descents.notes
    assert ("moved by more" in note) is moved


@pytest.mark.parametrize("name", ["film", "lora"])
def test_an_audit_runs_one_step_of_the_network(name, tmp_path):
    path = fitted(METHODS[name]).save(tmp_path / "model")
    found = audit_release(path, quick=True)
    assert (found.contradictions, found.not_replayed) == ((), "")
    assert found.light == "green"
    assert all(one.caught_by for one in found.planted)
