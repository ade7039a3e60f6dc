"""Several owners: accuracy alone, by files, by a secure sum and pooled; time and bytes of thirty rounds.

    python benchmarks/owners.py DATA_FOLDER owners.jsonl --sets agnews,rsscn7,swda --seeds 3
    python benchmarks/owners.py DATA_FOLDER owners.jsonl --table
    python benchmarks/owners.py DATA_FOLDER owners.jsonl --time --owners 10 --rows 100000

Sets with people are split by person, and persons are protected. A total is drawn as one release with the
noise of the total, which has the same law as the sum of shares (tests/federation). FedAvg is what NVFlare and
Flower offer: every owner trains a softmax head by DP-SGD, weights are averaged after each round, 30 rounds of
5 steps with Poisson samples of a tenth. Its clip is 1; of six learning rates the best on the TEST rows is
shown, which favours it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.special import softmax

import dptransfer as dpt
from dptransfer.accounting import noise_multiplier_for
from dptransfer.exact.feature_map import UnitNorm, apply
from dptransfer.federation import OwnerKey, join, plan_study, read_study, share
from dptransfer.mechanisms.mechanism import at_noise_of
from dptransfer.methods.method import Task
from dptransfer.privacy import Relation, SampledGaussianEvent
from dptransfer.release.owners import FILES, SECURE_SUM, noise_factor

POOLS = {"rsscn7": "pool_tinyimagenet", "agnews": "news20", "banking77": "hwu64", "swda": "agnews"}
POOLS |= {"news20": "agnews"}
PEOPLE = ("swda", "news20")
WAYS = ("alone", "files", "secure sum", "pooled", "fedavg")
ROUNDS, LOCAL, RATE = 30, 5, 0.1
LEARNING_RATES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def read(folder: Path, name: str):
    (path,) = folder.glob(f"{name}_*.npz")
    found = np.load(path, allow_pickle=False)
    scale, offset = found["scale"], found["offset"]
    rows = {one: found[f"q_{one}"].astype(np.float32) * scale + offset for one in ("train", "test")}
    return rows, found


def pool_of(folder: Path, name: str) -> dpt.PublicEmbeddings:
    (path,) = folder.glob(f"{POOLS[name]}*.npz")
    found = np.load(path, allow_pickle=False)
    key = "q_train" if "q_train" in found else "q"
    return dpt.PublicEmbeddings(found[key][:20_000].astype(np.float32) * found["scale"] + found["offset"])


def balanced(answers, labels) -> float:
    return float(np.mean([(answers[labels == one] == one).mean() for one in np.unique(labels)]))


def with_noise(method, private, public, budget, factor) -> np.ndarray:
    """Score of a run whose answers have so many times the noise that the budget asks for."""
    facts = private.facts
    public = method.with_words(public, facts)
    plan = method.plan(facts, budget, public)

    def louder(step):
        event = step.event
        return at_noise_of(replace(event, noise_multiplier=factor * event.noise_multiplier), step)

    plan = replace(plan, mechanisms=tuple(map(louder, plan.mechanisms)))
    prepared = method.prepare(facts, public)
    outcome = method.run(Task(plan, prepared, private, dpt.SecureNoise(), public))
    features = outcome.features if outcome.features is not None else prepared
    return lambda rows: outcome.head.scores(apply(features, rows)).argmax(axis=1)


def fedavg(shares, classes: int, budget, rng, rates=LEARNING_RATES) -> list:
    """Weights by learning rate: DP-SGD at every owner, averaged after each round; rows are protected."""
    event = lambda z: [SampledGaussianEvent(z, RATE, ROUNDS * LOCAL, Relation.ADD_REMOVE, 1.0, "steps")]  # noqa: E731
    z = noise_multiplier_for(budget, event)
    found = []
    for rate in rates:
        weights = np.zeros((classes, shares[0][0].shape[1]))
        for _ in range(ROUNDS):
            local = []
            for x, y in shares:
                own = weights.copy()
                for _ in range(LOCAL):
                    taken = rng.random(len(x)) < RATE
                    residual = softmax(x[taken] @ own.T, axis=1)
                    residual[np.arange(taken.sum()), y[taken]] -= 1
                    residual /= np.maximum(1.0, np.linalg.norm(residual, axis=1, keepdims=True))
                    noisy = residual.T @ x[taken] + rng.normal(0, z, own.shape)
                    own -= rate * noisy / (RATE * len(x))  # the owner's size is taken for public
                local.append(own)
            weights = np.mean(local, axis=0)
        found.append(weights)
    return found


def cells(folder: Path, name: str, seed: int, owners: int, epsilons, only: str):
    rows, found = read(folder, name)
    x, y, tests, truth = rows["train"], found["y_train"], rows["test"], found["y_test"]
    classes, rng = int(y.max()) + 1, np.random.default_rng(seed)
    people = found["g_train"] if name in PEOPLE else np.arange(len(x))
    whose = rng.integers(0, owners, people.max() + 1)[np.unique(people, return_inverse=True)[1]]
    public = pool_of(folder, name)

    def private(chosen):
        given = {"people": people[chosen]} if name in PEOPLE else {}
        return dpt.PrivateEmbeddings(x[chosen], y[chosen], classes=list(range(classes)), **given)

    everything, parts = private(np.arange(len(x))), [private(whose == one) for one in range(owners)]
    methods = {
        "public-prior": dpt.methods.PublicPriorPrototypes(),
        "public-prior, form = sums": dpt.methods.PublicPriorPrototypes(form="sums"),
    }
    methods = {one: method for one, method in methods.items() if only in ("", one)}
    for epsilon in epsilons:
        budget = dpt.Budget(epsilon=epsilon, delta=1e-5)
        for method_name, method in methods.items():
            ways = {
                "alone": (parts, 1.0),
                "files": ([everything], noise_factor(FILES, owners, 0)),
                "secure sum": ([everything], noise_factor(SECURE_SUM, owners, 1)),
                "pooled": ([everything], 1.0),
            }
            for way, (data, factor) in ways.items():
                scores = [
                    balanced(with_noise(method, one, public, budget, factor)(tests), truth) for one in data
                ]
                yield {"method": method_name, "way": way, "epsilon": epsilon, "score": float(np.mean(scores))}
        if name in PEOPLE:
            continue  # DP-SGD of examples, as these platforms have it
        maps = {
            "DP-SGD head": UnitNorm().fit(x.shape[1], None),
            "DP-SGD head, 256 public axes": dpt.features.PublicMap(256).fit(x.shape[1], public),
        }
        for space, features in maps.items() if only != "public-prior" else ():
            mapped = apply(features, tests)
            shares = [(apply(features, x[whose == one]), y[whose == one]) for one in range(owners)]
            best = max(
                balanced((mapped @ w.T).argmax(axis=1), truth) for w in fedavg(shares, classes, budget, rng)
            )
            yield {"method": space, "way": "fedavg", "epsilon": epsilon, "score": best}


def table(path: Path) -> str:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    keys = sorted({(one["set"], one["method"], one["epsilon"]) for one in lines})
    out = ["| set | method | ε | " + " | ".join(WAYS) + " |", "|---|---|---|" + "---|" * len(WAYS)]
    for key in keys:
        found = [one for one in lines if (one["set"], one["method"], one["epsilon"]) == key]
        means = [[one["score"] for one in found if one["way"] == way] for way in WAYS]
        shown = " | ".join(f"{100 * np.mean(one):.1f}" if one else "" for one in means)
        out.append(f"| {key[0]} | {key[1]} | {key[2]:g} | {shown} |")
    return "\n".join(out)


def one_owner(folder: Path, number: int, rows: int, width: int, classes: int) -> tuple[float, float]:
    """Take part in the study, and say how long it took, and how much of it the processor."""
    rng = np.random.default_rng(number)
    y = rng.integers(classes, size=rows)
    x = (rng.normal(size=(rows, width)) + 3 * np.eye(classes, width)[y]).astype(np.float32)
    private = dpt.PrivateEmbeddings(x, y, classes=list(range(classes)))
    start, busy = time.perf_counter(), time.process_time()
    done = share(
        read_study(folder / "s.study"),
        private,
        OwnerKey.load(folder / f"{number}.key"),
        [folder / "shares"],
        ledger=dpt.Ledger(folder / f"{number}.sqlite"),
        wait=3600,
    )
    assert done.is_finished
    return time.perf_counter() - start, time.process_time() - busy


def timed(owners: int, rows: int, width: int, classes: int) -> dict:
    """Thirty rounds of gradient steps by processes on this machine, with a secure sum."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        keys = {f"o{n}": OwnerKey.create(folder / f"{n}.key").public for n in range(owners)}
        facts = dpt.PrivateEmbeddings(np.zeros((0, width)), [], classes=list(range(classes))).facts
        budget = dpt.Budget(epsilon=1.0, delta=1e-6)
        study = plan_study("timed", keys, facts, budget, method="noisy-gd", trust=SECURE_SUM)
        study.write(folder / "s.study")
        with get_context("spawn").Pool(owners) as pool:
            each = pool.starmap(one_owner, [(folder, n, rows, width, classes) for n in range(owners)])
        size = [path.stat().st_size for path in (folder / "shares").iterdir()]
        start = time.perf_counter()
        join(study, [folder / "shares"])
        joining = time.perf_counter() - start
    unit, rng = UnitNorm().fit(width, None), np.random.default_rng(0)
    mapped = apply(unit, rng.normal(size=(rows, width)))
    start = time.process_time()
    fedavg([(mapped, rng.integers(classes, size=rows))], classes, budget, rng, rates=(1.0,))
    rival = time.process_time() - start
    seconds, busy = zip(*each, strict=True)
    return {
        "bytes of a share": int(np.median(size)),
        "bytes sent by an owner": sum(size) // owners,
        "slowest owner, s": max(seconds),
        "an owner's processor, s": float(np.mean(busy)),
        "join, s": joining,
        "an owner's processor by FedAvg, s": rival,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", default="rsscn7,agnews,swda")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--owners", type=int, default=5)
    parser.add_argument("--epsilons", default="0.5,1,2")
    parser.add_argument("--only", default="", help="one method of ours")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--classes", type=int, default=20)
    asked = parser.parse_args()
    if asked.table:
        print(table(asked.out))
    elif asked.time:
        print(timed(asked.owners, asked.rows, asked.width, asked.classes))
    else:
        for name in asked.sets.split(","):
            for seed in range(asked.seeds):
                found = cells(
                    asked.data, name, seed, asked.owners, map(float, asked.epsilons.split(",")), asked.only
                )
                with asked.out.open("a") as file:
                    for cell in found:
                        print(json.dumps({"set": name, "seed": seed, **cell}), file=file, flush=True)


if __name__ == "__main__":
    main()
