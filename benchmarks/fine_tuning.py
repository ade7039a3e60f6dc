"""Private gradients of a network: pictures a second beside a plain step of the same layers, and Opacus.

    python benchmarks/fine_tuning.py --size 64 --pictures 128 --micro-batch 32     # on a CPU
    python benchmarks/fine_tuning.py --device cuda --size 224 --micro-batch 64 --pictures 1024
    python benchmarks/fine_tuning.py --encoder small-cnn --size 32     # whose norms Opacus knows

Ours is the answer of `NetworkGradient` to a sample: gradients by example in micro-batches, clipped on the
lattice, summed in integers. "Plain" is what anybody runs who protects nobody: one forward and one backward
pass of the mean loss in the same parameters, from the same stage on, in batches of the same size, or of
another with `--own-micro-batch`: ours are parts of a sample, and their size has no say in what is learned.
Opacus' hooks and its ghost clipping take the same parameters as modules; it knows no batch normalisation,
whose scales and shifts it cannot train. All have the same kernels (deterministic, no TF32); the best of the
repeats is shown. Memory is what is taken of a GPU, at the most, above what was taken before: what the
allocator keeps for later counts, and so does what a recorded micro-batch has to itself.
"""

from __future__ import annotations

import argparse
import time
import warnings
from copy import copy, deepcopy

import numpy as np
import torch
from torch import nn

from dptransfer.encoders.per_example import exact_kernels
from dptransfer.methods.deep.network import Network, network_of
from dptransfer.methods.deep.network_gradient import NetworkGradient
from dptransfer.methods.deep.picture_loss import PictureLoss, Pictures
from dptransfer.methods.deep.trained_parts import TrainedParts

CLASSES = 10
RANK = 8


class LowRankLayer(nn.Module):
    """A frozen layer with a low-rank change beside it, as layers of an ordinary network."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        if isinstance(layer, nn.Linear):
            self.down = nn.Linear(layer.in_features, RANK, bias=False)
            self.up = nn.Linear(RANK, layer.out_features, bias=False)
        else:
            how = {"stride": layer.stride, "padding": layer.padding, "bias": False}
            self.down = nn.Conv2d(layer.in_channels, RANK, layer.kernel_size, **how)
            self.up = nn.Conv2d(RANK, layer.out_channels, 1, bias=False)
        self.to(layer.weight.device)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        """The layer and its change."""
        return self.layer(x) + self.up(self.down(x))


class Plain(nn.Module):
    """The stages from the first trained one on, with a head, as a network of its own."""

    def __init__(self, parts: TrainedParts) -> None:
        super().__init__()
        own = copy(parts.network)
        own.module = deepcopy(own.module).requires_grad_(False)
        changed = {name.rpartition(".")[0] for name in parts.delta(np.zeros(parts.size)).arrays}
        if parts.train == "low-rank":
            for name in {one.rpartition(".")[0] for one in changed}:
                home, _, place = name.rpartition(".")
                setattr(own.module.get_submodule(home), place, LowRankLayer(own.module.get_submodule(name)))
        else:
            for name in changed:
                own.module.get_submodule(name).requires_grad_(True)
        self.module, self.first = own.module, parts.first
        self.head = nn.Linear(own.dimension, CLASSES, bias=False).to(own.device)
        self._network = [own]  # not a part

    def forward(self, maps):
        """Logits, from what the frozen stages give."""
        for stage in self._network[0].stages[self.first :]:
            maps = stage(maps)
        rows = maps.mean((2, 3)) if maps.ndim == 4 else maps
        return self.head(nn.functional.normalize(rows))


def has(network, kind):
    return any(isinstance(one, kind) for one in network.module.modules())


def ours(parts, kept, y, micro_batch):
    theta = np.random.default_rng(1).normal(size=parts.size) * 0.01
    query = NetworkGradient(parts.size, PictureLoss(kept).gradients_at(theta), micro_batch)
    return lambda: query(np.arange(len(y)), y)


def batches(kept, y, micro_batch):
    device = kept.parts.network.device
    for start in range(0, len(y), micro_batch):
        chosen = np.arange(start, min(start + micro_batch, len(y)))
        # Torch's group normalisation crashes on its way back from pictures in another layout (2.13).
        layout = torch.channels_last if has(kept.parts.network, nn.BatchNorm2d) else torch.contiguous_format
        maps = kept.at(torch.from_numpy(chosen).to(device, non_blocking=True))
        yield (
            maps.contiguous(memory_format=layout) if maps.ndim == 4 else maps,
            torch.from_numpy(y[chosen]).to(device),
        )


def plain(model, kept, y, micro_batch):
    def step():
        for maps, labels in batches(kept, y, micro_batch):
            nn.functional.cross_entropy(model(maps), labels).backward()
        model.zero_grad()

    return step


def opacus(model, kept, y, micro_batch, way):
    from opacus import grad_sample

    model.train()
    for one in model.modules():  # frozen, and the same in either mode but for their statistics
        if isinstance(one, nn.BatchNorm2d):
            one.eval()
    kinds = {
        "hooks": grad_sample.GradSampleModule,
        "ghost": grad_sample.GradSampleModuleFastGradientClipping,
    }
    wrapped = kinds[way](model, loss_reduction="sum", strict=False)
    trained = [one for one in wrapped.parameters() if one.requires_grad]

    def step():
        for maps, labels in batches(kept, y, micro_batch):
            wrapped.zero_grad()
            losses = nn.functional.cross_entropy(wrapped(maps), labels, reduction="none")
            losses.sum().backward(retain_graph=way == "ghost")
            if way == "hooks":
                norms = torch.stack([one.grad_sample.flatten(1).norm(dim=1) for one in trained]).norm(dim=0)
                factors = (1 / (norms + 1e-6)).clamp(max=1)
                for one in trained:
                    torch.einsum("i,i...->...", factors, one.grad_sample)
            else:
                factors = wrapped.get_clipping_coef()
                wrapped.zero_grad()
                wrapped.disable_hooks()
                (factors * losses).sum().backward()
                wrapped.enable_hooks()
        wrapped.zero_grad()

    return step


def measured(step, device, repeats):
    """Seconds of the fastest, and the most memory above what was held before, in MiB; or why it fails."""
    cuda = device.type == "cuda"
    best, most, before = float("inf"), 0.0, 0
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_reserved()
    for _ in range(repeats + 1):  # the first warms up
        if cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        if cuda:
            torch.cuda.synchronize()
            most = (torch.cuda.max_memory_reserved() - before) / 2**20
        best = min(best, time.perf_counter() - start)
    return best, most


def compared(network: Network, train: str, blocks: int | None, given) -> None:
    parts = TrainedParts(network, train, CLASSES, blocks=blocks, rank=RANK)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (given.pictures, network.side, network.side, 3), dtype=np.uint8)
    y, size = rng.integers(0, CLASSES, given.pictures), given.micro_batch
    kept = Pictures(parts, pixels, micro_batch=size)
    kept.at(np.arange(1))
    own = given.own_micro_batch or size
    kept_by_us = Pictures(parts, pixels, micro_batch=own)
    kept_by_us.at(np.arange(1))
    steps = {"plain": plain(Plain(parts), kept, y, size), "ours": ours(parts, kept_by_us, y, own)}
    if train == "low-rank" or not has(network, nn.BatchNorm2d):
        for way in ("hooks", "ghost"):
            steps[f"Opacus {way}"] = opacus(Plain(parts), kept, y, size, way)
    where = f"{network.identity.name}, {train}, {'all stages' if blocks is None else f'last {blocks}'}"
    print(f"\n{where}: {parts.size:,} parameters, {given.pictures} pictures of {network.side} px")
    print("| | pictures/s | × plain time | MiB | × plain memory |\n|---|---|---|---|---|")
    base = None
    for name, step in steps.items():
        try:
            seconds, mib = measured(step, network.device, given.repeats)
        except Exception as problem:
            print(f"| {name} | {type(problem).__name__}: {str(problem)[:80]} | | | |")
            continue
        base = base or (seconds, mib)
        memory = f"{mib:.0f} | {mib / base[1]:.2f}" if mib else "– | –"
        print(f"| {name} | {given.pictures / seconds:.0f} | {seconds / base[0]:.2f} | {memory} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--encoder", default="efficientnet-lite0")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--pictures", type=int, default=128)
    parser.add_argument("--micro-batch", type=int, default=32)
    parser.add_argument("--own-micro-batch", type=int, help="of ours; as large as the others if not given")
    parser.add_argument("--blocks", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    network = network_of(given.encoder, size=given.size, device=given.device)
    with exact_kernels():
        for train in ("film", "low-rank"):
            for blocks in (None, given.blocks):
                compared(network, train, blocks, given)


if __name__ == "__main__":
    main()
