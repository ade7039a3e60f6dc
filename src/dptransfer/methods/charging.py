"""Charge a run before it starts, and record how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from dptransfer.data import PublicData
from dptransfer.errors import ArgumentError, LedgerError
from dptransfer.ledger import AnyDataSet, Ledger, Receipt
from dptransfer.methods.checkpoint import Workspace
from dptransfer.noise import NoiseSource, SecureNoise
from dptransfer.privacy import Budget, Event


def with_defaults(
    budget: Budget, ledger: Ledger | None, noise: NoiseSource | None
) -> tuple[Ledger, NoiseSource]:
    """The ledger and the noise that were given, or the user's own ledger and secure noise.

    Raises for mixed-up arguments, and in a process that must not fit, before anything is planned.
    """
    processes = sys.modules.get("multiprocessing.process")
    # Python's own processes read the script of whoever starts them before anything else, and begin it anew.
    if processes is not None and getattr(processes.current_process(), "_inheriting", False):
        raise ArgumentError(
            "Worker processes import the script that starts them, so it must not fit when it is imported; "
            'this one would. Put the fit under `if __name__ == "__main__":`. Nothing was charged here.'
        )
    ledger = Ledger.default() if ledger is None else ledger
    noise = SecureNoise() if noise is None else noise
    if not isinstance(budget, Budget):
        raise ArgumentError(f"budget must be a Budget, such as Budget(epsilon=1.0); got {budget!r}.")
    if not isinstance(ledger, Ledger):
        raise ArgumentError(f"ledger must be a Ledger; got {ledger!r}. Open a file with Ledger(path).")
    if not (hasattr(noise, "seeded") and hasattr(noise, "draw_once")):
        raise ArgumentError(f"noise must be a noise source; got {noise!r}. Leave it out for SecureNoise().")
    return ledger, noise


@contextmanager
def charge_run(
    ledger: Ledger,
    private: AnyDataSet,
    events: Sequence[Event],
    label: str,
    new_data_set: bool = False,
    workspace: str | None = None,
    public: PublicData | None = None,
    coins: str | None = None,
) -> Iterator[Receipt]:
    """Charge for what runs inside, and note how it ended; a run in a workspace can go on after an error.

    Args:
        ledger: where it is charged.
        private: whose account.
        events: what it costs.
        label: what the entry calls it.
        new_data_set: the owner's word that rows on record under another name are other people's here.
        workspace: number of the workspace, if there is one.
        public: the public data of the run, in which nothing private may be.
        coins: digest of the seed of its canaries.
    """
    how: dict[str, Any] = {"label": label, "new_data_set": new_data_set, "workspace": workspace}
    receipt = ledger.charge(private, tuple(events), beside=public, coins=coins, **how)
    try:
        yield receipt
    except BaseException as problem:
        if workspace is None:
            with suppress(LedgerError):  # the charge stands; the first error is the one to show
                ledger.complete(receipt, outcome="failed", detail=type(problem).__name__)
        raise
    if not receipt.finished:
        with suppress(LedgerError):  # the model is paid for: no note that fails must lose it
            ledger.complete(receipt, outcome="released")


def open_workspace(path: str | os.PathLike[str], noise: NoiseSource) -> Workspace:
    """Open the workspace at this path; refuse noise that can be repeated."""
    if noise.seeded:
        raise ArgumentError(
            "A workspace needs noise that nobody can repeat; this noise is seeded, and a resumed run would "
            "draw the same numbers again. Leave out the seed, or the workspace."
        )
    return Workspace(path)
