"""Networks that mix the pictures of a batch, or of earlier batches, and honest ones that do not."""

import torch
from torch import nn
from torch.nn import functional

from dptransfer.encoders import TorchModuleEncoder
from dptransfer.encoders.torch_module import PixelMap

SIDE = 16
RARE = 77
SEEN = []  # what a network leaves in a global


class Layer(nn.Module):
    """A layer of its own code, with a buffer and an attribute that it may use."""

    def __init__(self, code):
        super().__init__()
        self.code, self.kept, self.calls = code, None, 0
        self.register_buffer("buffer", torch.zeros(1))

    def forward(self, maps):
        return self.code(self, maps)


class MixedBack(torch.autograd.Function):
    """The same numbers on the way forward; on the way back every picture gets the others' slopes, too."""

    @staticmethod
    def forward(ctx, maps):
        return maps.clone()

    @staticmethod
    def backward(ctx, slopes):
        return slopes + 50 * slopes.sum(0, keepdim=True)


class OwnRule(torch.autograd.Function):
    """Says itself what vmap makes of it, and that is a mean over all pictures."""

    @staticmethod
    def forward(maps):
        return maps.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, slopes):
        return slopes

    @staticmethod
    def vmap(info, where, maps):
        return maps.mean(where[0], keepdim=True).expand_as(maps), where[0]


class OwnTensor(torch.Tensor):
    """A tensor of another type, which could look at whatever it is multiplied by."""


@torch.library.custom_op("dptransfer_tests::mixed", mutates_args=())
def mixed(maps: torch.Tensor) -> torch.Tensor:
    return maps + maps.mean(0, keepdim=True)


mixed.register_fake(torch.empty_like)


def _in_place(layer, maps):
    found = maps - layer.buffer
    with torch.no_grad():
        layer.buffer.mul_(0.9).add_(0.1 * maps.mean())
    return found


def _attribute(layer, maps):
    found = maps if layer.kept is None else maps - layer.kept
    layer.kept = maps.detach().mean()
    return found


def _global(layer, maps):
    SEEN.append(maps.detach().mean())
    return maps + SEEN[max(0, len(SEEN) - 2)]


def _counted(layer, maps):
    layer.calls += 1
    return maps * (1 + layer.calls % 3)


def _counted_in_a_buffer(layer, maps):
    layer.buffer += 1
    return maps * layer.buffer


def _hooked(layer, maps):
    if maps.requires_grad:
        maps.register_hook(lambda slopes: slopes + 50 * slopes.sum(0, keepdim=True))
    return maps * 1


def _quantised(levels):
    def code(layer, maps):
        step = maps.detach().abs().amax().clamp(min=1e-12) / levels
        return maps + ((maps / step).round() * step - maps).detach()

    return code


def _seeded(layer, maps):
    torch.manual_seed(int(maps.sum() * 1000))
    return functional.dropout(maps, 0.5, training=True)


def _rare(layer, maps):
    """Mixes only where some picture is of one shade of grey, and no other."""
    return maps * (1 - 0.9 * ((maps.mean((1, 2, 3)) - SHADE).abs() < 1e-4).float().amax())


def _beyond(layer, maps):
    """Mixes only where an activation is larger than any of ordinary pictures."""
    return maps * (maps.detach().abs().amax() < 40.0).float()


def _at_one_size(layer, maps):
    return maps / maps.abs().amax().clamp(min=1e-6) if len(maps) == 7 else maps


def _attention(layer, maps):
    flat = maps.flatten(1)
    return (torch.softmax(flat @ flat.T / 100, dim=1) @ flat).reshape(maps.shape)


def _convolved(layer, maps):
    moved = maps.movedim(0, -1).flatten(0, 2)[:, None]
    return functional.conv1d(moved, torch.ones(1, 1, 3) / 3, padding=1)[:, 0].T.reshape(maps.shape)


def _by_another(layer, maps):
    return maps + maps[maps.flatten(1).norm(dim=1).argmax()]


def _largest(layer, maps):
    return maps * (maps >= maps.topk(1, dim=0).values)


def _normalised(layer, maps):
    return functional.batch_norm(maps, None, None, training=True)


def _spread(layer, maps):
    return maps / (maps.var(0, keepdim=True, correction=0) + 1e-3).sqrt()


def _trained(layer, maps):
    layer.buffer.requires_grad_(False)
    return functional.batch_norm(maps, layer.buffer.expand(8).clone(), torch.ones(8), training=True)


def _borrowed(layer, maps):
    """Reads other pictures around torch, as numbers."""
    return maps * float(maps.detach().numpy().max())


def _by_storage(layer, maps):
    return maps * max(maps.detach().flatten().tolist())


CODES = {
    "divided by the largest": lambda layer, maps: maps / maps.detach().abs().amax().clamp(min=1e-6),
    "less the mean": lambda layer, maps: maps - maps.mean(0, keepdim=True),
    "plus a little of the mean": lambda layer, maps: maps + 1e-4 * maps.mean(0, keepdim=True),
    "less the median": lambda layer, maps: maps - maps.median(0, keepdim=True).values,
    "sorted": lambda layer, maps: maps.sort(0).values,
    "ranked": lambda layer, maps: maps * maps.argsort(0).argsort(0).float(),
    "the largest alone": _largest,
    "rolled": lambda layer, maps: maps.roll(1, 0),
    "flipped": lambda layer, maps: maps.flip(0),
    "added up": lambda layer, maps: maps.cumsum(0),
    "attention over pictures": _attention,
    "convolved over pictures": _convolved,
    "indexed by another": _by_another,
    "normalised by the batch": _normalised,
    "normalised by the batch, with statistics": _trained,
    "divided by the spread": _spread,
    "int8 by one scale": _quantised(127),
    "int4 by one scale": _quantised(7),
    "a branch on the largest": lambda layer, maps: maps / maps.max() if maps.max() > 0.1 else maps,
    "numbers around torch": _borrowed,
    "lists around torch": _by_storage,
    "state in a buffer": _in_place,
    "state in an attribute": _attribute,
    "state in a global": _global,
    "calls counted": _counted,
    "calls counted in a buffer": _counted_in_a_buffer,
    "dropout seeded by the batch": _seeded,
    "dropout": lambda layer, maps: functional.dropout(maps, 0.5, training=True),
    "only for one shade of grey": _rare,
    "only for large numbers": _beyond,
    "only at one size of a batch": _at_one_size,
    "on the way back": lambda layer, maps: MixedBack.apply(maps),
    "on the way back, by a hook": _hooked,
    "by a rule of its own for vmap": lambda layer, maps: OwnRule.apply(maps),
    "by an operation of its own": lambda layer, maps: mixed(maps),
}
"""What layers may do to a batch; each breaks the sensitivity of a sum over pictures on plain batches."""

HONEST = {
    "group norm": nn.GroupNorm(2, 8),
    "layer norm": nn.LayerNorm(8),
    "dropout": nn.Dropout(0.5),
    "squeezed and excited": Layer(lambda _, maps: maps * maps.mean((2, 3), keepdim=True).sigmoid()),
    "in place": nn.Hardswish(inplace=True),
    "own derivative": Layer(lambda _, maps: Swish.apply(maps)),
    "filled": Layer(lambda _, maps: _filled(maps)),
    "attention within a picture": Layer(lambda _, maps: _within(maps)),
}


class Swish(torch.autograd.Function):
    """As networks have it that save memory, with a derivative of its own, in the old form."""

    @staticmethod
    def forward(ctx, maps):
        ctx.save_for_backward(maps)
        return maps * maps.sigmoid()

    @staticmethod
    def backward(ctx, slopes):
        (maps,) = ctx.saved_tensors
        share = maps.sigmoid()
        return slopes * share * (1 + maps * (1 - share))


def _filled(maps):
    found = torch.zeros(len(maps), 8, *maps.shape[2:])
    found[:, :4] = maps[:, :4]
    found[:, 4:].copy_(maps[:, 4:])
    return found


def _within(maps):
    tokens = maps.flatten(2).mT
    found = functional.scaled_dot_product_attention(tokens, tokens, tokens)
    return maps + found.mT.reshape(maps.shape)


def network(middle, *, seed=0):
    """A small convolutional network with this layer in its middle."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1),
            nn.ReLU(),
            middle,
            nn.Conv2d(8, 16, 3, 2, 1),
            nn.Tanh(),
            nn.GroupNorm(2, 16),
            nn.ReLU(),
        ).eval()


SHADE = float(network(nn.Identity())[:2](torch.full((1, 3, SIDE, SIDE), (RARE - 127) / 64)).mean().detach())
"""What the layers in front of the middle make of that one shade, on average."""


def encoder(module, **changes):
    """The encoder of such a network."""
    import numpy as np

    told = {"name": "own", "transform_name": f"rgb {SIDE}", "pixel_map": PixelMap(SIDE, 127.0, 64.0)}
    return TorchModuleEncoder(module, lambda one: np.asarray(one.resize((SIDE, SIDE), 3)), **told | changes)


def mixing(kind, **changes):
    """The encoder of a network that mixes pictures in this way."""
    SEEN[:] = [torch.zeros(())]
    return encoder(network(Layer(CODES[kind])), **changes)


def divided(*, device="cpu", size=SIDE):
    """By its place, as methods and the command line name encoders."""
    return mixing("divided by the largest", source_head=nn.Linear(16, 7))


def stateful(*, device="cpu", size=SIDE):
    return mixing("state in a buffer", source_head=nn.Linear(16, 7))


def branching(*, device="cpu", size=SIDE):
    return mixing("a branch on the largest", source_head=nn.Linear(16, 7))


def seeded(*, device="cpu", size=SIDE):
    return mixing("dropout seeded by the batch", source_head=nn.Linear(16, 7))


def slow_to_show(*, device="cpu", size=SIDE):
    return mixing("only for one shade of grey", source_head=nn.Linear(16, 7))


def honest(*, device="cpu", size=SIDE):
    return encoder(network(HONEST["attention within a picture"]), source_head=nn.Linear(16, 7))


REFUSED = [f"{__name__}:{made.__name__}" for made in (divided, stateful, branching, seeded)]
HARMLESS = [f"{__name__}:{made.__name__}" for made in (slow_to_show, honest)]
