"""Events and data sets that several tests use."""

from dptransfer.privacy import GaussianEvent, Relation, SelectionEvent

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE_ONE
GAUSS = GaussianEvent(4.0, ADD, label="class sums")


def chosen(epsilon, relation=ADD):
    return SelectionEvent(epsilon, relation, True, "exponential")


class Content:
    name = None

    def __init__(self, fingerprint):
        self.fingerprint = fingerprint
