"""What the methods that choose from the pool share."""

import numpy as np
import pytest

from dptransfer import Budget, Ledger, PrivateEmbeddings, PublicEmbeddings, PublicPrototypes, SeededNoise
from dptransfer import TopKPrototypes as TopK
from dptransfer.errors import ArgumentError

POOL = PublicEmbeddings(np.eye(6))
BUDGET = Budget(epsilon=50.0)

pytestmark = pytest.mark.filterwarnings("ignore::dptransfer.errors.PrivacyWarning")  # of a budget that large


def fitted(method):
    private = PrivateEmbeddings(np.eye(6)[[0] * 9 + [1] * 9], [0] * 9 + [1] * 9, classes=["a", "b"], name="x")
    return method.fit(private, POOL, budget=BUDGET, ledger=Ledger.in_memory(), noise=SeededNoise(0))


@pytest.mark.parametrize(("method", "chosen"), [(PublicPrototypes(), 1), (TopK(k=2), 2)])
def test_prototypes_are_the_public_rows_it_says_it_chose(method, chosen):
    model = fitted(method)
    rows = model.provenance.prototypes["rows"]
    assert [len(rows[name]) for name in ("a", "b")] == [chosen, chosen]
    assert rows["a"][0] == 0 or chosen > 1  # at this ε the best single candidate is certain
    prototypes = model.weights["prototypes"].reshape(2, chosen, 6)
    for place, name in enumerate(("a", "b")):
        assert (np.sort(prototypes[place].argmax(axis=1)) == np.sort(rows[name])).all()


@pytest.mark.parametrize("method", [PublicPrototypes, TopK])
@pytest.mark.parametrize("setting", [{"precision": "float64"}, {"device": "tpu"}])
def test_unknown_grids_and_devices_are_refused(method, setting):
    with pytest.raises(ArgumentError, match="must be one of"):
        method(**setting)
    method(**{name: {"precision": "int8", "device": "cpu"}[name] for name in setting})
