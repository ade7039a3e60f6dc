"""A method that sees pixels goes through the spine, and changes an encoder on its way."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import dptransfer as dpt
from dptransfer import evaluate
from dptransfer.errors import ReleaseError
from dptransfer.ledger import Ledger
from dptransfer.privacy import Budget
from dptransfer.release import card_of, export_onnx
from release.models import rewrite

from .samples import SIDE, Repeatable, images, released

pytest.importorskip("torch")

from methods.deep.tiny import PLACE, tiny_classifier  # torch is there

BUDGET = Budget(epsilon=6.0, delta=1e-5)


def method(steps=12):
    return dpt.methods.FiLM(encoder=PLACE, size=SIDE, steps=steps, micro_batch=16)


def fitted(made, data, public=None, **given):
    return made.fit(
        data, public, budget=BUDGET, **{"ledger": Ledger.in_memory(), "noise": Repeatable(2)} | given
    )


@pytest.fixture(scope="module")
def seen():
    return fitted(method(), images())


def test_pictures_are_planned_charged_and_released_with_the_encoder_that_they_changed(seen, tmp_path):
    assert seen.events == method().plan(images().facts, BUDGET).events
    path = released(seen, tmp_path)
    fields = json.loads((path / "release.json").read_text())
    assert fields["facts"]["shape"] == [SIDE, SIDE, 3]
    assert fields["encoder_delta"]["base"] == tiny_classifier().identity.to_dict()
    assert {one["name"]: one["dtype"] for one in fields["arrays"]}["encoder.1.weight"] == "float32"
    loaded = dpt.load(path)
    assert loaded.encoder == seen.encoder == seen.encoder_delta.identity != tiny_classifier().identity
    assert (loaded.dimension, loaded.facts) == (12, seen.facts)
    again = loaded.save(tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (path / "model.safetensors").read_bytes()


def test_card_evaluation_and_export_speak_of_rows_of_the_changed_encoder(seen, tmp_path):
    text = card_of(seen).markdown()
    assert "pictures of 8 × 8 pixels" in text
    assert "tiny-classifier" in text
    evaluation = evaluate(seen, np.eye(3, 12), [0, 1, 2])
    assert "tiny-classifier" in (seen.save(tmp_path / "r", evaluation=evaluation) / "README.md").read_text()
    onnx = pytest.importorskip("onnx")
    exported = onnx.load(export_onnx(seen, tmp_path / "m.onnx"))
    assert exported.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 12
    told = {one.key: one.value for one in exported.metadata_props}
    assert json.loads(told["encoder"]) == seen.encoder.to_dict()


FORGERIES = {
    "no delta": lambda f: f.pop("encoder_delta"),
    "a delta of no kind": lambda f: f["encoder_delta"].update(kind=""),
    "a base without a name": lambda f: f["encoder_delta"]["base"].pop("name"),
    "an extra key": lambda f: f["encoder_delta"].update(surprise=1),
    "rows in the facts": lambda f: f["facts"].update(shape=[12]),
    "an array of another type": lambda f: f["arrays"][0].update(dtype="float64"),
    "an array of another shape": lambda f: f["arrays"][0].update(shape=[3, 2]),
    "an array under another name": lambda f: f["arrays"][0].update(name="1.bias"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_release_whose_encoder_does_not_fit_is_refused(seen, tmp_path, forgery):
    path = seen.save(tmp_path / "r")
    copy = shutil.copytree(path, tmp_path / "copy")
    rewrite(copy, lambda fields: None)
    assert dpt.load(copy).encoder == seen.encoder
    rewrite(copy, FORGERIES[forgery])
    with pytest.raises(ReleaseError):
        dpt.load(copy)


def test_a_model_of_pictures_without_an_encoder_cannot_be_released(seen, tmp_path):
    with pytest.raises(ReleaseError, match="changes an encoder"):
        replace(seen, encoder_delta=None).save(tmp_path / "r")
