"""What a checkup expects of a fit, against real fits: the table of docs/how-to/check.md.

    python benchmarks/forecast.py DATA_FOLDER [SET ...]

Each set is cut to 10,000 rows, and its size is declared; pools are 13,000 photographs or the texts of another
set. The encoder of pictures is on record, as it is in an `.emb` folder, so that real fits have its words and
the names of the classes; tasks made of the pool have neither. One seeded draw of the noise each, one thread.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from dptransfer.api.checkup import ALMOST_NO_NOISE, expected_accuracy
from dptransfer.data import EncoderIdentity, PrivateEmbeddings, PublicEmbeddings
from dptransfer.ledger import Ledger
from dptransfer.methods import PublicPriorPrototypes
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget

SETS = ("caltech101", "rsscn7", "dtd10", "gtsrb", "cifar10", "agnews", "banking77", "hwu64", "news20")
EPSILONS = (1.0, 4.0, ALMOST_NO_NOISE)
PICTURES = EncoderIdentity("efficientnet-lite0", "0" * 64, "rgb 224")
_MOST, _POOL_ROWS = 10_000, 13_000


def main() -> None:
    """Print a line of the table for each set."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", type=Path, help="folder of the sets, as NAME_ENCODER.npz")
    arguments.add_argument("sets", nargs="*", metavar="SET", help=f"by default {', '.join(SETS)}")
    given = arguments.parse_args()
    with threadpool_limits(1):
        for name in given.sets or SETS:
            tasks, real = (np.array(found) for found in _accuracies(given.folder, name))
            cells = [
                f"{100 * tasks[turn]:.0f} | {100 * real[turn]:.0f} | {100 * tasks[turn] / tasks[-1]:.0f} | "
                f"{100 * real[turn] / real[-1]:.0f}"
                for turn in range(2)
            ]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _accuracies(folder: Path, name: str) -> tuple[list[float], list[float]]:
    """Balanced accuracies at each ε: on tasks made of the pool, and of fits on the set's own rows."""
    own = _read(folder, name)
    encoder = PICTURES if own["file"].name.endswith("efficientnet-lite0.npz") else None
    other = "pool_tinyimagenet" if encoder else "banking77" if name == "agnews" else "agnews"
    pool = PublicEmbeddings(_read(folder, other)["train"][:_POOL_ROWS], encoder=encoder)
    chosen = np.random.default_rng(0).permutation(len(own["train"]))[:_MOST]
    private = PrivateEmbeddings(
        own["train"][chosen],
        own["y_train"][chosen],
        classes=own["classes"].tolist(),
        size=len(chosen),
        encoder=encoder,
    )
    budgets = [Budget(epsilon=epsilon, delta=1e-5) for epsilon in EPSILONS]
    expected = [one.mean for one in expected_accuracy(private.facts, pool, budgets)]
    reached = []
    for budget in budgets:
        ledger, noise = Ledger.in_memory(strict_names=True), SeededNoise(1)
        model = PublicPriorPrototypes().fit(private, pool, budget=budget, ledger=ledger, noise=noise)
        right = model.scores(own["test"]).argmax(axis=1) == own["y_test"]
        reached.append(
            float(np.mean([right[own["y_test"] == one].mean() for one in np.unique(own["y_test"])]))
        )
    return expected, reached


def _read(folder: Path, name: str) -> dict[str, np.ndarray]:
    (file,) = folder.glob(f"{name}_*.npz")
    with np.load(file) as found:
        arrays = {key: found[key] for key in found.files}
    for part in ("train", "test"):
        if f"q_{part}" in arrays:
            arrays[part] = arrays[f"q_{part}"].astype(np.float32) * arrays["scale"] + arrays["offset"]
    return {**arrays, "file": file}


if __name__ == "__main__":
    main()
