"""Each picture goes through a network by itself, or the network is refused: whatever its code does."""

from copy import deepcopy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from contracts import mixers  # noqa: E402
from contracts.mixers import CODES, HONEST, SIDE, encoder, mixing, network  # noqa: E402
from dptransfer.encoders import TorchModuleEncoder, get_encoder  # noqa: E402
from dptransfer.encoders.per_example import (  # noqa: E402
    PerExample,
    is_plain_linear,
    keeps_pictures_apart,
    probe_pictures,
)
from dptransfer.errors import ArgumentError  # noqa: E402
from dptransfer.methods.deep.network import Network  # noqa: E402
from dptransfer.methods.deep.network_gradient import NetworkGradient  # noqa: E402
from dptransfer.methods.deep.picture_loss import PictureLoss, Pictures  # noqa: E402
from dptransfer.methods.deep.trained_parts import TrainedParts  # noqa: E402

WILD = [np.full((SIDE, SIDE, 3), shade) for shade in (0, 255, mixers.RARE, 0)]
WILD[3][5, 5] = 255


def moved(network, micro_batch=8, clip=0.3, train="film"):
    """How far one picture more moves a clipped sum, in clips, where one is paid for."""
    parts = TrainedParts(network, train, 3)
    rng, pictures = np.random.default_rng(3), micro_batch - 1
    theta = rng.normal(size=parts.size) * 0.05
    grey = np.repeat(rng.integers(110, 145, (1, SIDE, SIDE, 3), dtype=np.uint8), pictures, axis=0)

    def answer(pixels):
        gradients = PictureLoss(Pictures(parts, pixels, micro_batch=micro_batch)).gradients_at(theta)
        query = NetworkGradient(parts.size, gradients, micro_batch, clip)
        return query(np.arange(len(pixels)), np.zeros(len(pixels), dtype=np.int64)) / query.grid

    before = answer(grey)
    more = (np.concatenate([grey, wild[None].astype(np.uint8)]) for wild in WILD)
    return max(float(np.linalg.norm(answer(pixels) - before)) for pixels in more)


def a_third(kinds):
    """All of them, two in three as slow tests."""
    marks = [pytest.mark.slow, pytest.mark.slow, ()]
    return [pytest.param(one, marks=marks[i % 3]) for i, one in enumerate(kinds)]


@pytest.mark.parametrize("kind", a_third(CODES))
def test_a_network_that_mixes_pictures_is_refused_or_moves_a_sum_by_no_more_than_is_paid_for(kind):
    try:
        found = Network(mixing(kind))
        far = max(moved(found, train=train) for train in ("film", "low-rank"))
    except ArgumentError:
        return
    assert far <= 1.0
    rng = np.random.default_rng(0)
    inputs = found.inputs(rng.integers(0, 256, (7, SIDE, SIDE, 3), dtype=np.uint8))
    for beside in (torch.zeros_like(inputs), 100 * inputs, inputs.flip(0)):
        beside[3] = inputs[3]
        assert torch.equal(found.rows(beside)[3], found.rows(inputs)[3])


PLAIN = {
    "divided by the largest": "film",
    "int4 by one scale": "film",
    "on the way back, by a hook": "low-rank",
    "only for one shade of grey": "film",
    "state in a buffer": "film",
}


@pytest.mark.parametrize("kind", PLAIN)
def test_on_plain_batches_one_picture_would_move_the_sum_by_more_than_is_paid_for(kind, monkeypatch):
    """What the construction is for: without it the tests above would see the difference."""
    plain_batches(monkeypatch)
    assert moved(Network(mixing(kind)), train=PLAIN[kind]) > 1.01


def plain_batches(monkeypatch):
    """Take every network for one that is known."""
    for place in ("dptransfer.methods.deep.trained_parts", "dptransfer.encoders.per_example"):
        monkeypatch.setattr(f"{place}.keeps_pictures_apart", lambda module: True)


@pytest.mark.parametrize("kind", a_third(HONEST))
def test_an_honest_network_gives_what_a_plain_pass_gives_and_learns(kind):
    found = Network(encoder(network(HONEST[kind])))
    inputs = found.inputs(np.random.default_rng(0).integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8))
    with torch.no_grad():
        assert torch.allclose(found.rows(inputs), found.encoder.rows_of(inputs), atol=1e-5)
    assert 0 < moved(found) <= 1.0


@pytest.mark.parametrize("train", ["film", "low-rank", "all"])
def test_gradients_are_those_of_a_plain_pass(train, monkeypatch):
    def gradients():
        parts = TrainedParts(Network(encoder(network(nn.Hardswish()))), train, 3, rank=2)
        rng = np.random.default_rng(0)
        pixels, labels = rng.integers(0, 256, (5, SIDE, SIDE, 3), dtype=np.uint8), np.arange(5) % 3
        theta = rng.normal(size=parts.size) * 0.1
        loss = PictureLoss(Pictures(parts, pixels, views=2, micro_batch=5))
        return loss.gradients_at(theta)(np.arange(5), labels)

    alone = gradients()
    plain_batches(monkeypatch)
    assert torch.allclose(alone, gradients(), rtol=1e-4, atol=1e-6)
    assert alone.norm() > 0.1


def test_frozen_stages_see_one_picture_at_a_time():
    parts = TrainedParts(Network(mixing("only at one size of a batch")), "last", 3)
    inputs = torch.randn(7, 3, SIDE, SIDE)
    assert torch.allclose(parts.front(inputs)[:1], parts.front(inputs[:1]), atol=1e-5)


def test_an_encoder_with_rows_of_its_own_is_not_known():
    class Own(TorchModuleEncoder):
        def rows_of(self, inputs):
            rows = super().rows_of(inputs)
            return rows - rows.mean(0)

    made = encoder(nn.Sequential(nn.Conv2d(3, 8, 3)))
    told = {"name": "own", "transform_name": "as it is", "pixel_map": made.pixel_map}
    with pytest.raises(ArgumentError, match="every picture alone"):
        Own(made.module, made.prepare, **told)


def test_a_function_in_the_place_of_an_encoders_own_sees_one_picture_at_a_time():
    class Own(TorchModuleEncoder):
        def own_rows(self, inputs):
            return mixed(super().rows_of(inputs))

    def mixed(rows):
        return rows - rows.mean(0)

    made = encoder(nn.Sequential(nn.Conv2d(3, 8, 3)).eval())
    own = encoder(made.module)
    own.__class__ = Own
    changed = [encoder(made.module), encoder(made.module)]
    changed[0].own_rows = lambda inputs: mixed(made.rows_of(inputs))
    changed[1].rows_of = lambda inputs: mixed(made.rows_of(inputs))
    for one in (own, *changed):
        found = Network(one)
        inputs = found.inputs(np.random.default_rng(0).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8))
        beside = torch.zeros_like(inputs)
        beside[1] = inputs[1]
        assert torch.equal(found.rows(beside)[1], found.rows(inputs)[1])


def test_weights_that_change_later_are_those_of_later_rows():
    made = encoder(network(nn.Tanh()))
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (2, SIDE, SIDE, 3), dtype=np.uint8)
    before = made.forward(pixels)
    with torch.no_grad():
        made.module[0].weight.mul_(2)
    changed = made.forward(pixels)
    made.module[0].weight = nn.Parameter(made.module[0].weight * 0)
    assert not np.allclose(before, changed)
    assert not np.allclose(changed, made.forward(pixels))
    assert np.allclose(made.forward(pixels), made.rows_of(made._inputs(pixels)).detach().numpy(), atol=1e-5)


def test_a_function_is_recorded_on_noise_and_never_sees_what_it_is_given():
    seen = []
    alone = PerExample(lambda given: seen.append(given.detach().clone()) or given * 2, "own")
    secret = torch.full((3, 4), 77.0)
    assert torch.equal(alone(secret), 2 * secret)
    assert torch.equal(alone(secret + 1), 2 * (secret + 1))
    assert len(seen) == 1
    assert not (seen[0] == 77).any()
    alone(torch.ones(2, 5))
    assert len(seen) == 2


def test_a_recording_for_inference_has_a_derivative_later():
    alone = PerExample(lambda given: given.sin(), "own")
    with torch.inference_mode():
        alone(torch.ones(2, 3))
    given = torch.ones(2, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(alone(given).sum(), given)
    assert torch.allclose(slope, torch.ones(2, 3).cos())


def test_examples_may_lie_in_memory_in_any_order():
    alone = PerExample(lambda given: given.view(1, -1), "own")
    given = torch.randn(3, 5, 4).transpose(1, 2)
    assert torch.equal(alone(given), given.reshape(3, -1))


IMPURE = {
    "operation is no": lambda given: mixers.mixed(given),
    "draws random numbers": lambda given: given + torch.rand_like(given),
    "stays from call to call": lambda given: given * COUNTER.add_(1),
    "fails for some values": lambda given: torch.linalg.inv(given[..., None] @ given[:, None] + torch.eye(3)),
    "fails for some values, as": lambda given: given * (6 // (given.detach().sum() * 3).long().clamp(min=1)),
    "fails for some values, as remainder": lambda given: (
        given * ((given.detach() * 9).long() % (given.detach().sum() * 3).long().clamp(min=1))
    ),
    "fails for some values, by range": lambda given: nn.functional.binary_cross_entropy(
        given * 0.01 + 0.5, torch.ones_like(given), reduction="none"
    ),
    "fails for some values, by lengths": lambda given: torch.segment_reduce(
        given[0], "sum", lengths=torch.tensor([1, 2]) + (given.detach()[0, :1] > 9).long()
    )[None],
    "fails for some values, by counts": lambda given: torch.zeros(1, 3).masked_scatter(
        given > 9, given[:, 1:]
    ),
    "fails for some values, by target": lambda given: nn.functional.nll_loss(
        given, (given.detach()[:, 0] > 9).long() * 7
    )[None],
    "fails for some values, if asked to": lambda given: torch.linalg.inv_ex(
        given[..., None] @ given[:, None] + torch.eye(3), check_errors=True
    )[0],
    "memory by strides, where sparse": lambda given: given[0].to_sparse().to_dense()[None],
    "memory by strides": lambda given: given + given.as_strided((3,), (0,)),
    "memory by strides, in segments": lambda given: torch.segment_reduce(
        given[0], "sum", lengths=torch.tensor([1, 60]), unsafe=True
    )[None],
    "memory by strides, as a copy": lambda given: torch.ops.aten._reshape_alias_copy(
        given[0], [1, 60], [0, 1]
    ),
    "memory by strides, by inner code": lambda given: torch._weight_norm(given, given[:, :1], 0),
    "memory by strides, by targets": lambda given: nn.functional.ctc_loss(
        given[:, None], torch.full((1, 1), 99), torch.tensor([1]), torch.tensor([1])
    )[None],
    "memory by strides, by a derivative": lambda given: torch.ops.aten._log_softmax_backward_data(
        given, given[:, :1], 1, torch.float32
    ),
    "boolean mask": lambda given: given[given > 0].sum()[None],
}
COUNTER = torch.zeros(1)


@pytest.mark.parametrize("kind", IMPURE)
def test_what_is_no_pure_function_is_refused(kind):
    word = kind.removeprefix("operation is ").partition(", ")[0]
    with pytest.raises(ArgumentError, match=word):
        PerExample(IMPURE[kind], "own")(torch.ones(2, 3))


@pytest.mark.parametrize(
    "empty",
    [
        lambda given: torch.empty(given.shape),
        torch.empty_like,
        lambda given: given.new_empty(given.shape),
        lambda given: torch.empty_strided(given.shape, given.stride()),
    ],
)
def test_memory_that_nobody_wrote_to_holds_no_other_pictures(empty):
    alone, others = PerExample(lambda given: given + empty(given), "own"), torch.full((50, 4096), 7.0)
    del others  # what lay in memory before
    given = torch.randn(50, 4096)
    assert torch.equal(alone(given), given)

    def filled(given):
        found = torch.empty_like(given)
        found[:, ::2] = given[:, ::2]
        found[:, 0] = 5
        return found

    found = PerExample(filled, "own")(given)
    assert torch.equal(found[:, 2::2], given[:, 2::2])
    assert (found[:, 1::2] == 0).all()
    assert (found[:, 0] == 5).all()


INDEXED = {
    "looked up": lambda given, places: torch.arange(10.0)[places],
    "put": lambda given, places: torch.zeros(1, 10).index_put((torch.zeros(1).long(), places), given),
    "embedded": lambda given, places: nn.functional.embedding(places, torch.eye(10)),
    "gathered": lambda given, places: torch.arange(10.0)[None].gather(1, places[:, None]),
    "selected": lambda given, places: torch.arange(10.0).index_select(0, places),
    "scattered": lambda given, places: torch.zeros(1, 10).scatter_add(1, places[:, None], given[:, None]),
    "taken": lambda given, places: torch.arange(10.0).take(places),
    "reduced": lambda given, places: torch.zeros(10).index_reduce(0, places, given, "amax")[None],
    "unpooled": lambda given, places: nn.functional.max_unpool2d(
        given.reshape(1, 1, 1, 1), places.reshape(1, 1, 1, 1), 5, output_size=(2, 5)
    ),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("kind", INDEXED)
def test_no_index_that_a_picture_gives_stops_a_run(kind):
    alone = PerExample(lambda given: INDEXED[kind](given, given.detach().abs().long()), "own")
    inside = torch.tensor([0.0, 4.0, 9.0])
    expected = torch.cat([INDEXED[kind](one, one.long()) for one in inside.split(1)])
    assert torch.equal(alone(inside), expected)
    assert torch.equal(alone(torch.tensor([0.0, 1e6, 9.0]))[[0, 2]], expected[[0, 2]])


def test_a_parameter_with_code_of_its_own_is_refused():
    constant = torch.ones(4).as_subclass(mixers.OwnTensor)
    with pytest.raises(ArgumentError, match="OwnTensor"):
        PerExample(lambda given: given * constant, "own")(torch.ones(2, 4))


def known():
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU6()),
        nn.Sequential(nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.AvgPool2d(2), nn.Identity()),
    ).eval()


def efficient():
    return get_encoder("efficientnet-lite0", size=32, runtime="torch").module


def test_the_networks_of_this_library_are_known_and_stay_so_when_they_are_copied():
    for module in (known(), efficient(), get_encoder("small-cnn", size=8).module):
        assert keeps_pictures_apart(module)
        assert keeps_pictures_apart(deepcopy(module))


class Table(dict):
    """It could give other layers than it holds."""


def own(kind, **functions):
    """A class of the same name that could do anything."""
    return type(kind.__name__, (kind,), functions)


ROLLED = {"forward": lambda self, maps: maps.roll(1, 0)}
PADDED = {"padding_mode": "constant", "_reversed_padding_repeated_twice": [0] * 6 + [1, -1]}
CHANGES = {
    "a layer of no known type": lambda net, conv, norm: net.append(nn.Flatten(0)),
    "a derived layer": lambda net, conv, norm: net.append(own(nn.Conv2d)(4, 4, 1)),
    "a derived container": lambda net, conv, norm: setattr(net, "__class__", own(nn.Sequential)),
    "another forward": lambda net, conv, norm: setattr(conv, "forward", lambda maps: maps.roll(1, 0)),
    "a hook": lambda net, conv, norm: conv.register_forward_hook(print),
    "a hook on the way back": lambda net, conv, norm: net[0][2].register_full_backward_hook(print),
    "training": lambda net, conv, norm: norm.train(),
    "statistics of the batch": lambda net, conv, norm: setattr(norm, "running_mean", None),
    "a parametrisation": lambda net, conv, norm: nn.utils.parametrizations.weight_norm(conv),
    "another parameter": lambda net, conv, norm: setattr(
        conv, "weight", own(nn.Parameter)(conv.weight.detach())
    ),
    "a tensor as the weight": lambda net, conv, norm: vars(conv).update(
        weight=conv.weight.detach().as_subclass(own(torch.Tensor))
    ),
    "a function in a list": lambda net, conv, norm: vars(conv).update(stride=[lambda maps: maps]),
    "a function in a dictionary": lambda net, conv, norm: vars(conv).update(more={"a": [nn.Softmax(0)]}),
    "another dictionary": lambda net, conv, norm: vars(conv).update(more=Table()),
    "another table": lambda net, conv, norm: vars(net).update(_modules=Table(net._modules)),
    "padding of the axis of pictures": lambda net, conv, norm: vars(conv).update(PADDED),
    "another buffer": lambda net, conv, norm: norm._buffers.update(
        running_mean=norm.running_mean.as_subclass(own(torch.Tensor))
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_network_is_not_known_with(change):
    module = known()
    CHANGES[change](module, *module[0][:2])
    if change != "training":
        module.eval()
    assert not keeps_pictures_apart(module)


ALONG_PICTURES = nn.ZeroPad2d((0, 0, 0, 0, 0, 0, 1, -1))
EFFICIENT_CHANGES = {
    "longer": lambda maps, net: net._blocks.append(nn.Flatten(0)),
    "padded": lambda maps, net: setattr(net._blocks[1]._depthwise_conv, "static_padding", ALONG_PICTURES),
    "of logits, without height and width": lambda maps, net: setattr(
        net, "_blocks", nn.ModuleList([efficient().network, nn.ZeroPad2d((0, 0, 1, -1))])
    ),
    "another network": lambda maps, net: setattr(net, "__class__", own(type(net))),
    "a list of blocks": lambda maps, net: vars(net).update(_blocks=[nn.Softmax(0)]),
    "a class of that name": lambda maps, net: setattr(maps, "__class__", own(type(maps), **ROLLED)),
    "another stem": lambda maps, net: setattr(maps, "_stem", lambda pixels: pixels.roll(1, 0)),
}


@pytest.mark.parametrize("change", EFFICIENT_CHANGES)
def test_an_efficient_network_is_not_known_with(change):
    module = efficient()
    EFFICIENT_CHANGES[change](module, module.network)
    assert not keeps_pictures_apart(module.eval())


def test_a_network_is_not_known_by_its_name_or_by_one_part_of_it():
    named = type("FeatureMaps", (nn.Module,), {})()
    for module in (named, nn.Conv2d(3, 4, 3), nn.Sequential(efficient(), nn.ReLU())):
        assert not keeps_pictures_apart(module.eval())


def test_a_hook_on_all_modules_makes_none_known():
    head = nn.Linear(3, 2).eval()
    assert is_plain_linear(head)
    hook = nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert not keeps_pictures_apart(known())
        assert not is_plain_linear(head)
    finally:
        hook.remove()
    assert keeps_pictures_apart(known())


def test_a_head_is_known_as_a_linear_layer_and_no_more():
    assert not is_plain_linear(nn.Sequential(nn.Linear(3, 2)).eval())
    assert not is_plain_linear(own(nn.Linear)(3, 2).eval())
    head = nn.Linear(3, 2).eval()
    head.register_forward_hook(lambda *_: None)
    assert not is_plain_linear(head)


def test_extremes_come_between_noise_and_the_ends_are_noise():
    shown = probe_pictures(15, 8)
    _, black, white, halves, pixel, board, faint = shown[:7].astype(int)
    assert [black.max(), white.min()] == [0, 255]
    assert [one.sum() // 255 // 3 for one in (halves, pixel, board)] == [32, 1, 32]
    assert 0 < np.ptp(faint) < 40
    for one in (shown[0], shown[7], shown[14], *probe_pictures(1, 8), *probe_pictures(2, 8)):
        assert np.ptp(one.astype(int)) > 200
    assert len({one.tobytes() for one in shown}) == 10
    assert (probe_pictures(15, 8) == shown).all()
