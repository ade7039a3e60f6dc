import json
from dataclasses import replace

import numpy as np
import pytest

from dptransfer import evaluate
from dptransfer.errors import ReleaseError
from dptransfer.release import read_release
from dptransfer.release.calibration import CHARGED, SIMULATED, Calibration, calibration_of
from dptransfer.release.verify import verify_files

from .counts import NOISE, counts_of, softmax, with_counts
from .models import make_model, rewrite, rows


def task(size, *, sharpness=1.0, classes=6, seed=0, prior=None):
    """Logits of a head that is `sharpness` times as sure as it should be, and labels drawn from the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(size, classes)) * 1.5
    if prior is not None:
        truth += np.log(prior)
    labels = (softmax(truth).cumsum(axis=1) < rng.random((size, 1))).sum(axis=1)
    return sharpness * (truth - (0 if prior is None else np.log(prior))), labels


def errors(calibration, logits, labels):
    """Expected calibration error and mean log loss."""
    chances = softmax(logits) if calibration is None else calibration.probabilities(logits, 1.0)
    sure, right = chances.max(axis=1), chances.argmax(axis=1) == labels
    bins = np.minimum((sure * 15).astype(int), 14)
    gap = np.abs(np.bincount(bins, weights=sure - right, minlength=15)).sum() / len(labels)
    return np.array([gap, -np.log(chances[np.arange(len(labels)), labels]).mean()])


@pytest.mark.parametrize("sharpness", [0.3, 0.5, 1.0, 2.0, 3.0])
def test_the_temperature_of_a_head_that_is_too_sure_or_too_careful_is_found(sharpness):
    logits, labels = task(20_000, sharpness=sharpness)
    found = calibration_of(counts_of(logits, labels, noise=1e-6))
    assert found.source == CHARGED
    assert np.isclose(found.temperature, sharpness, rtol=0.12)


@pytest.mark.parametrize("size", [1000, 3000])
@pytest.mark.parametrize("sharpness", [0.4, 1.0, 2.0])
def test_calibration_at_a_fifth_of_an_epsilon_helps_and_does_no_harm_beyond_noise(size, sharpness):
    fresh = task(20_000, sharpness=sharpness, seed=99)
    raw = errors(None, *fresh)
    found = np.array(
        [
            errors(calibration_of(counts_of(*task(size, sharpness=sharpness, seed=s), seed=s)), *fresh)
            for s in range(30)
        ]
    ).mean(axis=0)
    if sharpness == 1:
        # The noise on the number of right answers and of confidences, in shares of the examples.
        assert (found - raw <= [3 * NOISE / 0.3 / size, 0.03]).all()
    else:
        assert (found < raw * [0.75, 1.0]).all()


def test_counts_that_noise_may_have_made_up_change_nothing():
    logits, labels = task(30, sharpness=3.0)
    found = {calibration_of(counts_of(logits, labels, noise=50.0, seed=seed)) for seed in range(20)}
    assert found == {Calibration(1.0, (0.0,) * 6, CHARGED)}
    assert "not calibrated" in found.pop().words
    assert Calibration(1.0, (0.0, 0.1), CHARGED).words.startswith("calibrated on the released counts")


def test_classes_that_are_frequent_get_an_offset_above_rare_ones_and_lower_the_loss():
    prior = np.array([0.5, 0.3, 0.08, 0.06, 0.04, 0.02])
    logits, labels = task(20_000, prior=prior)
    found = calibration_of(counts_of(logits, labels))
    assert found.offsets[0] > 0.1 > 0 > found.offsets[-1]
    same_temperature = replace(found, offsets=(0.0,) * 6)
    assert errors(found, logits, labels)[1] < errors(same_temperature, logits, labels)[1] - 0.05


def test_balanced_classes_get_no_offsets_from_noise():
    found = [calibration_of(counts_of(*task(2000, seed=s), seed=s)).offsets for s in range(20)]
    assert np.mean(np.abs(found)) < 0.02


@pytest.mark.parametrize("head", ["cosine", "linear", "quadratic"])
def test_the_likeliest_class_stays_the_predicted_one_whatever_the_offsets(head):
    model = make_model(head)
    changed = replace(model, simulated=Calibration(3.0, (5.0, -5.0, 0.0), SIMULATED))
    x = rows(500)
    chances = changed.predict_proba(x)
    assert np.allclose(chances.sum(axis=1), 1)
    assert (chances.astype(np.float32).argmax(axis=1) == model.scores(x).argmax(axis=1)).all()
    assert (changed.predict(x) == model.predict(x)).all()
    assert not np.allclose(chances, model.predict_proba(x))


def test_a_charged_evaluation_comes_before_public_simulation():
    model = replace(make_model("linear"), simulated=Calibration(2.0, (0.0, 0.0, 0.0), SIMULATED))
    assert (make_model().calibration, model.calibration.source) == (None, SIMULATED)
    logits, labels = task(5000, classes=3)
    assert with_counts(model, counts_of(logits, labels)).calibration.source == CHARGED


def test_a_calibration_travels_with_the_release_and_is_told_on_its_card(tmp_path):
    model = replace(make_model("linear"), simulated=Calibration(2.5, (0.25, 0.0, -0.25), SIMULATED))
    path = model.save(tmp_path / "m")
    again = read_release(path)
    assert again.calibration == model.calibration
    assert (again.predict_proba(rows()) == model.predict_proba(rows())).all()
    assert not [one for one in verify_files(path).checks if one.required and not one.passed]
    assert "from public rows" in (path / "README.md").read_text()
    plain = make_model("linear").save(tmp_path / "plain")
    assert "not calibrated" in (plain / "README.md").read_text()
    assert json.loads((plain / "release.json").read_text())["simulated_calibration"] is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 0.0, "offsets": [0.0] * 3, "source": SIMULATED},
        {"temperature": 1.0, "offsets": [0.0] * 2, "source": SIMULATED},
        {"temperature": 1.0, "offsets": [0.0] * 3, "source": "private rows"},
        {"temperature": 1.0, "offsets": [0.0] * 3},
    ],
)
def test_a_release_with_a_calibration_that_cannot_be_is_refused(wrong, tmp_path):
    path = make_model("linear").save(tmp_path / "m")
    rewrite(path, lambda fields: fields.update(simulated_calibration=wrong))
    with pytest.raises(ReleaseError):
        read_release(path)


def test_an_unprotected_evaluation_measures_the_calibrated_probabilities():
    model, x = make_model("linear"), rows(2000)
    labels = model.predict(x)
    sharp = replace(model, simulated=Calibration(0.05, (0.0, 0.0, 0.0), SIMULATED))
    assert evaluate(sharp, x, labels).calibration_error < evaluate(model, x, labels).calibration_error / 2
    assert evaluate(sharp, x, labels).accuracy == evaluate(model, x, labels).accuracy == 1


@pytest.mark.gpu
def test_calibrated_probabilities_are_the_same_on_cuda():
    model = replace(make_model("linear"), simulated=Calibration(2.0, (1.0, 0.0, -1.0), SIMULATED))
    assert np.allclose(model.predict_proba(rows(), device="cuda"), model.predict_proba(rows()), rtol=1e-11)
