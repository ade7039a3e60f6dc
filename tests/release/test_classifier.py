import subprocess
import sys

import numpy as np
import pytest

import dptransfer.release as package
from dptransfer.errors import ArgumentError, DataError
from dptransfer.release.heads import HEADS, describe_head, head_arrays, read_head, unit_rows

from .models import CLASSES, feature_maps, heads, make_model, rows


@pytest.mark.parametrize("head", tuple(heads(7)))
def test_probabilities_sum_to_one_and_rank_as_the_scores_do(head):
    model = make_model(head)
    chances = model.predict_proba(rows())
    assert np.allclose(chances.sum(axis=1), 1)
    assert (chances.argmax(axis=1) == model.scores(rows()).argmax(axis=1)).all()
    assert not np.allclose(chances, 1 / 3)


def test_a_prediction_is_a_declared_class_and_the_score_is_accuracy():
    model = make_model()
    chosen = model.predict(rows())
    assert set(chosen.tolist()) <= set(CLASSES)
    assert model.score(rows(), chosen) == 1
    assert model.score(-rows(), chosen) < 1


def test_rows_in_many_chunks_score_as_in_one():
    model = make_model()
    x = rows(9000)
    assert (model.scores(x)[8000:] == model.scores(x[8000:])).all()
    assert not (model.scores(x)[8000:] == model.scores(x[:1000])).all()


def test_rows_of_another_width_or_kind_are_refused():
    model = make_model()
    assert model.scores(np.zeros((0, 7))).shape == (0, 3)
    for wrong in (
        np.zeros((2, 6)),
        np.zeros(7),
        np.zeros((0, 6)),
        [["a"] * 7],
        np.zeros((1, 7), dtype=complex),
    ):
        with pytest.raises(DataError):
            model.scores(wrong)


def test_weights_are_the_head_and_the_map_and_nothing_else():
    assert set(make_model("quadratic", "public map").weights) == {
        "linear",
        "offset",
        "precision",
        "features.mean",
        "features.matrix",
    }
    assert set(make_model("cosine", "unit norm").weights) == {"prototypes"}


@pytest.mark.parametrize("kind", tuple(heads(4)))
def test_a_head_is_restored_from_its_arrays(kind):
    head = heads(4)[kind]
    again = read_head(head_arrays(head), describe_head(head))
    x = rows(5, dimension=4)
    assert type(again) is HEADS[head.kind]
    assert (again.scores(x) == head.scores(x)).all()
    assert again.temperature == head.temperature
    for arrays, settings in (
        ({}, describe_head(head)),
        ({**head_arrays(head), "more": np.ones(1)}, describe_head(head)),
        (head_arrays(head), {"kind": "neural"}),
        (head_arrays(head), {"kind": head.kind}),
    ):
        with pytest.raises(ArgumentError):
            read_head(arrays, settings)


def test_a_zero_row_stays_zero_when_scaled_to_unit_length():
    assert (unit_rows(np.zeros((2, 3))) == 0).all()
    assert np.allclose(np.linalg.norm(unit_rows(rows(dimension=3)), axis=1), 1)


def test_every_feature_map_of_the_tests_is_what_its_name_says():
    maps = feature_maps()
    assert maps["pooled"].dimension == 3
    assert (maps["public map"].root, maps["rooted public map"].root) == (False, True)


def test_the_public_names_are_there_and_no_others():
    assert sorted(package.__all__) == package.__all__
    assert all(getattr(package, name) is not None for name in package.__all__)
    assert dir(package) == package.__all__
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        package.missing  # noqa: B018  the access is the test


def test_importing_the_package_is_light():
    code = "import sys, dptransfer.release as r; print([m for m in HEAVY if m in sys.modules])"
    heavy = ["pydantic", "onnx", "scipy", "opendp", "sklearn", "dp_accounting"]
    shown = subprocess.run(
        [sys.executable, "-c", f"HEAVY = {heavy}; {code}"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"
