import numpy as np
import pytest
import torch
from torch import nn

from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm, apply
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods.deep.network import Network
from dptransfer.methods.deep.picture_loss import losses
from dptransfer.methods.deep.trained_parts import TRAINED, TrainedParts, row_map

from .toys import CLASSES, SIDE, labels, pictures, shared_parts, somewhere, tiny_network

COUNTS = {
    "film": 2 * (6 + 8 + 10),
    "bias": 6 + 8 + 10 + 6 + 8 + 8 + 10,
    "low-rank": 2 * (6 + 27) + 2 * (8 + 54) + 2 * (8 + 8) + 2 * (10 + 8),
    "last": 0,
    "all": (6 * 27 + 6 + 12) + (8 * 54 + 8 + 16) + (64 + 8) + (80 + 10 + 20),
}


def parts_of(train, network=None, **settings):
    if network is None:
        return shared_parts(train, **settings)
    return TrainedParts(network, train, CLASSES, **{"rank": 2} | settings)


def gradients(parts, theta, pixels, y, views=1):
    maps = parts.front(parts.network.inputs(pixels))
    repeated = torch.from_numpy(np.repeat(y, views))
    here = torch.from_numpy(theta).float()
    return parts.gradients(here, maps, lambda logits: losses(logits, repeated), views=views)


@pytest.mark.parametrize("train", TRAINED)
def test_every_example_has_the_gradient_that_it_has_alone(train):
    parts = parts_of(train)
    theta, pixels, y = somewhere(parts), pictures(5), labels(5)
    together = gradients(parts, theta, pixels, y)
    assert parts.trunk == COUNTS[train]
    assert together.shape == (5, parts.size) == (5, COUNTS[train] + CLASSES * 10)
    for one in range(5):
        alone = gradients(parts, theta, pixels[one : one + 1], y[one : one + 1])[0]
        assert torch.allclose(together[one], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("train", TRAINED)
def test_gradients_are_slopes_of_the_loss(train):
    parts = parts_of(train, pace=0.5)
    theta, y = somewhere(parts), torch.from_numpy(labels(4))
    maps = parts.front(parts.network.inputs(pictures(4)))
    found = gradients(parts, theta, pictures(4), labels(4)).double()
    way = np.random.default_rng(9).normal(size=parts.size)

    def at(step):
        return losses(parts.logits(torch.from_numpy(theta + step * way).float(), maps), y).double()

    slope = (at(1e-3) - at(-1e-3)) / 2e-3
    assert torch.allclose(found @ torch.from_numpy(way), slope, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("train", TRAINED)
def test_the_released_change_gives_the_same_logits(train):
    parts = parts_of(train)
    theta, inputs = somewhere(parts), parts.network.inputs(pictures(4))
    trained = parts.logits(torch.from_numpy(theta).float(), parts.front(inputs))
    delta, encoder = parts.delta(theta), parts.network.encoder
    rows = (encoder if delta is None else encoder.with_delta(delta)).rows_of(inputs)
    head = torch.from_numpy(parts.head(theta)).float()
    assert torch.allclose(nn.functional.normalize(rows) @ head.T, trained, atol=1e-4)
    assert delta is None or not torch.allclose(rows, parts.network.rows(inputs), atol=1e-2)


def test_views_of_one_example_are_averaged_into_one_gradient():
    parts = parts_of("film")
    theta, y = somewhere(parts), labels(2)
    shown = pictures(6)
    together = gradients(parts, theta, shown, y, views=3)
    apart = gradients(parts, theta, shown, np.repeat(y, 3)).reshape(2, 3, -1).mean(dim=1)
    assert torch.allclose(together, apart, atol=1e-5)


@pytest.mark.parametrize(
    ("train", "blocks", "first"),
    [("film", None, 0), ("low-rank", 1, 3), ("bias", 3, 1), ("last", None, 4), ("all", 2, 0)],
)
def test_stages_in_front_of_the_first_trained_layer_are_frozen(train, blocks, first):
    parts = parts_of(train, blocks=blocks)
    assert parts.first == first
    theta = somewhere(parts)
    unchanged = parts.front(parts.network.inputs(pictures(2)))
    assert torch.equal(unchanged, parts_of("last").front(parts.network.inputs(pictures(2)))) == (first == 4)
    gradients(parts, theta, pictures(2), labels(2))
    assert torch.equal(parts.front(parts.network.inputs(pictures(2))), unchanged)


def test_a_network_without_what_is_to_be_trained_is_refused():
    bare = tiny_network(nn.Conv2d(3, 4, 3, bias=False), nn.ReLU())
    for train, words in (("film", "scales and shifts of normalisation layers"), ("bias", "biases")):
        with pytest.raises(ArgumentError, match=words):
            parts_of(train, bare)
    with pytest.raises(ArgumentError, match="chosen blocks"):
        parts_of("low-rank", bare, blocks=1)
    assert parts_of("last", bare).trunk == 0


def test_too_many_parameters_are_refused(monkeypatch):
    monkeypatch.setattr("dptransfer.methods.deep.trained_parts.MOST_PARAMETERS", 70)
    with pytest.raises(ArgumentError, match="70 parameters"):
        parts_of("film", tiny_network())


def vit(folder):
    transformers = pytest.importorskip("transformers")
    from dptransfer.encoders import get_encoder
    from dptransfer.encoders.transformers import quiet

    sides = {"height": SIDE, "width": SIDE}
    with quiet(), torch.random.fork_rng():
        torch.manual_seed(0)
        shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
        config = transformers.ViTConfig(**shape, image_size=SIDE, patch_size=4)
        transformers.ViTModel(config).save_pretrained(folder)
        transformers.ViTImageProcessor(size=sides).save_pretrained(folder)
    return Network(get_encoder(str(folder)))


@pytest.mark.slow
def test_a_vision_transformer_is_trained_in_the_same_ways(tmp_path):
    network = vit(tmp_path / "vit")
    assert len(network.stages) == 4
    maps = inputs = network.inputs(pictures(3))
    for stage in network.stages:
        maps = stage(maps)
    assert torch.allclose(maps, network.rows(inputs), atol=1e-6)
    for train in ("film", "low-rank", "all"):
        parts = parts_of(train, network, blocks=2)
        theta = somewhere(parts)
        trained = parts.logits(torch.from_numpy(theta).float(), parts.front(inputs))
        rows = network.encoder.with_delta(parts.delta(theta)).rows_of(inputs)
        head = torch.from_numpy(parts.head(theta)).float()
        assert torch.allclose(nn.functional.normalize(rows) @ head.T, trained, atol=1e-4)
        together = gradients(parts, theta, pictures(3), labels(3))
        alone = gradients(parts, theta, pictures(3)[1:2], labels(3)[1:2])
        assert torch.allclose(together[1], alone[0], rtol=1e-3, atol=1e-4)


RNG = np.random.default_rng(0)
POOLS = {"signed": RNG.normal(size=(60, 12)), "rooted": RNG.random((60, 12))}
MAPS = {
    "unit norm": UnitNorm().fit(12, None),
    **{name: PublicMap(axes=5).fit(12, PublicEmbeddings(pool)) for name, pool in POOLS.items()},
}


@pytest.mark.parametrize("name", MAPS)
def test_it_gives_what_the_exact_map_gives_but_for_rounding(name):
    rows = POOLS["rooted"][:7].astype(np.float32)
    found = row_map(MAPS[name], "cpu")(torch.from_numpy(rows)).numpy()
    assert np.allclose(found, apply(MAPS[name], rows), atol=1e-5)


def test_gradients_are_those_of_the_map_and_finite_where_a_root_has_no_slope():
    assert MAPS["rooted"].root
    mapped, rows = row_map(MAPS["rooted"], "cpu"), torch.from_numpy(POOLS["rooted"][:1]).float() + 1.0
    direction = torch.zeros_like(rows)
    direction[0, 3] = 1e-2
    rows.requires_grad_()
    (gradient,) = torch.autograd.grad(mapped(rows)[0, 0], rows)
    with torch.no_grad():
        measured = (mapped(rows + direction) - mapped(rows - direction))[0, 0] / 2e-2
    assert float(gradient[0, 3]) == pytest.approx(float(measured), rel=0.02)
    zeros = torch.zeros((1, 12), requires_grad=True)
    zeros.data[0, 0] = 1.0
    assert torch.autograd.grad(mapped(zeros).sum(), zeros)[0].isfinite().all()
