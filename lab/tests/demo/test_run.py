import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import dptransfer as dpt
from dptransfer.errors import ArgumentError, BudgetError, DataError, DPTransferError
from dptransfer.ledger import Charge
from dptransfer.methods import MeanPrototypes
from dptransfer_lab.demo.embed import claim_folder, embed
from dptransfer_lab.demo.run import accuracy_curve, logistic_test, run_demo

from .conftest import PixelEncoder, tiny_sets

pytest.importorskip("matplotlib")

PROMISED = (
    "model/card.html model/README.md model/release.json model/model.safetensors prototypes/release.json "
    "figures/recall.png figures/prototypes.png figures/epsilon.png ledger.sqlite results.json "
    "private.emb/manifest.json test.emb/manifest.json public.emb/manifest.json images/private/a/p-0.png"
).split()


def tell(out, **options):
    console = Console(file=io.StringIO(), width=100)
    run_demo(out=out, console=console, **options)
    return console.file.getvalue()


def charges(out):
    entries = dpt.Ledger(out / "ledger.sqlite").history("demo-tiny")
    return [entry for entry in entries if isinstance(entry, Charge)]


def test_the_whole_story_is_told_and_leaves_every_promised_file(tmp_path, encoder, monkeypatch):
    out, theirs = tmp_path / "demo", tmp_path / "theirs.sqlite"
    monkeypatch.setenv("DPTRANSFER_LEDGER", str(theirs))
    text = " ".join(tell(out).split())
    assert [name for name in PROMISED if not (out / name).is_file()] == []
    for words in (
        "private ones",
        "not private",
        "a→",
        "model card",
        "checks passed",
        "Try next",
        "above its budget",
    ):
        assert words in text
    for release in ("model", "prototypes"):
        assert dpt.verify(out / release).ok
        assert not dpt.load(out / release).provenance.seeded
        assert not any(b"p-0.png" in file.read_bytes() for file in (out / release).iterdir())
    assert [charge.status for charge in charges(out)] == ["released", "released"]
    results = json.loads((out / "results.json").read_text())
    promises = [one["promise"] for one in results["results"]]
    assert promises == ["ε = 1", "not private", "sees no private picture"]
    assert results["guarantee"]["epsilon"] == pytest.approx(1, rel=1e-3)

    shown = encoder.shown  # a second run encodes nothing and adds to the ledger
    assert "earlier run: private" in tell(out)
    assert encoder.shown == shown
    assert len(charges(out)) == 4
    assert dpt.Ledger(out / "ledger.sqlite").privacy_spent("demo-tiny").epsilon > 1.5
    assert not theirs.exists()  # the demonstration has a ledger of its own


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path, encoder):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="folder of its"):
        tell(tmp_path)
    with pytest.raises(DPTransferError, match="able to write"):
        tell(tmp_path / "thesis.txt" / "demo")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize(
    ("options", "error"), [({"data": "letters"}, ArgumentError), ({"epsilon": 0.0}, BudgetError)]
)
def test_a_bad_argument_is_refused_before_anything_is_made(tmp_path, encoder, options, error):
    with pytest.raises(error):
        tell(tmp_path / "demo", **options)
    assert not (tmp_path / "demo").exists()


def test_more_epsilon_is_more_accuracy_and_the_same_seeds_give_the_same_dots(tmp_path):
    claim_folder(tmp_path)
    rows = embed(tiny_sets(), PixelEncoder(), tmp_path, progress=lambda *_: None)
    dots = accuracy_curve(MeanPrototypes, rows, [0.01, 20.0], 1e-5)
    assert dots == accuracy_curve(MeanPrototypes, rows, [0.01, 20.0], 1e-5)
    assert min(dots[20.0]) > max(dots[0.01]) + 0.2
    assert list(accuracy_curve(MeanPrototypes, rows, [1.0, 701.0], 1e-5)) == [1.0]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    centres = rng.exponential(size=(4, 12))
    labels = np.repeat(np.arange(4), 30)
    return centres[labels] + rng.exponential(0.05, (120, 12)), labels


def test_a_probe_is_scored_by_class_on_the_test_rows(rows):
    x, y = rows
    sets = SimpleNamespace(classes=("a", "b", "c", "d"), sizes=(40, 30, 20, 10))
    wrong = np.where(y == 3, 0, y)  # the last class is never learned
    right, taught_wrong = (logistic_test((x, labels), (x, y), sets) for labels in (y, wrong))
    assert right.recall == (1, 1, 1, 1)
    assert taught_wrong.recall[3] == taught_wrong.minority_accuracy == 0
    assert taught_wrong.balanced_accuracy == pytest.approx(np.mean(taught_wrong.recall))
