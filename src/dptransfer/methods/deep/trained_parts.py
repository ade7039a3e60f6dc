"""Trainable parts of a public network with a head, as one parameter vector per example.

The released classifier maps rows by the exact integers of `features`; these floats are the same numbers, but
for rounding.

What is trained starts at the public network and is counted from there, in units of what the network has: so
the vector θ starts at zero. For gradients by example every example gets a copy of θ of its own
(`TrainedLayer`). What one example's loss says about another's copy is zero, so that one
ordinary backward pass of the summed loss gives every example's gradient, without hooks and without a pass for
each. That holds for networks that are known to keep pictures apart (`encoders.torch_module`), whatever their
values are; all others run on each picture by itself (`encoders.per_example`), so that it holds for them, too.

Stages in front of the first trained layer never change, so `front` is computed once for each picture.

Each class of layers with per-example parameters is one way to change one layer. `units` says what is trained,
as differences to public values, and what one unit of each stands for, so that all layers are trained in units
of what they have; `forward` computes with a copy for each example; `new_arrays` gives the arrays of an
`EncoderDelta`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import copy, deepcopy
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from dptransfer.base import checks
from dptransfer.base.lazy_torch import torch
from dptransfer.base.types import Floats, Tensor
from dptransfer.encoders.encoder import EncoderDelta
from dptransfer.encoders.per_example import PerExample, keeps_pictures_apart, plain_kernels
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import FittedFeatures, FittedUnitNorm, RowMap, UnitNorm
from dptransfer.exact.public_map import FittedPublicMap
from dptransfer.methods.deep.network import Network, delta_kind
from dptransfer.methods.deep.network_gradient import MOST_PARAMETERS


class TrainedLayer(ABC):
    """One layer; stands in for its `forward`.

    Args:
        layer: the public layer.
        units: what one unit stands for, of every array that is trained and of its shape.

    Attributes:
        copies: what each example has of every such array.
    """

    def __init__(self, layer: Any, *units: Tensor) -> None:
        self.layer, self.units = layer, units
        self.copies: tuple[Tensor, ...] = ()
        self._public: Callable[[Tensor], Tensor] = layer.forward

    def __call__(self, x: Tensor) -> Tensor:
        """The layer's output, with the copies."""
        return self.forward(x, *self.copies)

    @abstractmethod
    def forward(self, x: Tensor, *copies: Tensor) -> Tensor:
        """The layer with these differences of each example."""

    @abstractmethod
    def new_arrays(self, *changes: Tensor) -> dict[str, Tensor]:
        """Arrays of a delta, by the names that the layer has for them."""


class Film(TrainedLayer):
    """Scale and shift of a normalisation layer: batch (with its public statistics), group or layer.

    A unit is the public scale of each channel: one that the network does not use stays so.

    Args:
        layer: the public layer.
        shift_only: whether the scale stays: then nothing is kept for the way back.
    """

    def __init__(self, layer: Any, *, shift_only: bool = False) -> None:
        super().__init__(layer, *(layer.weight.abs(),) * (1 if shift_only else 2))
        self._last = isinstance(layer, torch.nn.LayerNorm)
        self._by_statistics = isinstance(layer, torch.nn.BatchNorm2d)
        if self._by_statistics:
            self._narrow = torch.rsqrt(layer.running_var + layer.eps)

    def forward(self, x: Tensor, *copies: Tensor) -> Tensor:
        """With a scale, if it is trained, and a shift of each example."""
        functional, layer = torch.nn.functional, self.layer
        arrays = self.new_arrays(*copies)
        scale, shift = arrays.get("weight", layer.weight), arrays["bias"]
        if self._by_statistics:
            # One product and one sum, so that no more is kept for the way back than of the plain layer.
            scale = scale * self._narrow
            shift = torch.addcmul(shift, layer.running_mean, scale, value=-1)
        elif self._last:
            x = functional.layer_norm(x, layer.normalized_shape, eps=layer.eps)
        else:
            x = functional.group_norm(x, layer.num_groups, eps=layer.eps)
        return torch.addcmul(_along(shift, x, last=self._last), x, _along(scale, x, last=self._last))

    def new_arrays(self, *changes: Tensor) -> dict[str, Tensor]:
        """The parameters that take the place of the public ones."""
        *scale, shift = changes
        new = {"bias": self.layer.bias + shift}
        return {"weight": self.layer.weight + scale[0], **new} if scale else new


def _along(values: Tensor, x: Tensor, *, last: bool) -> Tensor:
    """(channels) or (examples, channels), so that they go with x, whose channels are last or second."""
    between, (examples, channels) = (1,) * (x.ndim - 2), (1, *values.shape)[-2:]
    return values.reshape(examples, *((*between, channels) if last else (channels, *between)))


class Bias(TrainedLayer):
    """The bias of a linear or convolutional layer.

    A unit is the norm of the weights of each output: about how far it varies, for inputs of size one.
    """

    def __init__(self, layer: Any) -> None:
        super().__init__(layer, layer.weight.flatten(1).norm(dim=1))

    def forward(self, x: Tensor, *copies: Tensor) -> Tensor:
        """With a bias of each example."""
        return self._public(x) + _along(copies[0], x, last=self.layer.weight.ndim == 2)

    def new_arrays(self, *changes: Tensor) -> dict[str, Tensor]:
        """The bias that takes the place of the public one."""
        return {"bias": self.layer.bias + changes[0]}


class LowRank(TrainedLayer):
    """W + up·down, for the weights of a linear layer, or of a convolution as a matrix (outputs, the rest).

    Units are the norm of the weights of each output, and the size of the random numbers.
    """

    def __init__(self, layer: Any, rank: int) -> None:
        matrix = layer.weight.flatten(1)
        outputs, inputs = matrix.shape
        self.rank = min(rank, outputs, inputs)
        size, device = 1 / math.sqrt(inputs), matrix.device
        up = matrix.norm(dim=1)[:, None].expand(outputs, self.rank)
        super().__init__(layer, up, torch.full((self.rank, inputs), size, device=device))
        # Random, but the same for everyone: what is trained is counted from there.
        drawn = np.random.Generator(np.random.PCG64(0)).normal(size=(self.rank, inputs)) / math.sqrt(inputs)
        self._start = torch.from_numpy(drawn.astype(np.float32)).to(device)

    def forward(self, x: Tensor, *copies: Tensor) -> Tensor:
        """With two factors of each example."""
        layer, (up, down) = self.layer, copies
        down = self._start + down
        if layer.weight.ndim == 2:
            inside = x.reshape(len(x), -1, x.shape[-1]) @ down.mT
            return self._public(x) + (inside @ up.mT).reshape(*x.shape[:-1], -1)
        size = x.shape[2:]
        if layer.kernel_size == (1, 1) and tuple(layer.stride) == (1, 1) and layer.padding == (0, 0):
            inside = x.permute(0, 2, 3, 1).reshape(len(x), -1, x.shape[1]) @ down.mT
        else:
            kernels = down.reshape(-1, *layer.weight.shape[1:])
            how = {name: getattr(layer, name) for name in ("stride", "padding", "dilation")}
            maps = torch.nn.functional.conv2d(x.reshape(1, -1, *size), kernels, groups=len(x), **how)
            size, inside = maps.shape[2:], maps.reshape(len(x), self.rank, -1).mT
        outside = (inside @ up.mT).reshape(len(x), *size, -1)
        return self._public(x) + outside.permute(0, 3, 1, 2)

    def new_arrays(self, *changes: Tensor) -> dict[str, Tensor]:
        """Both factors."""
        up, down = changes
        return {"weight.up": up, "weight.down": self._start + down}


_FLAT = 0.01
"""Below this share of a row's mean entry the slope of a square root counts as there: at 0 it has none."""


def row_map(features: FittedFeatures, device: torch.device) -> RowMap:
    """From rows of an encoder, a tensor (pictures, dimension) there, to rows as the map gives them."""
    normalised: RowMap = torch.nn.functional.normalize
    if isinstance(features, FittedUnitNorm) and features.pool == 1:
        return normalised
    if not isinstance(features, FittedPublicMap):
        raise ArgumentError(
            f"A head that is trained with its network takes rows of unit norm or a PublicMap; got "
            f"{features.kind}. Set another feature map."
        )
    public = features.centre(), features.axis_vectors()
    centre, axes = (torch.from_numpy(part).float().to(device) for part in public)

    def mapped(rows: Tensor) -> Tensor:
        centred = normalised(_signed_root(rows) if features.root else rows) - centre
        # A product for each row: threads that share one product of all round some rows otherwise than others.
        return normalised(torch.bmm(centred[:, None], axes.expand(len(rows), -1, -1))[:, 0])

    return mapped


def _signed_root(rows: Tensor) -> Tensor:
    """Signed square roots, whose slope stays finite: the value is exact, the slope that of a shifted root."""
    sizes = rows.abs()
    shift = (_FLAT * sizes.mean(dim=1, keepdim=True)).detach() + 1e-30
    sloped = (sizes + shift).sqrt()
    return rows.sign() * (sloped + (sizes.sqrt() - sloped).detach())


TRAINED = {
    "film": "scales and shifts of normalisation layers",
    "bias": "shifts of normalisation layers, and biases",
    "low-rank": "low-rank changes of linear and convolutional layers",
    "last": "the head alone",
    "all": "every parameter",
}
"""What can be trained; the head always is."""

Loss: TypeAlias = "Callable[[Tensor], Tensor]"
"""From logits (pictures, classes) to a loss for each."""


class TrainedParts:
    """What is trained of a network, with a head on its rows behind a public map.

    Args:
        network: the public network; it stays as it is.
        train: one of `TRAINED`.
        classes: how many the head tells apart.
        blocks: how many of the last stages are trained; None for all.
        rank: of low-rank changes.
        pace: what one unit of θ changes in the network, in units of what is there; the head moves by one.
        features: the public map of the network's rows in front of the head; None for rows of unit norm.

    Attributes:
        features: the map.
        size: length of θ: first what is trained of the network, then the head.
        trunk: how many of these belong to the network.
        first: the first stage with a trained layer; those in front are frozen.
    """

    def __init__(
        self,
        network: Network,
        train: str,
        classes: int,
        *,
        blocks: int | None = None,
        rank: int = 8,
        pace: float = 1.0,
        features: FittedFeatures | None = None,
    ) -> None:
        self.network, self.train, self.classes = network, checks.one_of("train", train, TRAINED), classes
        own = copy(network)
        own.module = deepcopy(network.module)
        self._is_known, name = keeps_pictures_apart(network.module), network.identity.name
        self._front_alone, self._rows_alone = PerExample(self._front, name), PerExample(self._rows, name)
        self._stages, self._module, self._layers = own.stages, own.module, dict[str, TrainedLayer]()
        units: list[Tensor] = []
        self.first = len(self._stages)
        if train == "all":
            units = [_size(own.module, which) for which, _ in own.module.named_parameters()]
            self.first = 0
        frozen = 0 if blocks is None else self.first - blocks
        for which, layer, stage in _layers_in_use(own) if train not in ("last", "all") else ():
            trained = _trained_layer(train, layer, rank) if stage >= frozen else None
            if trained is not None:
                self._layers[which] = layer.forward = trained
                self.first = min(self.first, stage)
                units += trained.units
        if train != "last" and not units:
            raise ArgumentError(
                f"A network must have what is to be trained, {TRAINED[train]}; '{name}' has none in the "
                "chosen blocks. Choose another encoder, more blocks, or another part."
            )
        self.features = UnitNorm().fit(network.dimension, None) if features is None else features
        self._mapped = row_map(self.features, network.device)
        self._shapes = [*(tuple(unit.shape) for unit in units), (classes, self.features.dimension)]
        self._lengths = [math.prod(shape) for shape in self._shapes]
        self.size, self.trunk = sum(self._lengths), sum(self._lengths[:-1])
        if self.size > MOST_PARAMETERS:
            raise ArgumentError(
                f"At most {MOST_PARAMETERS} parameters can be trained; {TRAINED[train]} and the head have "
                f"{self.size}. Choose fewer blocks, a lower rank, or another part."
            )
        flat = [pace * unit.reshape(-1).float() for unit in units]
        self._units = torch.cat([*flat, torch.ones(self._lengths[-1], device=network.device)])

    def front(self, inputs: Tensor) -> Tensor:
        """What comes out of the frozen stages for the network's inputs: maps, or rows if all are frozen."""
        with torch.no_grad(), plain_kernels():
            return self._front(inputs) if self._is_known or not self.first else self._front_alone(inputs)

    def logits(self, theta: Tensor, maps: Tensor) -> Tensor:
        """(pictures, classes) at θ, a tensor (size,), for what `front` gives."""
        with torch.no_grad(), plain_kernels():
            return self._logits((theta * self._units).expand(len(maps), -1), maps, views=1)

    def gradients(self, theta: Tensor, maps: Tensor, loss: Loss, *, views: int = 1) -> Tensor:
        """(examples, size) gradients of each example's own loss, averaged over its views.

        Args:
            theta: where, a tensor (size,).
            maps: what `front` gives for examples × views pictures, the views of one next to each other.
            loss: gives the loss of each picture from the logits of all; it must not mix pictures.
            views: how many of them an example has.
        """
        copies = (theta * self._units).expand(len(maps) // views, -1).detach().requires_grad_()
        with torch.enable_grad(), plain_kernels():
            losses = loss(self._logits(copies, maps, views))
            (found,) = torch.autograd.grad(losses.sum() / views, copies)
        return found * self._units

    def head(self, theta: Floats) -> Floats:
        """(classes, dimension) weights of the head."""
        return np.asarray(theta[self.trunk :], dtype=np.float64).reshape(self.classes, -1)

    def delta(self, theta: Floats) -> EncoderDelta | None:
        """What is changed in the encoder; None where the head alone is trained."""
        kind = delta_kind(self.train)
        if kind is None:
            return None
        values = torch.from_numpy(np.asarray(theta, dtype=np.float32)).to(self._units.device) * self._units
        *changes, _ = self._arrays_of(values)
        changed = self._with_changes(changes) if self.train == "all" else {}
        for name, layer, own in self._by_layer(changes):
            changed |= {f"{name}.{which}": array for which, array in layer.new_arrays(*own).items()}
        arrays = {name: value.detach().float().cpu().numpy() for name, value in changed.items()}
        return EncoderDelta(self.network.identity, kind, arrays)

    def _logits(self, copies: Tensor, maps: Tensor, views: int) -> Tensor:
        """Logits with a copy of all parameters for each example, (examples, size)."""
        *changes, head = (
            one[:, None].expand(-1, views, *one.shape[1:]).flatten(0, 1) for one in self._arrays_of(copies)
        )
        plain = self._is_known or self.first == len(self._stages)
        rows = self._mapped((self._rows if plain else self._rows_alone)(maps, *changes))
        return (head @ rows[:, :, None])[:, :, 0]

    def _arrays_of(self, values: Tensor) -> list[Tensor]:
        """The arrays that are trained, and the head, in vectors (..., size)."""
        parts = zip(torch.split(values, self._lengths, dim=-1), self._shapes, strict=True)
        return [part.reshape(*values.shape[:-1], *shape) for part, shape in parts]

    def _front(self, inputs: Tensor) -> Tensor:
        """What `front` gives, by a plain pass."""
        for stage in self._stages[: self.first]:
            inputs = stage(inputs)
        return inputs if self.first < len(self._stages) else _pooled(inputs)

    def _rows(self, maps: Tensor, *changes: Tensor) -> Tensor:
        """Rows of the network by a plain pass, with what is changed of it for each picture."""
        if self.train == "all":

            def output(changes: tuple[Tensor, ...], inputs: Tensor) -> Tensor:
                state = self._with_changes(changes)
                found: Tensor = torch.func.functional_call(self._module, state, inputs[None])
                return found[0]

            return _pooled(torch.func.vmap(output)(changes, maps))
        for _, layer, own in self._by_layer(changes):
            layer.copies = own
        for stage in self._stages[self.first :]:
            maps = stage(maps)
        return _pooled(maps)

    def _with_changes(self, changes: Iterable[Tensor]) -> dict[str, Tensor]:
        """All parameters of the network, changed by so much."""
        named = zip(self._module.named_parameters(), changes, strict=True)
        return {name: value + change for (name, value), change in named}

    def _by_layer(self, changes: Iterable[Tensor]) -> Iterator[tuple[str, TrainedLayer, tuple[Tensor, ...]]]:
        """Each trained layer, with its name and what is changed of it."""
        left = iter(changes)
        for name, layer in self._layers.items():
            yield name, layer, tuple(islice(left, len(layer.units)))


def _pooled(maps: Tensor) -> Tensor:
    return maps.mean((2, 3)) if maps.ndim == 4 else maps


def _trained_layer(train: str, layer: torch.nn.Module, rank: int) -> TrainedLayer | None:
    """How this layer is trained, if it is."""
    if isinstance(layer, torch.nn.BatchNorm2d | torch.nn.GroupNorm | torch.nn.LayerNorm):
        one_axis = layer.weight is not None and layer.weight.ndim == 1 and layer.bias is not None
        return Film(layer, shift_only=train == "bias") if one_axis and train in ("film", "bias") else None
    if train == "bias" and layer.bias is not None:
        return Bias(layer)
    # A class that derives from Conv2d may pad in its own way, which a single pixel needs none of.
    known = type(layer) in (torch.nn.Linear, torch.nn.Conv2d) or getattr(layer, "kernel_size", 0) == (1, 1)
    whole = known and getattr(layer, "groups", 1) == 1 and getattr(layer, "padding_mode", "zeros") == "zeros"
    return LowRank(layer, rank) if train == "low-rank" and whole else None


def _layers_in_use(network: Network) -> list[tuple[str, torch.nn.Module, int]]:
    """Layers that can be trained, in the order of use, each with the stage that uses it.

    Found by a blank picture that goes through all stages. A layer that is used twice is where it is first.
    """
    kinds = torch.nn.BatchNorm2d | torch.nn.GroupNorm | torch.nn.LayerNorm | torch.nn.Linear | torch.nn.Conv2d
    names = {layer: name for name, layer in network.module.named_modules() if isinstance(layer, kinds)}
    used: dict[Any, int] = {}
    outputs = [network.inputs(np.zeros((1, network.side, network.side, 3), dtype=np.uint8))]

    def note(layer: torch.nn.Module, _: object) -> None:
        used.setdefault(layer, len(outputs) - 1)

    hooks = [layer.register_forward_pre_hook(note) for layer in names]
    with torch.no_grad():
        for stage in network.stages:
            outputs.append(stage(outputs[-1]))
    for hook in hooks:
        hook.remove()
    return [(names[layer], layer, number) for layer, number in used.items()]


def _size(module: torch.nn.Module, name: str) -> Tensor:
    """What one unit of a parameter stands for, if all are trained: its size in the public network.

    Of weights, the root mean square of an output's own; of a bias, what the output's weights add up to.
    """
    owner = module.get_submodule(name.rpartition(".")[0])
    value, weight = module.get_parameter(name), getattr(owner, "weight", None)
    if value.ndim > 1:
        rows = value.flatten(1)
        sizes: Tensor = rows.norm(dim=1) / math.sqrt(rows.shape[1])
        return sizes.reshape(-1, *(1,) * (value.ndim - 1)).expand_as(value)
    if not isinstance(weight, torch.Tensor) or len(weight) != len(value):
        return value.square().mean().sqrt().expand_as(value)
    return weight.abs() if weight.ndim == 1 else weight.flatten(1).norm(dim=1)
