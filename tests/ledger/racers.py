"""What the other processes of a test do; a module of its own, so that starting them is quick."""

import os

from dptransfer.errors import BudgetExceeded
from dptransfer.ledger import Ledger
from dptransfer.privacy import GaussianEvent, Relation

GRANTED, REFUSED = 0, 3


def charge_once(path, name, start):
    start.wait()
    try:
        Ledger(path).charge(name, [GaussianEvent(4.0, Relation.ADD_REMOVE)], label="race")
    except BudgetExceeded:
        os._exit(REFUSED)
    os._exit(GRANTED)


def charge_and_die(path, name):
    Ledger(path).charge(name, [GaussianEvent(4.0, Relation.ADD_REMOVE)], label="doomed")
    os.kill(os.getpid(), 9)
