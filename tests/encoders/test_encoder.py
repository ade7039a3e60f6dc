import pickle
from dataclasses import replace

import numpy as np
import pytest

from dptransfer.data import EncoderIdentity
from dptransfer.encoders import EncoderDelta, TorchModuleEncoder, apply_delta
from dptransfer.errors import ArgumentError, Incompatible

from .toys import MeanColour, random_images

BASE = EncoderIdentity("tiny-net", "ab" * 32, "rgb 8")


def arrays(**changes):
    return {"scale": np.ones(3, dtype=np.float32), "shift": np.zeros(3, dtype=np.float32)} | changes


def test_the_identity_sees_the_base_the_kind_and_every_value_name_and_shape():
    delta = EncoderDelta(BASE, "state", arrays())
    others = [
        EncoderDelta(replace(BASE, weights="cd" * 32), "state", arrays()),
        EncoderDelta(BASE, "film", arrays()),
        EncoderDelta(BASE, "state", arrays(scale=np.full(3, 1.000001, dtype=np.float32))),
        EncoderDelta(BASE, "state", arrays(scale=np.ones((3, 1), dtype=np.float32))),
        EncoderDelta(BASE, "state", {"scales": arrays()["scale"], "shift": arrays()["shift"]}),
    ]
    identities = {one.identity.weights for one in (delta, *others)}
    assert len(identities) == 6
    assert BASE.weights not in identities
    assert delta.identity == EncoderDelta(BASE, "state", dict(reversed(arrays().items()))).identity
    assert (delta.identity.name, delta.identity.transform) == ("tiny-net+state", BASE.transform)


def test_no_name_of_an_array_stands_for_another_array():
    letters = np.frombuffer(b"AAAA", dtype=np.float32)
    two = EncoderDelta(BASE, "state", {"a": letters, "b": letters})
    one = EncoderDelta(BASE, "state", {"a|(1,)|AAAAb": letters})
    assert two.identity != one.identity


class Agreeable(MeanColour):
    """Takes every change, and says that it is what the change wants."""

    def with_delta(self, delta):
        other = Agreeable()
        other.identity = delta.identity
        return other


def test_a_change_of_another_encoder_is_refused_whatever_the_encoder_says():
    own = Agreeable()
    assert apply_delta(own, EncoderDelta(own.identity, "state", arrays())).identity.name.endswith("+state")
    with pytest.raises(Incompatible, match="one encoder"):
        apply_delta(own, EncoderDelta(BASE, "state", arrays()))
    with pytest.raises(ArgumentError, match="cannot be changed"):
        apply_delta(MeanColour(), EncoderDelta(MeanColour().identity, "state", arrays()))


def test_a_delta_cannot_be_changed_once_made_and_travels_to_other_processes():
    own = arrays()
    delta = EncoderDelta(BASE, "state", own)
    own["scale"][0] = 7.0
    assert delta.arrays["scale"][0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        delta.arrays["scale"][0] = 7.0
    assert pickle.loads(pickle.dumps(delta)).identity == delta.identity


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("state", {}),
        ("Two words", arrays()),
        ("state", arrays(scale=np.ones(3))),
        ("state", arrays(scale=[1.0])),
        ("state", arrays(scale=np.array([np.nan], dtype=np.float32))),
    ],
)
def test_what_changes_nothing_or_holds_no_numbers_is_refused(kind, wrong):
    with pytest.raises(ArgumentError):
        EncoderDelta(BASE, kind, wrong)


torch = pytest.importorskip("torch")


def encoder():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5))
    return TorchModuleEncoder(
        network,
        lambda image: np.asarray(image.resize((8, 8)), dtype=np.float32).transpose(2, 0, 1) / 255,
        name="toy",
        transform_name="8 px",
        channels_last=True,
    )


def test_parameters_and_buffers_are_replaced_in_a_copy():
    plain, images = encoder(), random_images(3)
    before = plain.encode(images)
    shift = np.arange(5, dtype=np.float32)
    moved = apply_delta(plain, EncoderDelta(plain.identity, "state", {"1.bias": shift}))
    assert np.allclose(moved.encode(images), before + shift, atol=1e-5)
    means = apply_delta(plain, EncoderDelta(plain.identity, "state", {"1.running_mean": shift}))
    assert np.allclose(means.encode(images), before - shift, atol=1e-3)
    assert np.array_equal(plain.encode(images), before)
    assert moved.identity != plain.identity != means.identity != moved.identity


def factors(name="0.weight", outputs=5, inputs=27, rank=2):
    """Two factors of a layer's change."""
    shapes = {"up": (outputs, rank), "down": (rank, inputs)}
    rng = np.random.default_rng(0)
    return {f"{name}.{which}": rng.normal(size=shape).astype(np.float32) for which, shape in shapes.items()}


def test_a_product_of_two_factors_is_added_to_the_weights():
    plain, images, change = encoder(), random_images(3), factors()
    moved = apply_delta(plain, EncoderDelta(plain.identity, "low-rank", change))
    product = (change["0.weight.up"] @ change["0.weight.down"]).reshape(5, 3, 3, 3)
    before = plain.module.state_dict()["0.weight"].numpy()
    replaced = apply_delta(plain, EncoderDelta(plain.identity, "state", {"0.weight": before + product}))
    assert np.allclose(moved.encode(images), replaced.encode(images), atol=1e-5)
    assert not np.allclose(moved.encode(images), plain.encode(images), atol=1e-2)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("state", {"1.gamma": np.ones(5, dtype=np.float32)}),
        ("state", {"1.bias": np.ones(4, dtype=np.float32)}),
        ("state", {"1.num_batches_tracked": np.array(1, dtype=np.float32)}),
        ("prompt", {"1.bias": np.ones(5, dtype=np.float32)}),
        ("low-rank", {"0.weight.up": np.ones((5, 2), dtype=np.float32)}),
        ("low-rank", {"0.weight.down": np.ones((2, 27), dtype=np.float32)}),
        ("low-rank", factors(rank=3) | {"0.weight.up": np.ones((5, 2), dtype=np.float32)}),
        ("low-rank", factors(outputs=4)),
        ("low-rank", factors() | {"0.weight.middle": np.ones((2, 2), dtype=np.float32)}),
        ("low-rank", factors("1.weight")),
        ("low-rank", {"weight": np.ones((5, 27), dtype=np.float32)}),
    ],
)
def test_a_change_that_does_not_fit_the_network_is_refused(kind, wrong):
    plain = encoder()
    with pytest.raises(Incompatible, match="must fit parameters"):
        apply_delta(plain, EncoderDelta(plain.identity, kind, wrong))
