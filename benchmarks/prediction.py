"""Prediction and class sums over many rows: seconds on CPU and, where there is one, on a GPU.

    python benchmarks/prediction.py                                 # CPU
    python benchmarks/prediction.py --device both                   # the same rows on both
    python benchmarks/prediction.py --device cuda --rows 1281167

Rows are float32 in host memory, as a program holds them; on CUDA they are copied over, mapped and scored or
summed there, and the answer is copied back. Best of `--repeats`, after one run that is not counted.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np

from dptransfer.data import PublicEmbeddings
from dptransfer.data.facts import Facts
from dptransfer.exact.feature_map import UnitNorm
from dptransfer.exact.public_map import PublicMap
from dptransfer.privacy import Guarantee, Relation
from dptransfer.queries import ClassSums
from dptransfer.release import CosineHead, PrivateClassifier, Provenance


def best(work, repeats: int) -> float:
    work()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def model_of(features, classes: int, rng) -> PrivateClassifier:
    """Random prototypes: predictions are worth nothing and take as long as any."""
    return PrivateClassifier(
        head=CosineHead(rng.normal(size=(classes, features.dimension))),
        features=features,
        facts=Facts(tuple(range(classes)), features.input_dimension),
        events=(),
        guarantee=Guarantee(0.0, 0.0, Relation.ADD_REMOVE),
        provenance=Provenance("benchmark", {}, seeded=True),
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--device", choices=["cpu", "cuda", "both"], default="cpu")
    for name, default in (("rows", 50_000), ("dimension", 1280), ("classes", 100), ("repeats", 3)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    options = arguments.parse_args()
    devices = ["cpu", "cuda"] if options.device == "both" else [options.device]
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((options.rows, options.dimension), dtype=np.float32)
    labels = rng.integers(0, options.classes, options.rows)
    maps = {
        "unit norm": UnitNorm().fit(options.dimension, None),
        "public map": PublicMap(256).fit(options.dimension, PublicEmbeddings(rows[:20_000])),
    }
    print("| what | map | " + " | ".join(f"{device}, s" for device in devices) + " |")
    print("|---|---|" + "---|" * len(devices))
    for name, features in maps.items():
        model = model_of(features, options.classes, rng)
        works = {
            "predict": lambda device, model=model: model.predict(rows, device=device),
            "class sums": lambda device, features=features: ClassSums(features, options.classes, device)(
                rows, labels
            ),
        }
        for what, work in works.items():
            shown = [best(partial(work, device), options.repeats) for device in devices]
            print(f"| {what} | {name} | " + " | ".join(f"{s:.3f}" for s in shown) + " |", flush=True)


if __name__ == "__main__":
    main()
