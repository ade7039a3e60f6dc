"""Teachers and a network's training killed by SIGKILL in the middle, reopened, released, verified, used."""

import signal

import pytest
from PIL import Image

import dptransfer as dpt
from dptransfer.encoders import apply_delta, get_encoder

from . import dying
from .samples import SIDE, Repeatable, clusters, images, pictures, pool, private, released
from .test_checkpoint import answers, charges

PLACE = "methods.deep.tiny:tiny_classifier"
VOTING = {
    "votes": dpt.methods.TransferPATE(teachers=50),
    "tested votes": dpt.methods.TransferPATE(teachers=50, threshold=20.0, queries=40),
}
"""Their answers: who is taught by whom; votes for the favourite, where they are tested; and votes."""


def fit(kind, folder):
    settings = {
        "budget": dpt.Budget(epsilon=6.0, delta=1e-5),
        "ledger": dpt.Ledger(folder / "ledger.sqlite"),
        "workspace": folder / "run",
        "noise": Repeatable(2),
    }
    if kind in VOTING:
        return VOTING[kind].fit(private(), pool(), **settings)
    return dpt.methods.FiLM(encoder=PLACE, size=SIDE, steps=12, micro_batch=16).fit(images(), **settings)


def accuracy(kind, model):
    if kind in VOTING:
        return model.score(*clusters(300, seed=9))
    pixels, labels = pictures(60, seed=5)
    encoder = apply_delta(get_encoder(PLACE, size=SIDE), model.encoder_delta)
    return model.score(encoder.encode([Image.fromarray(picture) for picture in pixels]), labels)


@pytest.mark.parametrize(
    ("kind", "answer", "asked"), [("votes", 1, 2), ("votes", 2, 2), ("tested votes", 2, 3), ("film", 7, 12)]
)
def test_a_killed_fit_is_reopened_with_one_charge_and_its_model_is_released_and_predicts(
    kind, answer, asked, ended, tmp_path
):
    if kind == "film":
        pytest.importorskip("torch")
    assert ended(dying.until, f"answer {answer} written", fit, kind, tmp_path) == -signal.SIGKILL
    (open_charge,), left = charges(tmp_path), answers(tmp_path)
    assert (open_charge.outcome, len(left)) == (None, answer)
    model = fit(kind, tmp_path)
    (charge,), drawn = charges(tmp_path), answers(tmp_path)
    assert (charge.outcome, charge.events) == ("released", model.events)
    assert (drawn[:answer], len(drawn)) == (left, asked)
    loaded = dpt.load(released(model, tmp_path))
    assert accuracy(kind, loaded) > 0.5  # of three classes
