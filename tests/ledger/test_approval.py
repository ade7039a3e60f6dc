"""Approvals and reasons: both are in the chain."""

import pytest

from dptransfer.errors import ArgumentError, LedgerError
from dptransfer.ledger import Approval, Ledger
from dptransfer.privacy import Budget, Relation, SelectionEvent

STEP = SelectionEvent(0.5, Relation.ADD_REMOVE, True, "exponential")


def charged(path, outcome="released"):
    ledger = Ledger(path / "ledger.sqlite")
    ledger.set_budget("clinic-a", Budget(epsilon=1.0))
    receipt = ledger.charge("clinic-a", [STEP], label="public")
    ledger.complete(receipt, outcome)
    return ledger, receipt


def test_an_approval_is_an_entry_of_the_chain(tmp_path):
    ledger, receipt = charged(tmp_path)
    before = ledger.head
    ledger.approve(receipt.head, "A. Officer", "may leave until 2027")
    last = Ledger(tmp_path / "ledger.sqlite").history()[-1]
    assert isinstance(last, Approval)
    assert (last.charge, last.approver, last.note) == (receipt.entry, "A. Officer", "may leave until 2027")
    assert ledger.head != before
    ledger.verify(known_head=receipt.head)
    assert ledger.privacy_spent("clinic-a").epsilon == 0.5


def test_what_was_not_released_is_not_approved(tmp_path):
    ledger, receipt = charged(tmp_path, "failed")
    for head in (receipt.head, "0" * 64, None):
        with pytest.raises(LedgerError):
            ledger.approve(head, "A. Officer", "fine")


def test_an_approval_has_a_name_and_a_reason(tmp_path):
    ledger, receipt = charged(tmp_path)
    for name, note in (("", "fine"), ("A. Officer", " ")):
        with pytest.raises(ArgumentError):
            ledger.approve(receipt.head, name, note)
