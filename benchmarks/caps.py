"""Caps on the similarities of public prototypes: which quantiles of the pool's own, with sets left out.

    python benchmarks/caps.py data/ caps.jsonl --seeds 2              # choices among caps and axes, simulated
    python benchmarks/caps.py data/ caps.jsonl --table
    python benchmarks/caps.py data/ fits.jsonl --fits --seeds 2       # fits of the library, K and features

`data/` is that of `default_method.py`. The simulation computes all scores once, in floating point, and draws
by the exponential mechanism; a rule is *chosen* for a set by its mean on the other sets. A rule is the share
of chance pairs below the lowest cap, and how many pass the highest for every example that noise is worth
(K ÷ ε), or a share of them whatever ε is. Noise is seeded: nothing made here may be released.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from cells import fill
from default_method import chosen_rows, pool_of, read, sets_in
from scipy.special import gammaln
from threadpoolctl import threadpool_limits

import dptransfer as dpt
from dptransfer.exact.feature_map import UnitNorm, apply
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods import PublicPrototypes, TopKPrototypes
from dptransfer.noise import SeededNoise

UNLIKE, PASSING = (0.1, 0.5), (0.001, 0.0025, 0.005, 0.01, 0.02)
RULES = [(low, f"{share:g}{unit}") for low in UNLIKE for share in PASSING for unit in (" K/ε", "")]
AXES = {"unit": None, **{f"map {axes}{unit}": (axes, unit) for axes in (128, 256) for unit in ("", " ε")}}
TOGETHER = (1, 5)
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


def capped(x, labels, pool, classes, caps):
    """(pool, classes) sums of similarities between the caps, ÷ their distance."""
    order = np.argsort(labels, kind="stable")
    own, starts = np.unique(labels[order], return_index=True)
    sums, (low, high) = np.zeros((len(pool), classes)), np.float32(caps)
    for start in range(0, len(pool), 1000):
        part = slice(start, start + 1000)
        similar = np.clip(1 + pool[part] @ x[order].T, low, high) - low
        sums[part, own] = np.add.reduceat(similar, starts, axis=1, dtype=np.float64)
    return sums / (high - low)


def shares_of(rule, k, epsilon):
    """Of chance pairs, those below the caps."""
    share, _, unit = rule[1].partition(" ")
    return rule[0], 1 - min(0.5, float(share) * (k * min(1 / epsilon, 4.0) if unit else 1.0))


@threadpool_limits.wrap(limits=1)
def simulated(options, job):
    """Accuracy of every K for every rule and ε."""
    for one in job:
        x, y, x_test, y_test = rows_of(options, one)
        classes, rng = int(y_test.max()) + 1, np.random.default_rng(one["seed"])
        public = pool_of(options.data, one["set"])
        for epsilon in options.epsilons:
            axes = AXES[one["features"]]
            wide = axes and axes[0] * (max(1.0, epsilon) if axes[1] else 1.0)
            fitted = (PublicMap(axes=round(wide)) if axes else UnitNorm()).fit(x.shape[1], public)
            rows, pool, test = (apply(fitted, r).astype(np.float32) for r in (x, public.rows, x_test))
            some = pool[rng.permutation(len(pool))[:1024]]
            pairs = 1 + (some @ some.T)[np.triu_indices(len(some), 1)]
            ranks, kept = np.arange(1, len(pool) + 1), {}
            for k, rule in itertools.product(TOGETHER, RULES):
                shares = shares_of(rule, k, epsilon)
                if shares not in kept:
                    kept[shares] = capped(rows, y, pool, classes, np.quantile(pairs, shares))
                order = np.argsort(-kept[shares], axis=0)
                sets = gammaln(ranks) - gammaln(np.maximum(ranks - k + 1, 1))
                sets = np.where(ranks < k, -np.inf, sets)[:, None]
                drawn = []
                for _ in range(options.draws):
                    noisy = sets + epsilon * np.take_along_axis(kept[shares], order, 0)
                    lasts = (noisy + rng.gumbel(size=noisy.shape)).argmax(axis=0)
                    chosen = [
                        order[[last, *rng.choice(last, k - 1, replace=False)], own]
                        for own, last in enumerate(lasts)
                    ]
                    centres = pool[np.array(chosen)].mean(axis=1)
                    drawn.append(balanced((test @ centres.T).argmax(1), y_test))
                found = {"k": k, "rule": list(rule), "epsilon": epsilon}
                yield {**one, **found}, {"simulated": float(np.mean(drawn))}


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
        grid = itertools.product(seeds, options.methods, names, options.ratios, options.epsilons)
        keys = ("seed", "method", "set", "ratio", "epsilon")
    else:
        grid = itertools.product(seeds, AXES, names, options.ratios)
        keys = ("seed", "features", "set", "ratio")
    jobs = [[dict(zip(keys, cell, strict=True))] for cell in grid]
    fill(options.out, jobs, fitted if options.fits else simulated, options, options.workers)


def table(path):
    """Means: of fits by method and ε, of the simulation by rule, and what rules chosen elsewhere give."""
    fits, found = defaultdict(list), defaultdict(list)
    for line in map(json.loads, path.read_text().splitlines()):
        if "accuracy" in line:
            fits[line["method"], line["ratio"], line["epsilon"], line["set"]].append(line["accuracy"])
            continue
        rule = line["features"], *line["rule"]
        found[line["k"], rule, line["set"], line["epsilon"]].append(line["simulated"])
    for method, ratio in sorted({key[:2] for key in fits}):
        epsilons = sorted({key[2] for key in fits})
        sets = sorted({key[3] for key in fits if key[:2] == (method, ratio)})
        for name in (*sets, "mean"):
            over = sets if name == "mean" else [name]
            means = ([np.mean(fits[method, ratio, e, one]) for one in over] for e in epsilons)
            print(f"{method:14s} {ratio:3d} {name:12s}", *(f"{np.mean(mean):5.1f}" for mean in means))
    for k in sorted({key[0] for key in found}):
        names, epsilons = (sorted({key[place] for key in found}) for place in (2, 3))
        rules = sorted({key[1] for key in found if key[0] == k})
        mean = {(r, n): np.mean([found[k, r, n, e] for e in epsilons]) for r in rules for n in names}
        left_out = {
            name: max(rules, key=lambda rule: np.mean([mean[rule, o] for o in names if o != name]))
            for name in names
        }
        print(f"K = {k}, chosen elsewhere {np.mean([mean[left_out[n], n] for n in names]):.1f}", left_out)
        for rule in sorted(rules, key=lambda rule: -np.mean([mean[rule, n] for n in names])):
            each = (f"{np.mean([found[k, rule, n, e] for n in names]):5.1f}" for e in epsilons)
            print(f"  {rule!s:40s} {np.mean([mean[rule, n] for n in names]):5.1f}:", *each)


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
    parser.add_argument(
        "--epsilons", type=lambda text: [float(one) for one in text.split(",")], default=[0.25, 1.0, 3.0, 8.0]
    )
    parser.add_argument("--draws", type=int, default=3, help="of noise, for the simulation")
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    table(options.out) if options.table else run(options)
