"""Private training of a linear head: seconds of ours beside Opacus' hooks and its ghost clipping, same work.

    python benchmarks/heads.py                   # 768 -> 100, 20,000 rows, 60 Poisson steps of about 1,024
    python benchmarks/heads.py --quick           # without Opacus' hooks, which take most of the time
    python benchmarks/heads.py --growth          # doubles one size at a time, ours alone
    python benchmarks/heads.py --device cuda     # rows and gradients on one GPU

Ours is `DPSGDProbe.run`: rows mapped to the grid once, then for every step an exact Poisson sample, the
clipped gradient in exact integers, and lattice noise from a cryptographic stream. Opacus works in float32 and
takes noise and samples from torch's generator (its secure mode needs a package that is no longer built).
"Indexed" takes each batch out of one tensor by a random mask, which is as little as a batch can cost;
"loader" is what its guide shows: `PrivacyEngine.make_private` with its Poisson data loader. They take turns;
the best of the repeats is shown, and ratios are of those. Processor seconds are those of all
threads, and the best too: on a machine that others use they say how much of it was work. Threads that wait
for each other in a loop, as those of torch do, work as well.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np

from dptransfer.base.worker_env import usable_cores
from dptransfer.data import PrivateEmbeddings
from dptransfer.methods import DPSGDProbe
from dptransfer.methods.heads.descent import head_rows
from dptransfer.methods.method import Task
from dptransfer.noise import SecureNoise
from dptransfer.privacy import Budget

BUDGET = Budget(epsilon=1.0, delta=1e-5)
CLIP = 1.0


@dataclass(frozen=True)
class Size:
    """The work: rows, their width, classes, and steps on samples at this rate."""

    rows: int = 20_000
    width: int = 768
    classes: int = 100
    steps: int = 60
    rate: float = 1024 / 20_000


def problem(size: Size):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((size.rows, size.width), dtype=np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True), rng.integers(0, size.classes, size.rows)


def ours(size: Size, x, y, device: str) -> dict:
    """The whole run, and two parts of it alone."""
    method = DPSGDProbe(steps=size.steps, sampling_rate=size.rate, device=device, clip=CLIP)
    names = [f"class {c}" for c in range(size.classes)]
    private = PrivateEmbeddings(x, y, classes=names, name="benchmark")
    plan = method.plan(private.facts, BUDGET)
    features = method.features.fit(size.width, None)
    (rounds,) = plan.mechanisms
    scale = rounds.scale * rounds.query.grid

    def draws() -> None:
        noise = SecureNoise()
        for _ in range(size.steps):
            noise.discrete_gaussian(scale, rounds.query.shape)
            noise.poisson_sample(size.rows, size.rate)

    def mapping() -> None:
        head_rows(features, private, device)
        finish(device)

    return {
        "dptransfer": lambda: method.run(Task(plan, features, private, SecureNoise(), None)),
        "... of which mapping the rows": mapping,
        "... of which noise and samples": draws,
    }


def opacus(size: Size, x, y, device: str) -> dict:
    """The same steps by Opacus, in float32."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(usable_cores())
    there, labels = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)

    def train(mode: str, *, loader: bool) -> None:
        layer = torch.nn.Linear(size.width, size.classes, bias=False).to(device)
        batches = DataLoader(TensorDataset(there, labels), batch_size=round(size.rate * size.rows))
        made = PrivacyEngine().make_private(
            module=layer,
            optimizer=torch.optim.SGD(layer.parameters(), lr=1.0),
            criterion=torch.nn.CrossEntropyLoss(),
            data_loader=batches,
            noise_multiplier=2.0,
            max_grad_norm=CLIP,
            grad_sample_mode=mode,
            poisson_sampling=True,
        )
        model, descent, batches = made[0], made[1], made[-1]
        loss = made[2] if mode == "ghost" else torch.nn.CrossEntropyLoss()
        taken = batches if loader else masked()
        for step, (rows, targets) in enumerate(repeated(taken)):
            if step == size.steps:
                break
            descent.zero_grad()
            loss(model(rows), targets).backward()
            descent.step()
        finish(device)

    def masked():
        while True:
            chosen = torch.nonzero(torch.rand(size.rows, device=device) < size.rate)[:, 0]
            yield there[chosen], labels[chosen]

    return {
        "Opacus ghost clipping, indexed": lambda: train("ghost", loader=False),
        "Opacus ghost clipping, loader": lambda: train("ghost", loader=True),
        "Opacus hooks, indexed": lambda: train("hooks", loader=False),
    }


def finish(device: str) -> None:
    """Wait for what was asked of the device."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def repeated(batches):
    """Epoch after epoch."""
    while True:
        yield from batches


def best_in_turn(works: dict, repeats: int) -> dict:
    """The best seconds and processor seconds of each, measured in turn in every round; the first warms up."""
    rounds = []
    for _ in range(repeats + 1):
        taken = {}
        for name, work in works.items():
            started, worked = time.perf_counter(), time.process_time()
            work()
            taken[name] = time.perf_counter() - started, time.process_time() - worked
        rounds.append(taken)
    return {name: tuple(map(min, zip(*(taken[name] for taken in rounds[1:]), strict=True))) for name in works}


def compared(options) -> None:
    size = Size()
    x, y = problem(size)
    works = {**ours(size, x, y, options.device), **opacus(size, x, y, options.device)}
    if options.quick:
        del works["Opacus hooks, indexed"]
    print("| what | seconds | ÷ dptransfer | processor seconds |\n|---|---|---|---|", flush=True)
    found = best_in_turn(works, options.repeats)
    for name, (seconds, worked) in found.items():
        print(f"| {name} | {seconds:.3f} | {seconds / found['dptransfer'][0]:.2f} | {worked:.3f} |")


def growth(options) -> None:
    """Seconds of a run when one size doubles; rows double at the same rate, so samples do too."""
    base = Size()
    print("| what doubles | seconds | seconds doubled | ratio |\n|---|---|---|---|")
    for name in ("rows", "width", "classes", "steps"):
        works = {}
        for factor in (1, 2):
            size = Size(**{**base.__dict__, name: factor * getattr(base, name)})
            works[factor] = ours(size, *problem(size), options.device)["dptransfer"]
        taken = best_in_turn(works, options.repeats)
        (once, _), (twice, _) = taken[1], taken[2]
        print(f"| {name} | {once:.3f} | {twice:.3f} | {twice / once:.2f} |", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--growth", action="store_true")
    arguments.add_argument("--quick", action="store_true")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")  # Opacus warns about its hooks and its generator
    (growth if options.growth else compared)(options)


if __name__ == "__main__":
    main()
