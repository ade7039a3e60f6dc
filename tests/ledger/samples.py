"""Events and data sets that several tests use."""

from dptransfer.accounting.filters import BASIC_SHARE
from dptransfer.privacy import GaussianEvent, Relation, SelectionEvent

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
GAUSS = GaussianEvent(4.0, ADD, label="class sums")
RULES_DELTA = 1 - BASIC_SHARE
"""Share of δ that Gaussian charges have after the first one."""


def chosen(epsilon, relation=ADD):
    return SelectionEvent(epsilon, relation, True, "exponential")


class Content:
    name = None

    def __init__(self, fingerprint):
        self.fingerprint = fingerprint
