"""Events and data sets that several tests use."""

from dptransfer.accounting.filters import BASIC_SHARE
from dptransfer.ledger.overlap import OverlapCheck, sketches_of
from dptransfer.privacy import GaussianEvent, Relation, SelectionEvent

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
GAUSS = GaussianEvent(4.0, ADD, label="class sums")
RULES_DELTA = 1 - BASIC_SHARE
"""Share of δ that Gaussian charges have after the first one."""


def chosen(epsilon, relation=ADD):
    return SelectionEvent(epsilon, relation, True, "exponential")


def sketch_of(rows, key):
    """The sketch of an array of rows or pictures; None if none has content."""
    return sketches_of(rows, None, key, OverlapCheck([], key))[0]


class Content:
    name = None

    def __init__(self, fingerprint):
        self.fingerprint = fingerprint
