import inspect

import numpy as np
import pytest
from PIL import Image

import dptransfer as dpt
from dptransfer.errors import ArgumentError, BudgetExceeded, DataError
from dptransfer.privacy import Unit
from dptransfer.sklearn.private_classifier import PrivateClassifier as Estimator
from encoders.toys import MeanColour, pictures
from methods.deep.tiny import PLACE

CLASSES = ["a", "b"]
pytestmark = pytest.mark.usefixtures("repeatable_noise")


@pytest.fixture
def ledger():
    return dpt.Ledger.in_memory()


def rows(count, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, count)
    return np.array([[3.0, 0.0, 1.0, 0.0], [0.0, 3.0, 0.0, 1.0]])[y] + rng.normal(size=(count, 4)), y


def test_arrays_become_a_model_under_one_charge(ledger):
    x, y = rows(600)
    ledger.set_budget("clinic", dpt.Budget(epsilon=1.0, delta=1e-5))
    model = dpt.fit(x, y, epsilon=1, classes=CLASSES, name="clinic", ledger=ledger)
    assert model.score(*rows(200, seed=1)) > 0.9
    assert (model.guarantee.epsilon <= 1, model.guarantee.delta) == (True, 1e-5)
    assert [one.charges for one in ledger.datasets()] == [1]
    with pytest.raises(BudgetExceeded):
        dpt.fit(x, y, epsilon=1, classes=CLASSES, name="clinic", ledger=ledger)


def test_who_works_is_asked_first_and_gets_the_pool(ledger, monkeypatch):
    from dptransfer.base.workers import ThisProcess

    asked = []

    class Asked(ThisProcess):
        def ready(self):
            assert not ledger.history()
            asked.append(self)

    hands, usual = Asked(), dpt.PublicEmbeddings.with_workers
    monkeypatch.setattr(
        dpt.PublicEmbeddings, "with_workers", lambda pool, given: asked.append(given) or usual(pool, given)
    )
    x, y = rows(600)
    given = {"epsilon": 1, "classes": CLASSES, "ledger": ledger, "workers": hands}
    dpt.fit(x, y, method="public", public=rows(300, seed=2)[0], **given)
    assert asked == [hands] * 3  # before anything is read, with the pool, and before the charge


def test_public_rows_people_and_a_holdout_go_to_the_method(ledger):
    x, y = rows(600)
    people = np.arange(600) // 3
    given = {"public": rows(300, seed=2)[0], "people": people, "holdout": 0.3, "ledger": ledger}
    model = dpt.fit(x, y, epsilon=2, classes=CLASSES, name="p", method="public-prior", **given)
    assert model.provenance.public["rows"] == 300
    assert "one person" in str(model.guarantee)
    assert model.charged.holdout == 0.3


def test_the_default_is_that_of_the_command_line_and_of_scikit_learn(ledger):
    from dptransfer.cli import options

    own = inspect.signature(dpt.fit).parameters
    assert own["method"].default == options.MethodOptions().method == "auto"
    assert own["delta"].default == Estimator().delta == options.DELTA
    x, y = rows(60)
    model = dpt.fit(x, y, epsilon=1, classes=CLASSES, ledger=ledger)
    assert model.provenance.method == "mean"
    assert dpt.fit(x, y, epsilon=1, classes=2, name="n", ledger=dpt.Ledger.in_memory()).classes == (0, 1)
    assert "no public rows" in model.provenance.notes[0]


def test_folders_become_a_model_and_no_rows_are_left(ledger, tmp_path):
    private, pool = pictures(tmp_path / "photos", 40), pictures(tmp_path / "pool", 20, seed=1)
    model = dpt.fit(
        private, public=pool, epsilon=1, method="mean", encoder=MeanColour(), name="a/b", ledger=ledger
    )
    assert (model.classes, model.encoder.name) == (("cat", "dog"), "mean-colour")
    assert model.provenance.public["rows"] == 20
    assert {one.name for one in tmp_path.iterdir()} == {"photos", "pool"}


def test_pictures_that_are_all_black_are_refused_for_methods_on_rows_too(ledger, tmp_path):
    for number in range(4):
        (tmp_path / "scans" / CLASSES[number % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 7)).save(tmp_path / "scans" / CLASSES[number % 2] / f"{number}.png")
    asked = {"epsilon": 1, "method": "mean", "encoder": MeanColour(), "ledger": ledger}
    with pytest.raises(DataError, match="black"):
        dpt.fit(tmp_path / "scans", **asked)
    assert ledger.history() == []
    assert [one.name for one in tmp_path.iterdir()] == ["scans"]
    Image.new("RGB", (9, 7), (0, 90, 0)).save(tmp_path / "scans" / CLASSES[0] / "0.png")
    dpt.fit(tmp_path / "scans", **asked)


def test_pictures_for_a_method_on_pictures(ledger, tmp_path):
    pytest.importorskip("torch")
    film = dpt.methods.FiLM(encoder=PLACE, steps=1, sampling_rate=1.0)
    folder = pictures(tmp_path / "photos", 6)
    x = np.full((6, 8, 8, 3), 9, dtype=np.uint8)
    by_path = dpt.fit(folder, epsilon=1, method=film, name="p", ledger=ledger, people=[0, 0, 1, 1, 2, 2])
    in_memory = dpt.fit(
        x, [0, 1] * 3, epsilon=1, classes=CLASSES, method=film, name="q", ledger=ledger, public=x + 90
    )
    assert (by_path.classes, in_memory.classes) == (("cat", "dog"), ("a", "b"))
    assert "one person" in str(by_path.guarantee)


def test_data_that_are_made_already_are_taken_as_they_are(ledger):
    x, y = rows(60)
    private = dpt.PrivateEmbeddings(x, y, classes=CLASSES, name="p")
    model = dpt.fit(private, epsilon=1, public=rows(40)[0], method="public", ledger=ledger)
    assert model.provenance.public["rows"] == 40
    with pytest.raises(ArgumentError, match="PrivateEmbeddings"):
        dpt.fit(private, y, epsilon=1, ledger=ledger)
    assert len(ledger.history()) == 2


def test_private_examples_are_never_taken_for_public_ones(ledger, tmp_path):
    x, y = rows(60)
    folder = pictures(tmp_path / "photos", 4)
    for private, public in ((x, x), (folder, f"{folder}/../photos"), (folder, tmp_path)):
        with pytest.raises(ArgumentError, match="other data"):
            dpt.fit(private, y, public=public, epsilon=1, classes=CLASSES, ledger=ledger)
    assert ledger.history() == []


def test_a_calibration_that_is_interrupted_costs_no_model(ledger, monkeypatch):
    def interrupted(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("dptransfer.api.fit.calibrate_on_public", interrupted)
    x, y = rows(60)
    assert dpt.fit(x, y, epsilon=1, classes=CLASSES, name="p", ledger=ledger).guarantee.epsilon <= 1


@pytest.mark.parametrize("unit", ["row", "person"])
@pytest.mark.parametrize("pool", ["none", "flat", "labelled", "rows"])
def test_what_the_ledger_would_refuse_is_refused_before_anything_private_is_encoded(
    ledger, tmp_path, pool, unit
):
    private = pictures(tmp_path / "photos", 12)
    folder = pictures(tmp_path / "pool", 20, seed=1)
    public = {
        "none": None,
        "flat": folder / "cat",
        "labelled": folder,
        "rows": dpt.PublicEmbeddings(np.random.default_rng(0).normal(size=(20, 4))),
    }[pool]
    of = {"people": np.arange(12) // 2} if unit == "person" else {}
    given = {"public": public, "name": "p", "encoder": MeanColour(), "ledger": ledger, **of}
    ledger.set_budget("p", dpt.Budget(epsilon=1.0, delta=1e-5), unit=Unit(unit))
    for holdout in (None, 0.3):
        with pytest.raises(BudgetExceeded):
            dpt.fit(private, epsilon=3, holdout=holdout, **given)
    assert given["encoder"].calls == []  # a plan needs no row of so small a pool
    dpt.fit(private, epsilon=0.9, **given)  # what is covered goes its way
    with pytest.raises(BudgetExceeded):
        dpt.fit(private, epsilon=0.9, **given)
    assert [one.charges for one in ledger.datasets()] == [1]
