"""Prediction of one row, of a few, and of a million, with two source trees in turn: CPU time and memory.

    python benchmarks/predict_calls.py OLD/src src [--rounds 5]

Each measurement is the fastest of many calls in a process of its own, in processor time, since machines are
shared; the table shows medians over rounds, and the ratio. Memory is what `predict_proba` takes at its peak
beyond the rows, beside what it returns.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

WIDTH, POOL, MANY, CLASSES = 1280, 3_000, 1_000_000, 64


def fastest(work, calls: int) -> float:
    """Microseconds of processor time."""
    work()
    taken = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(calls):
            work()
        taken.append((time.process_time() - began) / calls * 1e6)
    return min(taken)


def measured() -> dict[str, float]:
    """With the library that this process finds."""
    from prediction import model_of

    from dptransfer.data import PublicEmbeddings, Vocabulary
    from dptransfer.exact.feature_map import UnitNorm
    from dptransfer.exact.public_map import PublicMap
    from dptransfer.exact.vocabulary_map import FittedVocabularyMap
    from dptransfer.release.heads import CosineHead, MeanCosineHead

    rng = np.random.default_rng(0)
    one = rng.standard_normal((1, WIDTH), dtype=np.float32)
    pool = PublicEmbeddings(rng.standard_normal((POOL, WIDTH), dtype=np.float32))
    words = Vocabulary(tuple(map(str, range(1000))), rng.normal(size=(1000, WIDTH)), np.zeros(1000))
    maps = {
        "unit norm": UnitNorm().fit(WIDTH, None),
        "public map, 256 axes": PublicMap(256).fit(WIDTH, pool),
        "1,000 words": FittedVocabularyMap.of(words),
    }
    found = {
        f"map of one row, {name}": fastest(lambda m=m: m.lattice(one, 2**30), 50) for name, m in maps.items()
    }
    few = rng.normal(size=(16, 128))
    for classes in (1_000, 10_000):
        flat = CosineHead(rng.normal(size=(classes, 128)))
        several = MeanCosineHead(rng.normal(size=(classes, 3, 128)))
        found[f"cosine scores of 16 rows, {classes:,} classes"] = fastest(lambda h=flat: h.scores(few), 20)
        found[f"mean cosine, 3 prototypes, {classes:,} classes"] = fastest(
            lambda h=several: h.scores(few), 20
        )
    model = model_of(UnitNorm().fit(8, None), CLASSES, rng)
    rows = rng.standard_normal((MANY, 8), dtype=np.float32)
    model.predict_proba(rows[:5000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.predict_proba(rows)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found[f"predict_proba of {MANY:,} rows, {CLASSES} classes, MiB"] = (after - before) / 1024
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("trees", nargs="*")
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    if not options.trees:
        print(json.dumps(measured()))
        return
    found: dict[str, list[dict[str, float]]] = {tree: [] for tree in options.trees}
    for _ in range(options.rounds):
        for tree, rounds in found.items():
            told = subprocess.run(
                [sys.executable, __file__],
                env={**os.environ, "PYTHONPATH": os.path.abspath(tree)},
                capture_output=True,
                check=True,
            )
            rounds.append(json.loads(told.stdout))
    old, new = (
        {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        for rounds in found.values()
    )
    print("| what (µs of processor time, or MiB) | before | after | after ÷ before |\n|---|---|---|---|")
    for name in old:
        print(f"| {name} | {old[name]:,.0f} | {new[name]:,.0f} | {new[name] / old[name]:.2f} |")


if __name__ == "__main__":
    main()
