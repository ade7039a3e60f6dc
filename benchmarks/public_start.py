"""What a public start is worth to the default method: names, junk, codes and labelled public rows; real rows.

    python benchmarks/public_start.py data/ r.jsonl --workers 2       # runs what is not in the file yet
    python benchmarks/public_start.py data/ r.jsonl --table

`data/` holds sets as for `default_method.py`, with class names in the files (`classes`) or in
`class_names.json`. Names are encoded by minilm. Noise is seeded: nothing made here may be released.

Starts: `off`; `names`; `junk`, the names of other classes; `shots2` and `shots5`, so many labelled public
rows of each class, and `names+shots2`. A method may be set beside them for the same public rows, such as
`adamix@shots5`.
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
from default_method import EPSILONS, pool_of, read, sets_in, words
from threadpoolctl import threadpool_limits

import dptransfer as dpt
from dptransfer.data.facts import Facts
from dptransfer.methods import METHODS
from dptransfer.methods.heads import public_start
from dptransfer.methods.heads.public_start import with_known_names
from dptransfer.noise import SeededNoise

NAMED = ("banking77", "agnews", "hwu64", "news20")


@cache
def name_rows(folder, name):
    """Rows of the class names, as a fit on texts makes them."""
    file = sets_in(folder)[name]
    listed = json.loads((folder / "class_names.json").read_text()).get(file.stem)
    if listed is None:
        with np.load(file) as stored:
            listed = stored["classes"].tolist()
    identity = dpt.encoders.get_encoder("minilm").identity
    facts = Facts(tuple(map(str, listed)), (384,), encoder=identity)
    return with_known_names(dpt.PublicEmbeddings(np.ones((1, 384))), facts).names


def public_for(options, one, x, y):
    """The pool with what the start says beside it, and the rows that are left for the private side."""
    pool, start = pool_of(options.data, one["set"]), one["start"].rpartition("@")[2]
    left, classes = np.arange(len(y)), int(y.max()) + 1
    if "names" in start or start == "junk":
        names = name_rows(options.data, one["set"])
        rng = np.random.default_rng(one["seed"])
        pool = pool.with_names(names if start != "junk" else names[rng.permutation(len(names))])
    if "shots" in start:
        rng, each = np.random.default_rng(100 + one["seed"]), int(start[-1])
        shots = np.concatenate([rng.permutation(np.flatnonzero(y == own))[:each] for own in range(classes)])
        copies = {row.tobytes() for row in x[shots]}  # a set may hold a row twice
        left = np.array([place for place in left if x[place].tobytes() not in copies])
        pool = pool.with_shots(dpt.PublicEmbeddings(x[shots], y[shots], classes=range(classes)))
    return pool, left


@threadpool_limits.wrap(limits=1)
def fitted(options, job):
    """Balanced accuracy, and the seconds of the fit."""
    for constant, value in options.constants.items():
        setattr(public_start, constant, value)
    for one in job:
        x, y, x_test, y_test = read(sets_in(options.data)[one["set"]])
        pool, left = public_for(options, one, x, y)
        method = METHODS[one["start"].rpartition("@")[0] or "public-prior"]()
        started = time.perf_counter()
        model = method.fit(
            dpt.PrivateEmbeddings(x[left], y[left], classes=range(int(y.max()) + 1)),
            pool,
            budget=dpt.Budget(epsilon=one["epsilon"], delta=1e-5),
            ledger=dpt.Ledger.in_memory(),
            noise=SeededNoise(1000 + one["seed"]),
        )
        seconds = time.perf_counter() - started
        found = np.asarray(model.predict(x_test))
        recall = 100 * np.array([(found[y_test == own] == own).mean() for own in np.unique(y_test)])
        told = next((note for note in model.provenance.notes if "help" in note), "")
        yield one, {"accuracy": recall.mean(), "seconds": round(seconds, 2), "note": told.split(" Spent")[0]}


def run(options):
    """All cells that the file lacks; those of one set, start and seed in one process."""
    jobs = [
        [{"set": name, "start": start, "epsilon": epsilon, "seed": seed} for epsilon in options.epsilons]
        for seed in range(options.seeds)
        for name in options.sets
        for start in options.starts
    ]
    fill(options.file, jobs, fitted, options, options.workers)


def table(options):
    """Markdown: balanced accuracy by set and start, and the mean over sets."""
    found = defaultdict(list)
    for line in options.file.read_text().splitlines():
        one = json.loads(line)
        found[one["start"], one["set"], one["epsilon"]].append(one["accuracy"])
    epsilons = sorted({where[2] for where in found})
    print("| start | data |", " | ".join(f"ε = {e:g}" for e in epsilons), "|")
    print("|---|---|" + "---:|" * len(epsilons))
    for start in dict.fromkeys(where[0] for where in found):
        sets = [
            name for name in dict.fromkeys(where[1] for where in found) if (start, name, epsilons[0]) in found
        ]
        rows = {name: [np.mean(found[start, name, e]) for e in epsilons] for name in sets}
        for name, row in (rows | {"mean": np.mean(list(rows.values()), axis=0)}).items():
            print(f"| {start} | {name} |", " | ".join(f"{value:.1f}" for value in row), "|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--sets", type=words, default=NAMED)
    parser.add_argument("--starts", type=words, default=["off", "names", "junk"])
    parser.add_argument("--epsilons", type=lambda text: [float(one) for one in words(text)], default=EPSILONS)
    parser.add_argument("--constants", type=json.loads, default={}, help="of public_start, as JSON")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    table(given) if given.table else run(given)
