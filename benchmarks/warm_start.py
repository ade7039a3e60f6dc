"""A warm start beside plain DP-SGD after 2, 10 and 40 passes at ε = 2 and δ = 1/50,000: Tables 2 and 3.

    python benchmarks/warm_start.py rows cifar10.npz banking77.npz     # a linear head on embeddings
    python benchmarks/warm_start.py pixels digits                      # a small network on pictures
    python benchmarks/warm_start.py pixels cifar/ --size 32 --micro-batch 256 --device cuda --workers 4

Embeddings are archives with `q_train, y_train, q_test, y_test, scale, offset`, or `x_train, …`; `pictures.py`
says what pictures can be. The tables are those of Zhu and Zhang. Noise is seeded. Every cell is a line of
JSON in `--out`, fitted in a process of its own; a cell that is there is not run again. `--table` prints the
mean of all seeds in the file.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import ClassVar

import numpy as np
from cells import fill
from pictures import parts_in, rows_of

from dptransfer.data import PrivateEmbeddings
from dptransfer.ledger import Ledger
from dptransfer.methods import (
    DPSGDProbe,
    MeanEstimation,
    MeanPrototypes,
    NoisyGD,
    WarmStart,
    WarmStartNetwork,
)
from dptransfer.methods.deep.fine_tuning import FineTuning
from dptransfer.methods.deep.network import network_of
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget
from dptransfer.sources import PrivateImages

BUDGET = Budget(epsilon=2.0, delta=1 / 50_000)
WARM = {
    f"warm start, {loss}, temperature {temperature}": {"loss": loss, "prior_temperature": temperature}
    for loss in ("logits", "average")
    for temperature in (0.05, 1.0)
}
AT_ONCE = {"mean": MeanPrototypes, "mean-estimation": MeanEstimation, "noisy-gd, 30 steps": NoisyGD}
"""Methods on rows without passes."""


@dataclass(frozen=True)
class Plain(FineTuning):
    """DP-SGD of the same parts of a network without a prior."""

    train: str = "all"
    name: ClassVar[str] = "plain"

    @property
    def trained(self):
        """As a warm start has it."""
        return {"train": self.train}


def method_of(cell: dict, args: argparse.Namespace):
    name = cell["method"]
    if name in AT_ONCE:
        return AT_ONCE[name]()
    given = {"steps": round(cell["passes"] / args.rate), "sampling_rate": args.rate, **WARM.get(name, {})}
    if args.what == "rows":
        return (DPSGDProbe if name == "plain" else WarmStart)(**given)
    own = {field: getattr(args, field) for field in ("encoder", "size", "device", "train", "micro_batch")}
    return (Plain if name == "plain" else WarmStartNetwork)(**given, **own)


def embeddings(path: str):
    found = np.load(path, allow_pickle=True)

    def rows(part: str) -> np.ndarray:
        if f"x_{part}" in found:
            return found[f"x_{part}"]
        return found[f"q_{part}"].astype(np.float32) * found["scale"] + found["offset"]

    return rows("train"), found["y_train"].astype(np.int64), rows("test"), found["y_test"].astype(np.int64)


def fitted(args, cells):
    for cell in cells:
        if args.what == "rows":
            encoder = None
            x, y, test, truth = embeddings(cell["source"])
        else:
            encoder = network_of(args.encoder, size=args.size, device=args.device).encoder
            parts = parts_in(cell["source"], args.size, args.rows)
            (x, y), (test, truth) = parts["train"], parts["test"]
        kind = PrivateEmbeddings if encoder is None else PrivateImages
        private = kind(x, y, classes=range(int(max(y.max(), truth.max())) + 1), name="measured")
        ledger, started = Ledger.in_memory(strict_names=True), time.perf_counter()
        noise = SeededNoise(cell["seed"])
        model = method_of(cell, args).fit(private, budget=BUDGET, ledger=ledger, noise=noise)
        taken = time.perf_counter() - started
        accuracy = 100 * model.score(test if encoder is None else rows_of(encoder, test, model), truth)
        yield cell, {"accuracy": round(accuracy, 2), "seconds": round(taken, 2)}


def show(out: Path) -> None:
    found = defaultdict(list)
    for line in map(json.loads, out.read_text().splitlines()):
        found[line["source"], line["method"], line["passes"]].append(line["accuracy"])
    print("| data | method | passes | accuracy | ± | seeds |\n|---|---|---|---|---|---|")
    for (source, method, passes), of in found.items():
        print(f"| {source} | {method} | {passes} | {np.mean(of):.1f} | {np.std(of):.1f} | {len(of)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("rows", "pixels"))
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--encoder", default="small-cnn")
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--train", default="all")
    parser.add_argument("--micro-batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, nargs="+", default=(2, 10, 40))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("warm-start.jsonl"))
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        return show(args.out)
    about = {"what": args.what}
    if args.what == "pixels":
        about |= {"encoder": args.encoder, "size": args.size, "rows": args.rows, "train": args.train}
    jobs = [
        [{**about, "source": source, "method": method, "passes": passes, "seed": seed}]
        for seed, passes, source, method in product(
            range(args.seeds), args.epochs, args.sources, ["plain", *WARM]
        )
    ]
    if args.what == "rows":
        jobs += [
            [{**about, "source": source, "method": method, "passes": 0, "seed": seed}]
            for seed, source, method in product(range(args.seeds), args.sources, AT_ONCE)
        ]
    fill(args.out, jobs, fitted, args, args.workers)


if __name__ == "__main__":
    main()
