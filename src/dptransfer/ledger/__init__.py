"""The data owner's append-only record of what was spent on which data set."""

from dptransfer.ledger.entry import (
    BudgetChange,
    Charge,
    Closing,
    DataSet,
    DatasetSummary,
    Entry,
    Named,
    Receipt,
)
from dptransfer.ledger.ledger import Ledger
from dptransfer.ledger.register import AnyDataSet

__all__ = [
    "AnyDataSet",
    "BudgetChange",
    "Charge",
    "Closing",
    "DataSet",
    "DatasetSummary",
    "Entry",
    "Ledger",
    "Named",
    "Receipt",
]
