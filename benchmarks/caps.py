"""Caps on the similarities of public prototypes: which quantiles of the pool's own, with sets left out.

    python benchmarks/caps.py data/ caps.jsonl --seeds 2              # choices among 27 pairs, simulated
    python benchmarks/caps.py data/ caps.jsonl --table
    python benchmarks/caps.py data/ maps.jsonl --own --ratios 0,10 --rows 3000 --seeds 1   # maps and K
    python benchmarks/caps.py data/ fits.jsonl --fits --seeds 2       # fits of the library, K and features

`data/` is that of `default_method.py`. The simulation computes all scores once, in floating point, and draws
by the exponential mechanism; a pair of quantiles is *chosen* for a set by its mean on the other sets. Noise
is seeded: nothing made here may be released.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from cells import fill
from default_method import EPSILONS, chosen_rows, pool_of, read, sets_in
from scipy.special import gammaln
from threadpoolctl import threadpool_limits

import dptransfer as dpt
from dptransfer.exact.feature_map import UnitNorm, apply
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import PublicPrototypes, TopKPrototypes
from dptransfer.methods.prototypes.pool_selection import CAP_SHARES
from dptransfer.noise import SeededNoise

LOW, HIGH = (0.1, 0.25, 0.5, 0.75, 0.9), (0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)
PAIRS = [(0.0, 1.0), *((low, high) for low in LOW for high in HIGH if low < high)]  # the first: no caps
MAPS = {"unit": UnitNorm(), **{f"map {axes}": PublicMap(axes=axes) for axes in (64, 128, 256)}}
TOGETHER = (1, 5, 10, 20)
FITS = {
    "public": PublicPrototypes(),
    "public 0..2": PublicPrototypes(lowest=0.0, highest=2.0),
    "public map": PublicPrototypes(features=PublicMap(axes=256)),
    "top-k 5 0..2": TopKPrototypes(lowest=0.0, highest=2.0, features=UnitNorm()),
    "top-k 5 unit": TopKPrototypes(features=UnitNorm()),
    **{f"top-k {k}": TopKPrototypes(k=k) for k in (5, 10, 20)},
    "dpsgd": dpt.methods.DPSGDProbe(),
}


def balanced(found, y):
    """Mean recall of the classes, %."""
    return 100 * float(np.mean([(found[y == own] == own).mean() for own in np.unique(y)]))


def rows_of(options, one):
    """Private rows and labels, at most so many, test rows and labels."""
    x, y, x_test, y_test = read(sets_in(options.data)[one["set"]])
    chosen = chosen_rows(y, one["ratio"], one["seed"])
    chosen = np.random.default_rng(one["seed"]).permutation(chosen)[: options.rows]
    return x[chosen], y[chosen], x_test, y_test


def reached(x, labels, pool, classes, thresholds):
    """For each threshold the (pool, classes) sums of how far similarities are above it."""
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(classes + 1))
    sums = np.zeros((len(thresholds), len(pool), classes))
    for start in range(0, len(pool), 1000):
        part = slice(start, start + 1000)
        similar = 1 + pool[part] @ x[order].T
        for place, threshold in enumerate(thresholds):
            above = np.cumsum(np.maximum(similar - np.float32(threshold), 0), axis=1, dtype=np.float64)
            above = np.pad(above, ((0, 0), (1, 0)))
            sums[place, part] = above[:, ends[1:]] - above[:, ends[:-1]]
    return sums


@threadpool_limits.wrap(limits=1)
def simulated(options, job):
    """Accuracy of every K for every pair of quantiles and ε."""
    for one in job:
        x, y, x_test, y_test = rows_of(options, one)
        classes, rng = int(y_test.max()) + 1, np.random.default_rng(one["seed"])
        public = pool_of(options.data, one["set"])
        fitted = MAPS[one["features"]].fit(x.shape[1], public)
        x, pool, x_test = (apply(fitted, rows).astype(np.float32) for rows in (x, public.rows, x_test))
        some = rng.permutation(len(pool))[:3000]
        pairs = 1 + pool[some[:1000]] @ pool[some[1000:]].T
        quantiles = sorted({*LOW, *HIGH})
        thresholds = dict(zip(quantiles, np.quantile(pairs, quantiles), strict=True)) | {0.0: 0.0, 1.0: 2.0}
        sums = dict(zip(thresholds, reached(x, y, pool, classes, list(thresholds.values())), strict=True))
        ranks = np.arange(1, len(pool) + 1)
        sets = {
            k: np.where(ranks < k, -np.inf, gammaln(ranks) - gammaln(np.maximum(ranks - k + 1, 1)))
            for k in TOGETHER
        }
        for low, high in (PAIRS[0], CAP_SHARES) if options.own else PAIRS:
            scores = (sums[low] - sums[high]) / (thresholds[high] - thresholds[low])
            order = np.argsort(-scores, axis=0)
            ranked = np.take_along_axis(scores, order, 0)
            found = {}
            for epsilon in EPSILONS:
                for k, log_sets in sets.items():
                    noisy = log_sets[:, None] + epsilon * ranked + rng.gumbel(size=scores.shape)
                    chosen = [
                        order[[last, *rng.choice(last, k - 1, replace=False)], own]
                        for own, last in enumerate(noisy.argmax(axis=0))
                    ]
                    centres = pool[np.array(chosen)].mean(axis=1)
                    found[f"{k} {epsilon}"] = balanced((x_test @ centres.T).argmax(1), y_test)
            yield {**one, "low": low, "high": high}, {"found": found}


@threadpool_limits.wrap(limits=1)
def fitted(options, job):
    """Accuracy of one fit."""
    for one in job:
        x, y, x_test, y_test = rows_of(options, one)
        model = FITS[one["method"]].fit(
            dpt.PrivateEmbeddings(x, y, classes=range(int(y_test.max()) + 1)),
            pool_of(options.data, one["set"]),
            budget=dpt.Budget(epsilon=one["epsilon"], delta=1e-5),
            ledger=dpt.Ledger.in_memory(),
            noise=SeededNoise(1000 + one["seed"]),
        )
        yield one, {"accuracy": balanced(np.asarray(model.predict(x_test)), y_test)}


def run(options):
    """All cells that the file lacks."""
    names, seeds = options.sets or list(sets_in(options.data)), range(options.seeds)
    if options.fits:
        grid = itertools.product(seeds, options.methods, names, options.ratios, EPSILONS)
        keys = ("seed", "method", "set", "ratio", "epsilon")
    else:
        grid = itertools.product(seeds, MAPS, names, options.ratios)
        keys = ("seed", "features", "set", "ratio")
    jobs = [[dict(zip(keys, cell, strict=True))] for cell in grid]
    fill(options.out, jobs, fitted if options.fits else simulated, options, options.workers)


def table(path):
    """Means: of fits by method and ε, of the simulation by pair, and what pairs chosen elsewhere give."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    fits, means, by_epsilon = defaultdict(list), defaultdict(list), defaultdict(list)
    for line in lines:
        if "accuracy" in line:
            fits[line["method"], line["ratio"], line["epsilon"]].append(line["accuracy"])
            continue
        for key, accuracy in line["found"].items():
            where = line["features"], int(key.split()[0])
            pair = line["low"], line["high"]
            means[where, line["set"], pair].append(accuracy)
            by_epsilon[where, pair, float(key.split()[1])].append(accuracy)
    for method, ratio in sorted({key[:2] for key in fits}):
        print(f"{method:14s} {ratio:3d}", *(f"{np.mean(fits[method, ratio, e]):5.1f}" for e in EPSILONS))
    for where in sorted({key[0] for key in means}):
        names = sorted({key[1] for key in means if key[0] == where})
        tried = [pair for pair in PAIRS if (where, pair, EPSILONS[0]) in by_epsilon]
        mean = {(name, pair): np.mean(means[where, name, pair]) for name in names for pair in tried}
        left_out = {
            name: max(tried, key=lambda pair: np.mean([mean[o, pair] for o in names if o != name]))
            for name in names
        }
        print(where, "chosen elsewhere", f"{np.mean([mean[n, left_out[n]] for n in names]):.1f}", left_out)
        for pair in tried:
            each = (f"{np.mean(by_epsilon[where, pair, one]):5.1f}" for one in EPSILONS)
            print(f"  {pair!s:14s} {np.mean([mean[name, pair] for name in names]):5.1f}:", *each)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--fits", action="store_true")
    parser.add_argument("--sets", type=lambda text: text.split(","))
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(FITS))
    parser.add_argument("--ratios", type=lambda text: [int(one) for one in text.split(",")], default=[0])
    parser.add_argument("--own", action="store_true", help="the library's own quantiles alone, and no caps")
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    table(options.out) if options.table else run(options)
