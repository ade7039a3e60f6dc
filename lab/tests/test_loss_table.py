from dptransfer_lab.figures.style import styles_of
from dptransfer_lab.loss_table import loss_section

from .synthetic import grid, measured_losses


def test_every_method_has_its_losses_beside_the_promise():
    records = measured_losses(epsilons=(1.0, 2.0))
    warning, table = loss_section(records, styles_of(records)).blocks
    assert warning.alarm
    assert "must not be published" in warning.text
    assert [row[:3] for row in table.rows] == [
        ["1", "mean", "1"], ["1", "adamix", "1"], ["2", "mean", "2"], ["2", "adamix", "2"],
    ]  # fmt: skip
    row = dict(zip(table.header, table.rows[2], strict=True))
    assert row["median"].startswith("0.95 [")
    assert row["largest"].startswith("1.90 [")
    assert row["median"].endswith("n=2")
    assert row["small classes"].startswith("1.60 ")
    assert row["large classes"].startswith("0.40 ")


def test_classes_of_one_size_are_a_dash():
    records = measured_losses(epsilons=(1.0,), class_rows=(10, 10, 10, 10))
    _, table = loss_section(records, styles_of(records)).blocks
    assert all(row[-2:] == ["–", "–"] for row in table.rows)


def test_without_losses_there_is_no_such_section():
    assert loss_section(grid(seeds=1), {}) is None
