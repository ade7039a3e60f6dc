"""`mlflow.pyfunc` itself is tried in `benchmarks/clients.py`; here is what it calls."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import yaml

from dptransfer.errors import ReleaseError
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
