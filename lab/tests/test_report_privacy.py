from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.report_tables import loss_section, printed_section

from .synthetic import cells, grid, measured_losses


def losses(**more):
    frame = cells(measured_losses(**more))
    return loss_section(frame, styles_of(frame)).blocks


def test_every_method_has_its_losses_beside_the_promise():
    warning, table = losses(epsilons=(1.0, 2.0))
    assert warning.tone == "bad"
    assert "not be published" in warning.text
    assert [row[:3] for row in table.rows] == [
        ("1", "mean", "1"), ("1", "adamix", "1"), ("2", "mean", "2"), ("2", "adamix", "2"),
    ]  # fmt: skip
    row = dict(zip(table.header, table.rows[2], strict=True))
    assert row["median"].startswith("0.95 [")
    assert row["largest"].startswith("1.90 [")
    assert float(row["largest"].split()[-1].strip("]")) <= 2.0  # nobody loses more than was promised
    assert row["small classes"].startswith("1.60 ")
    assert row["large classes"].startswith("0.40 ")
    assert row["below half of it, % of examples"] == "50 [50, 50]"
    assert "2 seeds per point" in table.caption


def test_classes_of_one_size_are_a_dash():
    _, table = losses(epsilons=(1.0,), class_rows=(10, 10, 10, 10))
    assert all(row[-2:] == ("–", "–") for row in table.rows)


def test_losses_of_people_are_called_so():
    _, table = losses(epsilons=(1.0,), unit="person")
    assert "95 % of people below" in table.header
    assert table.caption.startswith("Privacy loss ε of the people, each its own")
    assert "all their examples" in table.caption


def test_without_losses_there_is_no_such_section():
    assert loss_section(cells(grid(seeds=1)), {}) is None


def test_printed_mechanisms_are_told_with_claim_truth_and_audit():
    records = grid(("mean-estimation", "as-published-mean-estimation"), epsilons=(1.0,), seeds=1)
    table, why = printed_section(cells(records)).blocks
    (row,) = table.rows
    assert row[0] == "as-published-mean-estimation"
    assert row[2:4] == ("1", "5.15")
    assert 1 < float(row[4]) < 5.15
    assert row[5] == "NOT PRIVATE as claimed"
    assert "Theorem 2.1" in why.items[0]


def test_without_printed_mechanisms_there_is_no_such_section():
    assert printed_section(cells(grid(("mean",), seeds=1))) is None
    assert printed_section(cells(grid(("as-published-paragon",), seeds=1))) is None


def test_the_wasteful_one_is_not_called_unsafe():
    section = printed_section(cells(grid(("as-published-noisy-gd",), epsilons=(1.0,), seeds=1)))
    assert section.blocks[0].rows[0][-1] == "holds, and wastes budget"
