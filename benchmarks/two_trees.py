"""The same work with two source trees, in turn: has a change made anything slower?

    python benchmarks/two_trees.py OLD/src src [--rounds 5]

Each measurement is the fastest of three calls in a process of its own; the table shows medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROWS, DIMENSION, CLASSES, POOL = 20_000, 1280, 10, 5_000


def fastest(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def measured() -> dict[str, float]:
    """Seconds of each piece of work with the library that this process finds."""
    warnings.simplefilter("ignore")
    import dptransfer as dpt

    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, ROWS)
    centres = rng.exponential(size=(CLASSES, DIMENSION))
    x = (rng.exponential(size=(ROWS, DIMENSION)) + centres[y]).astype(np.float32)
    pool = dpt.PublicEmbeddings(rng.exponential(size=(POOL, DIMENSION)).astype(np.float32))
    private = dpt.PrivateEmbeddings(x, y, classes=[str(one) for one in range(CLASSES)], name="rows")
    budget = dpt.Budget(epsilon=1.0, delta=1e-5)
    methods = {
        "mean": dpt.methods.MeanPrototypes(),
        "public-prior": dpt.methods.PublicPriorPrototypes(),
        "top-k": dpt.methods.TopKPrototypes(k=5),
        "dpsgd": dpt.methods.DPSGDProbe(steps=60),
        "newton": dpt.methods.NewtonHead(features=dpt.features.PublicMap(axes=64)),
        "least-squares": dpt.methods.LeastSquares(features=dpt.features.PublicMap(axes=256)),
    }
    found = {}
    for name, method in methods.items():
        method.fit(private, pool, budget=budget, ledger=dpt.Ledger.in_memory())  # imports and public maps
        found[f"fit {name}"] = fastest(
            lambda method=method: method.fit(private, pool, budget=budget, ledger=dpt.Ledger.in_memory())
        )
        found[f"plan {name}"] = fastest(lambda method=method: method.plan(private.facts, budget, pool))
    model = methods["public-prior"].fit(private, pool, budget=budget, ledger=dpt.Ledger.in_memory())
    found["predict 20,000 rows"] = fastest(lambda: model.predict(x))
    with tempfile.TemporaryDirectory() as folder:
        found["save"] = fastest(lambda: model.save(Path(folder) / "model", overwrite=True))
        found["load"] = fastest(lambda: dpt.load(Path(folder) / "model"))
        found["verify"] = fastest(lambda: dpt.verify(Path(folder) / "model"))
        book = dpt.Ledger(Path(folder) / "ledger.sqlite")
        small = dpt.PrivateEmbeddings(x[:50], y[:50], classes=private.facts.classes, name="few")
        for _ in range(20):
            dpt.methods.MeanPrototypes().fit(small, budget=budget, ledger=book)
        found["fit on a ledger with 20 charges"] = fastest(
            lambda: dpt.methods.MeanPrototypes().fit(small, budget=budget, ledger=book)
        )
    return found


def with_tree(tree: str) -> dict[str, float]:
    """The same for the library in `tree`, and what starting it takes."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "DPTRANSFER_CACHE": folder}
        environment["PYTHONPATH"] = os.pathsep.join([tree, os.environ.get("PYTHONPATH", "")])

        def run(*words: str) -> str:
            command = [sys.executable, *words]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

        nothing = fastest(lambda: run("-c", "pass"))
        found = {
            "import dptransfer": fastest(lambda: run("-c", "import dptransfer")) - nothing,
            "dptransfer --help": fastest(lambda: run("-m", "dptransfer", "--help")),
            "dptransfer fit --help": fastest(lambda: run("-m", "dptransfer", "fit", "--help")),
        }
        return found | json.loads(run(__file__, "--measure"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("trees", nargs="*", metavar="TREE")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured()))
        return
    old, new = given.trees
    rounds = [(with_tree(old), with_tree(new)) for _ in range(given.rounds)]
    print("| work | old, ms | new, ms | new ÷ old |\n|---|---|---|---|")
    for name in rounds[0][0]:
        before, after = (statistics.median(one[side][name] for one in rounds) for side in (0, 1))
        print(f"| {name} | {1e3 * before:.1f} | {1e3 * after:.1f} | {after / before:.2f} |")


if __name__ == "__main__":
    main()
