"""Sets without a fault, to plant faults in."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def noise_picture(rng):
    return rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)


def write_pictures(folder, each, seed):
    rng = np.random.default_rng(seed)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(each):
            Image.fromarray(noise_picture(rng)).save(folder / name / f"{number:02}.png")


@pytest.fixture(scope="session")
def whole_photos(tmp_path_factory) -> Path:
    """Folders of pictures: private, public and test, two classes each."""
    root = tmp_path_factory.mktemp("whole") / "photos"
    for seed, (name, each) in enumerate((("private", 30), ("public", 10), ("test", 5))):
        write_pictures(root / name, each, seed)
    return root


@pytest.fixture
def photos(whole_photos, tmp_path) -> Path:
    """A copy of them."""
    return shutil.copytree(whole_photos, tmp_path / "photos")


@pytest.fixture
def tables(tmp_path) -> Path:
    """Rows: private, public and test, two classes and a column of people, whom no two sets share."""
    for seed, (name, count) in enumerate((("private", 80), ("public", 40), ("test", 20))):
        rows = np.random.default_rng(seed).normal(size=(count, 6)).astype(np.float32)
        people = [f"{name} {number // 2}" for number in range(count)]
        np.savez(tmp_path / f"{name}.npz", x=rows, y=np.arange(count) % 2, person=people)
    return tmp_path


@pytest.fixture
def notes(tmp_path) -> Path:
    """CSV files of texts, with labels and people."""
    for name, count in (("private", 80), ("public", 20), ("test", 10)):
        lines = [f"a {name} note {n},{'cat' if n % 2 else 'dog'},{name} {n // 2}" for n in range(count)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label,person", *lines]) + "\n")
    return tmp_path
