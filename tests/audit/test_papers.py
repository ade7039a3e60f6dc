"""The entry for a registry and the paragraphs for an assessment."""

import json

import numpy as np
import pytest

from dptransfer.audit.deployment_entry import (
    FOR_YOU,
    assessment_paragraphs,
    registry_entry,
    registry_yaml,
)
from dptransfer.data import PrivateEmbeddings
from dptransfer.ledger import Ledger
from dptransfer.methods import MeanPrototypes
from dptransfer.noise import SeededNoise
from dptransfer.privacy import Budget


@pytest.fixture(scope="module")
def model():
    x = np.random.default_rng(0).normal(size=(30, 4))
    data = PrivateEmbeddings(x, np.arange(30) % 3, classes=["a", "b", "c"], name="secret name")
    budget = Budget(epsilon=1.0, delta=1e-5)
    return MeanPrototypes().fit(data, budget=budget, ledger=Ledger.in_memory(), noise=SeededNoise(1))


def test_the_entry_states_the_promise_and_what_only_the_publisher_knows(model):
    told = registry_entry(model)
    stated = told["privacy_loss"]["privacy_parameters"]
    assert (stated["epsilon"], stated["delta"]) == (model.guarantee.epsilon, 1e-5)
    assert told["deployment"]["data_product_type"] == "Machine learning model"
    assert list(told["deployment"].values()).count(FOR_YOU) == 4
    assert "secret" not in registry_yaml(model)


def test_the_yaml_says_what_the_entry_does(model):
    for section, fields in registry_entry(model).items():
        for name, value in fields.items():
            lines = value.items() if isinstance(value, dict) else [(name, value)]
            for key, one in lines:
                assert f"  {key}: {json.dumps(one, ensure_ascii=False)}\n" in registry_yaml(model), section


def test_the_paragraphs_state_the_promise_and_name_no_data_set(model):
    text = assessment_paragraphs(model)
    assert str(model.guarantee) in text
    assert "secret" not in text
    assert text.count("\n## ") == 5
