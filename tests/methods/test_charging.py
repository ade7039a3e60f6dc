"""When a run is not charged at all."""

import multiprocessing
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from dptransfer import Budget
from dptransfer.base.workers import ThisProcess
from dptransfer.data import PrivateEmbeddings, PublicEmbeddings
from dptransfer.errors import ArgumentError, BudgetError, DPTransferError
from dptransfer.ledger import Ledger
from dptransfer.methods import MeanPrototypes, PublicPrototypes

PRIVATE = PrivateEmbeddings(np.eye(6), np.arange(6) % 2, classes=["a", "b"], name="few")
POOL = PublicEmbeddings(np.eye(6))
BUDGET = Budget(epsilon=1.0, delta=1e-5)


def test_a_process_that_reads_its_starters_script_charges_nothing(monkeypatch):
    ledger = Ledger.in_memory()
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(ArgumentError, match="Nothing was charged"):
        MeanPrototypes().fit(PRIVATE, budget=BUDGET, ledger=ledger)
    assert not ledger.history()
    monkeypatch.undo()
    MeanPrototypes().fit(PRIVATE, budget=BUDGET, ledger=ledger)
    assert ledger.history()


@pytest.mark.slow
def test_a_script_that_fits_outside_of_a_main_guard_is_charged_for_each_fit_once(tmp_path):
    script = """
        import numpy as np
        from dptransfer import *
        from dptransfer.methods import MeanPrototypes, PublicPrototypes
        from dptransfer.parallel import Processes

        private = PrivateEmbeddings(np.eye(6), np.arange(6) % 2, classes=["a", "b"], name="few")
        how = {"budget": Budget(epsilon=1.0, delta=1e-5), "ledger": Ledger("ledger.sqlite")}
        MeanPrototypes().fit(private, **how)
        PublicPrototypes().fit(private, PublicEmbeddings(np.eye(6)).with_workers(Processes(1)), **how)
    """
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    found = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True
    )
    assert found.stderr.splitlines()[-1].endswith('begin under `if __name__ == "__main__":`.')
    entries = Ledger(tmp_path / "ledger.sqlite").history()
    assert [type(entry).__name__ for entry in entries] == ["Charge", "ClosingEntry"]  # that of the means


class Away(ThisProcess):
    def ready(self):
        raise DPTransferError("no answer")


@pytest.mark.parametrize("method", [PublicPrototypes(), MeanPrototypes()])
def test_workers_who_cannot_begin_are_found_out_before_the_charge(method):
    ledger = Ledger.in_memory()
    with pytest.raises(DPTransferError, match="no answer"):
        method.fit(PRIVATE, POOL.with_workers(Away()), budget=BUDGET, ledger=ledger)
    assert not ledger.history()


@pytest.mark.parametrize("mechanism", ["exponential", "permute-and-flip", "laplace"])
def test_noise_too_wide_to_be_drawn_is_refused_before_the_charge(mechanism):
    ledger = Ledger.in_memory()
    with pytest.raises(BudgetError, match="grid steps wide"):
        PublicPrototypes(mechanism=mechanism).fit(PRIVATE, POOL, budget=Budget.pure(1e-305), ledger=ledger)
    assert not ledger.history()
