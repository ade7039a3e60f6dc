"""Teachers and a network's training killed by SIGKILL in the middle, reopened, released, verified and used.

`python -m methods.test_reopened votes FOLDER 1` is the fit: it kills itself once that answer is on disk.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import dptransfer as dpt
from dptransfer.encoders import adapted, get_encoder
from dptransfer.methods.workspace import Workspace

from .samples import SIDE, clusters, images, pictures, pool, private, released
from .test_workspace import answers, charges

TESTS = Path(__file__).parents[1]
PLACE = "deep.tiny:tiny_classifier"
VOTING = {
    "votes": dpt.TransferPATE(teachers=50),
    "tested votes": dpt.TransferPATE(teachers=50, threshold=20.0, queries=40),
}
"""Their answers: who is taught by whom; votes for the favourite, where they are tested; and votes."""


def fit(kind, folder):
    settings = {
        "budget": dpt.Budget(epsilon=6.0, delta=1e-5),
        "ledger": dpt.Ledger(folder / "ledger.sqlite"),
        "workspace": folder / "run",
    }
    if kind in VOTING:
        return VOTING[kind].fit(private(), pool(), **settings)
    return dpt.FiLM(encoder=PLACE, size=SIDE, steps=12, micro_batch=16).fit(images(), **settings)


def killed(kind, folder, answer):
    """Whether the fit, in a process of its own, was killed; once that answer is on disk it kills itself."""
    path = os.pathsep.join([str(TESTS), *sys.path])
    command = [sys.executable, "-W", "ignore", "-m", "methods.test_reopened", kind, str(folder), str(answer)]
    done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": path})
    return done.returncode == -signal.SIGKILL


def accuracy(kind, model):
    if kind in VOTING:
        return model.score(*clusters(300, seed=9))
    pixels, labels = pictures(60, seed=5)
    encoder = adapted(get_encoder(PLACE, size=SIDE), model.encoder_delta)
    return model.score(encoder.encode([Image.fromarray(picture) for picture in pixels]), labels)


@pytest.mark.parametrize(
    ("kind", "answer", "asked"),
    [("votes", 1, 2), ("votes", 2, 2), ("tested votes", 2, 3), ("film", 7, 12)],
)
def test_a_killed_fit_is_reopened_with_one_charge_and_its_model_is_released_and_predicts(
    kind, answer, asked, tmp_path
):
    if kind == "film":
        pytest.importorskip("torch")
    assert killed(kind, tmp_path, answer)
    (open_charge,), left = charges(tmp_path), answers(tmp_path)
    assert (open_charge.outcome, len(left)) == (None, answer)
    model = fit(kind, tmp_path)
    (charge,), drawn = charges(tmp_path), answers(tmp_path)
    assert (charge.outcome, charge.events) == ("released", model.events)
    assert (drawn[:answer], len(drawn)) == (left, asked)
    loaded = dpt.load(released(model, tmp_path))
    assert accuracy(kind, loaded) > 0.5  # of three classes


if __name__ == "__main__":
    once = Workspace.once

    def dying(self, number, what, draw):
        answer = once(self, number, what, draw)
        if number == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    Workspace.once = dying
    fit(sys.argv[1], Path(sys.argv[2]))
