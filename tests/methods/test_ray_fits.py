"""Whole fits on a Ray cluster of two nodes: a driver killed, a task that hangs, a node killed; one release.

`python -m methods.test_ray_fits ADDRESS FOLDER` fits there, and says so after every piece that was counted.
"""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from dptransfer import Budget
from dptransfer.base.ray_workers import RayCluster
from dptransfer.base.workers import ThisProcess
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings, ShardedRows
from dptransfer.ledger import Ledger
from dptransfer.mechanisms import pool_choice
from dptransfer.methods import TopKPrototypes
from dptransfer.methods.replan import verify_release

from .samples import Repeatable

COUNT = 24  # pieces


@dataclass(frozen=True)
class Slowed:
    """The same work, for some of a second; who comes first to a folder that waits for it never ends."""

    work: object
    nodes: Path
    hangs: Path

    def __call__(self, piece):
        import ray

        (self.nodes / ray.get_runtime_context().get_node_id()).touch()
        if (self.hangs / "one may hang").exists():
            try:
                (self.hangs / "hung").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                time.sleep(1000)
        time.sleep(0.2)
        return self.work(piece)


@dataclass(frozen=True)
class Watched:
    """A cluster, and who is told after every piece that is counted."""

    cluster: RayCluster
    folder: Path
    told: object

    def ready(self):
        self.cluster.ready()

    def each(self, work, pieces, what):
        slowed = Slowed(work, self.folder / "nodes", self.folder / "hangs")
        for number, result in self.cluster.each(slowed, pieces, what):
            yield number, result
            if isinstance(work, pool_choice.BinCounter):
                self.told()


def of_fifty(count, *_):
    return [slice(start, start + 50) for start in range(0, count, 50)]


def fitted(folder, workers, name):
    """The model's file, from a fit in the workspace of this name."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 8)).astype("f4")
    private = PrivateEmbeddings(x, np.arange(90) % 3, classes=["a", "b", "c"], name="few")
    pool = PublicEmbeddings(ShardedRows(sorted((folder / "pool").iterdir()))).with_workers(workers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_choice, "pieces_of", of_fifty)
        model = TopKPrototypes(k=3).fit(
            private,
            pool,
            budget=Budget(epsilon=2.0, delta=1e-5),
            ledger=Ledger(folder / "ledger.sqlite"),
            noise=Repeatable(3),
            workspace=folder / f"{name}-run",
        )
    path = model.save(folder / name)
    assert verify_release(path).outcome == "verified"
    assert sorted(file.name for file in (folder / f"{name}-run").iterdir()) == [
        "last-answer",
        "place",
        "run.sqlite",
    ]
    return (path / "model.safetensors").read_bytes()


@pytest.fixture
def folder(tmp_path):
    for name in ("pool", "nodes", "hangs"):
        (tmp_path / name).mkdir()
    rng = np.random.default_rng(1)
    for number in range(7):
        rows = rng.normal(size=(50 * COUNT // 7 + (number < 3), 8)).astype("f4")
        np.save(tmp_path / "pool" / f"part-{number}.npy", rows)
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray
def test_fits_on_a_cluster_that_fails_in_every_way_give_one_release(folder, two_nodes):
    """One cluster for all of it, since it takes seconds to start."""
    whole = fitted(folder, ThisProcess(), "here")
    nodes = folder / "nodes"

    command = [sys.executable, "-W", "ignore", "-m", "methods.test_ray_fits"]
    at_a_node, from_outside = (
        [*command, address, str(folder)] for address in (two_nodes.address, two_nodes.from_outside)
    )
    with subprocess.Popen(at_a_node, stdout=subprocess.PIPE, text=True) as driver:
        heard = [driver.stdout.readline() for _ in range(5)]
        driver.kill()
    assert heard == ["counted\n"] * 5
    kept = list((folder / "driver-run").glob("*.npy"))
    assert 4 <= len(kept) < COUNT
    assert all(file.stat().st_mode & 0o077 == 0 for file in kept)
    again = subprocess.run(from_outside, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    assert again.stdout.count("counted") == COUNT - len(kept)
    assert (folder / "driver" / "model.safetensors").read_bytes() == whole

    (folder / "hangs" / "one may hang").touch()
    hasty = Watched(RayCluster(two_nodes.address, patience=30), folder, lambda: None)
    assert fitted(folder, hasty, "hung") == whole
    assert (folder / "hangs" / "hung").exists()

    for file in nodes.iterdir():
        file.unlink()

    def kill_the_second():
        if two_nodes.second is not None and len(list(nodes.iterdir())) == 2:
            two_nodes.remove_node(two_nodes.second, allow_graceful=False)
            two_nodes.second = None

    assert fitted(folder, Watched(RayCluster(two_nodes.address), folder, kill_the_second), "node") == whole
    assert two_nodes.second is None

    charged = [entry for entry in Ledger(folder / "ledger.sqlite").history() if hasattr(entry, "events")]
    assert [entry.outcome for entry in charged] == ["released"] * 4  # one for each workspace


if __name__ == "__main__":
    address, folder = sys.argv[1], Path(sys.argv[2])
    fitted(folder, Watched(RayCluster(address), folder, lambda: print("counted", flush=True)), "driver")
