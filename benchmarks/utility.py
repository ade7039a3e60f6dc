"""Accuracy of every prototype method on real embeddings, over ε and imbalance.

    python benchmarks/utility.py DATA_FOLDER [--seeds 3] [--cells cifar10:100:1 ...]

DATA_FOLDER holds the .npz files named in `TASKS`. Noise is seeded so that a table can be made again; nothing
is released. Prints a Markdown table: balanced accuracy / mean recall of the smallest quarter of the classes,
in percent, mean over seeds.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import dptransfer as dpt
from dptransfer.data import long_tail, read_table

TASKS = {
    "cifar10": ("cifar10_efficientnet-lite0", "pool_tinyimagenet_efficientnet-lite0"),
    "caltech101": ("caltech101_efficientnet-lite0", "pool_tinyimagenet_efficientnet-lite0"),
    "banking77": ("banking77_minilm", "agnews_minilm"),
    "agnews": ("agnews_minilm", "banking77_minilm"),
}
CELLS = [
    *(
        (task, ratio, epsilon)
        for task in ("cifar10",)
        for ratio in (1, 10, 100)
        for epsilon in (0.25, 1.0, 4.0)
    ),
    *(("caltech101", ratio, epsilon) for ratio, epsilon in ((1, 1.0), (1, 4.0), (10, 4.0))),
    *(("banking77", ratio, epsilon) for ratio, epsilon in ((1, 1.0), (1, 4.0), (10, 4.0))),
    *(("agnews", ratio, epsilon) for ratio, epsilon in ((1, 0.25), (10, 1.0))),
]
METHODS = {
    "mean": lambda: dpt.MeanPrototypes(),
    "mean-estimation": lambda: dpt.MeanEstimation(),
    "public": lambda: dpt.PublicPrototypes(),
    "top-k": lambda: dpt.TopKPrototypes(),
    "mean, PublicMap(128)": lambda: dpt.MeanPrototypes(features=dpt.PublicMap()),
    "public, PublicMap(256)": lambda: dpt.PublicPrototypes(features=dpt.PublicMap(axes=256)),
    "public-prior": lambda: dpt.PublicPriorPrototypes(),
    "auto": lambda: dpt.Auto(),
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--seeds", type=int, default=2)
    arguments.add_argument("--methods", nargs="*", default=list(METHODS))
    arguments.add_argument("--cells", nargs="*", help="task:ratio:epsilon")
    options = arguments.parse_args()
    cells = CELLS
    if options.cells:
        cells = [(t, float(r), float(e)) for t, r, e in (cell.split(":") for cell in options.cells)]
    print("| data | ratio | ε | " + " | ".join(options.methods) + " |")
    print("|---|---|---|" + "---|" * len(options.methods))
    for task, ratio, epsilon in cells:
        train, test, pool = load(options.folder, task)
        row = []
        for method in options.methods:
            started = time.perf_counter()
            runs = [
                run(METHODS[method](), train, test, pool, ratio, epsilon, seed)
                for seed in range(options.seeds)
            ]
            seconds = (time.perf_counter() - started) / options.seeds
            balanced, minority = 100 * np.mean(runs, axis=0)
            row.append(f"{balanced:.1f} / {minority:.1f} ({seconds:.1f} s)")
        print(f"| {task} | {ratio:g} | {epsilon:g} | " + " | ".join(row) + " |", flush=True)


_LOADED: dict[str, tuple] = {}


def load(folder: Path, task: str) -> tuple:
    if task not in _LOADED:
        data, pool = (folder / f"{name}.npz" for name in TASKS[task])
        public = dpt.PublicEmbeddings(read_table(pool, split="train").rows, name=pool.stem)
        _LOADED[task] = (read_table(data, split="train"), read_table(data, split="test"), public)
    return _LOADED[task]


def run(method, train, test, pool, ratio, epsilon, seed) -> tuple[float, float]:
    names = [str(name) for name in train.classes]
    kept = long_tail(train.labels, ratio, rng=np.random.default_rng(seed), classes=len(names))
    labels = np.asarray(train.labels)[kept]
    private = dpt.PrivateEmbeddings(np.asarray(train.rows)[kept], labels, classes=names, name="benchmark")
    model = method.fit(
        private,
        pool,
        budget=dpt.Budget(epsilon=epsilon, delta=1e-5),
        ledger=dpt.Ledger.in_memory(),
        noise=dpt.SeededNoise(seed),
    )
    sizes = np.bincount(labels, minlength=len(names))
    guess = model.scores(test.rows).argmax(axis=1)
    recall = np.array([(guess[test.labels == c] == c).mean() for c in range(len(names))])
    smallest = np.argsort(sizes, kind="stable")[: max(1, len(names) // 4)]
    return float(recall.mean()), float(recall[smallest].mean())


if __name__ == "__main__":
    main()
