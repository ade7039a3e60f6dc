"""The entry for a registry and the paragraphs for an assessment."""

import json

import numpy as np
import pytest

from dptransfer.audit.deployment_entry import FOR_YOU, assessment_paragraphs, registry_yaml
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
    lines = [line.strip().partition(": ") for line in registry_yaml(model).splitlines()]
    told = {name: json.loads(value) for name, _, value in lines if value}
    assert (told["epsilon"], told["delta"]) == (model.guarantee.epsilon, 1e-5)
    assert told["data_product_type"] == "Machine learning model"
    assert [*told.values()].count(FOR_YOU) == 4
    assert told["data_curators"] == [FOR_YOU]
    assert "secret" not in registry_yaml(model)


def test_the_paragraphs_state_the_promise_and_name_no_data_set(model):
    text = assessment_paragraphs(model)
    assert str(model.guarantee) in text
    assert "secret" not in text
    assert text.count("\n## ") == 5
