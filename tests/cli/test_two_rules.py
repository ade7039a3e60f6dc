"""Fits of two kinds on one account, from the command line."""

import pytest

from dptransfer.ledger import Charge, Ledger

from .conftest import CLASSES


@pytest.mark.parametrize("order", [("mean", "public"), ("public", "mean")])
def test_noise_and_a_selection_share_an_account_in_either_order(cli, data, ledger, order):
    """Each costs ε = 1 by itself; the limit has room for both and a tenth."""
    cli("ledger", "budget", "clinic", "--epsilon", "2.22", "--delta", "1e-5")

    def fit(method, out, code=0):
        pool = ("--public", data / "pool.npz") if method == "public" else ()
        words = ("fit", data / "private.npz", "--classes", CLASSES, "--name", "clinic", "-m", method, *pool)
        cli(*words, "--epsilon", "1", "--delta", "1e-5", "-o", out, code=code)

    for number, method in enumerate(order):
        fit(method, f"model-{number}")
    assert 1.9 < Ledger(ledger).privacy_spent("clinic").epsilon <= 2.22
    assert ("basic composition" in Ledger(ledger).datasets()[0].rule) == (order[0] == "mean")
    fit("mean", "one-more", code=2)
    assert len([one for one in Ledger(ledger).history() if isinstance(one, Charge)]) == 2
