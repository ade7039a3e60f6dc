"""What it costs to protect persons in place of rows: seconds of the same fit with and without `people`.

    python benchmarks/people.py                  # 50,000 rows of 384, 10,000 people, 20 classes
    python benchmarks/people.py --growth         # as many rows of fewer and fewer people
    python benchmarks/people.py --queries        # one answer of each query, alone, in processor time
    python benchmarks/people.py --ids            # a million ids to numbers, beside a dict of them

The two take turns; the best of the repeats counts, and ratios are of those. Everything is included: mapping
the rows, exact gradients and sums, secure noise. Rows per person are drawn, so that some people have one and
some have many. Queries alone are asked about rows in order of person, as `head_rows` puts them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import dptransfer as dpt
from dptransfer.data.labels import person_positions
from dptransfer.exact.feature_map import OnLattice
from dptransfer.exact.sums import by_size
from dptransfer.privacy import EACH_ROW, Bound, Unit
from dptransfer.queries import ClassSums, SecondMoments, SoftmaxGradient
from dptransfer.queries.second_moments import OfAll
from dptransfer.queries.softmax_gradient import ROW_NORM

BUDGET = dpt.Budget(epsilon=8.0, delta=1e-5)
NORMAL = {"rows": 50_000, "width": 384, "classes": 20, "people": 10_000}
METHODS = {
    "noisy-gd": lambda: dpt.methods.NoisyGD(),
    "public-prior": lambda: dpt.methods.PublicPriorPrototypes(),
    "mean": lambda: dpt.methods.MeanPrototypes(),
}


def problem(rows: int, width: int, classes: int, people: int):
    """Well separated classes, so that `public-prior` takes its steps; and whose each row is."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, rows)
    centres = rng.normal(size=(classes, width))
    x = (centres[y] + rng.normal(size=(rows, width))).astype(np.float32)
    return x, y, rng.integers(0, people, rows)


def fits(x, y, people) -> dict[str, tuple[Callable, Callable]]:
    """Each method's fit about rows, and about people."""
    public = dpt.PublicEmbeddings(
        np.random.default_rng(1).normal(size=(5_000, x.shape[1])).astype(np.float32)
    )
    names = [f"class {c}" for c in range(y.max() + 1)]

    def fit(method, whose):
        private = dpt.PrivateEmbeddings(x, y, classes=names, people=whose, name="people")
        return lambda: method().fit(private, public, budget=BUDGET, ledger=dpt.Ledger.in_memory())

    return {name: (fit(method, None), fit(method, people)) for name, method in METHODS.items()}


def answers(x, y, people) -> dict[str, tuple[Callable, Callable]]:
    """Each query about rows that are on the grid already, and about people."""
    order = by_size(people).order
    x, y, people = x[order], y[order], people[order]
    width, classes = x.shape[1], int(y.max()) + 1
    rows = dpt.features.UnitNorm().fit(width, None).lattice(x, ROW_NORM).astype(np.int32)
    features, persons = OnLattice(width, ROW_NORM), Bound(Unit.PERSON)
    head = np.random.default_rng(2).normal(size=(classes, width)), np.zeros(classes)
    made = {
        "gradient": lambda bound: SoftmaxGradient(features, *head, bound=bound),
        "second moment": lambda bound: SecondMoments(features, OfAll(), bound=bound),
        "class sums": lambda bound: ClassSums(features, classes, bound=bound),
    }

    def both(make):
        single, whole = make(EACH_ROW), make(persons)
        return lambda: single(rows, y), lambda: whole(rows, y, people)

    return {name: both(make) for name, make in made.items()}


def numbering(count: int = 10**6) -> dict[str, tuple[Callable, Callable]]:
    """Ids as keys of a dict, and as the numbers of persons."""
    ids = np.random.default_rng(0).integers(0, count // 5, count)

    def both(column):
        return lambda: dict.fromkeys(column.tolist()), lambda: person_positions(column, count)

    return {"whole numbers": both(ids), "words": both(ids.astype(str))}


def best(work: tuple[Callable, ...], repeats: int, clock: Callable[[], float]) -> list[float]:
    """Seconds of the fastest run of each, taken in turn."""
    taken = [[] for _ in work]
    for _ in range(repeats):
        for seconds, run in zip(taken, work, strict=True):
            started = clock()
            run()
            seconds.append(clock() - started)
    return [min(seconds) for seconds in taken]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in NORMAL.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--queries", action="store_true")
    parser.add_argument("--ids", action="store_true")
    given = parser.parse_args()
    if given.ids:
        print("| ids | dict, s | numbers, s | ratio |\n|---|---|---|---|")
        for name, work in numbering().items():
            keys, numbers = best(work, given.repeats, time.process_time)
            print(f"| {name} | {keys:.2f} | {numbers:.2f} | {numbers / keys:.2f} |", flush=True)
        return
    sizes = {name: getattr(given, name) for name in NORMAL}
    print("| what | rows per person | rows, s | people, s | ratio |\n|---|---|---|---|---|")
    each = (2, 5, 20, 80, 1000, given.rows) if given.growth else (given.rows / given.people,)
    for per_person in each:
        x, y, people = problem(**sizes | {"people": round(given.rows / per_person)})
        for name, work in (answers if given.queries else fits)(x, y, people).items():
            clock = time.process_time if given.queries else time.perf_counter
            rows, persons = best(work, given.repeats, clock)
            print(
                f"| {name} | {per_person:g} | {rows:.2f} | {persons:.2f} | {persons / rows:.2f} |", flush=True
            )


if __name__ == "__main__":
    main()
