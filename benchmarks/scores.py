"""Prediction sets and calibration over many charged evaluations of one model on samples of its test rows.

    python benchmarks/scores.py DATA_FOLDER/news20_minilm.npz --public DATA_FOLDER/agnews_minilm.npz
    python benchmarks/scores.py ... --size 10000 --releases 500 --epsilon 0.2

The test rows stand for all examples that the model will meet: each release draws `--size` of them with
replacement, asks the charged question about them, and makes sets and probabilities of the noisy answer. Shown
are the share of releases whose sets cover less of all test rows than wanted, their average size beside that
of split-conformal sets from the same draw without noise, and the calibration error before and after.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from dptransfer import Budget, Ledger, PrivateEmbeddings, SeededNoise, evaluate
from dptransfer.methods import PrivateEvaluation
from dptransfer.methods.configuration import as_method
from dptransfer.sources import Columns, read_private, read_public


def conformal_sizes(chances, labels, sample, coverage: float) -> float:
    """The average size of split-conformal sets {y : p_y ≥ quantile} for all rows."""
    own = np.sort(chances[sample, labels[sample]])
    return float((chances >= own[int((1 - coverage) * (len(own) + 1)) - 1]).sum(axis=1).mean())


def main() -> None:
    """Fit once, test many times, print one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--public", type=Path)
    parser.add_argument("--method", default="public-prior")
    parser.add_argument("--fit-epsilon", type=float, default=1.0)
    parser.add_argument("--epsilon", type=float, default=0.2)
    parser.add_argument("--size", type=int, default=3000)
    parser.add_argument("--releases", type=int, default=500)
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--confidence", type=float, default=0.95)
    given = parser.parse_args()

    private = read_private(given.data, Columns(split="train"), name="train")
    test = read_private(given.data, Columns(split="test"), name="test")
    model = as_method(given.method).fit(
        private,
        None if given.public is None else read_public(given.public, Columns(split="train")),
        budget=Budget(epsilon=given.fit_epsilon, delta=1e-5),
        ledger=Ledger.in_memory(),
        noise=SeededNoise(1),
    )
    x, y, rng = test.rows, test.labels, np.random.default_rng(0)
    raw, plain = model.predict_proba(x), evaluate(model, x, np.array(model.classes)[y])
    failed, sizes, exact, after = 0, [], [], []
    for number in range(given.releases):
        sample = rng.integers(0, len(y), given.size)
        tested = PrivateEmbeddings(x[sample], np.array(model.classes)[y[sample]], classes=model.classes)
        found = PrivateEvaluation(model).evaluate(
            tested,
            budget=Budget(epsilon=given.epsilon, delta=1e-5),
            ledger=Ledger.in_memory(),
            noise=SeededNoise(number),
        )
        known = replace(model, charged=found)
        sets = known.predict_sets(x, coverage=given.coverage, confidence=given.confidence)
        failed += sets.members[np.arange(len(y)), y].mean() < given.coverage
        sizes.append(sets.average_size)
        exact.append(conformal_sizes(raw, y, sample, given.coverage))
        after.append(evaluate(known, x, np.array(model.classes)[y]).calibration_error)
    print(f"{given.data.stem}: {len(model.classes)} classes, accuracy {plain.accuracy:.3f}")
    print(f"{given.releases} releases of {given.size} test rows at ε = {given.epsilon:g}")
    print(f"{failed / given.releases:.1%} cover less than {given.coverage:g}")
    print(f"average size {np.mean(sizes):.2f}, without noise {np.mean(exact):.2f}")
    print(f"calibration error {plain.calibration_error:.3f}, after {np.mean(after):.3f}")


if __name__ == "__main__":
    main()
