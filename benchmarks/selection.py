"""Choosing among 1.28 million candidates for each of 100 classes: our exact choices and OpenDP's.

    python benchmarks/selection.py [--candidates 1281167] [--classes 100]

Scores are normal, `spread` noise widths wide: 0.1 is a tiny budget, where every candidate has a chance, 300 a
large one. OpenDP is timed on `--opendp` classes (it takes long) and scaled up; it has no counterpart of
top-k.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from dptransfer.mechanisms import SELECTIONS, TopKMechanism
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


@dataclass(frozen=True, eq=False)
class GivenScores:
    """A query whose scores are there already."""

    scores: np.ndarray
    label: ClassVar[str] = "given scores"
    score_range: ClassVar[int] = int(SCALE)
    unit: ClassVar[Unit] = Unit.ROW

    @property
    def classes(self) -> int:
        """How many columns there are."""
        return self.scores.shape[1]

    def __call__(self, rows, labels) -> np.ndarray:
        """The scores, whatever the rows."""
        return self.scores


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
        query = GivenScores(scores)
        for name in ("exponential", "permute-and-flip"):
            ours = _seconds(SELECTIONS[name](query, 1.0, Relation.ADD_REMOVE), noise)
            theirs = 0.0
            for c in range(options.opendp):
                column = np.ascontiguousarray(scores[:, c])
                theirs += seconds_of(partial(opendp, column, name == "exponential"))
            theirs *= options.classes / max(1, options.opendp)
            print(f"| {name} | {spread:g} | {ours:.2f} | {theirs:.1f} | {theirs / ours:.0f} |", flush=True)
        ours = _seconds(TopKMechanism(query, 1.0, Relation.ADD_REMOVE, k=10), noise)
        print(f"| top-k, k = 10 | {spread:g} | {ours:.2f} | | |", flush=True)


def _seconds(mechanism, noise) -> float:
    return min(seconds_of(lambda: mechanism.release(None, None, noise=noise)) for _ in range(2))


if __name__ == "__main__":
    main()
