"""Noisy gradient heads, with a few labelled public rows and without: rates set by the noise, planned lengths.

    python benchmarks/shots.py data/ shots.jsonl --workers 2       # runs what is not in the file yet
    python benchmarks/shots.py data/ shots.jsonl --table

`data/` is that of `default_method.py`. At most `--rows` private rows. Noise is seeded: nothing made
here may be released.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from caps import balanced
from cells import fill
from default_method import pool_of, read, sets_in
from threadpoolctl import threadpool_limits

import dptransfer as dpt
from dptransfer.methods import (
    NGD,
    PPGD,
    AdaMix,
    DPSGDProbe,
    FeatureCovariance,
    FromShots,
    FullyPrivate,
    GlobalAdapt,
    NoisyGD,
    OnlyPublic,
    Pace,
    PublicPriorPrototypes,
    WarmStart,
)
from dptransfer.noise import SeededNoise

EPSILONS = (0.25, 1.0, 3.0, 8.0)
LENGTHS = {"pace": Pace(), "clip": 1.0}  # the defaults until version 0.7
METHODS = {
    "public-prior": PublicPriorPrototypes(),
    "only-public": OnlyPublic(),
    "adamix": AdaMix(),
    "adamix lengths": AdaMix(pace=Pace(reach=80.0)),
    "ngd": NGD(),
    "ngd lengths": NGD(pace=Pace(reach=20.0), clip=1.0, count_share=0.0),
    "ppgd": PPGD(),
    "ppgd lengths": PPGD(pace=Pace(), reuse=0.01),
    "noisy-gd shots": NoisyGD(start=FromShots()),
    "fully-private": FullyPrivate(),
    "noisy-gd": NoisyGD(),
    "noisy-gd lengths": NoisyGD(**LENGTHS),
    "dpsgd": DPSGDProbe(),
    "dpsgd lengths": DPSGDProbe(**LENGTHS),
    "global-adapt": GlobalAdapt(),
    "global-adapt lengths": GlobalAdapt(**LENGTHS),
    "warm-start": WarmStart(),
    "warm-start lengths": WarmStart(**LENGTHS),
    "feature-covariance": FeatureCovariance(),
    "feature-covariance lengths": FeatureCovariance(**LENGTHS),
}


def task(options, name, shots, seed):
    """Private rows and labels, shots and theirs, test rows and theirs."""
    x, y, x_test, y_test = read(sets_in(options.data)[name])
    order = np.random.default_rng(seed).permutation(len(y))
    ranks = np.zeros(len(y), dtype=int)  # of a row among those of its class, in this order
    for label in range(int(y_test.max()) + 1):
        own = order[y[order] == label]
        ranks[own] = np.arange(len(own))
    public, rest = order[ranks[order] < shots], order[ranks[order] >= shots]
    copies = {row.tobytes() for row in x[public]}  # a set may hold a row twice
    rest = np.array([place for place in rest if x[place].tobytes() not in copies])[: options.rows]
    return x[rest], y[rest], x[public], y[public], x_test, y_test


@threadpool_limits.wrap(limits=1)
def fitted(options, job):
    """Balanced accuracy of each method of a task."""
    for one in job:
        x, y, x_shots, y_shots, x_test, y_test = task(options, one["set"], one["shots"], one["seed"])
        classes = list(range(int(y_test.max()) + 1))
        public = dpt.PublicEmbeddings(x_shots, y_shots, classes=classes)
        if one["method"] == "public-prior":
            public = pool_of(options.data, one["set"]).with_shots(public)
        model = METHODS[one["method"]].fit(
            dpt.PrivateEmbeddings(x, y, classes=classes, size=len(y)),
            public,
            budget=dpt.Budget(epsilon=one["epsilon"], delta=1e-5),
            ledger=dpt.Ledger.in_memory(),
            noise=SeededNoise(1000 + one["seed"]),
        )
        yield one, {"accuracy": balanced(np.asarray(model.predict(x_test)), y_test)}


def table(path):
    """Means over the tasks that every method has, by shots and ε."""
    found = defaultdict(dict)
    for line in map(json.loads, path.read_text().splitlines()):
        cell = line["set"], line["shots"], line["seed"], line["epsilon"]
        found[cell][line["method"]] = line["accuracy"]
    methods = [name for name in METHODS if any(name in cell for cell in found.values())]
    for shots, epsilon in sorted({(cell[1], cell[3]) for cell in found}):
        whole = [v for k, v in found.items() if (k[1], k[3]) == (shots, epsilon) and set(methods) <= set(v)]
        print(f"{shots} shots, ε = {epsilon:g}, {len(whole)} tasks")
        for name in methods if whole else ():
            print(f"  {name:28s}{np.mean([cell[name] for cell in whole]):6.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", type=lambda text: text.split(","))
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS))
    parser.add_argument("--shots", type=lambda text: [int(one) for one in text.split(",")], default=[2, 5])
    parser.add_argument(
        "--epsilons", type=lambda text: [float(one) for one in text.split(",")], default=list(EPSILONS)
    )
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        table(options.out)
    else:
        names = options.sets or list(sets_in(options.data))
        grid = itertools.product(range(options.seeds), names, options.shots, options.epsilons)
        jobs = [
            [dict(zip(("seed", "set", "shots", "epsilon"), cell, strict=True)) | {"method": method}
             for method in options.methods]
            for cell in grid
        ]  # fmt: skip
        fill(options.out, jobs, fitted, options, options.workers)
