"""Labelled public examples of another domain (AdaMix, Figure 3 right): Caltech-101 for CIFAR-10's pictures.

    python benchmarks/domain_shift.py DATA_FOLDER [--rows 5000] [--shots 10] [--seeds 2] [--epsilon 0.5,1,3,8]

The folder has `cifar10_efficientnet-lite0.npz` and `caltech101_efficientnet-lite0.npz`. Of CIFAR-10's classes
those seven are taken that Caltech-101 has something of. Public: so many of Caltech-101's for each; private:
CIFAR-10's. "own shots" are as many of CIFAR-10's, taken out of the private rows. Prints accuracy in percent.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import dptransfer as dpt

LIKE = {
    "airplane": ("airplanes",),
    "automobile": ("car_side",),
    "bird": ("flamingo", "ibis", "pigeon", "rooster", "emu"),
    "cat": ("wild_cat", "Leopards", "cougar_face"),
    "deer": ("gerenuk",),
    "dog": ("dalmatian",),
    "ship": ("ketch", "schooner", "ferry"),
}
METHODS = ("only-public", "adamix", "ppgd", "fully-private")


def part(archive, split: str, classes: dict[str, tuple[str, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of these classes, and the positions of their classes."""
    labels, names = archive[f"y_{split}"], archive["classes"].astype(str)
    place = np.full(len(names), -1)
    for position, theirs in enumerate(classes.values()):
        place[np.isin(names, theirs)] = position
    kept = place[labels] >= 0
    return archive[f"q_{split}"][kept] * archive["scale"] + archive["offset"], place[labels[kept]]


def few(labels: np.ndarray, each: int, rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([rng.permutation(np.flatnonzero(labels == one))[:each] for one in range(len(LIKE))])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--rows", type=int, default=5000)
    arguments.add_argument("--shots", type=int, default=10)
    arguments.add_argument("--seeds", type=int, default=2)
    arguments.add_argument("--epsilon", default="0.5,1,3,8")
    options = arguments.parse_args()
    cifar, caltech = (
        np.load(options.folder / f"{name}_efficientnet-lite0.npz") for name in ("cifar10", "caltech101")
    )
    own = {name: (name,) for name in LIKE}
    (x, y), (x_test, y_test), (far, far_y) = (
        part(cifar, "train", own), part(cifar, "test", own), part(caltech, "train", LIKE)
    )  # fmt: skip
    classes, epsilons = list(LIKE), [float(one) for one in options.epsilon.split(",")]

    def score(seed: int, of: str, name: str, epsilon: float) -> float:
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(y))
        near = few(y[order], options.shots, rng)
        private = rng.permutation(np.setdiff1d(order, order[near]))[: options.rows]
        shots = (x[order[near]], y[order[near]])
        if of != "own":
            chosen = few(far_y, options.shots, rng)
            shots = (far[chosen], far_y[chosen])
        public = dpt.PublicEmbeddings(shots[0], np.array(classes)[shots[1]], classes=classes)
        mine = np.array(classes)[y[private]]
        data = dpt.PrivateEmbeddings(x[private], mine, classes=classes, size=len(private), name="cifar10")
        budget = dpt.Budget(epsilon=epsilon, delta=1e-5)
        method, ledger, noise = dpt.methods.METHODS[name](), dpt.Ledger.in_memory(), dpt.SeededNoise(seed)
        model = method.fit(data, public, budget=budget, ledger=ledger, noise=noise)
        return float(model.score(x_test, np.array(classes)[y_test]))

    print("| shots | method |", " | ".join(f"ε = {one:g}" for one in epsilons), "|")
    print("|---|---|" + "---:|" * len(epsilons))
    for of in ("Caltech-101", "own"):
        for name in METHODS:
            means = [
                np.mean([score(seed, of, name, one) for seed in range(options.seeds)]) for one in epsilons
            ]
            print(f"| {of} | `{name}` |", " | ".join(f"{100 * one:.1f}" for one in means), "|", flush=True)


if __name__ == "__main__":
    main()
