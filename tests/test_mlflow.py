"""`mlflow.pyfunc` itself is tried in `benchmarks/clients.py`; here is what it calls."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import yaml

import dptransfer as dpt
from dptransfer.errors import ReleaseError
from dptransfer.mlflow import PythonModel
from release.models import DIMENSION, make_model, rows


@pytest.fixture
def served(tmp_path):
    path = make_model().save(tmp_path / "model")
    flavor = yaml.safe_load((path / "MLmodel").read_text())["flavors"]["python_function"]
    loader = import_module(flavor["loader_module"])
    return loader._load_pyfunc(str(path / flavor["data"]))


def test_rows_as_an_array_and_as_a_frame_get_the_labels_of_the_model(served):
    x = rows()
    expected = served.model.predict(x).tolist()
    assert list(served.predict(x)) == expected
    assert (
        list(served.predict(pd.DataFrame(x, columns=[f"f{i}" for i in range(DIMENSION)]), params={}))
        == expected
    )
    assert list(served.predict(x, params={"coverage": None})) == expected


def test_sets_need_a_charged_evaluation(served):
    with pytest.raises(ReleaseError):
        served.predict(np.zeros((1, DIMENSION)), params={"coverage": 0.9})


def test_with_a_coverage_each_input_has_the_label_score_and_set_of_the_model():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    x = 4 * np.eye(3, DIMENSION)[y] + rng.normal(size=(600, DIMENSION))
    options = {"classes": ["a", "b", "c"], "method": "mean", "holdout": 0.3, "name": "toy"}
    labels = np.array(options["classes"])[y]
    model = dpt.fit(x, labels, epsilon=4, ledger=dpt.Ledger.in_memory(), **options)
    records = PythonModel(model).predict(x[:9], params={"coverage": 0.6})
    assert [one["label"] for one in records] == model.predict(x[:9]).tolist()
    assert [one["score"] for one in records] == model.predict_proba(x[:9]).max(axis=1).tolist()
    sets = model.predict_sets(x[:9], coverage=0.6).labels
    assert [tuple(one["set"]) for one in records] == list(sets)
