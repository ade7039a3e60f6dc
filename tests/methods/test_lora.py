import pytest

from dptransfer.errors import ArgumentError
from dptransfer.methods import METHODS, LoRA
from dptransfer.methods.deep.network import network_of

pytest.importorskip("torch")


def test_it_is_found_by_its_name_and_trains_two_factors_of_each_layer_in_the_last_blocks():
    network = network_of("small-cnn", size=8)
    assert METHODS["lora"] is LoRA
    assert LoRA(rank=2, blocks=1).parts(network, 3, None).trunk == 2 * (128 + 9 * 64)
    assert LoRA(rank=1, blocks=2).parts(network, 3, None).trunk == (128 + 9 * 64) + (64 + 9 * 32)


def test_a_rank_of_nothing_is_refused():
    with pytest.raises(ArgumentError, match="rank must be a whole number of at least 1"):
        LoRA(rank=0)
