import pytest
import torch
from torch import nn

from dptransfer.methods.deep.trained_parts import Bias, Film, LowRank


def batch_norm():
    layer = nn.BatchNorm2d(4).eval()
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2)
    return layer


PICTURES = torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(1))


def shift(layer):
    return Film(layer, shift_only=True)


def low_rank(layer):
    return LowRank(layer, 2)


CASES = {
    "scale and shift by statistics": (Film, batch_norm, PICTURES),
    "scale and shift in groups": (Film, lambda: nn.GroupNorm(2, 4), PICTURES),
    "scale and shift of tokens": (Film, lambda: nn.LayerNorm(4), TOKENS),
    "scale and shift of rows": (Film, lambda: nn.LayerNorm(4), TOKENS[:, 0]),
    "shift by statistics": (shift, batch_norm, PICTURES),
    "shift of tokens": (shift, lambda: nn.LayerNorm(4), TOKENS),
    "bias of a convolution": (Bias, lambda: nn.Conv2d(4, 6, 3, padding=1), PICTURES),
    "bias of a linear layer": (Bias, lambda: nn.Linear(4, 7), TOKENS),
    "low rank of a linear layer": (low_rank, lambda: nn.Linear(4, 7), TOKENS),
    "low rank of rows": (low_rank, lambda: nn.Linear(4, 7), TOKENS[:, 0]),
    "low rank of a pixel": (low_rank, lambda: nn.Conv2d(4, 6, 1), PICTURES),
    "low rank of a convolution": (
        low_rank,
        lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1),
        PICTURES,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_every_example_is_computed_with_its_own_copy(case):
    """Each as the public layer would compute it, with what is released of that copy in its place."""
    kind, make, x = CASES[case]
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(2)
        layer = make()
        layer.weight.normal_()
        trained = kind(layer)
        changes = [torch.randn(3, *unit.shape) for unit in trained.units]
        found = trained.forward(x, *changes)
        assert torch.allclose(trained.forward(x, *(0 * one for one in changes)), layer(x), atol=1e-5)
        for one in range(3):
            state = dict(layer.state_dict())
            told = trained.new_arrays(*(change[one] for change in changes))
            if "weight.up" in told:
                product = (told.pop("weight.up") @ told.pop("weight.down")).reshape(layer.weight.shape)
                told["weight"] = layer.weight + product
            alone = torch.func.functional_call(layer, state | told, x[one : one + 1])
            assert torch.allclose(found[one : one + 1], alone, atol=1e-4)
            assert not torch.allclose(alone, layer(x[one : one + 1]), atol=1e-2)


def test_the_random_start_of_a_low_rank_change_is_the_same_for_everyone():
    first, second = (LowRank(nn.Linear(5, 4), 2).new_arrays(0, 0)["weight.down"] for _ in range(2))
    assert torch.equal(first, second)
    assert first.abs().max() > 0
