"""`.emb` folders: whatever is not repaired is noticed, and what is repaired is still well formed."""

import hashlib
import json
from typing import ClassVar

import numpy as np

from .mutate import damaged, damaged_json
from .tables import CLASSES, odd_array, rows_and_labels, use_every_way
from .target import Target, require


def people():
    """A person of each row, in order of appearance."""
    return np.arange(30) // 4


class Store(Target):
    name = "emb"
    cut: ClassVar = {}

    def write(self, folder):
        from dptransfer.data import RowMetadata, write_embeddings

        x, y = rows_and_labels()
        sources = [f"{CLASSES[label]}/{place}.png" for place, label in enumerate(y)]
        metadata = RowMetadata(y, classes=CLASSES, name="rows", sources=sources, people=people())
        write_embeddings(folder / "a.emb", x, metadata, **self.cut)

    def damage(self, folder, dice):
        store = folder / "a.emb"
        victim = dice.choice(sorted(store.iterdir()))
        if dice.random() < 0.04:
            victim.unlink()
        elif dice.random() < 0.04:
            other = dice.choice(("sources.json", "labels.npy", "people.npy"))
            (store / other).write_bytes(victim.read_bytes())
        elif victim.suffix == ".json" and dice.random() < 0.7:
            victim.write_text(damaged_json(victim.read_text(), dice))
        elif victim.suffix == ".npy" and dice.random() < 0.5:
            victim.write_bytes(odd_array(victim.read_bytes(), dice))
        else:
            victim.write_bytes(damaged(victim.read_bytes(), dice))
        return dice.random() < 0.6 and _repair(store)

    def use(self, folder, repaired):
        from dptransfer.sources import read_private, read_public, read_table

        path = folder / "a.emb"

        def read():
            table = read_table(path)
            x, y = rows_and_labels()
            same = np.array_equal(table.rows[:], x) and np.array_equal(table.labels, y)
            same = same and np.array_equal(table.people, people())
            require(repaired or same, "a changed .emb folder is read as if it were whole")

        use_every_way(
            read,
            lambda: np.array(read_table(path, verify=False).rows[:]),
            lambda: read_private(path, classes=CLASSES).fingerprint,
            lambda: read_private(path).fingerprint,
            lambda: read_private(path, people="folder").people,
            lambda: read_public(path).fingerprint,
        )


class ShardedStore(Store):
    """The same rows in three files."""

    name = "emb-shards"
    cut: ClassVar = {"shard_rows": 13}


def _repair(store):
    """Put the checksums in the manifest right, where it still has any."""
    manifest = store / "manifest.json"
    try:
        told = json.loads(manifest.read_text())
        told["files"] = {
            name: hashlib.sha256((store / name).read_bytes()).hexdigest() for name in told["files"]
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return True  # nothing to put right; the manifest itself may have been changed
    manifest.write_text(json.dumps(told))
    return True


def targets():
    return [Store(), ShardedStore()]
