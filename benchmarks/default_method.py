"""What the default method's constants are worth, and how far it is from others: real rows, left-out sets.

    python benchmarks/default_method.py data/ r.jsonl --workers 2     # runs what is not in the file yet
    python benchmarks/default_method.py data/ r.jsonl --table         # accuracies, ε ratios, choices

`data/` holds .npz files with rows of 8 bits (q_train, q_test, scale, offset) and labels (y_train, y_test); a
set of pictures has the rows of `pool_*.npz` as its pool, a set of texts those of another one. Noise is
seeded: nothing made here may be released.

A constant is *chosen* for a set as the value that does best on the mean of all other sets: what that gives on
the set itself, beside the value that the library has, says how much of a constant is knowledge.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np
from cells import fill
from threadpoolctl import threadpool_limits

import dptransfer as dpt
from dptransfer.methods import METHODS
from dptransfer.methods.heads import public_prior
from dptransfer.noise import SeededNoise

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
PUBLISHED = ("mean", "public", "mean-estimation", "noisy-gd", "dpsgd")  # corrected, on rows of unit norm
POOL_ROWS = 13_000
# Values of a constant, the library's in the middle; axes are a constant of the module, the others settings.
VARIED = {
    "axes": (16, 32, 64),
    "logit_noise": (0.15, 0.3, 0.6),
    "clip": (0.1, 0.3, 1.0),
    "steps": (15, 30, 60),
}


@cache
def read(file):
    """Training rows, their labels, test rows, their labels; a pool has rows alone."""
    with np.load(file) as stored:
        parts = [part for part in ("train", "test") if f"q_{part}" in stored]
        rows = [stored[f"q_{part}"].astype(np.float32) * stored["scale"] + stored["offset"] for part in parts]
        labels = [stored.get(f"y_{part}") for part in parts]
    return tuple(one for pair in zip(rows, labels, strict=True) for one in pair)


def sets_in(folder):
    """Files of sets by name."""
    files = sorted(file for file in folder.glob("*.npz") if not file.stem.startswith("pool"))
    return {file.stem.partition("_")[0]: file for file in files}


def pool_of(folder, name):
    """Public rows for a set, and the words of the encoder that made them."""
    files = sets_in(folder)
    if "minilm" in files[name].stem:
        return dpt.PublicEmbeddings(read(files["banking77" if name == "agnews" else "agnews"])[0])
    rows = read(next(folder.glob("pool_*.npz")))[0][:POOL_ROWS]
    return dpt.PublicEmbeddings(rows, vocabulary=dpt.encoders.vocabulary("efficientnet-lite0"))


def chosen_rows(labels, ratio, seed):
    """All rows for ratio 0; else a long tail, classes in an order of the seed's."""
    if ratio == 0:
        return np.arange(len(labels))
    rng = np.random.default_rng(seed)
    sizes = np.bincount(labels)
    top = int(sizes.min() if ratio == 1 else np.median(sizes))
    wanted = np.maximum(1, np.rint(top * ratio ** -np.linspace(0, 1, len(sizes)))).astype(int)
    order = rng.permutation(len(sizes))
    own = (
        rng.permutation(np.flatnonzero(labels == one))[:rows] for one, rows in zip(order, wanted, strict=True)
    )
    return np.concatenate(list(own))


def made(method):
    """A method by its name, or the default with one constant changed, as 'steps=60'."""
    setting, _, value = method.partition("=")
    public_prior._AXES = int(value) if setting == "axes" else VARIED["axes"][1]
    if not value:
        return METHODS[method]()
    settings = {} if setting == "axes" else {setting: type(VARIED[setting][1])(value)}
    return dpt.methods.PublicPriorPrototypes(**settings)


@threadpool_limits.wrap(limits=1)  # as many processes as there are cores
def fitted(options, job):
    """Balanced accuracy, and that of the quarter of classes with the fewest rows."""
    for one in job:
        x, y, x_test, y_test = read(sets_in(options.data)[one["set"]])
        chosen = chosen_rows(y, one["ratio"], one["seed"])
        chosen = np.random.default_rng(one["seed"]).permutation(chosen)[: options.rows]
        sizes = np.bincount(y[chosen], minlength=int(y.max()) + 1)
        pool = pool_of(options.data, one["set"])
        started = time.perf_counter()
        model = made(one["method"]).fit(
            dpt.PrivateEmbeddings(x[chosen], y[chosen], classes=range(len(sizes))),
            pool,
            budget=dpt.Budget(epsilon=one["epsilon"], delta=1e-5),
            ledger=dpt.Ledger.in_memory(),
            noise=SeededNoise(1000 + one["seed"]),
        )
        seconds = time.perf_counter() - started
        found = np.asarray(model.predict(x_test))
        recall = 100 * np.array([(found[y_test == own] == own).mean() for own in range(len(sizes))])
        few = np.argsort(sizes, kind="stable")[: max(1, len(sizes) // 4)]
        yield one, {"accuracy": recall.mean(), "smallest": recall[few].mean(), "seconds": round(seconds, 2)}


def run(options):
    """All cells that the file lacks; those of one set, ratio and seed in one process."""
    changed = [f"{name}={value}" for name in options.vary for value in VARIED[name][::2]]
    jobs = [
        [
            {"set": name, "ratio": ratio, "epsilon": epsilon, "method": method, "seed": seed}
            for epsilon in options.epsilons
            for method in (*options.methods, *changed)
        ]
        for seed in range(options.seeds)
        for name in options.sets or sets_in(options.data)
        for ratio in options.ratios
    ]
    fill(options.file, jobs, fitted, options, options.workers)


def table(options):
    """Markdown: accuracies, the ε that a published head needs, and what left-out sets would have chosen."""
    found = defaultdict(list)
    for line in options.file.read_text().splitlines():
        one = json.loads(line)
        where = one["set"], one["ratio"], one["epsilon"], one["method"]
        found[where].append((one["accuracy"], one["smallest"]))
    mean = {where: np.mean(values, axis=0) for where, values in found.items()}
    print("| data | ratio | method |", " | ".join(f"ε = {e:g}" for e in EPSILONS), "|")
    print("|---|---|---|" + "---:|" * len(EPSILONS))
    for name, ratio, method in sorted({(where[0], where[1], where[3]) for where in mean}):
        cells = [mean.get((name, ratio, epsilon, method)) for epsilon in EPSILONS]
        told = ("" if one is None else f"{one[0]:.1f} / {one[1]:.1f}" for one in cells)
        if "=" not in method:
            print(f"| {name} | {ratio or 'natural'} | {method} |", " | ".join(told), "|")
    accuracy = {where: float(values[0]) for where, values in mean.items()}
    compared(accuracy)
    for constant in VARIED:
        left_out(constant, accuracy)


def compared(accuracy):
    """How much ε the best published head needs for what the default has."""
    ratios = []
    for (name, ratio, epsilon, method), own in accuracy.items():
        rivals = [
            max((accuracy.get((name, ratio, e, head), -1.0) for head in PUBLISHED), default=-1.0)
            for e in EPSILONS
        ]
        if method == "public-prior" and min(rivals) >= 0:
            enough = [e for e, rival in zip(EPSILONS, rivals, strict=True) if rival >= own]
            ratios.append((enough[0] if enough else 2 * EPSILONS[-1]) / epsilon)
    if ratios:
        typical = np.exp(np.mean(np.log(ratios)))
        print(f"\nA published head needs {typical:.2f} times the ε, in steps of the list; where it never")
        print("gets there twice the largest was taken.")


def left_out(constant, accuracy):
    """How well a constant does that was chosen on the other sets."""
    values = VARIED[constant]
    label = {value: f"{constant}={value}" for value in values} | {values[1]: "public-prior"}
    cells = {where[:3] for where in accuracy}
    cells = {where for where in cells if all((*where, one) in accuracy for one in label.values())}
    sets = sorted({where[0] for where in cells})
    if len(sets) < 2:
        return
    by_set = {
        (one, value): np.mean([accuracy[(*where, label[value])] for where in cells if where[0] == one])
        for one in sets
        for value in values
    }
    others = {
        (left, value): np.mean([by_set[one, value] for one in sets if one != left])
        for left in sets
        for value in values
    }
    chosen = [by_set[one, max(values, key=lambda value: others[one, value])] for one in sets]
    best = [max(by_set[one, value] for value in values) for one in sets]
    each = ", ".join(f"{value:g}: {np.mean([by_set[one, value] for one in sets]):.2f}" for value in values)
    print(f"\n{constant}: {each}; chosen on the other sets {np.mean(chosen):.2f}; best {np.mean(best):.2f}.")


def words(text):
    """Words between commas."""
    return [word for word in text.split(",") if word]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--sets", type=words)
    parser.add_argument("--methods", type=words, default=["public-prior"])
    parser.add_argument("--vary", type=words, default=[], help=f"constants: {', '.join(VARIED)}")
    parser.add_argument("--ratios", type=lambda text: [int(one) for one in words(text)], default=[0])
    parser.add_argument("--epsilons", type=lambda text: [float(one) for one in words(text)], default=EPSILONS)
    parser.add_argument("--rows", type=int, help="at most so many private ones; all by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    table(given) if given.table else run(given)
