"""How long a ledger takes as it grows: opening, a charge and the part of it under the lock, show and history.

Every other entry closes the charge before it. Charges differ in their noise, as those of real fits do. Each
figure is processor time in milliseconds, the least of `--rounds`; `show` and `history` are whole commands,
start of Python included.

    python benchmarks/ledger_growth.py --entries 1000 10000 --accounts 1 50
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from dptransfer.ledger import Ledger
from dptransfer.ledger.entry import entry_fields, event_fields
from dptransfer.ledger.store import Store
from dptransfer.privacy import Budget, GaussianEvent, Relation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--accounts", type=int, nargs="+", default=[1, 50])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("| entries | accounts | open | first charge | under the lock | next charge | show | history |")
    print("|---|---|---|---|---|---|---|---|")
    for entries in options.entries:
        for accounts in options.accounts:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "ledger.sqlite"
                grow(path, entries, accounts)
                told = measured(path, options.rounds)
            print(f"| {entries:,} | {accounts} | {' | '.join(f'{1000 * one:,.0f}' for one in told)} |")


def grow(path: Path, entries: int, accounts: int) -> None:
    """A ledger with so many entries; the charges go round the accounts."""
    ledger = Ledger(path)
    for number in range(accounts):
        ledger.set_budget(f"data set {number}", Budget(epsilon=600.0, delta=1e-5))
    datasets = [one.dataset for one in ledger.datasets()]
    with ledger._store.transaction(write=True) as chain:
        for number in range((entries - accounts) // 2):
            step = GaussianEvent(40.0 + number % 1000 / 100, Relation.ADD_REMOVE, label="class sums")
            own, events = datasets[number % accounts], event_fields([step])
            row = chain.append(entry_fields("charge", own, label="mean", events=events, rule="one request"))
            chain.append(entry_fields("closing", own, charge=row.number, outcome="released", detail=""))


def measured(path: Path, rounds: int) -> list[float]:
    """Seconds to open, charge first, hold the lock, charge again, show, and list the history."""
    step, under_lock = [GaussianEvent(40.0, Relation.ADD_REMOVE)], []
    plain = Store.transaction

    @contextlib.contextmanager
    def timed(store, *, write=False, recheck=True):
        start = time.process_time()
        with plain(store, write=write, recheck=recheck) as chain:
            yield chain
        if write:
            under_lock.append(time.process_time() - start)

    Store.transaction = timed
    times: list[list[float]] = []
    for _ in range(rounds):
        clock = [time.process_time()]
        ledger = Ledger(path)
        clock.append(time.process_time())
        for _ in range(2):
            ledger.charge("data set 0", step, label="mean")
            clock.append(time.process_time())
        opened, first, second = (late - early for early, late in pairwise(clock))
        times.append([opened, opened + first, under_lock[-2], second])
    Store.transaction = plain
    commands = [
        min(run("ledger", name, "--ledger", path) for _ in range(rounds)) for name in ("show", "history")
    ]
    return [*map(min, zip(*times, strict=True)), *commands]


def run(*words: object) -> float:
    """Seconds of processor time that a command takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "dptransfer", *map(str, words)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
