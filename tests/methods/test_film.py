import pytest

from dptransfer.methods import METHODS, FiLM
from dptransfer.methods.deep.network import network_of

pytest.importorskip("torch")


def test_it_is_found_by_its_name_and_trains_all_normalisation_layers_or_biases():
    network = network_of("small-cnn", size=8)
    assert METHODS["film"] is FiLM
    assert FiLM().parts(network, 3, None).trunk == 2 * (32 + 64 + 128)
    assert FiLM(train="bias").parts(network, 3, None).trunk == 32 + 64 + 128
    assert FiLM(blocks=1).parts(network, 3, None).trunk == 2 * 128
