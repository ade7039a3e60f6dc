"""Choosing among 1.28 million candidates for each of 100 classes: our exact races and OpenDP's.

    python benchmarks/selection.py [--candidates 1281167] [--classes 100]

Scores are normal, `spread` noise widths wide: 0.1 is a tiny budget, where every candidate has a chance, 300 a
large one. OpenDP is timed on `--opendp` classes (it takes long) and scaled up; it has no counterpart of
top-k, which ranks all candidates of a class before it races over the ranks.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np

from dptransfer.mechanisms import TopKMechanism
from dptransfer.mechanisms.selection import for_each_class
from dptransfer.noise import SecureNoise
from dptransfer.privacy import Relation, Unit

SCALE = 2.0 * 2047**2


def opendp(scores, gumbel: bool) -> int:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_max
    from opendp.measures import max_divergence, zero_concentrated_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    measure = zero_concentrated_divergence() if gumbel else max_divergence()
    domain = vector_domain(atom_domain(T="i64"))
    return make_noisy_max(domain, linf_distance(T="i64"), measure, scale=SCALE)(scores)


class ScoreRange:
    """What a mechanism asks of its query when the scores are there already."""

    score_range = int(SCALE)
    unit = Unit.ROW


def raced(choose, column, *, noise) -> int:
    return choose(column, SCALE)


def seconds_of(work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--candidates", type=int, default=1_281_167)
    arguments.add_argument("--classes", type=int, default=100)
    arguments.add_argument("--opendp", type=int, default=1)
    options = arguments.parse_args()
    noise, rng = SecureNoise(), np.random.default_rng(0)
    print("| mechanism | spread | seconds | OpenDP, seconds | ratio |\n|---|---|---|---|---|")
    for spread in (0.1, 3.0, 300.0):
        shape = (options.candidates, options.classes)
        scores = (rng.standard_normal(shape, dtype=np.float32) * np.float32(spread * SCALE)).astype(np.int64)
        for name, choose in (
            ("exponential", noise.gumbel_argmax),
            ("permute-and-flip", noise.exponential_argmax),
        ):
            choose_all = partial(for_each_class, partial(raced, choose), scores, noise)
            ours = min(seconds_of(choose_all) for _ in range(2))
            theirs = 0.0
            for c in range(options.opendp):
                column = np.ascontiguousarray(scores[:, c])
                theirs += seconds_of(partial(opendp, column, name == "exponential"))
            theirs *= options.classes / max(1, options.opendp)
            print(f"| {name} | {spread:g} | {ours:.2f} | {theirs:.1f} | {theirs / ours:.0f} |", flush=True)
        top_k = TopKMechanism(ScoreRange(), k=10, epsilon=1.0, relation=Relation.ADD_REMOVE)
        ours = min(seconds_of(partial(for_each_class, top_k.choose, scores, noise)) for _ in range(2))
        print(f"| top-k, k = 10 | {spread:g} | {ours:.2f} | | |", flush=True)


if __name__ == "__main__":
    main()
