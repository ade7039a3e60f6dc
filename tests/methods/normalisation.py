"""A method that sees pixels: it trains the scales and shifts of a small network's normalisation layers."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from dptransfer.deep.network import Network
from dptransfer.encoders import EncoderDelta, TorchModuleEncoder
from dptransfer.features import UnitNorm
from dptransfer.features.lattice import SUM_BITS, clipped_lattice
from dptransfer.mechanisms import GaussianRounds
from dptransfer.methods.base import Outcome
from dptransfer.methods.image_method import ImageMethod
from dptransfer.privacy import Relation, Unit
from dptransfer.release.heads import LinearHead

from .samples import SIDE

_GRID = 2**SUM_BITS
_WIDTHS = (6, 12)
_PACE = 0.1
_TRAINED = ("1.weight", "1.bias", "4.weight", "4.bias")  # of the two normalisation layers


def tiny_encoder():
    """A public network of two convolutions; the same for everyone."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first, second = torch.nn.Conv2d(3, _WIDTHS[0], 3, stride=2), torch.nn.Conv2d(*_WIDTHS, 3)
    norms = [torch.nn.BatchNorm2d(width) for width in _WIDTHS]
    network = torch.nn.Sequential(first, norms[0], torch.nn.ReLU(), second, norms[1], torch.nn.ReLU())
    return TorchModuleEncoder(network, _input, name="tiny-net", transform_name=f"rgb {SIDE} bicubic x/255")


def _input(image):
    return np.asarray(image.resize((SIDE, SIDE), 3), dtype=np.float32).transpose(2, 0, 1) / 255


@dataclass(frozen=True, eq=False)
class NormalisationGradient:
    """Σ over pictures of the clipped gradient of the softmax loss in scales, shifts and the head's weights.

    Releases:      one vector, in units of the clip.
    Guarantee:     with GaussianMechanism at noise multiplier z, GaussianEvent(z).
    Relation:      add/remove one example, or replace one example.
    Sensitivity:   L2, in units of the clip: a picture's gradient is clipped to 1. Add/remove: 1. Replace: 2.
    Assumes:       a picture's gradient is a function of that picture alone, so each is computed by itself.
    Reference:     Abadi et al. (2016).
    """

    network: Any
    values: Any
    classes: int

    label = "normalisation gradient"
    unit = Unit.ROW
    grid = _GRID

    @property
    def shape(self):
        return (2 * sum(_WIDTHS) + self.classes * _WIDTHS[1],)

    def l2_sensitivity(self, relation):
        return 1.0 if relation is Relation.ADD_REMOVE else 2.0

    def __call__(self, pixels, labels):
        total, threads = np.zeros(self.shape, dtype=np.int64), torch.get_num_threads()
        torch.set_num_threads(1)  # so small a network is only slowed down by more
        for position, label in enumerate(labels.tolist()):
            total += clipped_lattice(self._gradient(pixels[position], label), _GRID, clip=1.0)[0]
        torch.set_num_threads(threads)
        return total

    def _gradient(self, picture, label):
        values = torch.tensor(self.values, dtype=torch.float32, requires_grad=True)
        state, head = split(values, self.classes)
        inputs = torch.from_numpy(picture.transpose(2, 0, 1).astype(np.float32) / 255)[None]
        maps = torch.func.functional_call(self.network, state, inputs)
        rows = torch.nn.functional.normalize(maps.mean((2, 3)))
        loss = torch.nn.functional.cross_entropy(rows @ head.T, torch.tensor([label]))
        return torch.autograd.grad(loss, values)[0].numpy()[None]


def split(values, classes):
    """One vector, from zero on, as the state of the normalisation layers, which move slowly, and the head."""
    *moved, head = torch.split(values, [*np.repeat(_WIDTHS, 2).tolist(), classes * _WIDTHS[1]])
    state = {name: name.endswith("weight") + _PACE * part for name, part in zip(_TRAINED, moved, strict=True)}
    return state, head.reshape(classes, -1)


@dataclass(frozen=True)
class Normalisation(ImageMethod):
    """Noisy gradient steps on the normalisation layers of a public network, and on a linear head.

    Releases:      `steps` sums of clipped gradients, with Gaussian noise.
    Guarantee:     GaussianEvent(z, times=steps).
    Relation:      add/remove one example, or replace one example; the budget says which.
    Sensitivity:   see `NormalisationGradient`.
    Assumes:       declared classes; a public network.
    Reference:     Tobaben et al. (2023), FiLM adaptation, with full batches.
    """

    steps: int = 20
    length: float = 6.0
    name: ClassVar[str] = "normalisation"

    def plan(self, facts, budget, public=None):
        query = NormalisationGradient(None, None, len(facts.classes))
        return self.calibrated_plan(lambda z: [GaussianRounds(query, z, budget.relation, self.steps)], budget)

    def network(self):
        return Network(tiny_encoder())

    def prepare(self, facts, public):
        return tiny_encoder()

    def run(self, plan, prepared, private, noise, public):
        (paid,) = plan.mechanisms
        classes, rounds, network = len(private.facts.classes), paid.open(noise=noise), prepared.module
        values = np.zeros(paid.query.shape)
        for step in range(self.steps):
            question = NormalisationGradient(network, values, classes)
            answer = rounds.release(question, private.pixels, private.labels)
            length = self.length * (1 - step / self.steps)
            values = values - length * answer / max(float(np.linalg.norm(answer)), 1e-9)
        state, head = split(torch.tensor(values), classes)
        arrays = {name: value.numpy().astype(np.float32) for name, value in state.items()}
        return Outcome(
            LinearHead(head.numpy(), np.zeros(classes), temperature=1.0),
            plan.events,
            features=UnitNorm().fit(_WIDTHS[1], None),
            encoder_delta=EncoderDelta(prepared.identity, "state", arrays),
        )
