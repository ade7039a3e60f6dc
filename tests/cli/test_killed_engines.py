"""`dptransfer fit --engine processes --workspace` on a pool in shards, killed by SIGKILL at random moments.

`python -m cli.test_killed_engines fit ...` is the command itself with pieces of some rows, so that there are
many, and with noise that is the same in every run, so that releases can be compared byte by byte.
"""

import os
import random
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import dptransfer.noise
from dptransfer.base import workers as pieces
from dptransfer.cli.commands import app
from dptransfer.ledger import Ledger
from dptransfer.methods.replan import verify_release
from methods.samples import Repeatable

TESTS = Path(__file__).parents[1]
METHODS = {
    "public": ["-m", "public", "--set", "lowest=0.5"],
    "public, pure": ["-m", "public", "--set", "mechanism=permute-and-flip"],
    "top-k": ["-m", "top-k", "--set", "k=3", "--set", "highest=1.5"],
}
PROCESSES = ["--engine", "processes", "--workers", "2"]
KILLS = 7  # of each
PIECE = 2**20  # bytes: 16,384 rows of 32 numbers


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    centres, y = rng.normal(size=(3, 32)), np.arange(900) % 3
    np.savez(tmp_path / "rows.npz", x=(centres[y] + 0.3 * rng.normal(size=(900, 32))).astype("f4"), y=y)
    (tmp_path / "pool").mkdir()
    for number in range(7):
        np.save(tmp_path / "pool" / f"part-{number}.npy", rng.normal(size=(30_000 + number, 32)).astype("f4"))
    (tmp_path / "temporary").mkdir()
    return tmp_path


def fit(method, out, *more):
    words = ["fit", "rows.npz", *METHODS[method], "-e", "2", "-d", "1e-5", "--classes", "0,1,2"]
    return [*words, "--public", "pool", "--name", "rows", "--out", out, "--workspace", f"{out}-run", *more]


def started(folder, words):
    surroundings = {
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
        "DPTRANSFER_LEDGER": str(folder / "ledger.sqlite"),
        "DPTRANSFER_CACHE": str(folder / "cache"),
        "TMPDIR": str(folder / "temporary"),
    }
    command = [sys.executable, "-W", "ignore", "-m", "cli.test_killed_engines", *words]
    with open(folder / "said", "ab") as said:
        return subprocess.Popen(
            command, cwd=folder, env={**os.environ, **surroundings}, stdout=said, stderr=said
        )


def workers_of(process):
    """Handles of the processes that it started for work: they stay valid when it is gone."""
    found = []
    with suppress(OSError):
        for listed in Path(f"/proc/{process.pid}/task").glob("*/children"):
            for child in listed.read_text().split():
                with suppress(OSError):
                    if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                        found.append(os.pidfd_open(int(child)))
    return found


def killed(process, chance, victim):
    """Kill the command or one of its workers after a random time; whether there was anybody to be killed."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(chance.uniform(0.3, 3.0))
    if process.poll() is not None:
        return False
    workers = workers_of(process)
    try:
        if victim == "driver":
            process.kill()
            process.wait()
            # They hold private rows, and do not outlive it.
            assert all(select.select([handle], [], [], 60)[0] for handle in workers)
            return True
        for handle in workers[:1]:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                signal.pidfd_send_signal(handle, signal.SIGKILL)
                return True
        return False
    finally:
        for handle in workers:
            os.close(handle)


def release(path):
    assert verify_release(path).outcome == "verified"
    return (path / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
@pytest.mark.parametrize("method", METHODS)
def test_a_fit_that_is_killed_again_and_again_ends_like_one_that_was_not(folder, method):
    assert started(folder, fit(method, "whole", *PROCESSES)).wait(120) == 0
    whole, chance, kills, model = release(folder / "whole"), random.Random(method), 0, 0
    process = started(folder, fit(method, "model-0", *PROCESSES))
    while kills < KILLS:
        kills += killed(process, chance, chance.choice(["driver", "worker"]))
        if process.poll() is not None:
            model += (folder / f"model-{model}").exists()  # it was quick: the next one
            process = started(folder, fit(method, f"model-{model}", *PROCESSES))
    if process.wait(120):  # the worker that it tries before the charge was killed, which it says
        assert (folder / "said").read_text().rstrip().endswith("Do without --engine.")
        process = started(folder, fit(method, f"model-{model}", *PROCESSES))
    assert process.wait(120) == 0, (folder / "said").read_text()
    charged = [entry for entry in Ledger(folder / "ledger.sqlite").history() if hasattr(entry, "events")]
    assert len(charged) == 2 + model
    assert {entry.outcome for entry in charged} == {"released"}
    models = [f"model-{number}" for number in range(model + 1)]
    for one in models:
        assert release(folder / one) == whole
        kept = sorted(file.name for file in (folder / f"{one}-run").iterdir())
        assert kept == ["last-answer", "place", "run.sqlite"]
    ours = {"rows.npz", "pool", "said", "ledger.sqlite", "ledger.sqlite.key", "temporary", "cache"}
    ours |= {"whole", "whole-run"}
    left = {file.name for file in folder.iterdir()} - {*ours, *models, *(f"{one}-run" for one in models)}
    assert left == set()
    assert not list((folder / "temporary").iterdir())
    assert "Traceback" not in (folder / "said").read_text()


if __name__ == "__main__":
    dptransfer.noise.SecureNoise = lambda: Repeatable(3)
    pieces._PIECE_BYTES = PIECE
    app(sys.argv[1:])
