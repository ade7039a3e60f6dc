"""What runs on plain batches: networks all of whose layers are known, and nothing that looks like one."""

from copy import deepcopy

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from dptransfer.encoders import get_encoder  # noqa: E402
from dptransfer.encoders.per_example import is_plain_linear, keeps_pictures_apart  # noqa: E402


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


class Derived(nn.Conv2d):
    """It could do anything."""


class Table(dict):
    """It could give other layers than it holds."""


class FeatureMaps(nn.Module):
    """It has the name of another."""


def _looks(network):
    network.__class__ = type("Sequential", (nn.Sequential,), {})


CHANGES = {
    "a layer of no known type": lambda one: one.append(nn.Flatten(0)),
    "a layer normalisation, which may normalise whatever it is told to": lambda one: one.append(
        nn.LayerNorm((8, 4, 3, 3))
    ),
    "a softmax along the first axis": lambda one: one.append(nn.Softmax(0)),
    "a derived layer": lambda one: one.append(Derived(4, 4, 1)),
    "a derived container": _looks,
    "a function in the place of forward": lambda one: setattr(
        one[0][0], "forward", lambda maps: maps.roll(1, 0)
    ),
    "a hook": lambda one: one[0][0].register_forward_hook(lambda *_: None),
    "a hook before": lambda one: one[1].register_forward_pre_hook(lambda *_: None),
    "a hook on the way back": lambda one: one[0][2].register_full_backward_hook(lambda *_: None),
    "a hook before the way back": lambda one: one[0][2].register_full_backward_pre_hook(lambda *_: None),
    "training": lambda one: one[0][1].train(),
    "statistics of the batch": lambda one: setattr(one[0][1], "running_mean", None),
    "a parametrisation": lambda one: nn.utils.parametrizations.weight_norm(one[0][0]),
    "a tensor of another type": lambda one: setattr(
        one[0][0], "weight", type("Own", (nn.Parameter,), {})(one[0][0].weight.detach())
    ),
    "a tensor of another type in the place of the weight": lambda one: vars(one[0][0]).update(
        weight=one[0][0].weight.detach().as_subclass(type("Own", (torch.Tensor,), {}))
    ),
    "a function in a list": lambda one: vars(one[0][0]).update(stride=[lambda maps: maps]),
    "a function in a list in a dictionary": lambda one: vars(one[0][0]).update(more={"a": [nn.Softmax(0)]}),
    "a dictionary of another type": lambda one: vars(one[0][0]).update(more=Table()),
    "a table of another type": lambda one: vars(one[0]).update(_modules=Table(one[0]._modules)),
    "padding of the axis of pictures": lambda one: vars(one[0][0]).update(
        padding_mode="constant", _reversed_padding_repeated_twice=[0] * 6 + [1, -1]
    ),
    "a buffer of another type": lambda one: one[0][1]._buffers.update(
        running_mean=one[0][1].running_mean.as_subclass(type("Own", (torch.Tensor,), {}))
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_network_is_not_known_with(change):
    module = known()
    CHANGES[change](module)
    if change != "training":
        module.eval()
    assert not keeps_pictures_apart(module)


def test_a_network_is_not_known_by_its_name_or_by_one_part_of_it():
    assert not keeps_pictures_apart(FeatureMaps().eval())
    assert not keeps_pictures_apart(nn.Conv2d(3, 4, 3).eval())
    assert not keeps_pictures_apart(nn.Sequential(efficient(), nn.ReLU()).eval())
    longer = efficient()
    longer.network._blocks.append(nn.Flatten(0).eval())
    assert not keeps_pictures_apart(longer)
    padded = efficient()
    padded.network._blocks[1]._depthwise_conv.static_padding = nn.ZeroPad2d((0, 0, 0, 0, 0, 0, 1, -1)).eval()
    assert not keeps_pictures_apart(padded)
    flat = efficient()  # whose logits have no height and width, so that others take pictures for these
    flat.network._blocks = nn.ModuleList([efficient().network, nn.ZeroPad2d((0, 0, 1, -1))]).eval()
    assert not keeps_pictures_apart(flat)
    replaced = efficient()
    replaced.network.__class__ = type("EfficientNet", (type(replaced.network),), {})
    assert not keeps_pictures_apart(replaced)
    listed = efficient()
    vars(listed.network)["_blocks"] = [nn.Softmax(0)]
    assert not keeps_pictures_apart(listed)
    named = efficient()  # a class of that name, around the very network
    named.__class__ = type("FeatureMaps", (type(named),), {"forward": lambda self, pixels: pixels.roll(1, 0)})
    assert not keeps_pictures_apart(named)
    shifted = efficient()
    shifted._stem = lambda pixels: pixels.roll(1, 0)
    assert not keeps_pictures_apart(shifted)


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
    assert not is_plain_linear(type("Own", (nn.Linear,), {})(3, 2).eval())
    head = nn.Linear(3, 2).eval()
    head.register_forward_hook(lambda *_: None)
    assert not is_plain_linear(head)
