"""A small study, and data for it."""

from pathlib import Path

import numpy as np

SMALL = """
name = "small"
seeds = 2
imbalance = [1, 4]

[[data]]
name = "toy"
source = { made = "toy.npz" }
pool = "pool"

[[pool]]
name = "pool"
source = { made = "pool.npz" }

[[budget]]
epsilon = [0.5, 2]
delta = 1e-5

[[method]]
name = "mean"
label = "sums"

[[method]]
name = "public"
settings = { features = "unit-norm" }
oracle_tuned = true
"""


PEOPLE = SMALL.replace('pool = "pool"', 'people = "g"\npool = "pool"').replace(
    "imbalance = [1, 4]", 'unit = ["row", "person"]'
)


def write_toy(folder: Path, *, classes: int = 4, rows: int = 240, seed: int = 0) -> None:
    """Four clusters in 12 dimensions, in the format with small integers, and an unlabelled pool.

    Each person has six rows, of two classes.
    """
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(classes, 12))

    def drawn(count: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(count) % classes
        return centres[y] + rng.normal(size=(count, 12)), y

    (x, y), (tx, ty) = drawn(rows), drawn(rows // 2)
    low, step = -12.0, 24 / 255
    packed = [np.clip(np.rint((part - low) / step), 0, 255).astype(np.uint8) for part in (x, tx)]
    np.savez(
        folder / "toy.npz",
        q_train=packed[0],
        y_train=y,
        q_test=packed[1],
        y_test=ty,
        scale=np.full(12, step, dtype=np.float32),
        offset=np.full(12, low, dtype=np.float32),
        g_train=np.arange(rows) % (rows // 6),
        g_test=np.arange(rows // 2) % (rows // 12),
        classes=np.array([f"class {place}" for place in range(classes)]),
    )
    np.savez(folder / "pool.npz", x=drawn(200)[0].astype(np.float32))
