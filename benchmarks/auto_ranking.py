"""How well tasks made from public rows rank methods: the evidence behind `auto`, on sets left out one by one.

    python benchmarks/auto_ranking.py DATA_FOLDER --real real.jsonl --tried tried.jsonl --workers 16
    python benchmarks/auto_ranking.py DATA_FOLDER --real real.jsonl --tried tried.jsonl --question shots
    python benchmarks/auto_ranking.py --real real.jsonl --tried tried.jsonl

Three questions: which method for an unlabelled pool, for a pool with five labelled rows a class (`shots`),
and for a budget without δ (`pure`). Real accuracies are those of fits on each set's own rows (for the first
question a file from elsewhere will do: fields set, epsilon, method, seed, accuracy); tried ones are those on
the surrogate tasks that `auto` would make, told the size or not. Cells that are in the files are not fitted
again, so that a run may be cut and taken up; without a folder the files alone are read. One thread a worker;
noise is seeded.

A candidate's lead is its accuracy less the default's, which is the first of each list. The rule takes the
candidate with the largest mean lead on the tasks if that exceeds a margin and it is behind on none of them,
else the default; the margin is the one with the smallest mean regret on the other sets, infinity among them.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

from dptransfer.data import Facts, PrivateEmbeddings, PublicEmbeddings
from dptransfer.exact.public_map import PublicMap
from dptransfer.ledger import Ledger
from dptransfer.methods import (
    AdaMix,
    MeanEstimation,
    MeanPrototypes,
    NoisyGD,
    OnlyPublic,
    PublicPriorPrototypes,
    PublicPrototypes,
    TopKPrototypes,
)
from dptransfer.methods.auto import fitted_on, tasks_to_try
from dptransfer.methods.heads.start import FromShots
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget

IMAGES = ("cifar10", "caltech101", "gtsrb", "rsscn7", "dtd10")
TEXTS = ("agnews", "banking77", "hwu64", "news20", "swda")
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SOME, WIDE = PublicMap(axes=128), PublicMap(axes=256)
QUESTIONS: dict[str, dict[str, Any]] = {
    "pool": {
        "public-prior": PublicPriorPrototypes(),
        "mean": MeanPrototypes(),
        "mean-mapped": MeanPrototypes(features=SOME),
        "mean-estimation": MeanEstimation(),
        "noisy-gd": NoisyGD(),
        "noisy-gd-mapped": NoisyGD(features=SOME),
    },
    "shots": {
        "public-prior": PublicPriorPrototypes(),
        "only-public": OnlyPublic(features=SOME),
        "adamix": AdaMix(features=SOME),
        "noisy-gd-shots": NoisyGD(features=SOME, start=FromShots()),
    },
    "pure": {
        "public-256": PublicPrototypes(features=WIDE),
        "public-64": PublicPrototypes(features=PublicMap(axes=64)),
        "top-3": TopKPrototypes(features=WIDE, k=3),
    },
}
SHOTS = 5
NOT_UNTOLD = ("only-public",)  # `auto` leaves it out where no size is declared
MARGINS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, np.inf)
REAL = ("question", "set", "epsilon", "method", "seed")
TRIED = ("question", "set", "declared", "epsilon", "method")
_POOL_ROWS = 13_000


@lru_cache(maxsize=3)
def rows_of(folder: str, name: str) -> tuple[np.ndarray, ...]:
    """Training rows, labels, test rows, labels; of a pool its rows alone."""
    (path,) = Path(folder).glob(f"{name}_*.npz")
    with np.load(path) as found:
        floats = {p: found[f"q_{p}"].astype(np.float32) * found["scale"] + found["offset"]
                  for p in ("train", "test") if f"q_{p}" in found}  # fmt: skip
        if "test" not in floats:
            return (floats["train"],)
        return floats["train"], found["y_train"], floats["test"], found["y_test"]


@lru_cache(maxsize=2)
def pool_of(folder: str, name: str) -> PublicEmbeddings:
    """The public rows a set is tried with: photographs, or texts of another set."""
    if name in IMAGES:
        return PublicEmbeddings(rows_of(folder, "pool_tinyimagenet")[0][:_POOL_ROWS])
    return PublicEmbeddings(rows_of(folder, "banking77" if name == "agnews" else "agnews")[0])


def given(
    question: str, folder: str, name: str
) -> tuple[np.ndarray, np.ndarray, list[int], PublicEmbeddings]:
    """Private rows, their labels, the classes, and the pool; shots are rows that are private no more."""
    rows, labels, *_ = rows_of(folder, name)
    classes, pool = list(range(int(labels.max()) + 1)), pool_of(folder, name)
    if question != "shots":
        return rows, labels, classes, pool
    shown = np.concatenate([np.flatnonzero(labels == c)[:SHOTS] for c in classes])
    shots = PublicEmbeddings(rows[shown], labels[shown], classes=classes)
    return np.delete(rows, shown, axis=0), np.delete(labels, shown), classes, pool.with_shots(shots)


def budget_of(question: str, epsilon: float) -> Budget:
    return Budget(epsilon=epsilon, delta=0.0 if question == "pure" else 1e-5)


def real(folder: str, question: str, name: str, epsilon: float, method: str, seed: int) -> dict[str, Any]:
    """Balanced accuracy of one fit on a set's own rows."""
    rows, labels, classes, pool = given(question, folder, name)
    *_, test_rows, test_labels = rows_of(folder, name)
    model = QUESTIONS[question][method].fit(
        PrivateEmbeddings(rows, labels, classes=classes),
        pool,
        budget=budget_of(question, epsilon),
        ledger=Ledger.in_memory(strict_names=True),
        noise=SeededNoise(1000 + seed),
    )
    found = np.asarray(model.predict(test_rows))
    recall = [(found[test_labels == c] == c).mean() for c in classes if (test_labels == c).any()]
    return {"accuracy": float(np.mean(recall))}


@lru_cache(maxsize=1)
def tasks_of(folder: str, question: str, name: str, declared: bool, epsilon: float) -> tuple[list, Budget]:
    """What `auto` would try methods on."""
    rows, _, classes, pool = given(question, folder, name)
    facts = Facts(tuple(classes), rows.shape[1:], size=len(rows) if declared else None)
    return tasks_to_try(facts, budget_of(question, epsilon), pool)


def tried(
    folder: str, question: str, name: str, declared: bool, epsilon: float, method: str
) -> dict[str, Any]:
    """Accuracy of a method on each of the tasks made for a set."""
    tasks, budget = tasks_of(folder, question, name, declared, epsilon)
    models = (fitted_on(task, QUESTIONS[question][method], budget) for task in tasks)
    right = [
        m.scores(t.test_rows).argmax(axis=1) == t.test_labels for m, t in zip(models, tasks, strict=True)
    ]
    return {"accuracy": [float(one.mean()) for one in right]}


def read(*paths: Path) -> list[dict[str, Any]]:
    """All cells of files of JSON lines, in order."""
    lines = [json.loads(line) for path in paths if path.exists() for line in path.read_text().splitlines()]
    return [{"question": "pool", **one} for one in lines if not one.get("ratio")]


def filled(
    paths: list[Path], fit: Callable[..., dict[str, Any]], keys: tuple[str, ...], grid: Iterable[tuple],
    folder: str, workers: int,
) -> None:  # fmt: skip
    """Append to the last file what none of them has yet."""
    done = {tuple(cell[key] for key in keys) for cell in read(*paths)}
    missing = [cell for cell in grid if cell not in done]
    print(f"{paths[-1].name}: {len(missing)} cells to fit", flush=True)
    with (
        ProcessPoolExecutor(workers, initializer=threadpool_limits, initargs=(1,)) as pool,
        paths[-1].open("a") as file,
    ):
        running = {pool.submit(fit, folder, *cell): cell for cell in missing}
        for future in as_completed(running):
            file.write(json.dumps(dict(zip(keys, running[future], strict=True)) | future.result()) + "\n")
            file.flush()


Cell = tuple[np.ndarray, np.ndarray, float]
"""Real accuracies of the candidates, the default first; those on the tasks, (candidates, tasks); and the best
real accuracy, which may be that of a method that is no candidate."""


def cells(
    question: str, declared: bool, reals: list[dict[str, Any]], trials: list[dict[str, Any]]
) -> dict[tuple[str, float], Cell]:
    """What is known of every set and ε of which enough is known."""
    truth, seen = defaultdict(list), {}
    for one in reals:
        if one["question"] == question:
            truth[one["set"], one["epsilon"], one["method"]].append(one["accuracy"])
    for one in trials:
        if (one["question"], one["declared"]) == (question, declared):
            seen[one["set"], one["epsilon"], one["method"]] = one["accuracy"]
    found = {}
    default, *_ = QUESTIONS[question]
    for at in sorted({key[:2] for key in truth.keys() & seen.keys()}):
        every = {m: float(np.mean(truth[(*at, m)])) for m in QUESTIONS[question] if (*at, m) in truth}
        known = [m for m in every if (*at, m) in seen and (declared or m not in NOT_UNTOLD)]
        if known[0] == default and len(known) > 1:
            tasks = np.array([seen[(*at, m)] for m in known])
            found[at] = np.array([every[m] for m in known]), tasks, max(every.values())
    return found


def taken(accuracy: np.ndarray, margin: float) -> int:
    """Which candidate the rule takes."""
    ahead = accuracy - accuracy[0]
    lead = ahead.mean(axis=1)
    fit = (lead > margin) & (ahead.min(axis=1) >= 0)
    return int(np.argmax(np.where(fit, lead, 0.0)))


def regrets(found: Iterable[Cell], margin: float) -> np.ndarray:
    """Points behind the best candidate of each cell, of what the rule takes."""
    return np.array([100 * (best - truth[taken(seen, margin)]) for truth, seen, best in found])


def best_margin(found: list[Cell]) -> float:
    """The margin with the smallest mean regret; of several the middle one, far from where it matters."""
    cost = np.array([regrets(found, margin).mean() for margin in MARGINS])
    least = np.flatnonzero(cost < cost.min() + 1e-9)
    return MARGINS[least[len(least) // 2]]


def rank_correlation(found: list[Cell], first: int) -> str:
    """Spearman's, of the candidates' real order from the first on and that on the tasks; mean over cells."""
    if any(len(truth) < first + 3 for truth, *_ in found):
        return "–"
    each = [spearmanr(truth[first:], seen[first:].mean(axis=1)).statistic for truth, seen, _ in found]
    return f"{np.nanmean(each):.2f}"


def line(name: str, lost: np.ndarray) -> None:
    print(f"| {name} | {lost.mean():.2f} | {lost.max():.1f} | {(lost > 3).sum()} of {len(lost)} |")


def report(found: dict[tuple[str, float], Cell], title: str) -> None:
    """Ranking quality by set, and what each way of choosing loses."""
    print(f"\n## {title}\n\n| set | rank correlation | of all but the default | margin by the other sets |")
    print("|---|---:|---:|---:|")
    by_rule: list[np.ndarray] = []
    for left_out in sorted({name for name, _ in found}):
        own = [cell for (name, _), cell in found.items() if name == left_out]
        margin = best_margin([cell for (name, _), cell in found.items() if name != left_out])
        by_rule.append(regrets(own, margin))
        print(f"| {left_out} | {rank_correlation(own, 0)} | {rank_correlation(own, 1)} | {margin:g} |")
    every = list(found.values())
    real_lead = np.concatenate([t[1:] - t[0] for t, _, _ in every])
    tried_lead = np.concatenate([(a[1:] - a[0]).mean(axis=1) for _, a, _ in every])
    mistaken = sum(bool(t.argmax()) != bool(a.mean(axis=1).argmax()) for t, a, _ in every)
    print(f"| all | {rank_correlation(every, 0)} | {rank_correlation(every, 1)} | |")
    print(f"\nLeads over the default: rank correlation {spearmanr(tried_lead, real_lead).statistic:.2f}.")
    print(f"Whether the default is best: wrong in {mistaken} of {len(every)} cells.")
    print("\n| choice | mean regret | worst | over 3 points |\n|---|---:|---:|---:|")
    line("always the default", regrets(every, np.inf))
    line("the tasks' winner", np.array([100 * (b - t[a.mean(axis=1).argmax()]) for t, a, b in every]))
    for margin in MARGINS[:-1]:
        line(f"ahead by more than {100 * margin:g} points, behind on none", regrets(every, margin))
    line("that, with margins by the other sets", np.concatenate(by_rule))


def words(text: str) -> list[str]:
    return text.split(",")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", help="of the sets, as archives NAME_ENCODER.npz")
    parser.add_argument("--real", type=Path, required=True, nargs="+", help="the last one is appended to")
    parser.add_argument("--tried", type=Path, required=True)
    parser.add_argument("--question", choices=QUESTIONS)
    parser.add_argument("--sets", type=words, default=[*IMAGES, *TEXTS])
    parser.add_argument("--epsilons", type=lambda text: [float(e) for e in words(text)], default=EPSILONS)
    parser.add_argument("--methods", type=words)
    parser.add_argument("--seeds", type=int, default=2, help="of real fits; 0 for none")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    for question in [given.question] if given.question else QUESTIONS:
        methods = [m for m in QUESTIONS[question] if given.methods is None or m in given.methods]
        grid = [(s, e, m) for s in given.sets for e in given.epsilons for m in methods]
        if given.folder:
            fits = ((question, *cell, seed) for cell in grid for seed in range(given.seeds))
            filled(given.real, real, REAL, fits, given.folder, given.workers)
            trials = ((question, s, told, e, m) for told in (True, False) for s, e, m in grid)
            filled([given.tried], tried, TRIED, trials, given.folder, given.workers)
        for declared, told in ((True, "told the size"), (False, "not told the size: 100 rows a class")):
            if found := cells(question, declared, read(*given.real), read(given.tried)):
                report(found, f"{question}, {told}")


if __name__ == "__main__":
    main()
