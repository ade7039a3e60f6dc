"""Which networks are known, layer by layer, to keep the pictures of a batch apart.

They run on plain batches; all others run on each example by itself (`encoders.per_example`). A name proves
nothing, so the layers themselves are looked at: each must be of exactly a type whose code is known, without
hooks, in evaluation mode, with nothing but plain data for its settings.

Every type in the list takes maps, (pictures, channels, height, width), gives maps, and computes those of a
picture from that picture alone. So does whatever is built of them one after the other, or as the blocks of
EfficientNet-Lite are. A linear layer works along the last axis; of normalisations by a batch there is none,
as those with running statistics use these.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

_NUMBERS = {bool, int, float, str, type(None)}
_TABLES = "_parameters", "_buffers", "_modules"
_PADDINGS = "padding", "_reversed_padding_repeated_twice"
_ENDS = 4  # of a map's height and width; more would pad the axis of the pictures


def keeps_pictures_apart(module: Any) -> bool:
    """Whether a torch module is known to compute each picture of a batch from that picture alone."""
    return not _hooks_on_all() and all(map(_is_plain, module.modules())) and _is_known(module)


def is_plain_linear(layer: Any) -> bool:
    """Whether a torch module is a linear layer and no more, which keeps rows apart."""
    from torch import nn

    return type(layer) is nn.Linear and _is_plain(layer) and not _hooks_on_all()


def _hooks_on_all() -> bool:
    from torch.nn.modules import module

    everywhere: Any = module
    return bool(everywhere._has_any_global_hook())


def _is_known(module: Any) -> bool:
    """Whether the types of all layers are known."""
    from torch import nn

    known: set[type] = {
        nn.Sequential,
        nn.Conv2d,
        nn.BatchNorm2d,
        nn.GroupNorm,
        nn.ReLU,
        nn.ReLU6,
        nn.AvgPool2d,
        nn.Identity,
    }
    layers = list(module.modules())
    if type(module).__name__ == "FeatureMaps":  # torch and the package are not asked for by others
        from dptransfer.encoders.efficientnet import feature_maps, layer_types, network_type

        network = getattr(module, "network", None)
        if type(module) is feature_maps() and type(network) is network_type():
            known = known - {nn.Sequential} | layer_types()
            layers.remove(module)
            layers.remove(network)  # whose own `forward`, which ends in logits, is not used
    elif type(module) is not nn.Sequential:
        return False
    return all(type(one) in known for one in layers)


def _is_plain(layer: Any) -> bool:
    """Whether a layer computes what its class says: no hooks, no functions of its own, nothing by batches."""
    import torch

    settings = {name: value for name, value in vars(layer).items() if name not in _TABLES}
    changed = not all(map(_is_data, settings.values()))  # hooks are functions, too
    changed = changed or any(type(vars(layer)[name]) not in (dict, OrderedDict) for name in _TABLES)
    pads = (settings.get(name) for name in _PADDINGS)
    by_batch = any(isinstance(ends, tuple | list) and len(ends) > _ENDS for ends in pads)
    by_batch = by_batch or (isinstance(layer, torch.nn.BatchNorm2d) and layer.running_mean is None)
    tensors = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
    own = all(type(one) in (torch.Tensor, torch.nn.Parameter) for one in tensors)
    return own and not (changed or by_batch or layer.training)


def _is_data(value: Any) -> bool:
    """Whether a setting is made of numbers and words: what has no code cannot look at pictures."""
    if isinstance(value, dict):
        return type(value) in (dict, OrderedDict) and all(map(_is_data, value.values()))
    if isinstance(value, tuple | list | set):
        return all(map(_is_data, value))
    return type(value) in _NUMBERS
