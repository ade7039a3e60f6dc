"""A warm start on pixels: the prior is of the public network, and the released model sees rows of both."""

import numpy as np
import pytest
import torch

from dptransfer.accounting import epsilon_of
from dptransfer.encoders import apply_delta, encode_pixels, get_encoder
from dptransfer.errors import ArgumentError
from dptransfer.ledger import Ledger
from dptransfer.methods import WarmStartNetwork
from dptransfer.methods.replan import verify_release
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget, GaussianEvent, SampledGaussianEvent
from dptransfer.release import read_release
from dptransfer.release.heads import AverageHead, LinearHead
from dptransfer.sources import PrivateImages
from methods.deep.tiny import PLACE, coloured
from methods.samples import Repeatable, Silent, unit

BUDGET = Budget(epsilon=8.0, delta=1e-5)
CLASSES = ("red", "green", "blue")
QUICK = {"encoder": PLACE, "size": 8, "steps": 4, "sampling_rate": 0.5, "micro_batch": 16, "rank": 2}


def method(**given):
    return WarmStartNetwork(**QUICK | given)


def images(count=90, **named):
    return PrivateImages(*coloured(count), classes=CLASSES, name="photos", **named)


def fitted(made, data=None, noise=None):
    return made.fit(data or images(), budget=BUDGET, ledger=Ledger.in_memory(), noise=noise or SeededNoise(1))


def rows_for(model, pixels):
    plain = get_encoder(PLACE, size=8)
    return encode_pixels(pixels, apply_delta(plain, model.encoder_delta) if model.encoder_delta else plain)


def test_both_stages_are_one_plan_that_needs_no_network():
    plan = method(encoder="nowhere").plan(images().facts, BUDGET)
    sums, steps = plan.events
    assert isinstance(sums, GaussianEvent)
    assert isinstance(steps, SampledGaussianEvent)
    assert 7.99 <= epsilon_of(plan.events, 1e-5) <= 8.0
    assert sum(epsilon_of([one], 1e-5) for one in plan.events) > 9


@pytest.mark.parametrize("train", ["film", "bias", "low-rank", "last", "all"])
@pytest.mark.parametrize("loss", ["average", "logits"])
def test_what_training_computes_is_what_the_released_encoder_and_head_give(train, loss, monkeypatch):
    """Logits of the trained network and the prior's, as training had them, beside those of the release."""
    kept = {}
    finish = WarmStartNetwork.outcome

    def noted(self, training, theta, plan):
        kept.update(loss=training, theta=theta)
        return finish(self, training, theta, plan)

    monkeypatch.setattr(WarmStartNetwork, "outcome", noted)
    model = fitted(method(train=train, loss=loss))
    pixels, _ = coloured(90)
    parts = kept["loss"].pictures.parts
    maps = kept["loss"].pictures.at(np.arange(90))
    theta = torch.from_numpy(kept["theta"].astype(np.float32))
    own, prior = parts.logits(theta, maps).double(), kept["loss"].prior.double()
    wanted = own + prior if loss == "logits" else torch.log(own.softmax(1) + prior.softmax(1)) - np.log(2)
    found = model.scores(rows_for(model, pixels))
    assert np.abs(found - wanted.numpy()).max() < 2e-3 * max(1.0, np.abs(found).max())
    assert isinstance(model.head, LinearHead if loss == "logits" else AverageHead)
    assert model.dimension == (12 if train == "last" else 24)


def test_without_noise_the_prior_is_the_cosine_to_centres_of_the_plain_rows():
    pixels, labels = coloured(90)
    head = fitted(method(loss="average", prior_temperature=0.1), noise=Silent()).head
    rows = unit(encode_pixels(pixels, get_encoder(PLACE, size=8)).astype(np.float64))
    centres = unit(np.stack([rows[labels == place].sum(axis=0) for place in range(3)]))
    assert np.allclose(head.prior[:, 12:], 10 * np.sqrt(2) * centres, atol=1e-3)
    assert not head.prior[:, :12].any()
    assert not head.weights[:, 12:].any()


def test_a_release_is_verified_and_loads_with_an_encoder_that_gives_rows_of_both(tmp_path):
    model = fitted(method(loss="average"), noise=Repeatable(1))
    path = model.save(tmp_path / "model")
    assert verify_release(path).outcome == "verified"
    again, pixels = read_release(path), coloured(30, seed=3)[0]
    assert again.encoder_delta.kind == "state-beside"
    assert again.encoder.name == "tiny-classifier+state-beside"
    rows = rows_for(again, pixels)
    assert rows.shape == (30, 24)
    for half in (rows[:, :12], rows[:, 12:]):
        assert np.allclose(np.linalg.norm(half, axis=1), 1, atol=1e-5)
    plain = encode_pixels(pixels, get_encoder(PLACE, size=8))
    assert np.allclose(rows[:, 12:], unit(plain), atol=1e-5)
    assert not np.allclose(rows[:, :12], unit(plain), atol=1e-3)
    assert (again.scores(rows) == model.scores(rows)).all()


def test_rows_that_are_too_wide_side_by_side_are_refused_before_the_charge(monkeypatch):
    monkeypatch.setattr("dptransfer.methods.deep.network.Network.dimension", 9000)
    with pytest.raises(ArgumentError, match="18000"):
        method().prepare(images().facts, None)


@pytest.mark.parametrize(
    "given", [{"axes": 64}, {"train": "all", "blocks": 2}, {"train": "last", "blocks": 1}], ids=str
)
def test_a_setting_that_would_not_be_used_is_refused(given):
    with pytest.raises(ArgumentError, match="Leave it out"):
        method(**given)
    method(**given | {"blocks": None, "axes": 256})
