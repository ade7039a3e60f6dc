from dptransfer_lab.exposure_table import exposure_section
from dptransfer_lab.page import Table

from .synthetic import grid


def test_printed_mechanisms_are_told_with_claim_truth_and_audit():
    records = grid(("mean-estimation", "as-published-mean-estimation"), epsilons=(1.0,), seeds=1)
    section = exposure_section(records)
    table = section.blocks[0]
    assert isinstance(table, Table)
    (row,) = table.rows
    assert row[0] == "as-published-mean-estimation"
    assert row[2:4] == ["1", "5.15"]
    assert 1 < float(row[4]) < 5.15
    assert row[5] == "NOT PRIVATE as claimed"
    assert "Theorem 2.1" in section.blocks[1].text


def test_without_printed_mechanisms_there_is_no_such_section():
    assert exposure_section(grid(("mean",), seeds=1)) is None
    assert exposure_section(grid(("as-published-paragon",), seeds=1)) is None


def test_the_wasteful_one_is_not_called_unsafe():
    section = exposure_section(grid(("as-published-noisy-gd",), epsilons=(1.0,), seeds=1))
    assert section.blocks[0].rows[0][-1] == "holds, and wastes budget"
