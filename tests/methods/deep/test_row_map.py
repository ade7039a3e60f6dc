import numpy as np
import pytest
import torch

from dptransfer.data import PublicEmbeddings
from dptransfer.errors import ArgumentError
from dptransfer.exact.feature_map import UnitNorm, apply
from dptransfer.exact.public_map import PublicMap
from dptransfer.methods.deep.trained_parts import row_map

RNG = np.random.default_rng(0)
POOLS = {"signed": RNG.normal(size=(60, 12)), "rooted": RNG.random((60, 12))}
MAPS = {
    "unit norm": UnitNorm().fit(12, None),
    **{name: PublicMap(axes=5).fit(12, PublicEmbeddings(pool)) for name, pool in POOLS.items()},
}


@pytest.mark.parametrize("name", MAPS)
def test_it_gives_what_the_exact_map_gives_but_for_rounding(name):
    rows = POOLS["rooted"][:7].astype(np.float32)
    found = row_map(MAPS[name], "cpu")(torch.from_numpy(rows)).numpy()
    assert np.allclose(found, apply(MAPS[name], rows), atol=1e-5)


def test_gradients_are_those_of_the_map_and_finite_where_a_root_has_no_slope():
    assert MAPS["rooted"].root
    mapped, rows = row_map(MAPS["rooted"], "cpu"), torch.from_numpy(POOLS["rooted"][:1]).float() + 1.0
    direction = torch.zeros_like(rows)
    direction[0, 3] = 1e-2
    rows.requires_grad_()
    (gradient,) = torch.autograd.grad(mapped(rows)[0, 0], rows)
    with torch.no_grad():
        measured = (mapped(rows + direction) - mapped(rows - direction))[0, 0] / 2e-2
    assert float(gradient[0, 3]) == pytest.approx(float(measured), rel=0.02)
    zeros = torch.zeros((1, 12), requires_grad=True)
    zeros.data[0, 0] = 1.0
    assert torch.autograd.grad(mapped(zeros).sum(), zeros)[0].isfinite().all()


def test_a_map_without_gradients_is_refused():
    with pytest.raises(ArgumentError, match="unit norm or a PublicMap"):
        row_map(UnitNorm(pool=2).fit(12, None), "cpu")
